"""Writes to a pool that were conflicts (409): someone has written it since it was read.

Its watch event wakes the pool, usually within milliseconds. Where no event comes, and the same state
conflicts again, all pools are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.cluster.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.objects.pool import Pool


class Overtaken:
    """The state of one pool on which a write was a conflict."""

    def __init__(self, *, ask_for_pools: Callable[[], None]) -> None:
        self._ask_for_pools = ask_for_pools
        self._backoff = Backoff()
        self._version = ""

    def note(self, pool: Pool) -> float:
        """Note a conflict on ``pool`` as it is known; return in how many seconds to try again."""
        if self._version == pool.resource_version:
            self._ask_for_pools()
        self._version = pool.resource_version
        return self._backoff.next()

    def forget(self) -> None:
        """Note a pass without a conflict."""
        self._backoff.reset()
        self._version = ""
