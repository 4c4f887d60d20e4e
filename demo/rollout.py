"""The part of the story about rollouts: two nodes are drained and patched, and a budget closes in between."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from testbed.winsim.entries import Outage

if TYPE_CHECKING:
    from demo.narrator import Narrator
    from testbed.cluster import Testbed

POOL = "shop"
TARGET = 4171

NODES = f"kubectl get nodes -l agentpool={POOL} -L winpool.dev/os-revision,winpool.dev/upgrade-state"
STATUS = f"kubectl winpool rollout status {POOL}"

QUICK = Outage(down=1.0, ready_after=1.0)
"""How long a machine takes to start again: minutes would be true, and no one waits for them before a demo."""


def upgrade_two_nodes(narrator: Narrator, testbed: Testbed) -> None:
    """Have the operator upgrade two nodes, one of which a budget does not let go."""
    narrator.chapter(
        "The operator itself upgrades a pool: it drains one node after the other, and hands each over"
    )
    narrator.say("two nodes of another node pool join; a shop runs on one of them, and has a budget")
    # Zones follow each other by name, and machines join one zone after the other.
    first, second = testbed.fleet.join(2, release="2022", revision=1607, labels={"agentpool": POOL})
    narrator.quiet(f"kubectl wait --for=condition=Ready --timeout=60s node/{first} node/{second}")
    narrator.run(f"kubectl apply -f - <<'EOF'\n{_workload(first)}EOF")
    narrator.run(f"kubectl rollout status deployment/{POOL} --timeout=60s")
    # A budget that allows nothing yet keeps its node from being claimed.
    allowed = "jsonpath={.status.disruptionsAllowed}=1"
    narrator.quiet(f"kubectl wait --for='{allowed}' --timeout=60s pdb/{POOL}")
    narrator.run(f"kubectl apply -f - <<'EOF'\n{_pool()}EOF")
    narrator.say(
        "the budget lets one of its pods go. The new one finds no node, so that the other has to stay"
    )
    narrator.wait(f"kubectl winpool why {first}", until=lambda output: "What blocks its pods:" in output)
    narrator.wait(STATUS, until=lambda output: "Draining" in output)
    narrator.say("a person lets the shop be interrupted")
    narrator.run(f"kubectl delete pdb {POOL}")
    _patch_when_handed_over(narrator, testbed, first)
    _patch_when_handed_over(narrator, testbed, second)
    narrator.wait(STATUS, until=lambda output: "All nodes are up to date." in output)
    narrator.run(NODES)


def _patch_when_handed_over(narrator: Narrator, testbed: Testbed, node: str) -> None:
    """Do what an actor does."""
    narrator.wait(
        f"kubectl get node {node} -L winpool.dev/upgrade-state", until=lambda output: "Upgrading" in output
    )
    narrator.say(f"{node} is cordoned, drained, and the actor's: its machine gets the update, and reboots")
    testbed.fleet.patch([node], revision=TARGET, outage=QUICK)


def _workload(node: str) -> str:
    """Return two pods that run on ``node`` alone, of which one has to stay."""
    return f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {POOL}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {POOL}}}}}
  template:
    metadata: {{labels: {{app: {POOL}}}}}
    spec:
      nodeSelector: {{kubernetes.io/hostname: {node}}}
      containers: [{{name: web, image: registry.example.com/team/web:1.0}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {POOL}}}
spec:
  minAvailable: 1
  selector: {{matchLabels: {{app: {POOL}}}}}
"""


def _pool() -> str:
    """Return the pool; its overrides are about what only a demo has."""
    until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    overrides = json.dumps(
        [
            {"gate": "ControlPlane", "until": until, "reason": "this cluster is a minute old"},
            {"gate": "Capacity", "until": until, "reason": "the shop may run on one node alone"},
        ]
    )
    return f"""\
apiVersion: winpool.dev/v1alpha1
kind: WindowsNodePool
metadata: {{name: {POOL}}}
spec:
  nodeSelector: {{matchLabels: {{agentpool: {POOL}}}}}
  os: {{version: "2022", targetRevision: {TARGET}}}
  validation: {{readySeconds: 0}}
  upgrade:
    strategy: RollingUpdate
    maxUnavailable: 1
    soakSeconds: 1
    overrides: {overrides}
"""
