"""Lists all pods of the cluster from time to time, and answers the questions of all pools from one list.

What all pools want to know of pods, where one pool that cannot be asked about keeps no other from it.

The PodDisruptionBudgets for a pass over all pods: none where they cannot be listed.

The pod pass: one list of all pods of the cluster answers the questions of all pools.

It runs at start, when a pool asks, and every ten minutes (P2 allows one in that time, which is the default of
the setting). Between two passes there is at least a second, and at least four times as long as the last one
took. So the API server and the loop spend at most a fifth of their time on it, however often pools ask. If
the pools ask the very same again and again (a node whose agents do not get ready), the pauses grow. Without
pools, no pods are listed.

Where a pool asks for workloads, all PodDisruptionBudgets are listed once before the pods. That this fails is
a part of the answers, and fails no pass. They are then asked for again by themselves, once a minute at most,
and when they can be listed there is another pass: until then no node may be upgraded.

A pass that fails gives no surveys, and those of the last successful one remain. Each has the time at which it
was made; the reader decides how old is too old.

Assembles what lists pods: all of them, and those of single nodes.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from winpool.controllers.node_pods import NodeLooks
from winpool.controllers.pools import Pools
from winpool.controllers.services import Clock, Faults, PassResult, Wake
from winpool.features.contract.taints import question_of
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, Gone, TooLarge, explained
from winpool.kube.pod_lists import BudgetLister, ListedPods, PodLister, list_node_pods
from winpool.model.budgets import Budget
from winpool.model.node import Node
from winpool.model.pods import Pod
from winpool.model.pool import Pool
from winpool.model.survey import PoolQuestion, Survey
from winpool.model.surveyor import Surveyor, work_nodes

log = logging.getLogger(__name__)


class Questions:
    """Asks for each pool."""

    def __init__(self) -> None:
        self._faults = Faults("its question about pods", logger=log)

    def of(self, pools: Iterable[Pool], nodes: Sequence[Node], *, now: datetime) -> list[PoolQuestion]:
        """Return the questions of ``pools``, without those that have none."""
        found = (self._question_of(pool, nodes, now=now) for pool in pools)
        return [question for question in found if question is not None]

    def _question_of(self, pool: Pool, nodes: Sequence[Node], *, now: datetime) -> PoolQuestion | None:
        try:
            question = question_of(pool, nodes, now=now)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the looks of all pools
            self._faults.failed(pool.name, error)
            return None
        self._faults.ended(pool.name)
        return question


class SurveyedBudgets:
    """Lists them when asked. ``list_budgets`` lists all of the cluster, and raises ApiErrors."""

    def __init__(
        self, list_budgets: Callable[[], Awaitable[Sequence[Budget]]], *, monotonic: Callable[[], float]
    ) -> None:
        self._list_budgets = list_budgets
        self._outage = Outage(
            "poddisruptionbudgets",
            logger=log,
            monotonic=monotonic,
            meanwhile="no node counts as one whose pods can be evicted, and the operator tries again",
        )
        self.forbidden = ""
        """Which right is missing, as a text for people; empty where none is known to be."""
        self.retry_after: float | None = None
        """For how many seconds the API server asked to be left alone when the last list failed."""

    async def list(self) -> Sequence[Budget] | None:
        """Return all budgets; None, with a line in the log, where they cannot be listed."""
        try:
            found = await self._list_budgets()
        except ApiError as error:
            self._failed(explained(error))
            return None
        except Exception as error:
            # A bug of ours must not end the passes over pods.
            log.debug("the list of PodDisruptionBudgets failed", exc_info=True)
            said = f"list poddisruptionbudgets: {type(error).__name__} in the operator: {error}"
            self._failed(ApiError(said))
            return None
        self.forbidden = ""
        self._outage.ended()
        return found

    def _failed(self, error: ApiError) -> None:
        self.retry_after = error.retry_after
        self._outage.failed(error)
        if isinstance(error, Forbidden):
            self.forbidden = error.message
        elif isinstance(error, Gone | TooLarge):
            # Budgets were listed, if not all of them. No other error says anything about rights.
            self.forbidden = ""


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

_uniform: Final = random.SystemRandom().uniform


class ListPods(Protocol):
    """Calls ``see`` with every pod. Raises ApiErrors; then the pods seen so far mean nothing."""

    def __call__(self, *, see: Callable[[Pod], None], with_work: Collection[str]) -> Awaitable[ListedPods]:
        """List all pods, as of one moment, those of the nodes ``with_work`` with their work."""
        ...


@dataclass(slots=True)
class PodPassStats:
    """Passes by result, their time in total (seconds), and the pods of the last that succeeded.

    ``finished`` is when that one ended, in Unix seconds, 0 before the first.
    """

    passes: Counter[PassResult] = field(default_factory=Counter)
    seconds: float = 0.0
    finished: float = 0.0
    pods: int = 0


class PodPass:
    """Surveys all pods until cancelled.

    ``questions`` returns what the pools want to know, at the beginning of a pass; none means no pass.
    ``list_budgets`` lists all PodDisruptionBudgets, and raises ApiErrors.
    ``on_surveyed`` is called when there are new surveys, and when ``problem`` or ``forbidden`` has begun or
    ended: a pool that waits for a survey then knows why there is none. It may call ``ask``.
    """

    def __init__(
        self,
        *,
        list_pods: ListPods,
        list_budgets: Callable[[], Awaitable[Sequence[Budget]]],
        questions: Callable[[], Sequence[PoolQuestion]],
        on_surveyed: Callable[[], None],
        period_seconds: float,
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._list_pods = list_pods
        self._budgets = SurveyedBudgets(list_budgets, monotonic=monotonic)
        first, cap = BUDGETS_AGAIN_SECONDS
        self._budgets_backoff = Backoff(first=first, cap=cap)
        self._lacks_budgets = False
        """Whether a pool asks for workloads, and the last pass had no budgets."""
        self._questions = questions
        self._on_surveyed = on_surveyed
        self._period_seconds = period_seconds
        self._now = now
        self._monotonic = monotonic
        self._surveys: Mapping[str, Survey] = {}
        self._asked: Sequence[tuple[object, ...]] = ()
        self._repeats = 0
        self._is_asked = False
        self._outage = Outage("pods", logger=log, monotonic=monotonic, meanwhile="the operator tries again")
        self._is_failing = False
        self._wake = Wake()
        self._wake.set()
        self.stats = PodPassStats()
        self.problem = ""
        """Why the last pass gave no surveys, as a text for people; empty where it did."""
        self.forbidden = ""
        """Which right to list pods is missing, as a text for people; empty where none is known to be."""

    def ask(self) -> None:
        """Ask for a pass soon: a question has changed, or a pool waits for an answer.

        During a pass this asks for another one: the one that runs has its questions already.
        """
        self._is_asked = True
        self._wake.set()

    @property
    def budgets_forbidden(self) -> str:
        """Which right to list PodDisruptionBudgets is missing, for people; empty where none is."""
        return self._budgets.forbidden

    def survey_of(self, pool_uid: str) -> Survey | None:
        """Return the last survey for that pool; None where there is none yet."""
        return self._surveys.get(pool_uid)

    async def run(self) -> None:
        """Make passes until cancelled."""
        backoff = Backoff()
        while True:
            await self._until_due()
            questions = tuple(self._questions())
            if not questions:
                self._surveys, self._lacks_budgets = {}, False
                continue
            began = self._monotonic()
            pause = min(self._pause(questions), self._period_seconds)
            try:
                await self._pass(questions)
            except ApiError as error:
                self.stats.passes["error"] += 1
                self._failed(explained(error))
                pause = backoff.next(asked=error.retry_after)
                self._wake.set()
            except Exception as error:
                # A bug of ours must not end the passes.
                self.stats.passes["error"] += 1
                log.debug("the list of all pods failed", exc_info=True)
                self._failed(ApiError(f"list pods: {type(error).__name__} in the operator: {error}"))
                pause = backoff.next()
                self._wake.set()
            else:
                self.stats.passes["success"] += 1
                backoff.reset()
            took = self._monotonic() - began
            self.stats.seconds += took
            await asyncio.sleep(max(pause, SHARE * took))

    async def _until_due(self) -> None:
        """Return when it was asked for, when the period is over, or when budgets can be listed again."""
        end = self._monotonic() + self._period_seconds * _uniform(1, 1 + JITTER)
        while self._lacks_budgets:
            pause = self._budgets_backoff.next(asked=self._budgets.retry_after)
            if self._monotonic() + pause >= end:
                break
            if await self._wake.wait(seconds=pause) or await self._budgets.list() is not None:
                return
        else:
            self._budgets_backoff.reset()
        await self._wake.wait(seconds=end - self._monotonic())

    def _pause(self, questions: tuple[PoolQuestion, ...]) -> float:
        """Return how long to wait after a pass with these questions: longer each time for the same ones."""
        asked = [(each.pool_uid, each.generation, each.nodes, each.joining) for each in questions]
        self._repeats = self._repeats + 1 if self._is_asked and asked == self._asked else 0
        self._asked, self._is_asked = asked, False
        return min(LEAST_SECONDS * 2.0 ** min(self._repeats, 10), LONGEST_SECONDS)

    async def _pass(self, questions: tuple[PoolQuestion, ...]) -> None:
        with_work = work_nodes(questions)
        budgets = await self._budgets.list() if with_work else None
        self._lacks_budgets = bool(with_work) and budgets is None
        surveyor = Surveyor(questions, budgets=budgets)
        started, began = self._now(), self._monotonic()
        listed = await self._list_pods(see=surveyor.see, with_work=with_work)
        finished = self._now()
        self._surveys = surveyor.finish(
            started=started, finished=finished, began=began, unreadable=listed.unreadable_nodes
        )
        self.stats.finished = finished.timestamp()
        self.stats.pods = listed.count
        self._is_failing = False
        self.problem = self.forbidden = ""
        self._outage.ended()
        self._on_surveyed()

    def _failed(self, error: ApiError) -> None:
        self._outage.failed(error)
        before = (self._is_failing, self.forbidden)
        self._is_failing = True
        self.problem = error.message
        if isinstance(error, Forbidden):
            self.forbidden = error.message
        elif isinstance(error, Gone | TooLarge):
            # Pods were listed, if not all of them. No other error says anything about rights.
            self.forbidden = ""
        if before != (True, self.forbidden):
            self._on_surveyed()


@dataclass(frozen=True, slots=True)
class SurveyParts:
    """``pod_pass`` lists all pods, ``node_looks`` those of single nodes."""

    pod_pass: PodPass
    node_looks: NodeLooks


def survey_parts(
    transport: Transport,
    *,
    pools: Pools,
    nodes: Mapping[str, Node],
    questions: Callable[[], Sequence[PoolQuestion]],
    on_surveyed: Callable[[], None],
    on_looked: Callable[[str], None],
    period_seconds: float,
    clock: Clock,
) -> SurveyParts:
    """Make the parts. ``nodes`` are those that are known, by name; the callbacks are those of the parts."""
    pod_pass = PodPass(
        list_pods=PodLister(transport.request).list,
        list_budgets=BudgetLister(transport.request).list,
        questions=questions,
        on_surveyed=on_surveyed,
        period_seconds=period_seconds,
        now=clock.now,
        monotonic=clock.monotonic,
    )
    node_looks = NodeLooks(
        list_pods=lambda name, see: list_node_pods(transport.request, name, see=see),
        pools=pools,
        nodes=nodes,
        on_looked=on_looked,
        ask_for_all=pod_pass.ask,
        now=clock.now,
        monotonic=clock.monotonic,
    )
    return SurveyParts(pod_pass, node_looks)
