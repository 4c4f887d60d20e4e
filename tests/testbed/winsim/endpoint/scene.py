"""What a kubelet knows at the moment of an answer. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from testbed.winsim.clock import timestamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.memory.reading import MemoryReading
    from testbed.winsim.endpoint.tenants import Tenant
    from testbed.winsim.machines import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A machine, its memory, its pods and what time it is. All times are seconds since the epoch."""

    machine: Machine
    called: str
    """The name that it gives as its own."""
    now: float
    booted: float
    kubelet_started: float
    counters: MemoryReading
    """What the performance counters were when they were last read."""
    current: MemoryReading
    """What the system says when it is asked, and the container runtime says of pods."""
    tenants: Mapping[str, Tenant]
    stats_from_cri: bool = False
    """Gate PodAndContainerStatsFromCRI: pods tell their commit."""

    def behind(self, seconds: float) -> Scene:
        """Return the same on a machine whose clock is behind by so much."""
        return replace(
            self,
            now=self.now - seconds,
            booted=self.booted - seconds,
            kubelet_started=self.kubelet_started - seconds,
            counters=replace(self.counters, time=self.counters.time - seconds),
            current=replace(self.current, time=self.current.time - seconds),
        )


def moment(seconds: float) -> str:
    """Write a time as ``metav1.Time`` does."""
    return _written(int(seconds))


@lru_cache(maxsize=4_096)  # an answer writes the same few times hundreds of times
def _written(seconds: int) -> str:
    return timestamp(datetime.fromtimestamp(seconds, UTC))
