#!/usr/bin/env bash
# Asks winpool's gate for a node: ask.sh POOL [NODE]. Without NODE it asks for the node that Rancher's controller names.
# Ends with 0 if the node may be upgraded now, 2 if it was called wrongly, and 3 if not, or if there is no answer.
set -uo pipefail

pool=${1:-} node=${2:-${SYSTEM_UPGRADE_NODE_NAME:-}}
if [ -z "$pool" ] || [ -z "$node" ]; then
  echo "usage: $0 POOL [NODE]" >&2
  exit 2
fi

get() { kubectl get "$1" "$2" --request-timeout=10s -o jsonpath="$3"; }

# A condition about an earlier spec is no answer: someone may just have set `mode: Paused`.
# Where someone keeps changing what winpool sets on the node, its label may be theirs.
IFS='|' read -r generation judged allowed contested < <(get wnp "$pool" \
  '{.metadata.generation}|{.status.conditions[?(@.type=="UpgradeAllowed")].observedGeneration}|{.status.conditions[?(@.type=="UpgradeAllowed")].status}|{.status.issues[?(@.reason=="ForeignTaintConflict")].nodes}')
IFS='|' read -r owner state < <(get node "$node" \
  '{.metadata.labels.winpool\.dev/pool}|{.metadata.labels.winpool\.dev/upgrade-state}')

if [ "$allowed" = True ] && [ "$judged" = "$generation" ] && [ "$owner" = "$pool" ] && [ "$state" = Required ] \
  && [[ ${contested:-} != *"\"$node\""* ]]; then
  echo "The node $node may be upgraded."
  exit 0
fi
said=${allowed:-absent}
[ "$judged" = "$generation" ] || said="$said, for an earlier spec"
[[ ${contested:-} != *"\"$node\""* ]] || said="$said, but someone keeps changing what winpool sets on the node"
echo "The node $node may not be upgraded now. Condition UpgradeAllowed of the pool $pool: $said." \
  "Labels of the node: pool ${owner:-absent}, upgrade-state ${state:-absent}." >&2
exit 3
