"""Lists the pods of single nodes right before the operator writes what they permit.

Since when nodes lack the NoExecute taints that they lack, as far as the operator has seen.

A list of the pods of a node that began before a taint was gone says nothing of the pods that were bound
since. There is one moment for each node, not for each taint: other taints that are removed make it later,
which costs one more list. So a client that writes taints cannot make the operator remember any number of
them.

How soon the pods of a single node may be listed again (a look), and how its looks failed.

Both are remembered by the UID of the node for a while after no pool wants it any more. So a kubelet that
flips what makes its node wanted cannot cause lists at will (P2).

Looks at single nodes: their pods are listed right before the operator writes what they permit.

A pass names the nodes that it wants to know of, at most 16 of a pool. They are listed a few at a time, and
each answer wakes the pool, so that no pass waits for one. While nothing is wanted, nothing is listed (P2).

A node that is wanted again and again (its agents do not get ready, its list fails) is listed after longer and
longer pauses (``look_paces``). Where no look succeeds at all, there is a pause for all, as the API server
asks for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf
from typing import Final, Protocol

from winpool.api.fields import NO_EXECUTE
from winpool.controllers.pools import Pools
from winpool.controllers.services import Faults, Wake
from winpool.features.contract.taints import question_of
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.errors import ApiError, Forbidden, StreamGarbled, TooLarge, explained
from winpool.model.evidence import OWN_LOOKS
from winpool.model.node import Node
from winpool.model.pods import Pod
from winpool.model.pool import Pool
from winpool.model.survey import LookProblem, Survey
from winpool.model.surveyor import Surveyor


class BareSince:
    """Gets every change of a node, and knows when it last lost a NoExecute taint, or was first seen."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._moments: dict[str, float] = {}

    def note(self, old: Node | None, new: Node | None) -> None:
        """Note a change. None: the node did not exist before, or is gone."""
        if new is None:
            if old is not None:
                self._moments.pop(old.uid, None)
        elif old is None or _no_execute(old) - _no_execute(new):
            self._moments[new.uid] = self._monotonic()

    def moments(self) -> Mapping[str, float]:
        """Return those moments by the UIDs of the nodes, in monotonic seconds."""
        return dict(self._moments)


def _no_execute(node: Node) -> set[tuple[str, str]]:
    return {(taint.key, taint.value) for taint in node.taints if taint.effect == NO_EXECUTE}


LEAST_SECONDS: Final = 1.0
"""Between two looks at one node; twice as long each time."""

LONGEST_SECONDS: Final = 30.0
"""Between two looks at one node: as long as between two lists of all pods. If no pool wants a look for so
long after it would be due, the pause starts again at the shortest."""

LASTING_FAILURES: Final = 3
"""In a row, before a look counts as one that keeps failing. An answer that is too large counts at once."""


@dataclass(slots=True)
class Pace:
    """The looks at one node. ``intent`` is the pool and the generation that they are made for.

    ``due`` is when the next may be made, in monotonic seconds; it is infinite while one is under way.
    ``problem`` is why the last one failed.
    """

    intent: tuple[str, int]
    times: int = 0
    due: float = -inf
    failures: int = 0
    problem: LookProblem | None = None

    def begin(self) -> None:
        """Note that a look is under way."""
        self.due = inf

    def end(self, now: float) -> None:
        """Note that it is over, with any outcome."""
        self.due = now + min(LEAST_SECONDS * 2.0 ** min(self.times, 10), LONGEST_SECONDS)
        self.times += 1

    def succeeded(self) -> None:
        """Forget how looks failed."""
        self.failures, self.problem = 0, None

    def failed(self, error: ApiError) -> bool:
        """Note why a look failed; return whether that is news."""
        self.failures += 1
        lasts = isinstance(error, TooLarge) or self.failures >= LASTING_FAILURES
        before, self.problem = self.problem, LookProblem(error.message, lasts=lasts)
        return before != self.problem


