"""Queues pools: wakes those that a change concerns, and runs the passes of each, one at a time.

Passes of one pool never overlap, so applying and releasing cannot either. A failure of the API
server ends a pass, not the loop: the loop repeats the pass after a growing pause. A change does
not shorten the pause. Otherwise an API server that comes back would get all requests at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import nullcontext
from contextvars import Context
from dataclasses import dataclass, field
from typing import Final

from winpool.controllers.observe import is_complete
from winpool.controllers.pool import Reconciler
from winpool.controllers.pools import Pools
from winpool.controllers.services import Services
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.errors import ApiError
from winpool.loops import Wake
from winpool.model.node import Node
from winpool.model.pool import PoolName
from winpool.ownership.leftovers import owner_of
from winpool.ownership.members import Selections

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Dispatcher:
    """Wakes pools, now or in a while. Both may be called for a pool that does not exist."""

    pools: Pools
    selections: Selections
    wake: Callable[[str], None]
    wake_later: Callable[[str], None]
    _known: frozenset[str] = field(default=frozenset(), init=False)
    """The UIDs of the pools at the last change of one."""

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Wake each pool that the node concerns, or did: it has something on it, or selects it.

        A pool that only selects a node which another one has writes nothing there, and reports it later:
        sixty such pools must not hold up the one that has it (P7).
        """
        pools = self.pools.all()
        seen = [node for node in (old, new) if node is not None]
        owners = {owner_of(node) for node in seen}
        selecting = frozenset[str]().union(*(self.selections.of(node, pools) for node in seen))
        holding = [each for each in pools if each.uid in owners or PoolName(each.name) in owners]
        is_held = any(owner_of(seen[-1]) in (each.uid, PoolName(each.name)) for each in holding)
        for pool in holding:
            self.wake(pool.name)
        for pool in pools:
            if pool.uid in selecting and pool not in holding:
                (self.wake_later if is_held else self.wake)(pool.name)
        if old is not None and new is None:
            self.selections.forget(old.name)

    def pool_changed(self, name: str, *, for_rivals: bool) -> None:
        """Wake the pool; and all others where the owner of a node may have changed.

        A new pool is the last in line for each node, and one whose spec is not read takes none: the others
        can only report it, so they are woken later.
        """
        self.wake(name)
        pools, known = self.pools.all(), self._known
        self._known = frozenset([each.uid for each in pools])
        takes_nothing = any(
            each.name == name and (each.uid not in known or each.spec is None) for each in pools
        )
        for pool in pools if for_rivals else ():
            if pool.name != name:
                (self.wake_later if takes_nothing else self.wake)(pool.name)


NOT_YET_SECONDS: Final = 0.2
"""How often a loop checks whether everything has been listed once. Before that, it does not begin."""

LATER_SECONDS: Final = 5.0
"""How long a pool waits at least with a pass that can only report."""

LATER_APART_SECONDS: Final = 0.02
"""Between the pass of a pool that is woken so and the next. Each new pool wakes all others so. One pass at a
time leaves the loop to pools that have something to write, which do not wait for hundreds of these."""

GATHER_SECONDS: Final = 0.05
"""Changes come in bursts (nodes that join, events of our own writes): one pass serves them all. Far
below the second within which a repair is promised."""


