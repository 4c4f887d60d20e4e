"""Waiting for outcomes: with a generous guard, never for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

GUARD_SECONDS = 180.0
"""Long enough for a machine that is busy with other things: a guard, not an expectation."""


class HopelessError(Exception):
    """What is waited for cannot come any more; a check raises it to end the waiting at once."""


def eventually(check: Callable[[], T], *, what: str, seconds: float = GUARD_SECONDS, every: float = 0.1) -> T:
    """Return the first true value of ``check``; fail with its last value or assertion after ``seconds``.

    Whatever else ``check`` raises ends the waiting at once.
    """
    deadline = time.monotonic() + seconds
    while True:
        last: object
        try:
            if value := check():
                return value
            last = value
        except AssertionError as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:.0f} s; last seen: {last!r}")
        time.sleep(every)


def holds(check: Callable[[], object], *, seconds: float, every: float = 0.2) -> None:
    """Assert that ``check`` stays true for ``seconds``: for what must not happen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert check()
        time.sleep(every)
