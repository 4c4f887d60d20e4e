"""One list of all PodDisruptionBudgets, for all looks of a few seconds.

Nodes of one pool often run short of memory together. Each look by itself would list all budgets of the
cluster again. So looks at the same time wait for the same list, and looks soon after it use it too.

The budgets may so be older than the pods that they are compared with. The API server checks the budget again
when it evicts. A budget that permits less by then costs a refusal (429) and two writes to the node, and one
that permits more costs the time until the next list.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from winpool.pods.budgets import Budget

SHARED_SECONDS: Final = 5.0
"""How long after its begin a list is used. Less than between two evictions that begin in a pool
(``memory.turns``), since each of them uses up what a budget permits. Then the list is dropped: each budget
takes half a kilobyte, and 150,000 of them are the most that is read."""

FAILED_SECONDS: Final = 1.0
"""How long after its end a list that failed is not made again: as long as a look waits after its first
failure. A look that is made again so asks again, and the first looks of many nodes ask once."""

ByNamespace: TypeAlias = "Mapping[str, Sequence[Budget]]"


@dataclass(slots=True)
class _Flight:
    """A list that is under way or was made. ``waiting`` is how many looks wait for it."""

    began: float
    task: asyncio.Task[ByNamespace]
    ended: float | None = None
    waiting: int = 0

    def is_usable(self, now: float) -> bool:
        """Whether a look that asks ``now`` gets this one."""
        if self.ended is None:
            return True
        if self.task.cancelled() or self.task.exception() is not None:
            return now - self.ended < FAILED_SECONDS
        return now - self.began < SHARED_SECONDS


class SharedBudgets:
    """Lists the budgets at most once at a time. ``list_all`` lists all of the cluster, and raises ApiErrors.

    ``list_all`` has a time limit of its own: no look waits longer than that, and no list that is used is
    older than that.
    """

    def __init__(
        self, list_all: Callable[[], Awaitable[Sequence[Budget]]], *, monotonic: Callable[[], float]
    ) -> None:
        self._list_all = list_all
        self._monotonic = monotonic
        self._flight: _Flight | None = None

    async def of(self, namespaces: AbstractSet[str]) -> tuple[Budget, ...]:
        """Return the budgets of these namespaces, all as of one moment.

        All that wait for a list that fails get its error. One that is cancelled ends the list only if no
        other waits for it.
        """
        flight = self._flight
        if flight is None or not flight.is_usable(self._monotonic()):
            flight = self._begin()
        flight.waiting += 1
        try:
            found = await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                await self._give_up(flight)
        return tuple(budget for name in sorted(namespaces) for budget in found.get(name, ()))

    def _begin(self) -> _Flight:
        task = asyncio.create_task(self._by_namespace(), name="list of PodDisruptionBudgets")
        flight = self._flight = _Flight(self._monotonic(), task)
        task.add_done_callback(lambda _: self._ended(flight))
        return flight

    async def _by_namespace(self) -> ByNamespace:
        found: dict[str, list[Budget]] = {}
        for budget in await self._list_all():
            found.setdefault(budget.namespace, []).append(budget)
        return found

    def _ended(self, flight: _Flight) -> None:
        flight.ended = now = self._monotonic()
        left = max(flight.began + SHARED_SECONDS, now + FAILED_SECONDS) - now
        asyncio.get_running_loop().call_later(left, self._drop, flight)

    def _drop(self, flight: _Flight) -> None:
        if self._flight is flight:
            self._flight = None

    async def _give_up(self, flight: _Flight) -> None:
        """End a list that no look waits for any more. One that asks meanwhile begins another."""
        self._drop(flight)
        flight.task.cancel()
        await asyncio.wait([flight.task])
