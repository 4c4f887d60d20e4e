"""Writes to a pool that came too late (409): somebody has written it since it was read.

Its watch event wakes the pool, mostly within milliseconds. Where that does not come, and the same state
conflicts again, all pools are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.cluster.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.objects.pool import Pool


class Overtaken:
    """The state of one pool that a write came too late for."""

    def __init__(self, *, ask_for_pools: Callable[[], None]) -> None:
        self._ask_for_pools = ask_for_pools
        self._backoff = Backoff()
        self._version = ""

    def note(self, pool: Pool) -> float:
        """Take note of a conflict on ``pool`` as it is known; return in how many seconds to look again."""
        if self._version == pool.resource_version:
            self._ask_for_pools()
        self._version = pool.resource_version
        return self._backoff.next()

    def forget(self) -> None:
        """Take note of a pass without a conflict."""
        self._backoff.reset()
        self._version = ""
