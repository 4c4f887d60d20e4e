"""Which pods keep an actor from a node."""

from __future__ import annotations

from typing import Any

from harness.every import every
from testbed.actuator import is_to_go


def a_pod(*, phase: str = "Running", owner: str = "", mirror: bool = False) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "p"}
    if owner:
        metadata["ownerReferences"] = [{"kind": owner, "name": "o"}]
    if mirror:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "1"}
    return {"metadata": metadata, "status": {"phase": phase}}


@every(
    ("pod", "expected"),
    [
        (a_pod(), True),
        (a_pod(phase="Pending"), True),
        (a_pod(owner="ReplicaSet"), True),
        (a_pod(owner="DaemonSet"), False),
        (a_pod(mirror=True), False),
        (a_pod(phase="Succeeded"), False),
        (a_pod(phase="Failed", owner="Job"), False),
    ],
)
def test_a_node_is_drained_when_only_pods_are_left_that_a_drain_leaves(
    pod: dict[str, Any], expected: bool
) -> None:
    assert is_to_go(pod) is expected
