"""Writes to a pool that were conflicts (409): someone has written it since it was read.

Its watch event wakes the pool, usually within milliseconds, and the newer state is tried at once. The same
state is tried again only after a pause, however often nodes wake the pool meanwhile: it would most likely
conflict once more. Where no event comes, and the same state conflicts again, all pools are listed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.cluster.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.objects.pool import Pool


class Overtaken:
    """The state of one pool on which a write was a conflict."""

    def __init__(self, *, ask_for_pools: Callable[[], None], monotonic: Callable[[], float]) -> None:
        self._ask_for_pools = ask_for_pools
        self._monotonic = monotonic
        self._backoff = Backoff()
        self._version = ""
        self._until = 0.0

    def note(self, pool: Pool) -> float:
        """Note a conflict on ``pool`` as it is known; return in how many seconds to try again."""
        if self._version == pool.resource_version:
            self._ask_for_pools()
        else:
            self._backoff.reset()
        self._version = pool.resource_version
        seconds = self._backoff.next()
        self._until = self._monotonic() + seconds
        return seconds

    def seconds_to_next(self, pool: Pool) -> float | None:
        """Return in how many seconds ``pool``, as it is known, may be written again; None for now."""
        seconds = self._until - self._monotonic()
        return seconds if self._version == pool.resource_version and seconds > 0 else None
