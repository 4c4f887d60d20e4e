"""Lists all pods of the cluster from time to time, and answers the questions of all pools from one list.

It does so at start, when a pool asks, and every ten minutes (P2 allows one list in that time, which is the
default of the setting). Between two passes there is at least a second, and at least four times as long as the
last one took, so that the API server and the loop spend at most a fifth of their time on it. If the pools ask
the very same again and again (agents that do not get ready), the pauses grow. Without pools there is none.

Where a pool has taints, all DaemonSets are listed once beside the pods, and where a pool asks for workloads,
all PodDisruptionBudgets before them and all RuntimeClasses after them. That this fails is a part of the
answers, and fails no pass. In place of DaemonSets that cannot be listed those of the pass before count, since
they only warn. Budgets are then asked for again by themselves, once a minute at most, and when they can be
listed there is another pass: until then no node may be upgraded. Pods whose RuntimeClass is not known are
judged by what they have.

A pass that fails gives no surveys, and those of the last successful one remain. Each has the time at which it
was made; the reader decides how old is too old.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from winpool.features.contract.taints import question_of
from winpool.features.memory.victims import is_system_namespace
from winpool.kube.backoff import Backoff, Outage, doubled, uniform
from winpool.kube.errors import ApiError, Forbidden, Gone, TooLarge, explained
from winpool.kube.pods import ListedPods
from winpool.loops import Clock, Faults, PassResult, Wake
from winpool.model.budgets import BudgetIndex
from winpool.model.node import Node
from winpool.model.pods import DaemonSet, Pod, RuntimeClasses
from winpool.model.pool import Pool
from winpool.model.survey import PoolQuestion, Survey
from winpool.model.surveyor import Surveyor, work_nodes

log = logging.getLogger(__name__)

FoundT = TypeVar("FoundT")


class Questions:
    """Asks for each pool."""

    def __init__(self) -> None:
        self._faults = Faults("its question about pods", logger=log)

    def of(self, pools: Iterable[Pool], nodes: Sequence[Node], *, now: datetime) -> list[PoolQuestion]:
        """Return the questions of ``pools``, without those that have none."""
        questions: list[PoolQuestion] = []
        for pool in pools:
            try:
                question = question_of(pool, nodes, now=now)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the looks of all pools
                self._faults.failed(pool.name, error)
                continue
            self._faults.ended(pool.name)
            if question is not None:
                questions.append(question)
        return questions


LEAST_SECONDS: Final = 1.0
"""Between two passes, however short they are and however many ask for one."""

SHARE: Final = 4.0
"""Between two passes, as a multiple of the time that the last one took."""

LONGEST_SECONDS: Final = 30.0
"""Between two passes with the very same questions: their answers have to be young enough to act on."""

BUDGETS_AGAIN_SECONDS: Final = (5.0, 60.0)
"""The first and the longest pause before budgets that could not be listed are asked for again. A hiccup keeps
upgrades for seconds, and a right that is missing for a day costs a request a minute."""

JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not list in step."""


class ListPods(Protocol):
    """Calls ``see`` with every pod. Raises ApiErrors; then the pods seen so far mean nothing."""

    def __call__(self, *, see: Callable[[Pod], None], with_work: Collection[str]) -> Awaitable[ListedPods]:
        """List all pods, as of one moment, those of the nodes ``with_work`` with their work."""
        ...


class PodPassStats(msgspec.Struct):
    """Passes by result, their time in total (seconds), and the pods of the last that succeeded.

    ``finished`` is when that one ended, in Unix seconds, 0 before the first.
    """

    passes: Counter[PassResult] = msgspec.field(default_factory=Counter)
    seconds: float = 0.0
    finished: float = 0.0
    pods: int = 0


@dataclass(slots=True)
class ListBeside(Generic[FoundT]):
    """A list that answers need beside that of the pods: ``list_all`` returns it, and raises ApiErrors.

    ``forbidden`` is which right is missing, as a text for people; empty where none is known to be.
    """

    resource: str
    list_all: Callable[[], Awaitable[FoundT]]
    outage: Outage
    forbidden: str = field(default="", init=False)
    retry_after: float | None = field(default=None, init=False)

    async def get(self) -> FoundT | None:
        """Return all; None, with a line in the log, where they cannot be listed."""
        try:
            found = await self.list_all()
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the passes
            failure = _as_api_error(error, self.resource)
            self.retry_after = failure.retry_after
            self.outage.failed(failure)
            self.forbidden = _forbidden_by(failure, before=self.forbidden)
            return None
        self.forbidden = ""
        self.outage.ended()
        return found


