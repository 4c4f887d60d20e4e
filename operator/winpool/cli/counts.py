"""Writes counts, names, ages and amounts of memory in a few letters, whatever numbers they are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Final

NAMES_SHOWN: Final = 3
"""Names that a line has: as many as an issue."""

UNKNOWN: Final = "?"

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_YEAR: Final = 365 * _DAY

# Up to how many seconds, in which unit, and with which smaller one: HumanDuration of
# k8s.io/apimachinery/pkg/util/duration.
_STEPS: Final = (
    (2 * _MINUTE, (1, "s"), None),
    (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
    (3 * _HOUR, (_MINUTE, "m"), None),
    (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
    (2 * _DAY, (_HOUR, "h"), None),
    (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
    (2 * _YEAR, (_DAY, "d"), None),
    (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
)

NONE: Final = "-"
"""What is not known."""

_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024.0
_ONE_DIGIT: Final = 10.0
"""Below it, an amount has a decimal."""

_MOST_PERCENT: Final = 999
_LONGEST_SECONDS: Final = 99 * 365 * 86_400.0
"""Longer is shown as this: 99 years."""


def listed(names: Sequence[str], *, most: int = NAMES_SHOWN, count: int | None = None) -> str:
    """Write the first names, and how many there are beside them."""
    shown = names[:most]
    more = (len(names) if count is None else count) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 and shown else "")


def counted(number: int, thing: str) -> str:
    """Write how many things there are."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def age(since: datetime | None, *, now: datetime) -> str:
    """Return the time from ``since`` to ``now``, such as 45s, 3h20m or 12d; "?" where it is not known.

    What lies ahead, by a clock that is wrong, is 0s old.
    """
    if since is None:
        return UNKNOWN
    return span(max(0.0, (now - since).total_seconds()))


def span(length: float) -> str:
    """Return a number of seconds, such as 45s, 3h20m or 12d."""
    seconds = int(length)
    for below, (unit, letter), smaller in _STEPS:
        if seconds < below:
            whole = f"{seconds // unit}{letter}"
            rest = seconds % unit // smaller[0] if smaller else 0
            return f"{whole}{rest}{smaller[1]}" if smaller and rest else whole
    return f"{seconds // _YEAR}y"


def amount(value: float | None) -> str:
    """Return bytes as Kubernetes writes quantities, rounded: 512Mi, 9.5Gi, 24Gi."""
    if value is None or not math.isfinite(value):
        return NONE
    left, unit = abs(value), ""
    for each in _UNITS:
        # What rounds to 1024 of a unit is 1.0 of the next.
        if round(left) < _STEP:
            break
        left, unit = left / _STEP, each
    digits = f"{left:.1f}" if unit and round(left, 1) < _ONE_DIGIT else f"{left:.0f}"
    if len(digits) > len("1023"):
        digits = ">1023"
    return f"{'-' if value < 0 else ''}{digits}{unit}"


def rate(value: float | None) -> str:
    """Return bytes a second as growth in a minute: +120Mi/min; 0 where nothing grows."""
    a_minute = math.nan if value is None else value * 60
    if not math.isfinite(a_minute):
        return NONE
    return f"+{amount(a_minute)}/min" if a_minute > 0 else "0"


def percent(value: float | None) -> str:
    """Return a share without its decimals, so that 100% means all of it."""
    if value is None or not math.isfinite(value):
        return NONE
    whole = math.floor(value)
    if whole > _MOST_PERCENT:
        return f">{_MOST_PERCENT}%"
    return "<0%" if whole < 0 else f"{whole}%"


def seconds(value: float | None) -> str:
    """Return a span of time as kubectl writes ages."""
    if value is None or not math.isfinite(value):
        return NONE
    return span(min(max(0.0, value), _LONGEST_SECONDS))
