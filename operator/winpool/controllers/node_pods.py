"""Lists the pods of single nodes as passes ask for it, right before the operator writes what they permit.

There are two purposes. A *survey* of a node answers the question of its pool about pods, before a NoExecute
taint is added or a validation ends. For *evictions* the pods of a node under memory pressure are listed
before one of them is evicted, and while it ends. Each answer wakes the pool, so that no pass waits for one.

Nothing is listed that no pass asks for (P2). At most LISTS_IN_FLIGHT lists are under way, one of a node for
each purpose. A list that fails is made again after longer and longer pauses, and so is a survey whose answer
makes the pass ask again (agents that do not get ready). How often a node was listed is remembered for a while
after no pool asks any more, so that a kubelet that changes what makes its pool ask causes no lists at will.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from winpool.api.keys import NO_EXECUTE
from winpool.controllers.evictions import Answers
from winpool.controllers.pools import Pools
from winpool.features.contract.taints import question_of
from winpool.kube.backoff import Backoff, Outage, doubled
from winpool.kube.errors import ApiError, Forbidden, StreamGarbled, TooLarge, explained
from winpool.kube.pods import PODS_A_TURN, PodPage
from winpool.loops import Clock, Faults, Wake
from winpool.model.budgets import BudgetIndex, BudgetRoom
from winpool.model.node import Node
from winpool.model.node_pods import KnownEvictions, NodePods, PodListRequest
from winpool.model.pods import BlockedBy
from winpool.model.pool import Pool
from winpool.model.survey import PodListProblem, Survey
from winpool.model.surveyor import Surveyor

log = logging.getLogger(__name__)


class TaintAbsentSince:
    """Gets every change of a node, and knows when it last lost a NoExecute taint, or was first seen.

    A list of the pods of a node that began before a taint was gone says nothing of the pods that were bound
    since. There is one moment for each node, not for each taint: other taints that are removed make it later,
    which costs one more list. So a client that writes taints cannot make the operator remember any number of
    them.
    """

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


LISTS_IN_FLIGHT: Final = 8
"""Lists of all pools together: half of the nodes that a pool may want listed (``MOST_NODE_LISTS``). The
answers are kept in memory, and the passes need connections too."""

LEAST_SECONDS: Final = 1.0
"""Between two lists of one node; twice as long each time that one fails, or that a survey is made again."""

LONGEST_SECONDS: Final = 30.0
"""Between two lists of one node: as long as between two lists of all pods."""

MOST_IN_A_MINUTE: Final = 20
"""Lists of one node. An eviction needs one for each sample, of which a node under pressure has six in a
minute, and a few to follow the pod. The rest is for lists that fail. A node whose memory or whose annotation
goes up and down costs no more."""

LASTING_FAILURES: Final = 3
"""In a row, before a survey counts as one that keeps failing. An answer that is too large counts at once."""

EVICTIONS_KEPT_SECONDS: Final = 120.0
"""How long a list is kept that no pass asks for any more. It permits nothing after 30 s
(``memory.eviction``), and shows what has become of an eviction a while longer."""


class _Request(msgspec.Struct, frozen=True, eq=False):
    """``look`` is what a pass asks for an eviction; None for a survey."""

    pool: Pool
    node: Node
    look: PodListRequest | None = None


class ListedNode(msgspec.Struct):
    """A node whose pods are listed for one purpose.

    ``is_wanted``: the last ``request`` is not answered yet. ``due`` is when the next list may be made, in
    monotonic seconds, after ``steps`` that made the pause longer. ``problem`` is why the last one failed, and
    ``failures`` how many did in a row. ``survey`` or ``pods`` is the last answer.
    """

    request: _Request
    is_wanted: bool = False
    is_running: bool = False
    due: float = -inf
    steps: int = 0
    failures: int = 0
    problem: PodListProblem | None = None
    survey: Survey | None = None
    pods: NodePods | None = None
    begun: deque[float] = msgspec.field(default_factory=lambda: deque(maxlen=MOST_IN_A_MINUTE))

    def is_recent(self, now: float, *, seconds: float = LONGEST_SECONDS) -> bool:
        """Whether a pass wants it, or did lately."""
        return self.is_wanted or self.is_running or self.due >= now - seconds

    def want(self, request: _Request, *, now: float) -> None:
        """Take a request. For another generation of the spec a survey is due at once."""
        before, pool = self.request.pool, request.pool
        is_changed = before.uid == pool.uid and before.generation != pool.generation
        if request.look is None and (is_changed or not self.is_recent(now)):
            self.steps, self.failures, self.due, self.problem = 0, 0, -inf, None
        self.request, self.is_wanted = request, True

    def begin(self, now: float) -> _Request:
        """Note that a list is under way; return what it is for."""
        self.is_running = True
        self.begun.append(now)
        return self.request

    def problem_of(self, error: ApiError) -> PodListProblem:
        """Return the problem that a failure is, of which there may have been some before."""
        lasts = isinstance(error, TooLarge) or self.failures + 1 >= LASTING_FAILURES
        return PodListProblem(error.message, lasts=lasts and self.request.look is None)

    def end(self, now: float, request: _Request, *, problem: PodListProblem | None) -> bool:
        """Note that the list for ``request`` is over; return whether that is news.

        A request that was answered is not wanted any more, unless a pass has asked again meanwhile.
        """
        if problem is None:
            self.is_wanted = self.is_wanted and self.request is not request
            self.failures = 0
            self.steps = 0 if request.look is not None else self.steps
        else:
            self.failures += 1
        self.is_running = False
        self.due = now + doubled(LEAST_SECONDS, self.steps + 1, cap=LONGEST_SECONDS)
        if len(self.begun) == MOST_IN_A_MINUTE:
            self.due = max(self.due, self.begun[0] + 60.0)
        if problem is not None or request.look is None:
            self.steps += 1
        is_news = problem is None or problem != self.problem
        self.problem = problem
        return is_news


class ListPods(Protocol):
    """Lists the pods of the node of that name, as ``PodLister.list_node``."""

    def __call__(self, node: str, /, *, for_eviction: bool = False) -> Awaitable[PodPage]:
        """Return them. Raises ApiErrors."""
        ...


@dataclass(kw_only=True, eq=False)
class NodePodLists:
    """Lists the pods of single nodes until cancelled.

    ``pools`` and ``nodes`` (by name) are those that are known. ``list_budgets`` returns all
    PodDisruptionBudgets, and raises ApiErrors; ``watched_budgets`` has those of a watch, None where there is
    none. ``on_listed`` is called with the name of a pool that has a new answer, or a new problem.
    ``ask_for_all`` asks for a list of all pods, which finds and reports which right is missing.
    """

    list_pods: ListPods
    list_budgets: Callable[[], Awaitable[BudgetIndex]]
    watched_budgets: Callable[[], BudgetIndex | None]
    pools: Pools
    nodes: Mapping[str, Node]
    answers: Answers
    on_listed: Callable[[str], None]
    ask_for_all: Callable[[], None]
    clock: Clock
    _surveyed: dict[str, ListedNode] = field(default_factory=dict, init=False)
    _evicting: dict[str, ListedNode] = field(default_factory=dict, init=False)
    """Both by the UIDs of nodes."""
    _backoff: Backoff = field(default_factory=Backoff, init=False)
    _surveys_held_until: float = field(default=-inf, init=False)
    _wake: Wake = field(default_factory=Wake, init=False)
    _have_news: set[str] = field(default_factory=set, init=False)
    """The names of pools that want to know of budgets, which have changed."""
    _news: Wake = field(default_factory=Wake, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing listed."""
        meanwhile = "what they would permit waits, and the operator tries again"
        self._outage = Outage("pods of nodes", log, self.clock.monotonic, meanwhile)
        self._faults = Faults("a list of the pods of a node", logger=log)

    def want_surveys(self, pool: Pool, nodes: Sequence[Node]) -> None:
        """Set these nodes, and no others, as those that ``pool`` wants surveys of."""
        self._want(self._surveyed, pool, [_Request(pool, node) for node in nodes])

    def want_for_evictions(self, pool: Pool, looks: Sequence[PodListRequest]) -> None:
        """Set these lists, and no others, as those that ``pool`` asks for about evictions.

        Memory and a drain may ask for the same node: one list serves both.
        """
        merged: dict[str, PodListRequest] = {}
        for look in looks:
            before = merged.get(look.node.uid)
            merged[look.node.uid] = look if before is None else before.merged(look)
        self._want(self._evicting, pool, [_Request(pool, look.node, look) for look in merged.values()])

    def _want(self, listed: dict[str, ListedNode], pool: Pool, requests: Sequence[_Request]) -> None:
        for each in _of(listed, pool.uid).values():
            each.is_wanted = False
        for request in requests:
            each = listed.setdefault(request.node.uid, ListedNode(request))
            each.want(request, now=self.clock.monotonic())
            self._wake.set()
        self._forget_old()

    def surveys_of(self, pool_uid: str, *, since: Survey | None) -> Mapping[str, Survey]:
        """Return the surveys for that pool by the names of nodes, without those that ``since`` outdates."""
        mine = _of(self._surveyed, pool_uid).values()
        for each in mine:
            node, survey = self.nodes.get(each.request.node.name), each.survey
            if survey and not (node and survey.saw(node) and not _is_outdated(survey, node, by=since)):
                each.survey = None
        return {each.request.node.name: each.survey for each in mine if each.survey}

    def problems(self) -> Mapping[str, PodListProblem]:
        """Return why the last surveys of nodes failed, by their UIDs; only of nodes wanted lately."""
        now = self.clock.monotonic()
        return {
            uid: each.problem for uid, each in self._surveyed.items() if each.problem and each.is_recent(now)
        }

    def evictions_of(self, pool: Pool) -> KnownEvictions:
        """Return what is known of evictions now, for the snapshot of ``pool``."""
        mine = _of(self._evicting, pool.uid)
        left = self.answers.rights.seconds_left()
        return KnownEvictions(
            pods={uid: each.pods for uid, each in mine.items() if each.pods is not None},
            problems={uid: each.problem.message for uid, each in mine.items() if each.problem},
            forbidden=self.answers.rights.sentence(),
            forbidden_until=None if left is None else self.clock.now() + timedelta(seconds=left),
            answers=self.answers.known(),
            protected=self.answers.protected,
            read_at=self.clock.monotonic(),
        )

    def budgets_changed(self, pool_name: str) -> None:
        """Compare the pods that were listed for that pool with the budgets that are watched, and wake it."""
        self._have_news.add(pool_name)
        self._news.set()

    async def run(self) -> None:
        """List what is wanted until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._compare_again(), name="budgets of pods of nodes")
            while True:
                await self._wake.wait(seconds=self._seconds_to_next())
                self._forget_gone()
                for each in self._due():
                    request = each.begin(self.clock.monotonic())
                    group.create_task(self._list(each, request), name=f"pods of {request.node.name}")

    def _all(self) -> list[ListedNode]:
        return [*self._evicting.values(), *self._surveyed.values()]

    def _due(self) -> list[ListedNode]:
        """Return what may be listed now: evictions first, and what has been due for longest."""
        now = self.clock.monotonic()
        due = [each for each in self._all() if self._due_at(each) <= now]
        due.sort(key=lambda each: (each.request.look is None, each.due))
        return due[: LISTS_IN_FLIGHT - self._running]

    def _due_at(self, each: ListedNode) -> float:
        """Return when it is to be listed; infinite where that is not wanted, or under way."""
        if not each.is_wanted or each.is_running:
            return inf
        return each.due if each.request.look else max(each.due, self._surveys_held_until)

    @property
    def _running(self) -> int:
        return sum(each.is_running for each in self._all())

    def _seconds_to_next(self) -> float | None:
        if self._running >= LISTS_IN_FLIGHT:
            return None  # the end of one of them wakes
        soonest = min(map(self._due_at, self._all()), default=inf)
        return None if soonest == inf else max(0.0, soonest - self.clock.monotonic())

    async def _list(self, each: ListedNode, request: _Request) -> None:
        name, has_found, problem = request.pool.name, False, None
        try:
            has_found = await self._answer(each, request)
        except ApiError as error:
            problem = each.problem_of(explained(error))
            self._failed(request, explained(error))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the lists of all pools
            said = f"list pods of node {request.node.name}: {type(error).__name__} in the operator"
            problem = each.problem_of(ApiError(said))
            self._faults.failed(name, error)
        else:
            self._faults.ended(name)
            self._outage.ended()
            self._backoff.reset()
        finally:
            is_news = each.end(self.clock.monotonic(), request, problem=problem)
            self._wake.set()
        if is_news and (has_found or problem is not None):
            self.on_listed(name)

    async def _answer(self, each: ListedNode, request: _Request) -> bool:
        """Keep the answer to ``request``; return whether there is one."""
        if request.look is None:
            survey = await self._survey(request)
            each.survey = survey or each.survey
            return survey is not None
        pods = await self._node_pods(request.look)
        self.answers.seen(request.look, pods)
        each.pods = pods
        return True

    async def _survey(self, request: _Request) -> Survey | None:
        """List the pods of a node; None where it does not belong to the pool any more.

        The question is made from the node as it is now: it may have been written since it was wanted.
        """
        pool, node = request.pool, self.nodes.get(request.node.name)
        if node is None or node.uid != request.node.uid:
            return None
        started, began = self.clock.now(), self.clock.monotonic()
        question = question_of(pool, [node], now=started)
        if question is None or node.name not in question.nodes:
            return None
        surveyor = Surveyor([dataclasses.replace(question, workloads=False)])
        page = await self.list_pods(node.name)
        for pod in page.pods:
            surveyor.see(pod)
        unreadable = (node.name,) if page.unreadable else ()
        surveys = surveyor.finish(
            started=started, finished=self.clock.now(), began=began, unreadable=unreadable
        )
        return surveys[pool.uid]

    async def _node_pods(self, look: PodListRequest) -> NodePods:
        """List the pods, and after them the budgets, which others may have asked for before."""
        started, began = self.clock.now(), self.clock.monotonic()
        rights = self.answers.rights
        with rights.noting("pods"):
            found = NodePods(started, began, (await self.list_pods(look.node.name, for_eviction=True)).pods)
        if look.with_budgets:
            with rights.noting("poddisruptionbudgets"):
                budgets = await self.list_budgets()
            found = await _compared(found, budgets)
        return replace(found, seconds=self.clock.monotonic() - began)

    async def _compare_again(self) -> None:
        """Compare listed pods with the budgets of the watch, each time that these have changed."""
        while True:
            await self._news.wait(seconds=None)
            names, self._have_news = self._have_news, set()
            for each in [*self._evicting.values()]:
                budgets, before = self.watched_budgets(), each.pods
                if budgets is None or before is None or each.request.pool.name not in names:
                    continue
                if before.has_budgets and before.budgets_began < budgets.began:
                    newer = await _compared(before, budgets)
                    each.pods = newer if each.pods is before else each.pods
            for name in names:
                self.on_listed(name)

    def _failed(self, request: _Request, error: ApiError) -> None:
        self._outage.failed(error)
        if request.look is not None:
            return
        if isinstance(error, Forbidden):
            self.ask_for_all()
        now = self.clock.monotonic()
        if now >= self._surveys_held_until and not isinstance(error, TooLarge | StreamGarbled):
            # While no list succeeds there are pauses for all surveys, as the API server asks for them.
            self._surveys_held_until = now + self._backoff.next(asked=error.retry_after)

    def _forget_gone(self) -> None:
        """Make no list for a pool that is gone, or of a node that is gone or is another machine now."""
        pools, nodes = {pool.uid for pool in self.pools.all()}, {each.uid for each in self.nodes.values()}
        for each in self._all():
            if each.request.node.uid not in nodes or each.request.pool.uid not in pools:
                each.is_wanted, each.survey = False, None
        self._forget_old()

    def _forget_old(self) -> None:
        """Forget nodes that no pass has asked for lately, and of which nothing is kept."""
        now = self.clock.monotonic()
        for uid, each in [*self._surveyed.items()]:
            if not each.survey and not each.is_recent(now):
                del self._surveyed[uid]
        for uid, each in [*self._evicting.items()]:
            if not each.is_recent(now, seconds=EVICTIONS_KEPT_SECONDS):
                del self._evicting[uid]


async def _compared(pods: NodePods, budgets: BudgetIndex) -> NodePods:
    """Return the pods with what ``budgets`` say of them."""
    blocked, unread, rooms = set[str](), set[str](), dict[str, tuple[BudgetRoom, ...]]()
    for number, pod in enumerate(pods.pods, start=1):
        if (block := budgets.block_of(pod)) is not None:
            blocked.add(pod.uid)
            if block.why is BlockedBy.UNREADABLE:
                unread.add(pod.uid)
        if of_pod := budgets.rooms_of(pod):
            rooms[pod.uid] = of_pod
        if number % PODS_A_TURN == 0:
            await asyncio.sleep(0)
    return replace(
        pods,
        blocked=frozenset(blocked),
        unread=frozenset(unread),
        budgets=rooms,
        budgets_began=budgets.began,
    )


def _of(listed: Mapping[str, ListedNode], pool_uid: str) -> dict[str, ListedNode]:
    return {uid: each for uid, each in listed.items() if each.request.pool.uid == pool_uid}


def _is_outdated(survey: Survey, node: Node, *, by: Survey | None) -> bool:
    return by is not None and by.began > survey.began and by.saw(node)
