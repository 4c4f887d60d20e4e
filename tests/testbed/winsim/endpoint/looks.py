"""Looks at the memory of machines, as often as Windows' counters are read and no more often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.memory.reading import MemoryReading
    from testbed.winsim.endpoint.tenants import Tenant, Tenants

_PERIOD_SECONDS: Final = 1.0
"""``perfCounterUpdatePeriod`` in pkg/kubelet/winstats."""


class MemorySource(Protocol):
    """Reads the memory of a node."""

    def reading(self, node: str, now: float) -> MemoryReading:
        """Return the memory of a node at a time of a clock that is never set, in seconds."""


@dataclass(frozen=True, slots=True)
class Look:
    """The memory of a machine, and the pods that have a part in it."""

    reading: MemoryReading
    tenants: Mapping[str, Tenant]


class Looks:
    """The last look at each machine."""

    def __init__(self, source: MemorySource, *, tenants: Tenants) -> None:
        self._source = source
        self._tenants = tenants
        self._last: dict[str, Look] = {}

    def at(self, node: str, now: float) -> Look:
        """Return how a machine looks now, by ``Clock.monotonic``; within a second it looks the same."""
        look = self._last.get(node)
        if look is None or now >= look.reading.time + _PERIOD_SECONDS:
            reading = self._source.reading(node, now)
            look = self._last[node] = Look(reading, dict(self._tenants.on(node)))
        return look

    def forget(self, node: str) -> None:
        """Drop the last look: it is another machine, or none."""
        self._last.pop(node, None)
