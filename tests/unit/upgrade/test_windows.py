"""Maintenance windows over changes of the clocks, against a second implementation that counts minutes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import example, given
from hypothesis import strategies as st

from winpool.api.upgrade import MaintenanceExclusion, MaintenanceWindow
from winpool.features.upgrade.windows import Opening, UnusableWindowError, Window, opening, read_window

MINUTE: Final = timedelta(minutes=1)
HOUR: Final = timedelta(hours=1)


def window_of(*, schedule: str, duration_seconds: int, time_zone: str = "Etc/UTC") -> Window:
    """Read the window of an entry, which need not be valid."""
    return read_window(
        MaintenanceWindow.model_construct(
            schedule=schedule, duration_seconds=duration_seconds, time_zone=time_zone
        )
    )


CHANGES: Final = {
    "Europe/Berlin": ("2026-03-29T01:00Z", "2026-10-25T01:00Z"),
    "America/New_York": ("2026-03-08T07:00Z", "2026-11-01T06:00Z"),
    "Australia/Lord_Howe": ("2026-04-04T15:00Z", "2026-10-03T15:30Z"),
    "America/Santiago": ("2026-04-05T03:00Z", "2026-09-06T04:00Z"),
    "Pacific/Apia": ("2011-12-30T10:00Z",),
}
"""When the clocks change: by an hour at night, by half an hour, at midnight, and by a day that is skipped."""
AT: Final = [(zone, datetime.fromisoformat(text)) for zone, texts in CHANGES.items() for text in texts]


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class Field:
    """A field of a schedule, and the numbers that it matches."""

    text: str
    numbers: frozenset[int]


def field(low: int, high: int) -> st.SearchStrategy[Field]:
    number = st.integers(low, high)
    spans = st.tuples(number, number).map(sorted)
    return st.one_of(
        st.just(Field("*", frozenset(range(low, high + 1)))),
        st.integers(2, 20).map(lambda by: Field(f"*/{by}", frozenset(range(low, high + 1, by)))),
        st.lists(number, min_size=1, max_size=3).map(
            lambda all_: Field(",".join(map(str, all_)), frozenset(all_))
        ),
        spans.map(lambda both: Field(f"{both[0]}-{both[1]}", frozenset(range(both[0], both[1] + 1)))),
    )


@dataclass(frozen=True)
class Schedule:
    minute: Field
    hour: Field
    weekday: Field

    @property
    def text(self) -> str:
        return f"{self.minute.text} {self.hour.text} * * {self.weekday.text}"

    def matches(self, shown: datetime) -> bool:
        return (
            shown.minute in self.minute.numbers
            and shown.hour in self.hour.numbers
            and shown.isoweekday() % 7 in self.weekday.numbers
        )


SCHEDULES: Final = st.builds(Schedule, minute=field(0, 59), hour=field(0, 23), weekday=field(0, 6))


def starts_by_counting(schedule: Schedule, zone: str, *, first: datetime, minutes: int) -> Iterator[datetime]:
    """Yield each start, by watching a clock of the zone for so many minutes.

    What the clock shows for the first time, or has skipped since a minute before, is reached now. What it
    shows again was reached before.
    """
    clock = ZoneInfo(zone)
    reached = (first - MINUTE).astimezone(clock).replace(tzinfo=None)
    for number in range(minutes):
        now = first + number * MINUTE
        shown = now.astimezone(clock).replace(tzinfo=None)
        matched = False
        while reached < shown:
            reached += MINUTE
            matched = matched or schedule.matches(reached)
        if matched:
            yield now


@pytest.mark.slow
@given(
    change=st.sampled_from(AT),
    schedule=SCHEDULES,
    duration=st.integers(1, 48 * 60),
    offset=st.integers(-24 * 60, 24 * 60),
    second=st.integers(0, 59),
)
def test_a_window_is_open_just_when_a_clock_that_is_watched_says_so(
    change: tuple[str, datetime], schedule: Schedule, duration: int, offset: int, second: int
) -> None:
    zone, changed = change
    days = 9
    first = changed - timedelta(days=days)
    starts = list(starts_by_counting(schedule, zone, first=first, minutes=2 * days * 24 * 60))
    now = changed + offset * MINUTE + timedelta(seconds=second)
    window = window_of(schedule=schedule.text, duration_seconds=60 * duration, time_zone=zone)
    before = [each for each in starts if each <= now]
    after = [each for each in starts if each > now]
    assert before
    assert after, "every weekday comes within nine days"
    assert (window.latest_start(now), window.next_start(now)) == (before[-1], after[0])
    end = before[-1] + duration * MINUTE
    expected = (
        Opening(is_open=True, changes_at=end) if now < end else Opening(is_open=False, changes_at=after[0])
    )
    assert opening([window], [], now=now) == expected


@pytest.mark.parametrize(
    ("zone", "schedule", "starts"),
    [
        ("Europe/Berlin", "30 2 29 3 *", "2026-03-29T01:00Z"),
        ("Europe/Berlin", "30 2 25 10 *", "2026-10-25T00:30Z"),
        ("America/New_York", "15 2 8 3 *", "2026-03-08T07:00Z"),
        ("America/New_York", "15 1 1 11 *", "2026-11-01T05:15Z"),
        ("Australia/Lord_Howe", "10 2 4 10 *", "2026-10-03T15:30Z"),
        ("Australia/Lord_Howe", "45 1 5 4 *", "2026-04-04T14:45Z"),
        ("America/Santiago", "0 0 6 9 *", "2026-09-06T04:00Z"),
        ("America/Santiago", "30 23 4 4 *", "2026-04-05T02:30Z"),
        ("Pacific/Apia", "0 12 30 12 *", "2011-12-30T10:00Z"),
    ],
)
def test_a_start_that_is_skipped_is_right_after_and_one_that_comes_twice_is_the_first(
    zone: str, schedule: str, starts: str
) -> None:
    window = window_of(schedule=schedule, duration_seconds=3 * 3600, time_zone=zone)
    start = instant(starts)
    assert window.next_start(start - 5 * HOUR) == start
    following = window.next_start(start)
    assert following is not None
    assert following > start + timedelta(days=300), "once a year"
    assert window.end_at(start) == start + 3 * HOUR, "elapsed time"
    assert window.end_at(start - timedelta(seconds=1)) is None
    assert window.end_at(start + 3 * HOUR) is None


SATURDAYS: Final = window_of(schedule="0 22 * * 6", duration_seconds=4 * 3600, time_zone="Europe/Berlin")
SUNDAYS: Final = window_of(schedule="0 0 * * SUN", duration_seconds=4 * 3600, time_zone="Europe/Berlin")
NOON: Final = instant("2026-11-21T12:00Z")
"""A Saturday."""
EVENING: Final = instant("2026-11-21T21:00Z")


def excluded(start: str, end: str) -> MaintenanceExclusion:
    return MaintenanceExclusion(start=instant(start), end=instant(end), reason="year end")


def test_without_windows_it_is_open_but_in_exclusions() -> None:
    assert opening([], [], now=NOON) == Opening(is_open=True, changes_at=None)
    later = excluded("2026-12-20T00:00Z", "2027-01-03T00:00Z")
    assert opening([], [later], now=NOON) == Opening(is_open=True, changes_at=later.start)
    assert opening([], [later], now=later.start) == Opening(is_open=False, changes_at=later.end)
    assert opening([], [later], now=later.end) == Opening(is_open=True, changes_at=None)


def test_windows_that_overlap_stay_open_until_the_last_of_them_ends() -> None:
    at = instant("2026-11-21T23:30Z")
    assert opening([SATURDAYS], [], now=at).changes_at == instant("2026-11-22T01:00Z")
    assert opening([SATURDAYS, SUNDAYS], [], now=at).changes_at == instant("2026-11-22T03:00Z")


def test_the_next_opening_is_the_first_that_no_exclusion_closes() -> None:
    """An exclusion that ends within a window opens it late; exclusions may overlap."""
    assert opening([SATURDAYS], [], now=NOON).changes_at == EVENING
    over = [
        excluded("2026-11-20T00:00Z", "2026-11-22T00:00Z"),
        excluded("2026-11-21T20:00Z", "2026-11-28T22:00Z"),
    ]
    assert opening([SATURDAYS], over[:1], now=NOON).changes_at == instant("2026-11-22T00:00Z")
    assert opening([SATURDAYS], over, now=NOON).changes_at == instant("2026-11-28T22:00Z")


def test_an_exclusion_that_begins_meanwhile_ends_an_open_window() -> None:
    soon = excluded("2026-11-21T22:00Z", "2026-11-23T00:00Z")
    assert opening([SATURDAYS], [soon], now=EVENING) == Opening(is_open=True, changes_at=soon.start)


def test_what_is_excluded_for_ever_never_opens() -> None:
    for_ever = excluded("2026-01-01T00:00Z", "9999-12-31T23:59:59Z")
    for windows in ([], [SATURDAYS]):
        assert opening(windows, [for_ever], now=NOON) == Opening(is_open=False, changes_at=None)


@given(
    spans=st.lists(st.tuples(st.integers(-3000, 20_000), st.integers(1, 9000)), max_size=4),
    weekdays=st.lists(st.integers(0, 6), min_size=1, max_size=3, unique=True),
    minute=st.integers(0, 20_000),
)
def test_windows_and_exclusions_together_open_just_when_counting_minutes_says_so(
    spans: list[tuple[int, int]], weekdays: list[int], minute: int
) -> None:
    windows = [
        window_of(schedule=f"30 {3 * day} * * {day}", duration_seconds=1800 * (day + 1)) for day in weekdays
    ]
    exclusions = [
        MaintenanceExclusion(start=NOON + start * MINUTE, end=NOON + (start + length) * MINUTE)
        for start, length in spans
    ]
    now = NOON + minute * MINUTE

    def is_open(at: datetime) -> bool:
        if any(each.start <= at < each.end for each in exclusions):
            return False
        begins = (at.replace(hour=0, minute=0) - timedelta(days=back) for back in range(3))
        return any(
            day.isoweekday() % 7 == each
            and day <= at < day + timedelta(minutes=30, hours=3 * each) + 30 * (each + 1) * MINUTE
            and at >= day + timedelta(minutes=30, hours=3 * each)
            for day in begins
            for each in weekdays
        )

    found = opening(windows, exclusions, now=now)
    assert found.is_open is is_open(now)
    assert found.changes_at is None or found.changes_at > now
    limit = now + timedelta(days=40)
    until = min(found.changes_at or limit, limit)
    steps = range(1, int((until - now) / MINUTE))
    assert all(is_open(now + step * MINUTE) is found.is_open for step in steps)
    if not found.is_open:
        assert found.changes_at is not None
        assert is_open(found.changes_at)


@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ("", "five fields"),
        ("0 22 * *", "five fields"),
        ("0 0 22 * * 6", "five fields"),
        ("@daily", "five fields"),
        ("TZ=Europe/Berlin 0 22 * * 6", "five fields"),
        ("0 22 * * ²", "five fields"),
        ("60 22 * * 6", "cannot be read"),
        ("0 24 * * 6", "cannot be read"),
        ("0 22 * * 8", "cannot be read"),
        ("0 22 * * FOO", "cannot be read"),
        ("*/0 22 * * 6", "cannot be read"),
        ("0 22 30 2 *", "cannot be read"),
        ("0 0 */30 2 SUN#2", "never begins"),
        ("0" * 200, "longer than 128"),
    ],
)
def test_a_schedule_that_cannot_be_used_is_refused(schedule: str, said: str) -> None:
    with pytest.raises(UnusableWindowError, match=rf"^schedule: .*{said}"):
        window_of(schedule=schedule, duration_seconds=3600)


@pytest.mark.parametrize(
    "name",
    [
        *("", "Europe", "Europe/", "Europe/Berlim", "/etc/localtime", "../etc/passwd", "localtime"),
        *(
            "posixrules",
            "Factory",
            "right/UTC",
            "posix/UTC",
            "Local",
            "Europe/Berlin\0",
            "x" * 5000,
            "+01:00",
        ),
    ],
)
def test_a_time_zone_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UnusableWindowError, match=r"^timeZone: .* is no time zone\. Write") as error:
        window_of(schedule="0 22 * * 6", duration_seconds=3600, time_zone=name)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("seconds", [-1, 0, 59])
def test_a_window_without_length_is_refused(seconds: int) -> None:
    with pytest.raises(UnusableWindowError, match=r"^durationSeconds: "):
        window_of(schedule="0 22 * * 6", duration_seconds=seconds)


def test_a_duration_beyond_all_times_is_open_to_the_end_of_them() -> None:
    window = window_of(schedule="0 22 * * 6", duration_seconds=10**15)
    assert opening([window], [], now=NOON).is_open


@given(st.text("0123456789*/,#- LWMONJAT", max_size=40))
@example("0 0 L/2 * *")
@example("0 0 LW 2 5L")
@example("0 0 * * MON#1/2")
@example("0 0 29 2 */7")
def test_any_text_is_a_schedule_or_is_refused(text: str) -> None:
    try:
        window = window_of(schedule=text, duration_seconds=3600)
    except UnusableWindowError:
        return
    assert window.next_start(datetime(2026, 1, 1, tzinfo=UTC)) is not None


def test_the_passes_of_a_minute_search_for_starts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the most windows and exclusions that a pool may have, each pass cost 0.8 s; other pools waited."""
    searches: list[str] = []

    def search(schedule: str, *arguments: Any, **more: Any) -> Iterator[datetime]:
        searches.append(schedule)
        found: Iterator[datetime] = CronSim(schedule, *arguments, **more)
        return found

    monkeypatch.setattr("winpool.features.upgrade.windows.CronSim", search)
    held = [window_of(schedule=f"{each} 3 * * *", duration_seconds=3601) for each in range(16)]
    day = timedelta(days=1)
    closed = [
        MaintenanceExclusion(start=NOON + each * day - HOUR, end=NOON + (each + 1) * day - HOUR)
        for each in range(32)
    ]
    found = opening(held, closed, now=NOON)
    assert searches, "the first pass searches"
    searches.clear()
    for second in range(60):
        assert opening(held, closed, now=NOON + timedelta(seconds=second)) == found
    assert searches == []
