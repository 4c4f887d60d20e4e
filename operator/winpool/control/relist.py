"""The complete list of pools: at start, and every five minutes to drop what the feed never reported."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from winpool.api.keys import CRD_NAME
from winpool.cluster.access import explain
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, Forbidden, NotFound
from winpool.control.pools import RELIST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.writer import Writer
    from winpool.control.pools import Pools

log = logging.getLogger(__name__)

JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not list in step."""


class Relister:
    """Lists all pools into the store, for ever. ``problem`` says what keeps it from that, for people."""

    def __init__(self, *, writer: Writer, pools: Pools, after: Callable[[], None]) -> None:
        self._writer = writer
        self._pools = pools
        self._after = after
        self.problem = "the pools have not been listed yet"

    async def run(self) -> None:
        """List until cancelled."""
        backoff = Backoff()
        while True:
            try:
                listed = await self._writer.list_pools()
            except ApiError as error:
                self._say(_explain(error))
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0))
                continue
            backoff.reset()
            self.problem = ""
            self._pools.replace(listed.items, resource_version=listed.resource_version)
            self._after()
            await asyncio.sleep(RELIST_SECONDS * random.uniform(1, 1 + JITTER))  # noqa: S311 - no secret

    def _say(self, problem: str) -> None:
        if problem != self.problem:
            log.warning("pools cannot be listed, trying again: %s", problem)
        self.problem = problem


def _explain(error: ApiError) -> str:
    match error:
        case Forbidden():
            return explain(error)
        case NotFound():
            return f"the CRD {CRD_NAME} is not installed: kubectl apply -k crds"
        case _:
            return error.message
