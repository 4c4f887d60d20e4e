"""How long tests take on an idle machine: their duration without the time that they waited for a core."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

SLOW_SECONDS: Final = 0.5
"""A unit test that takes longer is marked ``slow``, so that ``make quick`` leaves it out."""

WAITED: Final = "seconds_waited_for_a_core"
"""The property of a report, and of a test in ``.results``."""

_SCHEDULED: Final = Path("/proc/thread-self/schedstat")
_began = pytest.StashKey[float]()


def waited_for_a_core() -> float:
    """Return how many seconds this thread was ready to run and another one ran; 0 if that is not counted."""
    try:
        return int(_SCHEDULED.read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def begin(item: pytest.Item) -> None:
    """Note when a test begins."""
    item.stash[_began] = waited_for_a_core()


def end(item: pytest.Item) -> None:
    """Say in the reports of a test how long it waited for a core."""
    waited = waited_for_a_core() - item.stash.get(_began, waited_for_a_core())
    item.user_properties.append((WAITED, f"{waited:.3f}"))


def slow(reports: Iterable[pytest.TestReport]) -> list[tuple[float, str]]:
    """Return the unit tests without the marker that take longer, with their seconds, the slowest first."""
    seconds: dict[str, float] = {}
    for each in reports:
        if each.nodeid.startswith("tests/unit/") and "slow" not in each.keywords:
            waited = float(str(dict(each.user_properties).get(WAITED, 0)))
            seconds[each.nodeid] = seconds.get(each.nodeid, 0.0) + each.duration - waited
    return sorted(((took, name) for name, took in seconds.items() if took > SLOW_SECONDS), reverse=True)
