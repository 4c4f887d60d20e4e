"""Waiting for outcomes."""

import time
from collections.abc import Callable
from typing import Final

from testbed.errors import TestbedError

POLL_SECONDS: Final = 0.1
"""Between two looks; each may start a kubectl or probe every component."""


def wait_until(
    condition: Callable[[], bool],
    *,
    what: str,
    timeout_seconds: float,
    explain: Callable[[], str] = lambda: "",
) -> None:
    """Wait for an outcome.

    Raises:
        TestbedError: it did not come in time; the text names it and adds what ``explain`` knows.

    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() >= deadline:
            raise TestbedError(f"timed out after {timeout_seconds:.0f} s, waiting for {what}{explain()}")
        time.sleep(POLL_SECONDS)
