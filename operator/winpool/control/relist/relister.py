"""The complete list of pools: at start, and every five minutes to drop what the feed never reported.

P2 allows one such list in five minutes, which is the default of the setting. In addition, all pools are
listed when a part of the operator asks for it, when it has to find out whether an unknown owner exists
(``absences``), and when the CRD was created or deleted.
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
"""After the CRD was created or deleted, all pools are listed twice: the API server may still serve them for a
moment after it has reported the deletion."""

_uniform: Final = random.SystemRandom().uniform


class Relister:
    """Lists all pools into the store. ``problem`` says why the last list failed, empty where it did not."""

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
        self._outage = Outage("pools", logger=log, monotonic=monotonic, meanwhile="the operator tries again")
        self.problem = "not listed yet"

    def ask(self) -> None:
        """Ask for a list soon: the answer about a known pool was a 404, or the feed watches no pools.

        A 404 alone does not mean that the pool is gone. An API server that has just started answers the
        same while it does not serve the CRD yet.
        """
        self._is_asked = True
        self._news.set()

    def doubted(self) -> None:
        """Note that a list has become due, or is due sooner, for a question to ``absences``."""
        self._news.set()

    def kind_changed(self) -> None:
        """Note that the CRD was created or deleted: list now, in spite of any pause, and once more soon."""
        self._again_at = self._monotonic() + AGAIN_SECONDS
        self._pause.set()
        self.ask()

    async def run(self) -> None:
        """List until cancelled."""
        backoff = Backoff()
        while True:
            self._is_asked = False  # this list serves all that asked until now
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
        seen = self._pools.newest_version  # from before: what comes during the request may be newer
        listed = await self._writer.list_pools()
        version = listed.resource_version
        rewound = self._rewind.check(version, seen=seen)
        self._pools.replace(listed.items, resource_version=version, began=began, rewound=rewound)
        self._rewind.done()


def _explained(error: ApiError) -> ApiError:
    if isinstance(error, NotFound):
        return NotFound(NOT_INSTALLED, status=error.status)
    return explained(error)
