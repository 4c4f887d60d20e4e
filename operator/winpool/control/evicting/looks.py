"""Lists the pods of nodes under memory pressure, as passes ask for it, and what that says of evictions.

Nothing is listed while no eviction is next and none is under way (P2). One list of a node is under way at a
time, and the answer wakes the pool. A list that fails is made again after longer and longer pauses, and no
node is listed more often than ``listed_node`` permits.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.cluster.access import explained
from winpool.cluster.errors import ApiError, Forbidden
from winpool.cluster.outage import Outage
from winpool.control.evicting.listed_node import ListedNode
from winpool.control.faults import Faults
from winpool.control.loops.wake import Wake
from winpool.pods.budgets import with_budgets
from winpool.pods.evicted import KnownEvictions
from winpool.pods.node_pods import NodePods

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from winpool.control.evicting.answers import Answers
    from winpool.objects.pool import Pool
    from winpool.pods.budgets import Budget
    from winpool.pods.node_pods import NodePod, VictimLook

log = logging.getLogger(__name__)

IN_FLIGHT: Final = 16
"""Of all pools together: as many nodes as a pool may list the pods of for other reasons (``OWN_LOOKS``)."""

KEPT_SECONDS: Final = 120.0
"""How long a list is kept that no pass asks for any more. It permits nothing after 30 s
(``memory.evicting``), and shows what has become of an eviction a while longer."""


class VictimLooks:
    """Lists until cancelled.

    ``list_pods`` returns the pods of the node of a name, ``list_budgets`` the PodDisruptionBudgets of some
    namespaces; both raise ApiErrors. ``on_looked`` is called with the name of a pool that has a new list, or
    a new problem. ``protected`` are namespaces that the settings protect.
    """

    def __init__(
        self,
        *,
        list_pods: Callable[[str], Awaitable[tuple[NodePod, ...]]],
        list_budgets: Callable[[AbstractSet[str]], Awaitable[tuple[Budget, ...]]],
        answers: Answers,
        on_looked: Callable[[str], None],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
        protected: frozenset[str] = frozenset(),
    ) -> None:
        self._list_pods = list_pods
        self._list_budgets = list_budgets
        self._answers = answers
        self._on_looked = on_looked
        self._now = now
        self._monotonic = monotonic
        self._protected = protected
        self._wanted: dict[str, tuple[str, dict[str, VictimLook]]] = {}
        """By the UIDs of pools: the name of the pool, and its looks by the UIDs of nodes."""
        self._kept: dict[str, ListedNode] = {}
        self._running = 0
        self._wake = Wake()
        self._outage = Outage(
            "pods of nodes under memory pressure",
            logger=log,
            monotonic=monotonic,
            meanwhile="nothing is evicted there, and the operator tries again",
        )
        self._faults = Faults("a list of the pods of a node under memory pressure", logger=log)

    def want(self, pool: Pool, looks: Sequence[VictimLook]) -> None:
        """Set these lists, and no others, as those that ``pool`` asks for."""
        self._wanted.pop(pool.uid, None)
        if looks:
            self._wanted[pool.uid] = (pool.name, {each.node.uid: each for each in looks})
            self._wake.set()
        self._forget_old()

    def forget(self, pool_name: str) -> None:
        """Make no list for the pool of that name, which is gone: no pass would take a failing one back."""
        self._wanted = {uid: each for uid, each in self._wanted.items() if each[0] != pool_name}
        self._forget_old()

    def known(self, pool: Pool) -> KnownEvictions:
        """Return what is known now, for the snapshot of ``pool``."""
        mine = {uid: each for uid, each in self._kept.items() if each.pool_uid == pool.uid}
        left = self._answers.rights.seconds_left()
        return KnownEvictions(
            pods={uid: each.pods for uid, each in mine.items() if each.pods is not None},
            problems={uid: each.problem for uid, each in mine.items() if each.problem},
            forbidden=self._answers.rights.sentence(),
            forbidden_until=None if left is None else self._now() + timedelta(seconds=left),
            answers=self._answers.known(),
            protected=self._protected,
            read_at=self._monotonic(),
        )

    async def run(self) -> None:
        """List what is wanted until cancelled."""
        async with asyncio.TaskGroup() as group:
            while True:
                await self._wake.wait(seconds=self._seconds_to_next())
                for pool_uid, pool_name, look in self._due():
                    kept = self._kept.setdefault(look.node.uid, ListedNode(pool_uid))
                    kept.begin(pool_uid, now=self._monotonic())
                    self._running += 1
                    group.create_task(self._look(pool_name, look, kept), name=f"pods of {look.node.name}")

    async def _look(self, pool_name: str, look: VictimLook, kept: ListedNode) -> None:
        problem = ""
        try:
            pods = await self._listed(look)
            self._answers.seen(look, pods)
        except ApiError as error:
            problem = explained(error).message
            self._failed(kept, explained(error))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the lists of all pools
            problem = f"{type(error).__name__} in the operator"
            kept.failures += 1
            self._faults.failed(pool_name, error)
        else:
            kept.pods, kept.failures = pods, 0
            self._outage.ended()
            self._faults.ended(pool_name)
        finally:
            kept.end(now=self._monotonic())
            self._running -= 1
            self._fulfilled(look)
            self._wake.set()
        is_news = not problem or problem != kept.problem
        kept.problem = problem
        if is_news:
            self._on_looked(pool_name)

    async def _listed(self, look: VictimLook) -> NodePods:
        """List the pods, and after them the budgets, which other looks may have asked for before."""
        started, began = self._now(), self._monotonic()
        with self._noting_rights("pods"):
            pods = await self._list_pods(look.node.name)
        if look.with_budgets:
            with self._noting_rights("poddisruptionbudgets"):
                budgets = await self._list_budgets({each.namespace for each in pods})
            pods = with_budgets(pods, budgets)
        seconds = self._monotonic() - began
        return NodePods(started, began, pods, has_budgets=look.with_budgets, seconds=seconds)

    def _failed(self, kept: ListedNode, error: ApiError) -> None:
        kept.failures += 1
        self._outage.failed(error)

    @contextmanager
    def _noting_rights(self, resource: str) -> Iterator[None]:
        """Note whether ``resource`` may be listed, for each by itself: many lists need no budgets."""
        try:
            yield
        except Forbidden as error:
            self._answers.rights.refused(resource, error)
            raise
        self._answers.rights.granted(resource)

    def _fulfilled(self, look: VictimLook) -> None:
        """Remove a look that was made, unless a pass has asked for another one since; a failed one stays."""
        kept = self._kept[look.node.uid]
        for _, looks in self._wanted.values():
            if looks.get(look.node.uid) is look and not kept.failures:
                del looks[look.node.uid]

    def _due(self) -> list[tuple[str, str, VictimLook]]:
        """Return what may be listed now, at most as many as may be under way."""
        now = self._monotonic()
        due = [each for each in self._all() if self._due_at(each[2]) <= now]
        return due[: IN_FLIGHT - self._running]

    def _seconds_to_next(self) -> float | None:
        if self._running >= IN_FLIGHT:
            return None  # the end of one of them wakes
        soonest = min((self._due_at(look) for _, _, look in self._all()), default=None)
        return None if soonest is None else max(0.0, soonest - self._monotonic())

    def _due_at(self, look: VictimLook) -> float:
        kept = self._kept.get(look.node.uid)
        return float("-inf") if kept is None else kept.due

    def _all(self) -> list[tuple[str, str, VictimLook]]:
        """Return what is wanted and not under way, with UID and name of the pool."""
        return [
            (pool_uid, name, look)
            for pool_uid, (name, looks) in self._wanted.items()
            for uid, look in looks.items()
            if not (uid in self._kept and self._kept[uid].is_running)
        ]

    def _forget_old(self) -> None:
        """Forget nodes that no pass has asked for lately."""
        oldest = self._monotonic() - KEPT_SECONDS
        wanted = {uid for _, looks in self._wanted.values() for uid in looks}
        self._kept = {
            uid: each
            for uid, each in self._kept.items()
            if uid in wanted or each.is_running or each.due >= oldest
        }
