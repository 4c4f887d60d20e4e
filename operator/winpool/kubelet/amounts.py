"""Numbers that others report, as amounts that can be computed with; everything else is unknown."""

from __future__ import annotations

import re
from typing import Final

LIMIT: Final = 2**53
"""Amounts from here on are unknown. It is 8 PiB, more than Windows can use, and whole numbers below it are
exact as a float, which is what Prometheus stores."""

_NUMBER: Final = re.compile(r"-?[0-9]{1,32}([.][0-9]{0,32})?([eE][+-]?[0-9]{1,3})?", re.ASCII)
"""How Prometheus writes a finite number. ``float`` also reads what it never writes, such as ``1_000``."""


def bytes_of(reported: float | None) -> int | None:
    """Return an amount of memory in bytes, None where it is unknown.

    Windows kubelets report 0 for what they do not measure, so 0 is unknown too. No machine, no pod that
    runs and no kernel uses 0 bytes.
    """
    if reported is None or not 0 < reported < LIMIT or reported != int(reported):
        return None
    return int(reported)


def rate_of(reported: float | None) -> float | None:
    """Return a rate in events per second, None where it is unknown. 0 is a rate: nothing happens."""
    return reported if reported is not None and 0 <= reported < LIMIT else None


def number_in(text: str) -> float | None:
    """Read a number as Prometheus writes it; None for NaN, infinities, and what is no number."""
    if _NUMBER.fullmatch(text) is None:
        return None
    number = float(text)
    return number if abs(number) < LIMIT else None
