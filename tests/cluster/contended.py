"""What the tests of contended nodes share: a pool, a proxy, and what was written to a node when."""

from __future__ import annotations

import itertools
from typing import Any, Final

from testbed.faults import FaultProxy, Record, on

Object = dict[str, Any]

LABEL: Final = "example.com/team"
TAINT: Final = "os=windows:NoSchedule"
SPEC: Final[Object] = {
    "labels": {LABEL: "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
PAUSES: Final = (2.0, 4.0, 8.0)
"""Seconds between repairs of one node that somebody else keeps undoing (design §6)."""
CLOCKS_SECONDS: Final = 0.05
"""Two processes, the operator's clock that counts a pause and the proxy's that measures it."""


def applied(proxy: FaultProxy, name: str) -> list[Record]:
    """Return the writes to a node that the API server carried out."""
    return [each for each in proxy.writes(on("patch", "nodes", name=name)) if each.applied]


def assert_pauses(writes: list[Record] | tuple[Record, ...]) -> None:
    """Assert that each write but the first came after its pause, or later."""
    for (before, after), pause in zip(itertools.pairwise(writes), PAUSES, strict=False):
        waited = (after.time - before.time).total_seconds()
        assert waited >= pause - CLOCKS_SECONDS, [str(each.time) for each in writes]
