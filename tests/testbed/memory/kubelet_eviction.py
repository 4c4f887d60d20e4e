"""What a kubelet from 1.31 on does by itself where little commit is left: it evicts, one pod after the other.

Pure. A rebuild of what matters of ``pkg/kubelet/eviction`` (``eviction_manager.go``, ``helpers.go``) on
Windows: it is triggered by commit and ranks by working set, and it asks no PodDisruptionBudget.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Final

from testbed.memory.pages import MIB

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.memory.reading import MemoryReading, PodReading

DEFAULT_THRESHOLD_BYTES: Final = 500 * MIB
"""``memory.available<500Mi``, hard (``defaults_windows.go``)."""

PERIOD_SECONDS: Final = 10
"""``monitoringInterval``: between two passes that evicted nothing."""

CLEANUP_SECONDS: Final = 30
"""``podCleanupTimeout``: the next pass waits so long for the evicted pod to be gone."""

PRESSURE_SECONDS: Final = 300
"""``evictionPressureTransitionPeriod``: MemoryPressure stays True for so long after the last pass that found
too little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletPod:
    """What a kubelet knows of a pod that runs, besides its figures."""

    uid: str
    request_bytes: int = 0
    priority: int = 0
    critical: bool = False
    """Static, mirror, or of a system priority: never evicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionState:
    """Between two passes."""

    next_pass: float = -inf
    awaited_uid: str | None = None
    """The pod that was evicted by the last pass."""
    pressure_until: float = -inf

    def memory_pressure_at(self, now: float) -> bool:
        """Return whether the kubelet reports MemoryPressure=True."""
        return now < self.pressure_until


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionPass:
    """What came of a look."""

    state: EvictionState
    evicted: KubeletPod | None = None


def look(
    state: EvictionState,
    reading: MemoryReading,
    *,
    pods: Iterable[KubeletPod],
    threshold_bytes: int | None = DEFAULT_THRESHOLD_BYTES,
) -> EvictionPass:
    """Let the kubelet make a pass, if one is due at the time of the reading.

    Args:
        state: what the last look returned; an empty one for a kubelet that has just started.
        reading: of now. A pod that was evicted is gone when it is no longer in it.
        pods: those that run on the node. One without figures is evicted before all others.
        threshold_bytes: evict below so much available commit; None for a kubelet whose eviction is not armed.

    """
    if threshold_bytes is None or not _is_due(state, reading):
        return EvictionPass(state=state)
    if reading.commit_limit_bytes - reading.commit_total_bytes >= threshold_bytes:
        return EvictionPass(state=replace(state, next_pass=reading.time + PERIOD_SECONDS, awaited_uid=None))
    victim = next((pod for pod in ranked(pods, reading) if not pod.critical), None)
    return EvictionPass(
        state=EvictionState(
            next_pass=reading.time + (PERIOD_SECONDS if victim is None else CLEANUP_SECONDS),
            awaited_uid=None if victim is None else victim.uid,
            pressure_until=reading.time + PRESSURE_SECONDS,
        ),
        evicted=victim,
    )


def ranked(pods: Iterable[KubeletPod], reading: MemoryReading) -> list[KubeletPod]:
    """Return the pods in the order in which the kubelet would evict them.

    First those without figures, then those above their request, then by priority, the lowest first, then by
    how far they are above their request.
    """
    figures = {pod.uid: pod for pod in reading.pods}
    return sorted(pods, key=lambda pod: _rank(pod, figures.get(pod.uid)))


def _rank(pod: KubeletPod, figures: PodReading | None) -> tuple[bool, bool, int, int]:
    if figures is None:
        return False, False, pod.priority, 0
    excess = figures.private_working_set_bytes - pod.request_bytes
    return True, excess <= 0, pod.priority, -excess


def _is_due(state: EvictionState, reading: MemoryReading) -> bool:
    gone = state.awaited_uid is not None and all(pod.uid != state.awaited_uid for pod in reading.pods)
    return gone or reading.time >= state.next_pass