@dataclass(slots=True)
class PoolLoops:
    """Starts a loop for each pool that appears, after ``begin``, and ends it when the pool is gone."""

    services: Services
    make_reconciler: Callable[[str], Reconciler]
    _begun: bool = field(default=False, init=False)
    _wakes: dict[str, Wake] = field(default_factory=dict, init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _later: dict[str, float] = field(default_factory=dict, init=False)
    """When the pools are due that are woken later, in the order of that."""
    _late: str = field(default="", init=False)
    """The pool that was woken so and has not had its pass; ``_next_late`` wakes the next one."""
    _next_late: asyncio.TimerHandle | None = field(default=None, init=False)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Between the passes of two pools the event loop serves all else that is ready, such as /healthz: a pass
    decides without a break, and a hundred of them in a row would take seconds (P7)."""
    _line: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    """Pools without nodes wait here for their turn, one after the other. So a pool with nodes, which has
    something to repair, waits for one of them at most, however many there are. A new pool has none yet."""

    def begin(self) -> None:
        """Start the loops of all pools, if this operator has stood by until now."""
        self._begun = True
        self.wake_all()

    def wake(self, name: str) -> None:
        """Ask for a pass of that pool; while this operator stands by, nothing happens."""
        if not self._begun:
            return
        if wake := self._wakes.get(name):
            wake.set()
        elif self.services.pools.get(name):
            self._wakes[name] = wake = Wake()
            wake.set()
            # Kopf's context has the object of its event, which would stay in memory as long as the pool.
            task = asyncio.create_task(self._run(name, wake), name=f"pool {name}", context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def wake_later(self, name: str) -> None:
        """Ask for a pass of that pool after LATER_SECONDS, and after those that were asked for before."""
        self._later.setdefault(name, asyncio.get_running_loop().time() + LATER_SECONDS)
        if self._next_late is None:
            self._wake_late_in(LATER_SECONDS)

    def _wake_late_in(self, seconds: float) -> None:
        if self._next_late is not None:
            self._next_late.cancel()
        self._next_late = asyncio.get_running_loop().call_later(seconds, self._wake_late)

    def _wake_late(self) -> None:
        self._late, self._next_late, now = "", None, asyncio.get_running_loop().time()
        for name, due in [*self._later.items()]:
            if due > now:
                self._wake_late_in(due - now)
                return
            del self._later[name]
            self.wake(name)
            if name in self._wakes:
                self._late = name
                # At the latest: its pass may wait for an API server that is down.
                self._wake_late_in(LATER_SECONDS)
                return

    def wake_all(self) -> None:
        """Ask for a pass of every pool."""
        for pool in self.services.pools.all():
            self.wake(pool.name)

    async def stop(self) -> None:
        """End all loops, wherever they are: a pass may end at any point."""
        self._begun = False  # what is woken later begins no loop
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, name: str, wake: Wake) -> None:
        reconciler, backoff = self.make_reconciler(name), Backoff()
        meanwhile = "the operator repeats the pass after a pause"
        outage = Outage(f"pool {name}", log, time.monotonic, meanwhile)
        seconds: float | None = None
        try:
            while self.services.pools.get(name):
                await wake.wait(seconds=seconds)
                if not is_complete(self.services):
                    seconds = NOT_YET_SECONDS
                    continue
                await asyncio.sleep(GATHER_SECONDS)
                async with nullcontext() if reconciler.has_nodes else self._line, self._turn:
                    await asyncio.sleep(0)
                wake.clear()  # the pass takes its snapshot before it awaits anything, so no change is missed
                seconds = await self._pass(name, reconciler, backoff, outage)
        finally:
            reconciler.close()
            del self._wakes[name]
            self.services.stats.figures.pop(name, None)

    async def _pass(
        self, name: str, reconciler: Reconciler, backoff: Backoff, outage: Outage
    ) -> float | None:
        try:
            try:
                with self.services.stats.timed():
                    seconds = await reconciler.run()
            finally:
                if name == self._late:  # before the pause after a failure
                    self._wake_late_in(LATER_APART_SECONDS)
        except ApiError as error:
            outage.failed(error)
            await asyncio.sleep(backoff.next(asked=error.retry_after))
            return 0
        except Exception:
            # A bug of ours must not end the loop of this pool, nor that of any other.
            log.exception(
                "pool %s: a pass failed; this is a bug of winpool, please report it; the operator repeats "
                "the pass after a pause",
                name,
            )
            await asyncio.sleep(backoff.next())
            return 0
        backoff.reset()
        outage.ended()
        return seconds
