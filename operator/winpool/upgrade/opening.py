"""Whether upgrades may begin at a time, by maintenance windows and exclusions, and when that may change."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from winpool.upgrade.windows import Window

HORIZON: Final = timedelta(days=50 * 366)
"""A window that does not open until then never does: the library searches as far."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A time in which all windows are closed: from ``start``, and no longer at ``end``."""

    start: datetime
    end: datetime
    reason: str = ""

    def covers(self, now: datetime) -> bool:
        """Whether windows are closed at ``now``."""
        return self.start <= now < self.end


@dataclass(frozen=True, slots=True)
class Opening:
    """Whether the windows are open, and when to check again.

    Where they are open, ``changes_at`` is when they may close, and never late; None where they do not close.
    Where they are closed, it is exactly when they open; None where they do not open in fifty years.
    """

    is_open: bool
    changes_at: datetime | None


def opening(windows: Sequence[Window], exclusions: Sequence[Exclusion], *, now: datetime) -> Opening:
    """Return whether any of ``windows`` is open at ``now``, and no exclusion closes it.

    Without windows it is open at any time but in exclusions.
    """
    if not _is_open(windows, exclusions, now):
        return Opening(is_open=False, changes_at=_opens_at(windows, exclusions, now))
    ends = [end for each in windows if (end := each.end_at(now))]
    starts = [each.start for each in exclusions if now < each.start < each.end]
    return Opening(is_open=True, changes_at=min([*starts, *([max(ends)] if ends else [])], default=None))


def _is_open(windows: Sequence[Window], exclusions: Sequence[Exclusion], now: datetime) -> bool:
    if any(each.covers(now) for each in exclusions):
        return False
    return not windows or any(each.end_at(now) for each in windows)


def _opens_at(windows: Sequence[Window], exclusions: Sequence[Exclusion], now: datetime) -> datetime | None:
    """Return the first time from ``now`` on at which it is open.

    It ends: every second step at least leaves an exclusion, which no later time is in again.
    """
    at: datetime | None = now
    while at is not None and at - now <= HORIZON:
        closed = [each.end for each in exclusions if each.covers(at)]
        if closed:
            at = max(closed)
        elif _is_open(windows, exclusions, at):
            return at
        else:
            at = min([start for each in windows if (start := each.next_start(at))], default=None)
    return None
