"""Lists pods and PodDisruptionBudgets of nodes under memory pressure, and keeps answers to evictions.

Which right that evictions need is missing, as the API server has refused it.

A right counts as missing until a request that needs it is answered otherwise. Requests come only while a node
is short of memory, so a refusal is forgotten some time after the last one: no one can show that the right was
granted since.

The answers to requests to evict pods, by the UIDs of the pods, for the passes and for the detectors.

They are of this process alone. What has to hold over a crash is on the nodes (``memory.intents``) and in
their pods.

One list of all PodDisruptionBudgets, for all looks of a few seconds.

Nodes of one pool often run short of memory together. Each look by itself would list all budgets of the
cluster again. So looks at the same time wait for the same list, and looks soon after it use it too.

The budgets may so be older than the pods that they are compared with. The API server checks the budget again
when it evicts. A budget that permits less by then costs a refusal (429) and two writes to the node, and one
that permits more costs the time until the next list.

A node whose pods are listed: what the last list said, and when the next one may be made.

Lists the pods of nodes under memory pressure, as passes ask for it, and what that says of evictions.

Nothing is listed while no eviction is next and none is under way (P2). One list of a node is under way at a
time, and the answer wakes the pool. A list that fails is made again after longer and longer pauses, and no
node is listed more often than ``listed_node`` permits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, Protocol, TypeAlias

from winpool.controllers.memory_sources import EvictionResult
from winpool.controllers.services import Faults, Wake
from winpool.kube.backoff import Outage
from winpool.kube.errors import ApiError, Forbidden, explain, explained
from winpool.model.budgets import Budget, with_budgets
from winpool.model.node import Eviction
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePod, NodePods, VictimLook
from winpool.model.pool import Pool

REPORTED_SECONDS: Final = 600.0
"""How long after its last refusal a right is reported as missing. While it is needed it is refused again
within three minutes: a pod without an eviction gets a new intent at the deadline of the last one."""


@dataclass(slots=True)
class _Refused:
    """The first ``sentence`` stays: refusals in two namespaces must not change the report in turn."""

    sentence: str
    at: float


class MissingRights:
    """What was refused, by the resource that was asked for. ``monotonic`` is the clock of the samples."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused: dict[str, _Refused] = {}

    def refused(self, resource: str, error: Forbidden) -> None:
        """Note that a request about ``resource`` is not permitted."""
        known = self._refused.get(resource) if self._is_reported(resource) else None
        sentence = explain(error) if known is None else known.sentence
        self._refused[resource] = _Refused(sentence, self._monotonic())

    def granted(self, resource: str) -> None:
        """Note that a request about ``resource`` was permitted."""
        self._refused.pop(resource, None)

    def sentence(self) -> str:
        """Return what is missing, in words for people; empty where nothing is."""
        found = (each.sentence for resource, each in self._refused.items() if self._is_reported(resource))
        return next(found, "")

    def seconds_left(self) -> float | None:
        """Return after how long time alone changes the sentence; None where nothing is missing."""
        left = (each.at + REPORTED_SECONDS - self._monotonic() for each in self._refused.values())
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _is_reported(self, resource: str) -> bool:
        known = self._refused.get(resource)
        return known is not None and self._monotonic() < known.at + REPORTED_SECONDS


REFUSED_SECONDS: Final = 120.0
"""How long a pod that was refused is not chosen again: each try costs two writes to the node. A budget
permits the next eviction as soon as a replacement is ready, usually within a minute."""

ANSWERS_KEPT_SECONDS: Final = 3600.0
"""How long other answers are kept. Where one is forgotten, a list of the pods shows the same."""

EVICTION: Final = "pods/eviction"
"""The resource that requests to evict create."""

MOST: Final = 4096
"""Answers that are kept, some 300 bytes each. Beyond it, the oldest is forgotten."""


class Detectors(Protocol):
    """The detectors of the nodes, which wait for the memory of an evicted pod to come back."""

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        """Note that a pod is being deleted that was measured to have ``share`` bytes, None if unknown."""
        ...

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod is gone."""
        ...

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod was not evicted."""
        ...


