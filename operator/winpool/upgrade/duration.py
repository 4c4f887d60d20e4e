"""How long the upgrade of a batch takes: likely, and if each step takes as long as the spec permits.

The steps of a node are: drain it, patch or replace the machine, wait until it is Ready and validated, then
until it has soaked, and what was evicted is Ready elsewhere. The nodes of a batch are upgraded side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.upgrade import Method

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.api.upgrade import Upgrade
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.pods.workloads import Workload

DEFAULT_GRACE_SECONDS: Final = 30
"""The grace of pods that are not known: what Kubernetes gives a pod that names none.
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"""

EVICTION_SECONDS: Final = 60
"""Likely: what a drain takes beside the grace. Evictions that a PodDisruptionBudget refuses are tried again
every 5 to 20 s, and pods of Windows take some seconds to end."""

MACHINE_SECONDS: Final = {Method.IN_PLACE: 1200, Method.REPLACE: 900}
"""Likely: from the drained node to a Ready one. An estimate, not measured: a cumulative update of Windows
Server with its restart takes 15 to 25 minutes, a new machine with its first start 10 to 20."""

SETTLE_SECONDS: Final = 900
"""Likely: until what was evicted is Ready elsewhere. Nodes pull Windows images for 10 to 20 minutes
(https://github.com/Azure/AKS/issues/4047)."""


@dataclass(frozen=True, slots=True)
class Duration:
    """How long something takes, in seconds."""

    likely: int = 0
    worst_case: int = 0

    def __add__(self, other: Duration) -> Duration:
        """Return one after the other."""
        return Duration(self.likely + other.likely, self.worst_case + other.worst_case)


def duration_of(
    workloads: Iterable[Workload | None], spec: WindowsNodePoolSpec, block: Upgrade, *, is_canary: bool
) -> Duration:
    """Return how long a batch of nodes takes with such pods; None is a node whose pods are not known."""
    grace, moves = 0, False
    for each in workloads:
        grace = max(grace, DEFAULT_GRACE_SECONDS if each is None else each.longest_grace)
        moves = moves or each is None or bool(each.moving)
    soak = max(block.soak_seconds, block.canary.soak_seconds if is_canary and block.canary else 0)
    validation = spec.validation
    ready = validation.seconds_ready if validation else 0
    validated = validation.seconds_allowed if validation else 0
    drain = block.drain
    machine = min(MACHINE_SECONDS[block.method], block.rejoin_timeout_seconds)
    settle = min(SETTLE_SECONDS, block.settle_timeout_seconds) if moves else 0
    return Duration(
        likely=min(grace + EVICTION_SECONDS, drain.timeout_seconds) * moves
        + max(machine + ready + soak, settle),
        worst_case=(drain.timeout_seconds + drain.volume_detach_timeout_seconds) * moves
        + block.rejoin_timeout_seconds
        + validated
        + max(soak, block.settle_timeout_seconds * moves),
    )
