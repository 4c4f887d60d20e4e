"""Times that others write: kubelets, clients of the API server, whoever may edit a status.

A time may be any that RFC 3339 can write. Those of Python end with the year 9999; beyond it, it raises
OverflowError.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

LAST: Final = datetime.max.replace(tzinfo=UTC)
"""Stands for every time that is later than Python can write."""


def later(moment: datetime, seconds: float) -> datetime:
    """Return the time ``seconds``, which are not negative, after ``moment``; LAST where there is none."""
    try:
        return moment + timedelta(seconds=seconds)
    except OverflowError:
        return LAST


def read_moment(text: str | None) -> datetime | None:
    """Read a time of RFC 3339 as UTC; None for what is none, has no offset, or has no form in UTC."""
    try:
        moment = datetime.fromisoformat(text or "")
        if moment.tzinfo is None:
            return None
        return moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def written_moment(moment: datetime) -> str:
    """Write a time as the API server does (metav1.Time): in UTC, in seconds, the year in four digits."""
    return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
