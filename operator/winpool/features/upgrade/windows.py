"""Says when upgrades may begin: maintenance windows, exclusions, and overrides of gates, as times.

A start that the clocks of a time zone skip is at the first instant after the change. A start that they show
twice is at the first of both. A duration is elapsed time, whatever the clocks show meanwhile. The library is
asked for the matching times of a clock that never changes: given a time zone, it would follow Debian's cron
(docs/adr/0033-maintenance-windows.md). An override whose time has passed has no effect, and none opens Budget
or DisruptionBudgets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from winpool.api.text import later
from winpool.api.upgrade import (
    LEAST_SECONDS,
    MAX_SCHEDULE_LENGTH,
    NEVER_OVERRIDDEN,
    Gate,
    MaintenanceExclusion,
    MaintenanceWindow,
    Override,
    Upgrade,
    has_five_fields,
)
from winpool.features.upgrade.records import GateFinding

_OF_THIS_MACHINE: Final = ("localtime", "posixrules", "Factory")
_OF_ANOTHER_CLOCK: Final = ("posix/", "right/")
"""Copies of the database, which only some machines have; those under ``right`` count leap seconds."""

_MINUTE: Final = timedelta(minutes=1)

_ANY_TIME: Final = datetime(2000, 1, 1)  # noqa: DTZ001  (on a clock without a zone)
"""From here the library searches fifty years: a schedule without a start in them never begins."""


REMEMBERED: Final = 4096
"""Starts that are kept: passes ask for the same. Of the most windows and exclusions that a pool may have, all
would cost each pass 0.8 s."""


def _minute_of(moment: datetime) -> datetime:
    """Return the minute of a moment: no window starts in the middle of one."""
    return moment.replace(second=0, microsecond=0)


class UnusableWindowError(ValueError):
    """A window that cannot be used. ``args`` are sentences that begin with a field and say what to write."""


class Window(msgspec.Struct, frozen=True):
    """A maintenance window; ``read_window`` makes one of what a spec says."""

    schedule: str
    duration_seconds: int
    zone: ZoneInfo

    @lru_cache(REMEMBERED)  # noqa: B019 - it keeps so many windows at most, each of a few hundred bytes
    def latest_start(self, now: datetime) -> datetime | None:
        """Return the last start that is not after ``now``; None where there was none in fifty years."""
        wall = now.astimezone(self.zone)
        shown = wall.replace(tzinfo=None, fold=0)
        if wall.fold:
            # The clocks show this time again: all that they have shown the first time is over.
            shown += _offset(wall.replace(fold=0)) - _offset(wall)
        behind = CronSim(self.schedule, shown.replace(second=0, microsecond=0) + _MINUTE, reverse=True)
        return next((start for start in self._instants(behind) if start <= now), None)

    @lru_cache(REMEMBERED)  # noqa: B019 - as above
    def next_start(self, now: datetime) -> datetime | None:
        """Return the first start after ``now``; None where there is none in fifty years."""
        shown = now.astimezone(self.zone).replace(tzinfo=None, fold=0)
        return next((start for start in self._instants(CronSim(self.schedule, shown)) if start > now), None)

    def end_at(self, now: datetime) -> datetime | None:
        """Return when the window that is open at ``now`` ends; None where it is closed."""
        start = self.latest_start(_minute_of(now))
        end = start and later(start, self.duration_seconds)
        return end if end and end > now else None

    def _instants(self, shown: Iterator[datetime]) -> Iterator[datetime]:
        return (_instant(each, self.zone) for each in shown)


def read_window(entry: MaintenanceWindow) -> Window:
    """Return the window of an entry of ``maintenanceWindows``. Raises UnusableWindowError."""
    zone = _zone(entry.time_zone)
    faults = [fault] if (fault := _fault_of(entry.schedule)) else []
    if entry.duration_seconds < LEAST_SECONDS:
        faults.append(f"durationSeconds: {entry.duration_seconds} is less than {LEAST_SECONDS}.")
    if zone is None:
        faults.append(
            f"timeZone: {entry.time_zone[:64]!r} is no time zone. Write a name of the IANA database, such as "
            "Europe/Berlin or Etc/UTC."
        )
    if zone is None or faults:
        raise UnusableWindowError(*faults)
    return Window(entry.schedule, entry.duration_seconds, zone)


def _fault_of(schedule: str) -> str:
    """Return what is wrong with a schedule; empty for nothing."""
    asks = "Write minute, hour, day of the month, month and day of the week, such as '0 22 * * 6'."
    shown = f"schedule: {schedule[:MAX_SCHEDULE_LENGTH]!r}"
    if len(schedule) > MAX_SCHEDULE_LENGTH:
        return f"{shown} is longer than {MAX_SCHEDULE_LENGTH} characters. {asks}"
    if not has_five_fields(schedule):
        return f"{shown} does not have the five fields of cron. {asks}"
    try:
        begins = next(CronSim(schedule, _ANY_TIME), None)
    except CronSimError as error:
        return f"{shown} cannot be read: {error}. {asks}"
    return "" if begins else f"{shown} never begins: no day matches all of its fields."


def _zone(name: str) -> ZoneInfo | None:
    """Return the zone of that name; None where there is none."""
    if name in _OF_THIS_MACHINE or name.startswith(_OF_ANOTHER_CLOCK):
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # a folder of the database: OSError
        return None


def _offset(wall: datetime) -> timedelta:
    return wall.utcoffset() or timedelta()


def _instant(shown: datetime, zone: ZoneInfo) -> datetime:
    """Return when the clocks of ``zone`` first show a time, or have just skipped it."""
    after = shown.replace(tzinfo=zone).astimezone(UTC)
    if after.astimezone(zone).replace(tzinfo=None, fold=0) == shown:
        return after
    # A skipped time is before the change by the offset of after it, and after it by that of before
    # (https://peps.python.org/pep-0495/#invalid-or-missing-values). Between both is the change.
    before = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    offset = _offset(before.astimezone(zone))
    while after - before > timedelta(seconds=1):
        middle = (before + (after - before) / 2).replace(microsecond=0)
        if _offset(middle.astimezone(zone)) == offset:
            before = middle
        else:
            after = middle
    return after


_GATES: Final = tuple(Gate)


class Overrides(msgspec.Struct, frozen=True):
    """The overrides of a pool at one moment, in the order of the gates."""

    in_force: tuple[Override, ...] = ()
    expired: tuple[Override, ...] = ()

    def on(self, finding: GateFinding) -> GateFinding:
        """Return ``finding`` with the override that is in force for its gate, if there is one."""
        override = next((each for each in self.in_force if each.gate is finding.gate), None)
        return finding if override is None else msgspec.structs.replace(finding, override=override)

    @property
    def ends_at(self) -> datetime | None:
        """When the first of those that are in force ends."""
        return min((each.until for each in self.in_force), default=None)


def overrides_of(upgrade: Upgrade, *, now: datetime) -> Overrides:
    """Return the overrides of a spec, as they are at ``now``."""
    able = sorted(
        (each for each in upgrade.overrides if each.gate not in NEVER_OVERRIDDEN),
        key=lambda each: _GATES.index(each.gate),
    )
    return Overrides(
        in_force=tuple(each for each in able if each.is_in_force(now)),
        expired=tuple(each for each in able if not each.is_in_force(now)),
    )


HORIZON: Final = timedelta(days=50 * 366)
"""A window that does not open until then never does: the library searches as far."""


_Exclusions = Sequence[MaintenanceExclusion]


def covers(exclusion: MaintenanceExclusion, now: datetime) -> bool:
    """Whether windows are closed at ``now``: from its start, and no longer at its end."""
    return exclusion.start <= now < exclusion.end


class Opening(msgspec.Struct, frozen=True):
    """Whether the windows are open, and when to check again.

    Where they are open, ``changes_at`` is when they may close, and never late; None where they do not close.
    Where they are closed, it is exactly when they open; None where they do not open in fifty years.
    """

    is_open: bool
    changes_at: datetime | None


def opening(windows: Sequence[Window], exclusions: _Exclusions, *, now: datetime) -> Opening:
    """Return whether any of ``windows`` is open at ``now``, and no exclusion closes it.

    Without windows it is open at any time but in exclusions.
    """
    if not _is_open(windows, exclusions, now):
        return Opening(is_open=False, changes_at=_opens_at(windows, exclusions, now))
    ends = [end for each in windows if (end := each.end_at(now))]
    starts = [each.start for each in exclusions if now < each.start]
    return Opening(is_open=True, changes_at=min([*starts, *([max(ends)] if ends else [])], default=None))


def _is_open(windows: Sequence[Window], exclusions: _Exclusions, now: datetime) -> bool:
    if any(covers(each, now) for each in exclusions):
        return False
    return not windows or any(each.end_at(now) for each in windows)


def _opens_at(windows: Sequence[Window], exclusions: _Exclusions, now: datetime) -> datetime | None:
    """Return the first time from ``now`` on at which it is open.

    It ends: every second step at least leaves an exclusion, which no later time is in again.
    """
    at: datetime | None = now
    while at is not None and at - now <= HORIZON:
        closed = [each.end for each in exclusions if covers(each, at)]
        if closed:
            at = max(closed)
        elif _is_open(windows, exclusions, at):
            return at
        else:
            at = min([start for each in windows if (start := each.next_start(_minute_of(at)))], default=None)
    return None
