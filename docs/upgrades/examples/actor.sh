#!/usr/bin/env bash
# Upgrades the machines of nodes that winpool has handed over: actor.sh COMMAND...
# For each of them it runs COMMAND NODE VERSION [REVISION] once, all at the same time, and then reports that it is done.
# The annotation patching.example.com/begun says for which claim the command was run. Run it every minute.
set -uo pipefail

if [ "$#" -eq 0 ]; then
  echo "usage: $0 COMMAND..." >&2
  exit 2
fi

upgrade() {
  local node=$1 state cordoned begun version handover claim left
  shift
  IFS='|' read -r state cordoned begun version handover < <(kubectl get "$node" --request-timeout=10s -o jsonpath='{.metadata.labels.winpool\.dev/upgrade-state}|{.spec.unschedulable}|{.metadata.annotations.patching\.example\.com/begun}|{.metadata.resourceVersion}|{.metadata.annotations.winpool\.dev/upgrade}')
  [ "$state" = Upgrading ] && [ "$cordoned" = true ] || return 0
  [[ $handover =~ \"claim\":\"([0-9a-f]+)\" ]] || return 0
  claim=${BASH_REMATCH[1]}
  [[ $handover =~ \"target\":\{\"version\":\"([0-9A-Za-z]+)\"(,\"revision\":([0-9]+))? ]] || return 0
  set -- "$@" "${node#node/}" "${BASH_REMATCH[1]}" ${BASH_REMATCH[3]:-}
  [ "$begun" != "$claim" ] || return 0

  # Only if the node is as it was read: no one begins twice, and no node that winpool has taken back.
  kubectl patch "$node" --request-timeout=10s --type=merge -p "{\"metadata\": {\"resourceVersion\": \"$version\",
    \"annotations\": {\"patching.example.com/begun\": \"$claim\"}}}" >/dev/null || return 0
  "$@" || { echo "The command failed with $? for $node. It is not run again for the claim $claim." >&2; return 1; }
  left=$(kubectl get "$node" --request-timeout=10s --ignore-not-found -o name) || return 1
  [ -n "$left" ] || { echo "The command was run for $node, which is gone: another machine takes its place."; return 0; }
  kubectl annotate "$node" --request-timeout=10s --overwrite "winpool.dev/upgrade-done=$claim" >/dev/null || return 1
  echo "The command was run for $node."
}

nodes=$(kubectl get nodes --request-timeout=10s -l winpool.dev/upgrade-state=Upgrading -o name) || exit 3
running=()
for node in $nodes; do
  upgrade "$node" "$@" &
  running+=("$!")
done
failed=0
for each in ${running[@]+"${running[@]}"}; do
  wait "$each" || failed=1
done
[ "$failed" = 0 ] || exit 1