class Paces:
    """The paces of all nodes that are wanted, or were lately, by their UIDs."""

    def __init__(self) -> None:
        self._paces: dict[str, Pace] = {}

    def of(self, node_uid: str, pool: Pool) -> Pace:
        """Return the pace of a node that ``pool`` wants; another generation of its spec begins again."""
        intent = (pool.uid, pool.generation)
        pace = self._paces.get(node_uid)
        if pace is None or (pace.intent[0] == pool.uid and pace.intent != intent):
            pace = self._paces[node_uid] = Pace(intent)
        return pace

    def problems(self) -> dict[str, LookProblem]:
        """Return why looks failed, by the UIDs of the nodes."""
        return {uid: pace.problem for uid, pace in self._paces.items() if pace.problem}

    def forget_old(self, *, now: float, wanted: Container[str]) -> None:
        """Forget those that no pool wants and whose next look was due long ago."""
        oldest = now - LONGEST_SECONDS
        kept = {uid: pace for uid, pace in self._paces.items() if uid in wanted or pace.due >= oldest}
        self._paces = kept


log = logging.getLogger(__name__)

LOOKS_IN_FLIGHT: Final = 8
"""Half of those that a pool may want: the answers are kept in memory, and the passes need connections too."""


class ListPods(Protocol):
    """Calls ``see`` with every pod of a node; returns whether all could be read. Raises ApiErrors."""

    def __call__(self, name: str, see: Callable[[Pod], None], /) -> Awaitable[bool]:
        """List the pods of the node of that name."""
        ...


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A look that is wanted, and how soon it may be made."""

    pool: Pool
    node: Node
    pace: Pace


class NodeLooks:
    """Lists the pods of single nodes until cancelled.

    ``pools`` and ``nodes`` (by name) are those that are known. ``on_looked`` is called with the name of a
    pool that has a new look, or a new problem. ``ask_for_all`` asks for a list of all pods: that list finds
    and reports which right is missing.
    """

    def __init__(
        self,
        *,
        list_pods: ListPods,
        pools: Pools,
        nodes: Mapping[str, Node],
        on_looked: Callable[[str], None],
        ask_for_all: Callable[[], None],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._list_pods = list_pods
        self._pools = pools
        self._nodes = nodes
        self._on_looked = on_looked
        self._ask_for_all = ask_for_all
        self._now = now
        self._monotonic = monotonic
        # By the UIDs of pools; within one, what is wanted by the UIDs of nodes, what was seen by their names.
        self._wanted: dict[str, dict[str, _Wanted]] = {}
        self._looks: dict[str, dict[str, Survey]] = {}
        self._paces = Paces()
        self._in_flight = asyncio.Semaphore(LOOKS_IN_FLIGHT)
        self._outage = Outage(
            "pods of nodes", logger=log, monotonic=monotonic, meanwhile="the operator tries again"
        )
        self._faults = Faults("a look at the pods of its nodes", logger=log)
        self._wake = Wake()

    def want(self, pool: Pool, nodes: Sequence[Node]) -> None:
        """Set these nodes, and no others, as those that ``pool`` wants to know of."""
        self._wanted.pop(pool.uid, None)
        if not nodes:
            return
        self._wanted[pool.uid] = {
            node.uid: _Wanted(pool, node, self._paces.of(node.uid, pool)) for node in nodes
        }
        self._wake.set()

    def looks_of(self, pool_uid: str, *, since: Survey | None) -> Mapping[str, Survey]:
        """Return the looks for that pool by the names of the nodes, without those that ``since`` outdates."""
        looks = self._looks.get(pool_uid)
        if not looks:
            return {}
        kept = {
            name: look
            for name, look in looks.items()
            if (node := self._nodes.get(name))
            and look.saw(node)
            and not (since and since.began > look.began and since.saw(node))
        }
        self._looks[pool_uid] = kept
        return dict(kept)

    def problems(self) -> Mapping[str, LookProblem]:
        """Return why the last looks at nodes failed, by their UIDs; only of nodes wanted lately."""
        self._forget_old_paces()
        return self._paces.problems()

    async def run(self) -> None:
        """List what is wanted until cancelled."""
        backoff = Backoff()
        while True:
            await self._wake.wait(seconds=self._seconds_to_next())
            self._forget_the_gone()
            batch = self._batch()
            if not batch:
                continue
            self._wake.set()  # there may be more
            errors = [error for error in await self._look_at_all(batch) if error is not None]
            if len(errors) < len(batch):
                backoff.reset()
                self._outage.ended()
            elif not all(isinstance(error, TooLarge | StreamGarbled) for error in errors):
                await asyncio.sleep(backoff.next(asked=max(error.retry_after or 0.0 for error in errors)))

    async def _look_at_all(self, batch: Sequence[_Wanted]) -> list[ApiError | None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._look(each)) for each in batch]
        return [task.result() for task in tasks]

    async def _look(self, wanted: _Wanted) -> ApiError | None:
        wanted.pace.begin()
        try:
            async with self._in_flight:
                look = await self._survey(wanted)
        except ApiError as error:
            self._failed(wanted, explained(error))
            return error
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the looks of all pools
            self._faults.failed(wanted.pool.name, error)
            internal = ApiError(
                f"list pods of node {wanted.node.name}: {type(error).__name__} in the operator"
            )
            if wanted.pace.failed(internal):
                self._on_looked(wanted.pool.name)
            return internal
        finally:
            wanted.pace.end(self._monotonic())
        self._faults.ended(wanted.pool.name)
        wanted.pace.succeeded()
        if look is not None:
            self._looks.setdefault(wanted.pool.uid, {})[wanted.node.name] = look
            self._on_looked(wanted.pool.name)
        return None

    async def _survey(self, wanted: _Wanted) -> Survey | None:
        """List the pods of a node; None where it does not belong to the pool any more.

        The question is made from the node as it is now: it may have been written since it was wanted.
        """
        pool, node = wanted.pool, self._nodes.get(wanted.node.name)
        if node is None or node.uid != wanted.node.uid:
            return None
        started, began = self._now(), self._monotonic()
        question = question_of(pool, [node], now=started)
        if question is None or node.name not in question.nodes:
            return None
        surveyor = Surveyor([replace(question, workloads=False)])
        is_readable = await self._list_pods(node.name, surveyor.see)
        surveys = surveyor.finish(
            started=started,
            finished=self._now(),
            began=began,
            unreadable=() if is_readable else (node.name,),
        )
        return surveys[pool.uid]

    def _failed(self, wanted: _Wanted, error: ApiError) -> None:
        self._outage.failed(error)
        if isinstance(error, Forbidden):
            self._ask_for_all()
        if wanted.pace.failed(error):
            self._on_looked(wanted.pool.name)

    def _batch(self) -> list[_Wanted]:
        """Return those that are due; those due for longest come first."""
        now = self._monotonic()
        due = sorted((each for each in self._all() if each.pace.due <= now), key=lambda each: each.pace.due)
        return due[:OWN_LOOKS]

    def _seconds_to_next(self) -> float | None:
        soonest = min((each.pace.due for each in self._all()), default=None)
        return None if soonest is None else max(0.0, soonest - self._monotonic())

    def _forget_the_gone(self) -> None:
        """Forget pools that are gone, and nodes that are gone or are other machines now."""
        uids = {pool.uid for pool in self._pools.all()}
        self._looks = {uid: looks for uid, looks in self._looks.items() if uid in uids}
        for uid, wanted in tuple(self._wanted.items()):
            known = {each.uid for each in self._nodes.values()} if uid in uids else set()
            kept = {node: each for node, each in wanted.items() if node in known}
            if kept:
                self._wanted[uid] = kept
            else:
                del self._wanted[uid]
        self._forget_old_paces()

    def _forget_old_paces(self) -> None:
        wanted = {uid for nodes in self._wanted.values() for uid in nodes}
        self._paces.forget_old(now=self._monotonic(), wanted=wanted)

    def _all(self) -> Iterator[_Wanted]:
        for wanted in self._wanted.values():
            yield from wanted.values()
