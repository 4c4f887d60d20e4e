"""How long ago something was, as kubectl writes it in the column AGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from datetime import datetime

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
