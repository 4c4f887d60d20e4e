"""When upgrades may begin: maintenance windows, and exclusions that close them.

What the API server can check of a window it checks. Whether the time zone exists and the schedule ever
begins is the operator's to find out (``upgrade.windows``): both need data that changes without the API.
"""

import re
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.fields import SpecTime, is_spec_time
from winpool.api.gates import MAX_REASON
from winpool.api.model import ApiModel
from winpool.api.rules import Rule, Validation

DEFAULT_TIME_ZONE: Final = "Etc/UTC"

MAX_WINDOWS: Final = 16
"""Two for each day of the week, and some that come once a month. Each is judged in every pass."""

MAX_EXCLUSIONS: Final = 32
"""The public holidays of two years in most countries."""

LEAST_SECONDS: Final = 60
"""The least duration of a window: schedules have minutes."""

MOST_SECONDS: Final = 7 * 24 * 3600
"""A week. What is open for longer begins again before it ends, under nearly every schedule."""

MAX_SCHEDULE_LENGTH: Final = 128
"""Characters: each field fits as a list of several ranges, and to parse it costs nothing."""

SCHEDULE_PATTERN: Final = "^[0-9A-Za-z*/,#-]+( +[0-9A-Za-z*/,#-]+){4}$"
"""Five fields of the characters that schedules of cron are made of."""

TIME_ZONE_PATTERN: Final = "^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9][A-Za-z0-9_+-]*){0,3}$"
"""The form of names in the IANA database (https://data.iana.org/time-zones/theory.html#naming)."""

MAX_TIME_ZONE_LENGTH: Final = 64
"""Twice the longest name in the database."""

# Wider than the rules, which have the better sentence: a text too long for the schema switches CEL off.
_WIDE: Final = 256

_SCHEDULE: Final = re.compile(SCHEDULE_PATTERN, re.ASCII)
_TIME_ZONE: Final = re.compile(TIME_ZONE_PATTERN, re.ASCII)


def has_five_fields(text: str) -> bool:
    """Whether ``text`` has the form of a schedule of cron. Whether it can be read is not asked here."""
    return len(text) <= MAX_SCHEDULE_LENGTH and _SCHEDULE.fullmatch(text) is not None


def is_time_zone_name(text: str) -> bool:
    """Whether ``text`` has the form of a name of a time zone. Whether it exists is not asked here."""
    return len(text) <= MAX_TIME_ZONE_LENGTH and _TIME_ZONE.fullmatch(text) is not None


class MaintenanceWindow(ApiModel):
    """A time that comes again and again, in which upgrades may begin."""

    schedule: Annotated[
        str,
        Field(max_length=_WIDE),
        Rule(
            f"self.size() <= {MAX_SCHEDULE_LENGTH} && self.matches('{SCHEDULE_PATTERN}')",
            "must be the five fields of cron (minute, hour, day of the month, month, day of the week), at "
            "most 128 characters, such as '0 22 * * 6' for Saturdays at 22:00",
            has_five_fields,
        ),
    ] = Field(
        description="When the window begins: minute, hour, day of the month, month and day of the week of "
        "cron, such as 0 22 * * 6, in `timeZone`. A start that the clocks skip is at the first instant "
        "after the change, one that they show twice is at the first of both. A string, required."
    )
    duration_seconds: Annotated[int, Field(strict=True, ge=LEAST_SECONDS, le=MOST_SECONDS)] = Field(
        description="How long the window is open, as elapsed time. An upgrade that has begun does not end "
        "with it. Seconds, an integer, required."
    )
    time_zone: Annotated[
        str,
        Field(max_length=_WIDE),
        Rule(
            f"self.size() <= {MAX_TIME_ZONE_LENGTH} && self.matches('{TIME_ZONE_PATTERN}')",
            "must be the name of a time zone in the IANA database, such as 'Europe/Berlin' or 'Etc/UTC'",
            is_time_zone_name,
        ),
    ] = Field(
        default_factory=lambda: DEFAULT_TIME_ZONE,
        description="The time zone of `schedule`: a name of the IANA database, such as Europe/Berlin. A "
        "string, Etc/UTC if absent.",
    )


class MaintenanceExclusion(ApiModel):
    """A time in which no upgrade begins, whatever the windows say."""

    start: SpecTime = Field(
        description="When it begins. An RFC 3339 time such as 2026-12-20T00:00:00Z, required."
    )
    end: SpecTime = Field(
        description="When it is over. After `start`. An RFC 3339 time such as 2027-01-03T00:00:00Z, required."
    )
    reason: str = Field(
        default_factory=str,
        max_length=MAX_REASON,
        description="Why no upgrade begins then, for people who ask the gate. A string of at most 256 "
        "characters, empty if absent.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            # What is no time is the other rule's to refuse, and timestamp() would fail on it.
            f"!({is_spec_time('self.start')}) || !({is_spec_time('self.end')}) || "
            "timestamp(self.start) < timestamp(self.end)",
            "must be after `start`",
            lambda self: self.start < self.end,
            at=".end",
        ),
    )
