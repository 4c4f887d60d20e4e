"""When time alone changes what is known of a node: samples grow old, and nothing else happens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.memory.settings import EVIDENCE_SAMPLES, EVIDENCE_SECONDS, FRESH_SECONDS, GROWTH_SECONDS
from winpool.objects.pressure import Level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.memory.state import DetectorState


def changes_after(state: DetectorState, *, now: float) -> float | None:
    """Return the next time after which ``view_of`` may be another one, without a sample; None for never.

    Until then, and at that very time, it is the one of ``now``.
    """
    return min((moment for moment in _moments(state) if moment >= now), default=None)


def _moments(state: DetectorState) -> Iterator[float]:
    """Return when each thing is too old for what it is evidence of.

    On a node that is under no pressure, nothing is evicted and nothing keeps from it.
    """
    for axis in state.axes.values():
        if axis.at is not None:
            yield axis.at + axis.fresh_seconds
        if axis.held >= Level.SOFT and len(axis.points) >= EVIDENCE_SAMPLES:
            yield axis.points[-EVIDENCE_SAMPLES].at + EVIDENCE_SECONDS
    if state.growth.splits:
        last = state.growth.splits[-1].at
        yield last + FRESH_SECONDS
        yield last + GROWTH_SECONDS
