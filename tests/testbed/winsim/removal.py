"""Deleting Nodes as their owner does, a cloud for example: persistently, and not as the node itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from testbed.winsim.identities import SIMULATOR
from testbed.winsim.mirror import NODES, node_names_on
from testbed.winsim.wire import ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from testbed.winsim.clock import Clock
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

# Deleting runs at several hundred a second; the rest is backoff with an API server that restarts.
_PATIENCE_SECONDS: Final = 10.0
_PATIENCE_SECONDS_PER_NODE: Final = 0.02
_PAUSE_SECONDS: Final = 0.2
# A registration whose kubelet was stopped on the way is answered within this time on any machine that
# answers at all; a Node that lands after it stays until somebody deletes it.
_STRAGGLER_SECONDS: Final = 1.0


class Removal:
    """Deletes Nodes. Leases go with them (owner references), pods are left to the garbage collector."""

    def __init__(self, wire: Wire, *, clock: Clock, troubles: Troubles) -> None:
        self._wire = wire
        self._clock = clock
        self._troubles = troubles

    async def delete(self, names: Iterable[str], *, stragglers: Iterable[str] = ()) -> None:
        """Delete Nodes, and try until the API server has none of them.

        Args:
            names: which.
            stragglers: those among them that were just being registered: deleted a second time, a
                moment later.

        """
        await self._delete_all(names)
        if late := tuple(stragglers):
            await self._clock.sleep(_STRAGGLER_SECONDS)
            await self._delete_all(late)

    async def _delete_all(self, names: Iterable[str]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in names:
                tasks.create_task(self._delete_one(name))

    async def _delete_one(self, name: str) -> None:
        while not await self._gone(name):
            await self._clock.sleep(_PAUSE_SECONDS)

    async def sweep(self, names: frozenset[str]) -> frozenset[str]:
        """Delete these Nodes within a time that grows with their number; return those that are left.

        Looks again until the API server lists none of them, so that a registration still under
        way at the end is found too.
        """
        left = names
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS + _PATIENCE_SECONDS_PER_NODE * len(names)):
                while left := await self._existing(names):
                    async with asyncio.TaskGroup() as tasks:
                        for name in left:
                            tasks.create_task(self._gone(name))
        return left

    async def _existing(self, names: frozenset[str]) -> frozenset[str]:
        """Ask the API server which of these nodes there are, until it answers."""
        while True:
            try:
                return names & await node_names_on(self._wire)
            except UnreachableError:
                pass
            except ApiError as error:
                self._troubles.report("all nodes", "listing nodes", error)
            await self._clock.sleep(_PAUSE_SECONDS)

    async def _gone(self, name: str) -> bool:
        """Try once, and tell whether the Node is gone. A refusal is told and followed by a pause."""
        try:
            await self._wire.request("DELETE", f"{NODES}/{name}", identity=SIMULATOR)
        except UnreachableError:
            await self._clock.sleep(_PAUSE_SECONDS)
            return False
        except ApiError as error:
            if error.code == HTTPStatus.NOT_FOUND:
                return True
            self._troubles.report(name, "deleting the node", error)
            await self._clock.sleep(_PAUSE_SECONDS)
            return False
        return True
