#!/usr/bin/env bash
# Runs a cloud's node image upgrade behind winpool's gate: node-image.sh POOL SECONDS COMMAND...
# It waits for SECONDS at most until the gate is open, and as long again until every node is up to date.
set -uo pipefail

if [ "$#" -lt 3 ] || [[ ! $2 =~ ^[0-9]{1,9}$ ]]; then
  echo "usage: $0 POOL SECONDS COMMAND..." >&2
  exit 2
fi
pool=$1 seconds=$((10#$2))
shift 2

allowed() { # prints a field of the condition UpgradeAllowed
  kubectl get wnp "$pool" --request-timeout=10s -o jsonpath="{.status.conditions[?(@.type==\"UpgradeAllowed\")].$1}"
}
not_open() {
  echo "The gate of the pool $pool did not open within $seconds s: $(allowed message)" >&2
  exit 3
}

deadline=$((SECONDS + seconds))
while true; do
  left=$((deadline > SECONDS ? deadline - SECONDS : 0))
  # This waits for a condition about the spec as it is now, and fails at once if the API server does not answer.
  kubectl wait --for=condition=UpgradeAllowed --timeout="${left}s" "wnp/$pool" >/dev/null || not_open
  case "$(allowed reason)" in
    UpgradeAllowed) break ;;
    NothingDue | NoNodesSelected)
      echo "No node of the pool $pool is due."
      exit 0 ;;
  esac
  [ "$left" -gt 0 ] || not_open
  sleep 1 # It has just closed again.
done

echo "The gate of the pool $pool is open. Running: $*"
"$@" || { echo "The command failed with $?." >&2; exit 1; }

if ! kubectl wait --for=jsonpath='{.status.conditions[?(@.type=="UpgradeAllowed")].reason}'=NothingDue \
  --timeout="${seconds}s" "wnp/$pool" >/dev/null; then
  echo "Not every node of the pool $pool is up to date: $(allowed message)" >&2
  exit 4
fi
echo "Every node of the pool $pool is up to date."
