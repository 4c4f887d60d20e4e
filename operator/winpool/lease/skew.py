"""How far the wall clocks of two operators are apart, by the times of the renewals of the other."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.lease import paced
from winpool.lease.terms import SKEW_SECONDS, Sighting, skew_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

log = logging.getLogger(__name__)


class Skew:
    """``seconds`` is by how much our clock was ahead of the other's at its last renewal; None before one.

    It is logged when it begins to exceed the limit, and not again until it was below or is of another holder,
    and not more often than ``paced`` says. ``clock`` is as in ``Keeper``.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self.seconds: float | None = None
        self._lines = paced.Paced(paced.SKEW_SECONDS, clock=clock)

    def note(self, before: Sighting | None, after: Sighting, *, now: datetime) -> None:
        """Take in a change of the Lease that was seen just now, at ``now`` by our wall clock."""
        skew = skew_of(before, after, now=now)
        if skew is None or after.record is None:
            return
        self.seconds = skew
        if abs(skew) <= SKEW_SECONDS:
            self._lines.over()
            return
        side = "ahead of" if skew > 0 else "behind"
        if (suffix := self._lines.suffix(f"{side} {after.record.holder}")) is not None:
            log.warning(
                "the clock of this operator is %.0f s %s that of %s; synchronize the clocks of their hosts%s",
                abs(skew),
                side,
                after.record.shown,
                suffix,
            )
