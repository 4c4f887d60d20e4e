"""Amounts of memory, shares and spans of time in a few letters, whatever numbers they are."""

from __future__ import annotations

import math
from typing import Final

from winpool.cli.ages import span

NONE: Final = "-"
"""What is not known."""

_UNITS: Final = ("Ki", "Mi", "Gi", "Ti", "Pi")
_STEP: Final = 1024.0
_ONE_DIGIT: Final = 10.0
"""Below it, an amount has a decimal."""

_MOST_PERCENT: Final = 999
_LONGEST_SECONDS: Final = 99 * 365 * 86_400.0
"""Longer is shown as this: 99 years."""


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