class Answers:
    """The last answer about each pod. ``monotonic`` is the clock of the samples.

    ``rights`` has which right is missing to list what an eviction needs, or to evict.

    ``results`` counts the requests that memory pressure is the reason of. What a list of pods shows later is
    no answer to a request, and is not counted.
    """

    def __init__(
        self, *, detectors: Detectors, results: Counter[EvictionResult], monotonic: Callable[[], float]
    ) -> None:
        self._detectors = detectors
        self._results = results
        self._monotonic = monotonic
        self.rights = MissingRights(monotonic=monotonic)
        # In the order of their times.
        self._answers: OrderedDict[str, Answered] = OrderedDict()

    def known(self) -> Mapping[str, Answered]:
        """Return what is known now."""
        now = self._monotonic()
        old = [uid for uid, each in self._answers.items() if now - each.at > _kept_seconds(each)]
        for uid in old:
            del self._answers[uid]
        return dict(self._answers)

    def asked(self, eviction: Eviction) -> None:
        """Note that a request is sent: from now on it may be carried out."""
        self._note(eviction.node_uid, eviction.uid, Answer.ASKED)

    def accepted(self, eviction: Eviction) -> None:
        """Note that the pod is being deleted."""
        self._count(eviction, "evicted")
        self.rights.granted(EVICTION)
        self._note(eviction.node_uid, eviction.uid, Answer.ACCEPTED)
        if eviction.node_uid:
            self._detectors.eviction_begun(eviction.node_uid, eviction.uid, eviction.share)

    def refused(self, eviction: Eviction, said: str) -> None:
        """Note that the pod is not evicted now, and why."""
        self._count(eviction, "refused")
        self.rights.granted(EVICTION)
        self._note(eviction.node_uid, eviction.uid, Answer.REFUSED, said)
        if eviction.node_uid:
            self._detectors.eviction_refused(eviction.node_uid, eviction.uid)

    def unheard(self, eviction: Eviction) -> None:
        """Note that the request was not carried out, for a reason that is not of the pod."""
        self._count(eviction, "failed")
        self._answers.pop(eviction.uid, None)

    def forbidden(self, error: Forbidden) -> None:
        """Note that the operator may evict no pods."""
        self.rights.refused(EVICTION, error)

    def unsent(self, eviction: Eviction) -> None:
        """Note that the request was not sent after all: it was none."""
        self._answers.pop(eviction.uid, None)

    def unanswered(self, eviction: Eviction) -> None:
        """Note that the request may still be carried out: the pod stays asked for."""
        self._count(eviction, "unanswered")

    def gone(self, eviction: Eviction) -> None:
        """Note that there was no pod of that UID to evict."""
        self._count(eviction, "gone")
        self._note_gone(eviction.node_uid, eviction.uid)

    def seen(self, look: VictimLook, pods: NodePods) -> None:
        """Note what a list says of the pods that are watched: which are gone, and which are being deleted.

        A pod may have been evicted by a request without an answer, or by an earlier process. One that is
        known to be on another node is not gone because this one lacks it: any text can be on a node.
        """
        for uid in look.watched:
            pod, known = pods.of(uid), self._answers.get(uid)
            if pod is None or pod.is_finished:
                if known is None or known.answer is Answer.GONE or known.is_about(look.node.uid):
                    self._note_gone(look.node.uid, uid)
            elif pod.is_terminating and (known is None or known.answer is not Answer.ACCEPTED):
                self._note(look.node.uid, uid, Answer.ACCEPTED)
                self._detectors.eviction_begun(look.node.uid, uid, None)

    def _note_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that there is no pod of that UID on the node. The first time is the one that is kept."""
        known = self._answers.get(pod_uid)
        if known is not None and known.answer is Answer.GONE and known.is_about(node_uid):
            return
        self._note(node_uid, pod_uid, Answer.GONE)
        if node_uid:
            self._detectors.eviction_gone(node_uid, pod_uid)

    def _count(self, eviction: Eviction, result: EvictionResult) -> None:
        if eviction.node_uid:
            self._results[result] += 1

    def _note(self, node_uid: str, uid: str, answer: Answer, said: str = "") -> None:
        self._answers.pop(uid, None)
        self._answers[uid] = Answered(answer, self._monotonic(), said, node_uid)
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)


def _kept_seconds(answered: Answered) -> float:
    return REFUSED_SECONDS if answered.answer is Answer.REFUSED else ANSWERS_KEPT_SECONDS


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


LEAST_SECONDS: Final = 1.0
"""Between two lists of one node, and after the first failure; twice as long after each further one."""

LONGEST_SECONDS: Final = 30.0
"""Between two lists that fail: as often as pods of other nodes are listed again."""

MOST_IN_A_MINUTE: Final = 20
"""Lists of one node. An eviction needs one for each sample, of which a hot node has six in a minute, and a
few to follow the pod. The rest is for lists that fail. A node whose memory or whose annotation goes up and
down costs no more."""

MINUTE_SECONDS: Final = 60.0


@dataclass(slots=True)
class ListedNode:
    """``pods`` is the last list, ``problem`` why the last try failed, in words for people.

    ``failures`` counts the tries that failed since. ``due`` is when the next one may be made.
    """

    pool_uid: str
    pods: NodePods | None = None
    problem: str = ""
    failures: int = 0
    due: float = float("-inf")
    is_running: bool = False
    _begun: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_IN_A_MINUTE))

    def begin(self, pool_uid: str, *, now: float) -> None:
        """Note that a list begins, for the pool of that UID."""
        self.pool_uid, self.is_running = pool_uid, True
        self._begun.append(now)

    def end(self, *, now: float) -> None:
        """Note that it has ended."""
        pause = min(LEAST_SECONDS * 2.0 ** min(max(self.failures - 1, 0), 10), LONGEST_SECONDS)
        self.due, self.is_running = now + pause, False
        if len(self._begun) == MOST_IN_A_MINUTE:
            self.due = max(self.due, self._begun[0] + MINUTE_SECONDS)


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