@dataclass(kw_only=True, eq=False)
class PodPass:
    """Surveys all pods until cancelled.

    ``questions`` returns what the pools want to know, at the beginning of a pass; none means no pass.
    ``list_budgets`` returns all PodDisruptionBudgets, ``list_runtime_classes`` all RuntimeClasses,
    ``list_daemon_sets`` the DaemonSets that are made for Windows nodes; they raise ApiErrors.
    ``is_exempt`` says of a namespace that nothing is said of its workloads.
    ``on_surveyed`` is called when there are new surveys, and when ``problem`` or ``forbidden`` has begun or
    ended: a pool that waits for a survey then knows why there is none. It may call ``ask``.
    """

    list_pods: ListPods
    list_budgets: Callable[[], Awaitable[BudgetIndex]]
    list_runtime_classes: Callable[[], Awaitable[RuntimeClasses]]
    list_daemon_sets: Callable[[], Awaitable[Sequence[DaemonSet]]]
    questions: Callable[[], Sequence[PoolQuestion]]
    on_surveyed: Callable[[], None]
    period_seconds: float
    clock: Clock
    is_exempt: Callable[[str], bool] = is_system_namespace
    stats: PodPassStats = field(default_factory=PodPassStats, init=False)
    problem: str = field(default="", init=False)
    """Why the last pass gave no surveys, as a text for people; empty where it did."""
    forbidden: str = field(default="", init=False)
    """Which right to list pods is missing, as a text for people; empty where none is known to be."""
    _daemon_sets: Sequence[DaemonSet] = field(default=(), init=False)
    """Those that were last listed; none where no pool has taints."""
    _lacks_budgets: bool = field(default=False, init=False)
    """Whether a pool asks for workloads, and the last pass had no budgets."""
    _surveys: Mapping[str, Survey] = field(default_factory=dict, init=False)
    _asked: Sequence[tuple[object, ...]] = field(default=(), init=False)
    _repeats: int = field(default=0, init=False)
    _is_asked: bool = field(default=False, init=False)
    _wake: Wake = field(default_factory=Wake, init=False)

    def __post_init__(self) -> None:
        """Begin with a pass that is due."""
        first, cap = BUDGETS_AGAIN_SECONDS
        self._budgets_backoff = Backoff(first=first, cap=cap)
        meanwhile = "no node counts as one whose pods can be evicted, and the operator tries again"
        outage = partial(Outage, logger=log, monotonic=self.clock.monotonic)
        self._outage = outage("pods")
        budgets, classes, agents = "poddisruptionbudgets", "runtimeclasses", "daemonsets"
        self.budgets = ListBeside(budgets, self.list_budgets, outage(budgets, meanwhile=meanwhile))
        self.runtime_classes = ListBeside(classes, self.list_runtime_classes, outage(classes))
        self.daemon_sets = ListBeside(agents, self.list_daemon_sets, outage(agents))
        self._wake.set()

    def ask(self) -> None:
        """Ask for a pass soon: a question has changed, or a pool waits for an answer.

        During a pass this asks for another one: the one that runs has its questions already.
        """
        self._is_asked = True
        self._wake.set()

    def survey_of(self, pool_uid: str) -> Survey | None:
        """Return the last survey for that pool; None where there is none yet."""
        return self._surveys.get(pool_uid)

    async def run(self) -> None:
        """Make passes until cancelled."""
        backoff = Backoff()
        while True:
            await self._until_due()
            questions = tuple(self.questions())
            if not questions:
                self._surveys, self._lacks_budgets = {}, False
                continue
            began = self.clock.monotonic()
            pause = min(self._pause(questions), self.period_seconds)
            try:
                await self._pass(questions)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the passes
                failure = _as_api_error(error, "pods")
                self.stats.passes["Error"] += 1
                self._failed(failure)
                pause = backoff.next(asked=failure.retry_after)
                self._wake.set()
            else:
                self.stats.passes["Success"] += 1
                backoff.reset()
            took = self.clock.monotonic() - began
            self.stats.seconds += took
            await asyncio.sleep(max(pause, SHARE * took))

    async def _until_due(self) -> None:
        """Return when it was asked for, when the period is over, or when budgets can be listed again."""
        end = self.clock.monotonic() + self.period_seconds * uniform(1, 1 + JITTER)
        while self._lacks_budgets:
            pause = self._budgets_backoff.next(asked=self.budgets.retry_after)
            if self.clock.monotonic() + pause >= end:
                break
            if await self._wake.wait(seconds=pause) or await self.budgets.get() is not None:
                return
        else:
            self._budgets_backoff.reset()
        await self._wake.wait(seconds=end - self.clock.monotonic())

    async def _list_daemon_sets(self, questions: Iterable[PoolQuestion]) -> None:
        """List the DaemonSets where a pool has taints; those of the last list stay where that fails."""
        if not any(each.taints for each in questions):
            self._daemon_sets, self.daemon_sets.forbidden = (), ""
        elif (found := await self.daemon_sets.get()) is not None:
            self._daemon_sets = found

    def _pause(self, questions: tuple[PoolQuestion, ...]) -> float:
        """Return how long to wait after a pass with these questions: longer each time for the same ones."""
        asked = [(each.pool_uid, each.generation, each.nodes, each.joining) for each in questions]
        self._repeats = self._repeats + 1 if self._is_asked and asked == self._asked else 0
        self._asked, self._is_asked = asked, False
        return doubled(LEAST_SECONDS, self._repeats + 1, cap=LONGEST_SECONDS)

    async def _pass(self, questions: tuple[PoolQuestion, ...]) -> None:
        with_work = work_nodes(questions)
        budgets = await self.budgets.get() if with_work else None
        self._lacks_budgets = bool(with_work) and budgets is None
        surveyor = Surveyor(questions, budgets=budgets, is_exempt=self.is_exempt)
        started, began = self.clock.now(), self.clock.monotonic()
        # Beside the pods, so that lists of single nodes do not come first: people read what taints meet
        # anywhere before the first is written.
        lists_daemon_sets = asyncio.create_task(self._list_daemon_sets(questions))
        try:
            listed = await self.list_pods(see=surveyor.see, with_work=with_work)
            await lists_daemon_sets
        finally:
            lists_daemon_sets.cancel()
        # After the pods: one that was created meanwhile may name a class that was created just before it.
        runtime_classes = await self.runtime_classes.get() if with_work else None
        for _ in surveyor.add_daemon_sets(self._daemon_sets):
            await asyncio.sleep(0)
        finished = self.clock.now()
        self._surveys = surveyor.finish(
            started=started,
            finished=finished,
            began=began,
            runtime_classes=runtime_classes,
            unreadable=listed.unreadable_nodes,
        )
        self.stats.finished = finished.timestamp()
        self.stats.pods = listed.count
        self.problem = self.forbidden = ""
        self._outage.ended()
        self.on_surveyed()

    def _failed(self, error: ApiError) -> None:
        self._outage.failed(error)
        had_problem, forbidden = bool(self.problem), self.forbidden
        self.problem = error.message
        self.forbidden = _forbidden_by(error, before=forbidden)
        if not had_problem or self.forbidden != forbidden:
            self.on_surveyed()


def _as_api_error(error: Exception, resource: str) -> ApiError:
    """Return why a list failed; for a bug of ours, with the traceback in the log for debugging."""
    if isinstance(error, ApiError):
        return explained(error)
    log.debug("the list of all %s failed", resource, exc_info=error)
    return ApiError(f"list {resource}: {type(error).__name__} in the operator: {error}")


def _forbidden_by(error: ApiError, *, before: str) -> str:
    """Return which right is missing after ``error``, if ``before`` was missing until then."""
    if isinstance(error, Forbidden):
        return error.message
    # Objects were listed, if not all of them. No other error says anything about rights.
    return "" if isinstance(error, Gone | TooLarge) else before
