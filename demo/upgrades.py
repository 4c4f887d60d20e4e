"""The part of the story about OS upgrades: a gate is closed and says why, opens, and a node is patched."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from demo.narrator import Narrator
    from testbed.cluster import Testbed

TARGET = 4052
"""The newer of the two revisions that the nodes have."""


def close_and_open_a_gate(narrator: Narrator, pool: str) -> None:
    """Ask for upgrades at a time at which none may begin, and then for one at which they may."""
    narrator.chapter(
        "Half of the nodes miss an update: the operator says why none may be upgraded, and what opens gates"
    )
    exclusion = {"start": _at(hours=-1), "end": _at(days=1), "reason": "the sale ends tomorrow"}
    asked: dict[str, Any] = {"method": "InPlace", "maintenanceExclusions": [exclusion]}
    _patch(narrator, pool, {"os": {"targetRevision": TARGET}, "upgrade": asked})
    message = '{.status.conditions[?(@.type=="UpgradeAllowed")].message}'
    allowed = f"kubectl get wnp {pool} -o jsonpath='{message}'"
    narrator.wait(allowed, until=lambda output: "MaintenanceWindow" in output and "ControlPlane" in output)
    node = _due(narrator)
    narrator.run(f"kubectl winpool why {node}", refused=True)
    narrator.say("the exclusion is removed; an override, with an end and a reason, opens the other gate")
    override = {"gate": "ControlPlane", "until": _at(hours=1), "reason": "this cluster is a minute old"}
    _patch(narrator, pool, {"upgrade": {"maintenanceExclusions": None, "overrides": [override]}})
    narrator.run(f"kubectl wait --for=condition=UpgradeAllowed --timeout=60s wnp/{pool}")
    narrator.run(f"kubectl winpool plan {pool}")


def patch_a_permitted_node(narrator: Narrator, testbed: Testbed) -> None:
    """Do what an actor does: look for the permission, patch the machine, and see what the operator says."""
    narrator.chapter("The node whose turn it is has a label, and those who patch machines wait for it")
    nodes = "kubectl get nodes -l agentpool=win22 -L winpool.dev/os-revision,winpool.dev/upgrade-state"
    narrator.wait(nodes, until=lambda output: "Required" in output)
    node = narrator.quiet(
        "kubectl get nodes -l winpool.dev/upgrade-state=Required -o jsonpath='{.items[0].metadata.name}'"
    )
    narrator.say(f"the machine of {node} gets the update, and reboots")
    testbed.fleet.patch(node, revision=TARGET)
    narrator.wait(
        f"kubectl get node {node} -L winpool.dev/os-revision,winpool.dev/upgrade-state",
        until=lambda output: " Ready " in output and f"{TARGET}" in output and "UpToDate" in output,
    )
    narrator.run(f"kubectl winpool why {node}")


def _due(narrator: Narrator) -> str:
    """Return the name of the first node of the pool that misses the update."""
    nodes = json.loads(narrator.quiet("kubectl get nodes -l agentpool=win22 -o json"))["items"]
    kernels = {node["metadata"]["name"]: node["status"]["nodeInfo"]["kernelVersion"] for node in nodes}
    return min(name for name, kernel in kernels.items() if kernel == "10.0.20348.1607")


def _patch(narrator: Narrator, pool: str, spec: dict[str, Any]) -> None:
    narrator.run(f"kubectl patch wnp {pool} --type=merge -p '{json.dumps({'spec': spec})}'")


def _at(**later: float) -> str:
    return (datetime.now(UTC) + timedelta(**later)).strftime("%Y-%m-%dT%H:%M:%SZ")
