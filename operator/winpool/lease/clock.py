"""The two clocks of the Lease, and the name of this process."""

from __future__ import annotations

import re
import secrets
import time
from datetime import UTC, datetime
from typing import Final

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC stands still while the machine is suspended, and a term must not. Only Linux has
CLOCK_BOOTTIME."""


def running_on() -> float:
    """Return seconds by a clock that is never set, and runs on while the process or the machine sleeps."""
    return time.clock_gettime(_CLOCK)


def utc_now() -> datetime:
    """Return the wall clock, for the times in the Lease that people read. Nothing is decided by it."""
    return datetime.now(UTC)


def make_identity(host: str) -> str:
    """Return the name of this process among all holders: its host, and what no earlier process there had."""
    named = re.sub(r"[^A-Za-z0-9.-]", "-", host)[:63]
    return f"{named}_{secrets.token_hex(4)}"
