"""The complete list of pools: at start, and every five minutes to drop what the feed never reported.

P2 allows one such list in five minutes, which is the default of the setting. Beside that, all pools are
listed where somebody asks for it, where an owner that is not known has to be looked for (``absences``), and
where the CRD has come or gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from winpool.api.keys import PLURAL
from winpool.cluster.access import explained
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, NotFound
from winpool.cluster.outage import Outage
from winpool.cluster.pool_kind import NOT_INSTALLED
from winpool.cluster.rewind import Rewind
from winpool.control.loops.wake import Wake
from winpool.control.relist.absences import TIMER_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.writer import Writer
    from winpool.control.relist.pools import Pools

log = logging.getLogger(__name__)

JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not list in step."""

LEAST_SECONDS: Final = 1.0
"""Between two lists, however many ask for one."""

AGAIN_SECONDS: Final = 2.0
"""After the CRD has come or gone, all pools are listed twice: the API server may serve them a moment longer
than it says."""

_uniform: Final = random.SystemRandom().uniform


class Relister:
    """Lists all pools into the store. ``problem`` says what is in the way, empty where nothing is."""

    def __init__(
        self,
        *,
        writer: Writer,
        pools: Pools,
        period_seconds: float,
        after: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._period_seconds = period_seconds
        self._rewind = Rewind(PLURAL, monotonic=monotonic)
        self._writer = writer
        self._pools = pools
        self._after = after
        self._monotonic = monotonic
        self._news, self._pause = Wake(), Wake()
        self._is_asked = False
        self._again_at = float("inf")
        self._outage = Outage("pools", logger=log, monotonic=monotonic, meanwhile="trying again")
        self.problem = "not listed yet"

    def ask(self) -> None:
        """Ask for a list soon: a pool that we know was answered 404.

        That alone does not say that the pool is gone. An API server that has just started answers the
        same while it does not serve the CRD yet.
        """
        self._is_asked = True
        self._news.set()

    def doubted(self) -> None:
        """Take note that a list has become due, or is due sooner, for what ``absences`` are asked."""
        self._news.set()

    def kind_changed(self) -> None:
        """Take note that the CRD has come or gone: list now, whatever pause there is, and once more soon."""
        self._again_at = self._monotonic() + AGAIN_SECONDS
        self._pause.set()
        self.ask()

    async def run(self) -> None:
        """List until cancelled."""
        backoff = Backoff()
        while True:
            self._is_asked = False  # who has asked until now is served by this list
            try:
                await self._list()
            except ApiError as error:
                explained = _explained(error)
                self.problem = explained.message
                self._outage.failed(explained)
                if await self._pause.wait(seconds=backoff.next(asked=error.retry_after)):
                    backoff.reset()
                continue
            self.problem = ""
            backoff.reset()
            self._pause.clear()
            self._outage.ended()
            self._after()
            await asyncio.sleep(LEAST_SECONDS)
            await self._until_due()

    async def _until_due(self) -> None:
        regular = self._monotonic() + self._period_seconds * _uniform(1, 1 + JITTER)
        while not self._is_asked:
            wanted = self._pools.absences.next_list_at()
            due = min(regular, self._again_at, regular if wanted is None else wanted)
            seconds = due - self._monotonic()
            if seconds <= TIMER_SECONDS:
                break
            await self._news.wait(seconds=seconds)
        if self._monotonic() >= self._again_at - TIMER_SECONDS:
            self._again_at = float("inf")

    async def _list(self) -> None:
        began = self._monotonic()
        seen = self._pools.newest_version  # from before: what comes while we ask is newer by right
        listed = await self._writer.list_pools()
        version = listed.resource_version
        rewound = self._rewind.check(version, seen=seen)
        self._pools.replace(listed.items, resource_version=version, began=began, rewound=rewound)
        self._rewind.done()


def _explained(error: ApiError) -> ApiError:
    if isinstance(error, NotFound):
        return NotFound(NOT_INSTALLED, status=error.status)
    return explained(error)
