#!/usr/bin/env bash
# Patches the node that it runs on, behind winpool's gate: NODE_NAME=... patch-node.sh COMMAND...
# Run it every minute, or until it ends with 0: then the node is up to date. It cordons the node, runs the command once,
# and makes the node schedulable again once it is up to date. The annotation patching.example.com/cordoned says that the
# cordon is its own. Rancher's controller gives a Job the name of the node as SYSTEM_UPGRADE_NODE_NAME.
set -uo pipefail

node=${NODE_NAME:-${SYSTEM_UPGRADE_NODE_NAME:-}}
if [ -z "$node" ] || [ "$#" -eq 0 ]; then
  echo "usage: NODE_NAME=NODE $0 COMMAND..." >&2
  exit 2
fi

# Each change is made only if what it is made for is still so (the operation test): no one else changes the node between
# the question and the act.
change() { kubectl patch node "$node" --request-timeout=10s --type=json -p "$1" >/dev/null; }
state_is() { printf '{"op": "test", "path": "/metadata/labels/winpool.dev~1upgrade-state", "value": "%s"}' "$1"; }
ours=/metadata/annotations/patching.example.com~1cordoned

IFS='|' read -r pool state mine cordoned < <(kubectl get node "$node" --request-timeout=10s -o jsonpath='{.metadata.labels.winpool\.dev/pool}|{.metadata.labels.winpool\.dev/upgrade-state}|{.metadata.annotations.patching\.example\.com/cordoned}|{.spec.unschedulable}')

if [ "$state" = UpToDate ]; then
  if [ "$mine" != true ]; then
    echo "The node $node is up to date."
    exit 0
  fi
  change "[$(state_is UpToDate), {\"op\": \"test\", \"path\": \"$ours\", \"value\": \"true\"},
    {\"op\": \"remove\", \"path\": \"$ours\"}, {\"op\": \"add\", \"path\": \"/spec/unschedulable\", \"value\": false}]" ||
    { echo "The node $node changed meanwhile." >&2; exit 3; }
  echo "The node $node is up to date, and schedulable again."
  exit 0
fi

if [ "$mine" = true ] && [ "$cordoned" = true ]; then
  echo "The command was run on the node $node, which is not up to date. It stays cordoned. Find out why. To have the" \
    "command run again: kubectl uncordon $node" >&2
  exit 4
fi
if [ "$cordoned" = true ]; then
  echo "Someone else has cordoned the node $node." >&2
  exit 3
fi
"$(dirname "$0")/ask.sh" "${pool:-none}" "$node" || exit 3

change "[$(state_is Required), {\"op\": \"test\", \"path\": \"/spec/unschedulable\", \"value\": null},
  {\"op\": \"add\", \"path\": \"/spec/unschedulable\", \"value\": true}, {\"op\": \"add\", \"path\": \"$ours\", \"value\": \"true\"}]" ||
  { echo "The node $node changed meanwhile." >&2; exit 3; }
"$@" || { echo "The command failed with $?." >&2; exit 1; }
echo "The command was run on the node $node. The node is not up to date yet." >&2
exit 4
