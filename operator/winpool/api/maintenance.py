"""When upgrades may begin: gates and their overrides, requests of a pause, maintenance windows, exclusions.

What the API server can check of a window it checks. Whether the time zone exists and the schedule ever
begins is the operator's to find out (``upgrade.windows``): both need data that changes without the API.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.fields import NAME_PATTERN, SpecTime, has_form, is_spec_time, of_form
from winpool.api.model import ApiModel, Rule, Validation, cel_list

MAX_REASON: Final = 256
"""Characters of a reason that people write: a sentence, and the number of a ticket."""


class Gate(StrEnum):
    """What has to be open before a node may be upgraded, in the order in which it is reported."""

    SUPPORT_MATRIX = "SupportMatrix"
    END_OF_SUPPORT = "EndOfSupport"
    REVISION_FLOOR = "RevisionFloor"
    RELEASE_CHANGE = "ReleaseChange"
    VERSION_SKEW = "VersionSkew"
    CONTROL_PLANE = "ControlPlane"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    POOL_HEALTH = "PoolHealth"
    CAPACITY = "Capacity"
    IMAGES = "Images"
    BUDGET = "Budget"
    DISRUPTION_BUDGETS = "PodDisruptionBudgets"


NEVER_OVERRIDDEN: Final = (Gate.BUDGET, Gate.DISRUPTION_BUDGETS)
"""The gates that no override opens: they keep workloads available, which no upgrade is urgent enough for."""

MAX_OVERRIDES: Final = len(Gate) - len(NEVER_OVERRIDDEN)
"""One for each gate that can be overridden."""


class Override(ApiModel):
    """A gate that counts as open until a time, and why."""

    gate: Annotated[
        Gate,
        Rule(
            f"!(self in {cel_list(NEVER_OVERRIDDEN)})",
            "must not be Budget or PodDisruptionBudgets: no override opens these gates; to permit more nodes "
            "at a time, set `maxUnavailable`, and to let pods move, change their PodDisruptionBudget",
            lambda gate: gate not in NEVER_OVERRIDDEN,
        ),
    ]
    """The gate: SupportMatrix, EndOfSupport, RevisionFloor, ReleaseChange, VersionSkew, ControlPlane,
    MaintenanceWindow, PoolHealth, Capacity or Images. Budget and PodDisruptionBudgets cannot be
    overridden. A string, required, once per list."""
    until: SpecTime
    """When the override ends. From then on it has no effect, and the operator reports it as an issue until it
    is removed. An RFC 3339 time such as 2026-12-01T00:00:00Z, required."""
    reason: Annotated[
        str,
        Field(max_length=MAX_REASON),
        Rule(
            "self.matches('[^ ]')",
            "must say why the gate may be ignored, such as 'incident 4711'",
            lambda reason: bool(reason.strip(" ")),
        ),
    ]
    """Why the gate may be ignored. The operator reports it as long as the override is in force. A string of
    at most 256 characters, required."""

    def is_in_force(self, now: datetime) -> bool:
        """Whether it still opens its gate at ``now``."""
        return now < self.until


MAX_PAUSE_REQUESTS: Final = 16
"""Owners of a request: teams and programs that watch one pool."""


class NodesInWork(StrEnum):
    """What becomes of nodes that the operator drains while someone requests a pause."""

    FINISH = "Finish"
    RESTORE = "Restore"


class PauseRequest(ApiModel):
    """A request of one owner that no upgrade begins."""

    owner: Annotated[
        str,
        Field(max_length=512),
        of_form(
            f"^{NAME_PATTERN}$",
            "must be at most 63 letters, digits, '-', '_' and '.', beginning and ending with a letter or "
            "digit, such as 'sre'",
        ),
    ]
    """Who requests it: a team or a program. A string, required, once per list."""
    reason: str = Field(default_factory=str, max_length=MAX_REASON)
    """Why no upgrade may begin. A string of at most 256 characters, empty if absent."""
    nodes_in_work: NodesInWork = Field(default_factory=lambda: NodesInWork.FINISH)
    """What becomes of nodes that the operator drains. Finish: their upgrade continues. Restore: they are
    uncordoned, unless they are handed over already. A string, Finish if absent."""


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


def has_five_fields(text: str) -> bool:
    """Whether ``text`` has the form of a schedule of cron. Whether it can be read is not asked here."""
    return len(text) <= MAX_SCHEDULE_LENGTH and has_form(text, SCHEDULE_PATTERN)


def is_time_zone_name(text: str) -> bool:
    """Whether ``text`` has the form of a name of a time zone. Whether it exists is not asked here."""
    return len(text) <= MAX_TIME_ZONE_LENGTH and has_form(text, TIME_ZONE_PATTERN)


class MaintenanceWindow(ApiModel):
    """A time that comes again and again, in which upgrades may begin."""

    schedule: Annotated[
        str,
        Field(max_length=256),
        Rule(
            f"self.size() <= {MAX_SCHEDULE_LENGTH} && self.matches('{SCHEDULE_PATTERN}')",
            "must be the five fields of cron (minute, hour, day of the month, month, day of the week), at "
            "most 128 characters, such as '0 22 * * 6' for Saturdays at 22:00",
            has_five_fields,
        ),
    ]
    """When the window begins: minute, hour, day of the month, month and day of the week of cron, such as 0 22
    * * 6, in `timeZone`. A start that the clocks skip is at the first instant after the change, one that
    they show twice is at the first of both. A string, required."""
    duration_seconds: Annotated[int, Field(strict=True, ge=LEAST_SECONDS, le=MOST_SECONDS)]
    """How long the window is open, as elapsed time. An upgrade that has begun does not end with it. Seconds,
    an integer, required."""
    time_zone: Annotated[
        str,
        Field(max_length=256),
        Rule(
            f"self.size() <= {MAX_TIME_ZONE_LENGTH} && self.matches('{TIME_ZONE_PATTERN}')",
            "must be the name of a time zone in the IANA database, such as 'Europe/Berlin' or 'Etc/UTC'",
            is_time_zone_name,
        ),
    ] = Field(default_factory=lambda: "Etc/UTC")
    """The time zone of `schedule`: a name of the IANA database, such as Europe/Berlin. A string, Etc/UTC if
    absent."""


class MaintenanceExclusion(ApiModel):
    """A time in which no upgrade begins, whatever the windows say."""

    start: SpecTime
    """When it begins. An RFC 3339 time such as 2026-12-20T00:00:00Z, required."""
    end: SpecTime
    """When it is over. After `start`. An RFC 3339 time such as 2027-01-03T00:00:00Z, required."""
    reason: str = Field(default_factory=str, max_length=MAX_REASON)
    """Why no upgrade begins then, for people who ask the gate. A string of at most 256 characters, empty if
    absent."""

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
