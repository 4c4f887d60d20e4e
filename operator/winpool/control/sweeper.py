"""Takes off what no pool takes off any more: see ``contract/leftovers``.

Looks for strays at start, every ten minutes, and when a node that carried ours went out of sight;
for orphans whenever all pools have been listed, which is when a pool can turn out to be gone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from winpool.api.keys import POOL_LABEL
from winpool.cluster.access import explained
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, Conflict
from winpool.cluster.outage import Outage
from winpool.contract.leftovers import release_orphan, release_stray
from winpool.control.wake import Wake
from winpool.report.tally import enumerate_names

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from winpool.cluster.reflector import NodeReflector
    from winpool.control.executor import Executor
    from winpool.control.pools import Pools
    from winpool.snapshot import Node, NodePatch

log = logging.getLogger(__name__)

STRAYS_SECONDS: Final = 600.0
"""How often strays are looked for without an occasion: one list in 10 minutes (P2)."""

STRAYS_PAUSE_SECONDS: Final = 1.0
"""Least time between two looks for strays: a fleet that is taken down is hundreds of occasions at once."""


class Sweeper:
    """Sweeps until cancelled. ``list_strays`` asks the API server for them."""

    def __init__(
        self,
        *,
        pools: Pools,
        nodes: NodeReflector,
        executor: Executor,
        list_strays: Callable[[], Awaitable[tuple[Node, ...]]],
        monotonic: Callable[[], float],
    ) -> None:
        self._pools = pools
        self._nodes = nodes
        self._executor = executor
        self._list_strays = list_strays
        self._monotonic = monotonic
        self._wake = Wake()
        self._strays_due = float("-inf")
        self._listed_at = float("-inf")

    def node_gone(self, node: Node) -> None:
        """Take note that a Windows node was deleted, or is none any more: look, if it carried ours."""
        if POOL_LABEL in node.labels:
            self._strays_due = min(self._strays_due, self._listed_at + STRAYS_PAUSE_SECONDS)
            self._wake.set()

    def pools_listed(self) -> None:
        """Take note of a complete list of pools."""
        self._wake.set()

    async def run(self) -> None:
        """Sweep until cancelled."""
        backoff = Backoff()
        outage = Outage(
            "leftovers of vanished pools", logger=log, monotonic=self._monotonic, meanwhile="looking again"
        )
        while True:
            await self._wake.wait(seconds=max(0.0, self._strays_due - self._monotonic()))
            try:
                await self._sweep()
            except ApiError as error:
                outage.failed(explained(error))
                await asyncio.sleep(backoff.next(asked=error.retry_after))
                self._wake.set()
            else:
                backoff.reset()
                outage.ended()

    async def _sweep(self) -> None:
        found: list[NodePatch | None] = []
        if self._strays_due <= self._monotonic():
            strays = await self._list_strays()
            self._listed_at = self._monotonic()
            self._strays_due = self._listed_at + STRAYS_SECONDS
            found += map(release_stray, strays)
        if self._pools.synced and self._nodes.synced:
            pools, is_vanished = self._pools.all(), self._pools.is_vanished
            nodes = self._nodes.nodes.values()
            found += (release_orphan(node, pools=pools, is_vanished=is_vanished) for node in nodes)
        await self._release([patch for patch in found if patch is not None])

    async def _release(self, patches: Sequence[NodePatch]) -> None:
        outcome = await self._executor.run(patches)
        for patch in outcome.written:
            log.info("node %s: took off what a pool had left there", patch.node.name)
        if outcome.stopped or outcome.remaining:  # also of strays, and only a list tells of those
            self._strays_due = min(self._strays_due, self._listed_at + STRAYS_PAUSE_SECONDS)
            self._wake.set()
        if outcome.error:
            raise outcome.error
        if outcome.stopped:
            names = enumerate_names(patch.node.name for patch, _ in outcome.stopped)
            raise Conflict(f"not taken off {names}: {outcome.stopped[0][1]}")
