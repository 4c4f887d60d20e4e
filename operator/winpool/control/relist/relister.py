"""The complete list of pools: at start, and every five minutes to drop what the feed never reported.

P2 allows one such list in five minutes, which is the default of the setting. Those that lie far enough
apart count towards taking a pool for vanished (P4), which is a setting of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from winpool.api.keys import CRD_NAME, PLURAL
from winpool.cluster.access import explained
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, NotFound
from winpool.cluster.outage import Outage
from winpool.cluster.rewind import Rewind
from winpool.control.loops.wake import Wake

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.writer import Writer
    from winpool.control.relist.pools import Pools

log = logging.getLogger(__name__)

JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not list in step."""

LEAST_SECONDS: Final = 1.0
"""Between two lists, however many ask for one."""

_uniform: Final = random.SystemRandom().uniform


class Relister:
    """Lists all pools into the store. ``problem`` says what is in the way, empty where nothing is."""

    def __init__(
        self,
        *,
        writer: Writer,
        pools: Pools,
        period_seconds: float,
        orphan_grace_seconds: float,
        after: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._period_seconds = period_seconds
        self._orphan_grace_seconds = orphan_grace_seconds
        self._rewind = Rewind(PLURAL, monotonic=monotonic)
        self._writer = writer
        self._pools = pools
        self._after = after
        self._wake = Wake()
        self._monotonic = monotonic
        self._counted_at = float("-inf")
        self._outage = Outage("pools", logger=log, monotonic=monotonic, meanwhile="trying again")
        self.problem = "not listed yet"

    def ask(self) -> None:
        """Ask for a list soon: a pool that we know was answered 404.

        That alone does not say that the pool is gone. An API server that has just started answers the
        same while it does not serve the CRD yet.
        """
        self._wake.set()

    async def run(self) -> None:
        """List until cancelled."""
        backoff = Backoff()
        while True:
            try:
                await self._list()
            except ApiError as error:
                explained = _explained(error)
                self.problem = explained.message
                self._outage.failed(explained)
                await asyncio.sleep(backoff.next(asked=error.retry_after))
                continue
            self.problem = ""
            backoff.reset()
            self._outage.ended()
            self._after()
            await asyncio.sleep(LEAST_SECONDS)
            await self._wake.wait(seconds=self._period_seconds * _uniform(1, 1 + JITTER))

    async def _list(self) -> None:
        seen = self._pools.newest_version  # from before: what comes while we ask is newer by right
        listed = await self._writer.list_pools()
        version = listed.resource_version
        rewound = self._rewind.check(version, seen=seen)
        self._pools.replace(
            listed.items, resource_version=version, counts=self._is_far_enough(), rewound=rewound
        )
        self._rewind.done()

    def _is_far_enough(self) -> bool:
        """Whether this list is far enough from the last that counted, and so the next to count."""
        now = self._monotonic()
        if now - self._counted_at < self._orphan_grace_seconds:
            return False
        self._counted_at = now
        return True


def _explained(error: ApiError) -> ApiError:
    if isinstance(error, NotFound):
        return NotFound(f"the CRD {CRD_NAME} is not installed: kubectl apply -k crds", status=error.status)
    return explained(error)
