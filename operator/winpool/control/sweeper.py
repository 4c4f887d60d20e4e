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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from winpool.cluster.reflector import NodeReflector
    from winpool.control.executor import Executor
    from winpool.control.pools import Pools
    from winpool.snapshot import Node, NodePatch

log = logging.getLogger(__name__)

STRAYS_SECONDS: Final = 600.0
"""How often strays are looked for without an occasion: one list in 10 minutes (P2)."""


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

    def node_gone(self, node: Node) -> None:
        """Take note that a Windows node was deleted, or is none any more: look, if it carried ours."""
        if POOL_LABEL in node.labels:
            self._strays_due = float("-inf")
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
                await asyncio.sleep(max(backoff.next(), error.retry_after or 0))
                self._wake.set()
            else:
                backoff.reset()
                outage.ended()

    async def _sweep(self) -> None:
        if self._strays_due <= self._monotonic():
            strays = await self._list_strays()
            await self._release(map(release_stray, strays))
            self._strays_due = self._monotonic() + STRAYS_SECONDS
        if self._pools.synced and self._nodes.synced:
            pools = self._pools.all()
            await self._release(
                release_orphan(node, pools=pools, is_vanished=self._pools.is_vanished)
                for node in self._nodes.nodes.values()
            )

    async def _release(self, found: Iterable[NodePatch | None]) -> None:
        patches = [patch for patch in found if patch is not None]
        if not patches:
            return
        outcome = await self._executor.run(patches)
        for patch in outcome.written:
            log.info("node %s: took off what a pool had left there", patch.node.name)
        if outcome.error:
            raise outcome.error
        if outcome.failed or outcome.remaining:
            raise Conflict(f"{len(outcome.failed) + outcome.remaining} nodes changed meanwhile")
