"""What the detector remembers of one node, all of it in memory and none of it for longer than it is fresh.

It begins empty. After a restart every timer begins with the first fresh sample
(docs/adr/0022-the-clock-that-restarts.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from winpool.memory.attribution import Growth
from winpool.memory.evictions import NO_EVICTIONS, Evictions
from winpool.memory.hysteresis import NOTHING_LATCHED
from winpool.memory.settings import PROXY_OVERHEAD_BYTES
from winpool.memory.signals import Signal
from winpool.objects.pressure import Axis, Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.memory.hysteresis import Latch
    from winpool.memory.slope import Point
    from winpool.memory.sources import SourceState
    from winpool.objects.pressure import Reading


@dataclass(frozen=True, slots=True)
class AxisState:
    """What is known of one axis.

    ``reading`` is the last one, of ``source``, at the time ``at``, and fresh for ``fresh_seconds``. ``at`` is
    None before the first one, and after the clock of a node was set back. ``points`` are the trend of that
    source, ``seconds_left`` is where it leads on COMMIT. ``ready_since``: each reading from then on has shown
    that it has lasted long enough for an eviction; None where the last has not.
    """

    source: str = ""
    at: float | None = None
    fresh_seconds: float = 0.0
    reading: Reading | None = None
    points: tuple[Point, ...] = ()
    seconds_left: float | None = None
    latches: Mapping[Level, Latch] = field(default_factory=lambda: NOTHING_LATCHED)
    ready_since: float | None = None

    @property
    def held(self) -> Level:
        """The highest level that was reached and not cleared, known or not."""
        return max(
            (level for level, latch in self.latches.items() if latch.since is not None), default=Level.NORMAL
        )


@dataclass(frozen=True, slots=True)
class DetectorState:
    """What is known of one node. ``seen_at`` is when the last sample of any source arrived.

    ``overhead`` is what the kubelet's ``availableBytes`` does not count: the operator's own value, or what an
    exporter has shown on this node.
    """

    sources: Mapping[str, SourceState] = field(default_factory=dict)
    axes: Mapping[Axis, AxisState] = field(default_factory=lambda: {axis: AxisState() for axis in Axis})
    overhead: float = PROXY_OVERHEAD_BYTES
    growth: Growth = field(default_factory=Growth)
    evictions: Evictions = NO_EVICTIONS
    signal: Signal = field(default_factory=Signal)
    seen_at: float | None = None


NOTHING_KNOWN: Final = DetectorState()
