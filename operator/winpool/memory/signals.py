"""Whether pressure is signalled on the node: by the condition, and by the taint that keeps pods away.

It is signalled after a while, and until no line of Soft, Hard or ProxyOnly is held. At the beginning it is
unknown: a condition or taint of an earlier process may be on the node, and is neither added nor removed until
the samples of one whole hold have shown what is right (P4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.memory.settings import (
    EVIDENCE_SAMPLES,
    FLIP_SECONDS,
    FRESH_SECONDS,
    PROXY_SIGNAL_SECONDS,
    SOFT_SIGNAL_SECONDS,
)
from winpool.objects.pressure import Level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.memory.hysteresis import Latch
    from winpool.memory.state import AxisState

SIGNALLED: Final = (Level.PROXY_ONLY, Level.SOFT, Level.HARD)


@dataclass(frozen=True, slots=True)
class Signal:
    """``is_on`` is None while it is unknown. ``since`` is when it changed.

    ``calm_since`` is since when no line was held, None while one is. ``at`` is the time of the last sample.
    """

    is_on: bool | None = None
    since: float | None = None
    calm_since: float | None = None
    at: float | None = None

    @property
    def calm_seconds(self) -> float:
        """For how long no line was held."""
        return 0.0 if self.calm_since is None or self.at is None else self.at - self.calm_since


def signalled(signal: Signal, axes: Iterable[AxisState], *, at: float, hold: float, grace: float) -> Signal:
    """Return ``signal`` after a fresh sample; ``hold`` is for how long an unknown one has to be calm.

    ``grace`` is how long Soft lasts before a pod is evicted: the node is signalled by then.
    """
    latches = [(level, axis.latches[level]) for axis in axes for level in SIGNALLED]
    calm_since: float | None = None
    if all(latch.since is None for _, latch in latches):
        is_gap = signal.at is None or at - signal.at > FRESH_SECONDS
        calm_since = at if signal.calm_since is None or is_gap else signal.calm_since
    moved = Signal(signal.is_on, signal.since, calm_since, at)
    is_on = signal.is_on
    if any(_is_confirmed(level, latch, grace) for level, latch in latches):
        is_on = True
    elif calm_since is not None and (signal.is_on or moved.calm_seconds >= hold):
        is_on = False
    if is_on == signal.is_on or (signal.since is not None and at - signal.since < FLIP_SECONDS):
        return moved
    return Signal(is_on, at, calm_since, at)


def _is_confirmed(level: Level, latch: Latch, grace: float) -> bool:
    if latch.over_seconds is None:
        return False
    match level:
        case Level.HARD:
            return latch.over_samples >= EVIDENCE_SAMPLES
        case Level.SOFT:
            # No pod is evicted from a node that is not signalled: new ones would take its place.
            is_evicting = latch.over_seconds >= grace and latch.over_samples >= EVIDENCE_SAMPLES
            return latch.over_seconds >= SOFT_SIGNAL_SECONDS or is_evicting
        case _:
            return latch.over_seconds >= PROXY_SIGNAL_SECONDS
