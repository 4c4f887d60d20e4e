"""How often Python looks for garbage in cycles.

An operator holds some hundred thousand objects for as long as it runs. Each poll of a kubelet makes some
hundred that are gone soon after, most of them without the collector. By Python's own thresholds it looked
for cycles ten times a second at 100 polls per second: 13 % of the CPU time in a profile of 5,000 nodes, of
which 250 were hot.
"""

from __future__ import annotations

import gc
from typing import Final

YOUNG: Final = 20_000
"""New objects between two looks at the new ones: a few megabytes of garbage at most. Python's own is 700."""

OLDER: Final = 20
"""Looks at one generation between two at the next one. Python's own is 10."""


def collect_rarely() -> None:
    """Look for cycles rarely, and never in what was imported. Call it once, after all imports.

    https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
