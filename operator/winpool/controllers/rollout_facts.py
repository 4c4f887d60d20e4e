"""Reads what a rollout needs beside nodes and pods, while passes ask for it: nothing is read otherwise (P2).

Controllers and attached volumes are listed, at most one list of each kind at a time, and at most one in some
seconds for all pools together. A list that begins after a pass has asked is the answer, and wakes the pools
that asked. PodDisruptionBudgets are watched while a pool wants that, and a change wakes these pools.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from winpool.controllers.pools import Pools
from winpool.features.upgrade.settle import LIST_SECONDS
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.budgets import BudgetWatch
from winpool.kube.errors import ApiError, Forbidden, explained
from winpool.loops import Clock, Wake
from winpool.model.budgets import BudgetIndex
from winpool.model.pool import Pool
from winpool.model.rollout import Attachments, KnownRollout, Workloads

log = logging.getLogger(__name__)

T = TypeVar("T")
FoundT = TypeVar("FoundT", covariant=True)

ATTACHMENTS_SECONDS: Final = 10.0
"""Between the begins of two lists of VolumeAttachments. A detach takes from seconds to six minutes, and the
node waits for it without its pods."""

REVIEW_SECONDS: Final = 60.0
"""Between two reviews of the right to delete pods: people who have just granted it see that soon."""

KEPT_SECONDS: Final = 120.0
"""How long a list is kept that no pass asks for any more. It permits nothing after a minute
(``upgrade.settle``)."""

NEWS_SECONDS: Final = 1.0
"""Between two indexes of the watched budgets, each of which wakes the pools. A drain evicts a few pods a
second, and each eviction changes a budget."""

SHARE: Final = 10.0
"""Between two such indexes, as a multiple of the time that the last one took: half a millisecond for 100
budgets, and 0.1 s for as many as are kept."""

BEHIND_SECONDS: Final = 0.5
"""How far the watch may be behind: what it shows counts as of so long ago. An event takes milliseconds, and
on a busy API server some hundred. Where it takes longer, an eviction is refused. A replacement takes longer
to be Ready, so that no drain waits for this."""

REFRESH_SECONDS: Final = 60.0
"""After which an index is made again without a change. After very many pods of a namespace it compares them
with its budgets no longer (``MOST_COMPARED``): so many come only where an index lasts."""

LINGER_SECONDS: Final = 60.0
"""How long the watch stays open after no pool wants it: the next node of a rollout is drained soon, and each
watch begins with a list."""

TOO_LARGE_SECONDS: Final = 600.0
"""How long no watch is opened after one that took too much memory. Budgets are listed meanwhile."""


class ListAll(Protocol[FoundT]):
    """Lists all objects of a kind, as ``WorkloadLister.list``."""

    def __call__(self, *, started: datetime, began: float) -> Awaitable[FoundT]:
        """Return them, by a list that begins now. Raises ApiErrors."""
        ...


@dataclass(kw_only=True, eq=False)
class _Wanted:
    """What some pools want. ``on_read`` is called with the name of each that has news of it."""

    pools: Pools
    on_read: Callable[[str], None]
    clock: Clock
    _names: dict[str, str] = field(default_factory=dict, init=False)
    """The names of the pools that want it, by UID."""
    _asked_at: float = field(default=-inf, init=False)
    """When one last did, in monotonic seconds."""
    _wake: Wake = field(default_factory=Wake, init=False)

    def want(self, pool: Pool, *, wants: bool) -> None:
        """Set whether ``pool`` wants it from now on."""
        if wants:
            self._names[pool.uid] = pool.name
            self._asked_at = self.clock.monotonic()
        else:
            self._names.pop(pool.uid, None)
        self._wake.set()

    def _askers(self) -> tuple[str, ...]:
        """Return the names of the pools that exist and want it."""
        known = {each.uid for each in self.pools.all()}
        self._names = {uid: name for uid, name in self._names.items() if uid in known}
        return tuple(self._names.values())


@dataclass(kw_only=True, eq=False)
class OnDemand(_Wanted, Generic[T]):
    """One kind of list. ``seconds`` are from the begin of one to the begin of the next, ``what`` is listed.

    ``answer`` is the last, ``problem`` why there is none newer.
    """

    what: str
    list_all: ListAll[T]
    seconds: float
    answer: T | None = field(default=None, init=False)
    problem: ApiError | None = field(default=None, init=False)
    _due: float = field(default=-inf, init=False)
    _backoff: Backoff = field(default_factory=Backoff, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing listed."""
        meanwhile = "the rollout waits, and the operator tries again"
        self._outage = Outage(self.what, log, self.clock.monotonic, meanwhile)

    async def run(self) -> None:
        """List what is wanted until cancelled."""
        while True:
            await self._wake.wait(seconds=self._seconds_to_next())
            now = self.clock.monotonic()
            if self._askers() and now >= self._due:
                await self._list(now)
            elif not self._askers() and now >= self._asked_at + KEPT_SECONDS:
                self.answer = self.problem = None

    def _seconds_to_next(self) -> float | None:
        if self._askers():
            return max(0.0, self._due - self.clock.monotonic())
        if self.answer is not None or self.problem is not None:
            return max(0.0, self._asked_at + KEPT_SECONDS - self.clock.monotonic())
        return None

    async def _list(self, began: float) -> None:
        asked, self._names = self._names, {}
        problem, pause = None, 0.0
        try:
            self.answer = await self.list_all(started=self.clock.now(), began=began)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the lists
            problem = _as_api_error(error, self.what)
            self._outage.failed(problem)
            self._names = {**asked, **self._names}
            pause = self._backoff.next(asked=problem.retry_after)
        else:
            self._asked_at = self.clock.monotonic()  # those that asked long ago get it, too
            self._outage.ended()
            self._backoff.reset()
        self._due = max(began + self.seconds, self.clock.monotonic() + pause)
        is_news = problem is None or str(problem) != str(self.problem)
        self.problem = problem
        if is_news:
            for name in asked.values():
                self.on_read(name)


def _as_api_error(error: Exception, what: str) -> ApiError:
    """Return why a list failed; for a bug of ours, with the traceback in the log for debugging."""
    if isinstance(error, ApiError):
        return explained(error)
    log.debug("the list of %s failed", what, exc_info=error)
    return ApiError(f"list {what}: {type(error).__name__} in the operator: {error}")


@dataclass(kw_only=True, eq=False)
class WatchedBudgets(_Wanted):
    """All PodDisruptionBudgets, watched while a pool wants that.

    ``open_watch`` makes a watch that calls its argument on changes. ``index`` has the budgets as they are
    now; None while they are not watched, or the watch is not in step. ``problem`` is why it is not.
    """

    open_watch: Callable[[Callable[[], None]], BudgetWatch]
    index: BudgetIndex | None = field(default=None, init=False)
    problem: ApiError | None = field(default=None, init=False)
    _has_news: bool = field(default=False, init=False)
    _indexed_at: float = field(default=-inf, init=False)
    _next_at: float = field(default=-inf, init=False)
    _closed_until: float = field(default=-inf, init=False)

    def newest(self) -> BudgetIndex | None:
        """Return the index: as of now, where nothing has changed since it was made."""
        if self.index is not None and not self._has_news:
            self.index.began = self.clock.monotonic() - BEHIND_SECONDS
        return self.index

    async def run(self) -> None:
        """Watch while it is wanted, until cancelled."""
        while True:
            await self._wake.wait(seconds=None)
            if self._askers() and self.clock.monotonic() >= self._closed_until:
                await self._watch()

    async def _watch(self) -> None:
        watch = self.open_watch(self._note)
        self._indexed_at = self.clock.monotonic()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(watch.run(), name="watch of PodDisruptionBudgets")
            try:
                while self._is_wanted() and not watch.is_too_large:
                    self._take(watch)
                    await self._wake.wait(seconds=self._seconds_to_next())
            finally:
                watching.cancel()
                self.index = self.problem = None
                self._has_news = False
        if watch.is_too_large:
            log.warning("poddisruptionbudgets: too many to be watched; they are listed where they are needed")
            self._closed_until = self.clock.monotonic() + TOO_LARGE_SECONDS

    def _note(self) -> None:
        self._has_news = True
        self._wake.set()

    def _is_wanted(self) -> bool:
        return bool(self._askers()) or self.clock.monotonic() < self._asked_at + LINGER_SECONDS

    def _seconds_to_next(self) -> float:
        next_at = self._next_at if self._has_news else self._indexed_at + REFRESH_SECONDS
        end = inf if self._askers() else self._asked_at + LINGER_SECONDS
        return max(0.0, min(next_at, end) - self.clock.monotonic())

    def _take(self, watch: BudgetWatch) -> None:
        """Make a new index where it is time, and wake the pools where anything has changed."""
        now, is_in_step = self.clock.monotonic(), watch.is_in_step
        if not is_in_step:
            self.index = None  # at once: what it permits may not be permitted any more
        if now < (self._next_at if self._has_news else self._indexed_at + REFRESH_SECONDS):
            return
        problem = watch.problem and explained(watch.problem)
        is_news = self._has_news and (is_in_step or str(problem) != str(self.problem))
        self.problem, self._has_news = problem, False
        if is_in_step:
            self.index = BudgetIndex(watch.all(), began=now - BEHIND_SECONDS)
            took = self.clock.monotonic() - now
            self._next_at = now + max(NEWS_SECONDS, SHARE * took)
        self._indexed_at = now
        if is_news:
            for name in self._askers():
                self.on_read(name)


@dataclass(kw_only=True, eq=False)
class RolloutFacts:
    """What a rollout reads, until cancelled.

    ``list_budgets`` returns all PodDisruptionBudgets by a list, and raises ApiErrors. ``review_deletions``
    raises Forbidden where the operator may not delete pods. ``on_read`` is called with the name of a pool
    that has a new answer, or a new problem, and ``on_budgets`` where that is of the budgets that are watched.
    """

    list_workloads: ListAll[Workloads]
    list_attachments: ListAll[Attachments]
    list_budgets: Callable[[], Awaitable[BudgetIndex]]
    review_deletions: Callable[[], Awaitable[None]]
    open_watch: Callable[[Callable[[], None]], BudgetWatch]
    pools: Pools
    on_read: Callable[[str], None]
    on_budgets: Callable[[str], None]
    clock: Clock

    def __post_init__(self) -> None:
        """Begin with nothing read."""
        self._workloads = self._on_demand("workloads", self.list_workloads, LIST_SECONDS)
        self._attachments = self._on_demand("volumeattachments", self.list_attachments, ATTACHMENTS_SECONDS)
        self._deletions = self._on_demand("the right to delete pods", self._reviewed, REVIEW_SECONDS)
        self._budgets = WatchedBudgets(
            open_watch=self.open_watch, pools=self.pools, on_read=self.on_budgets, clock=self.clock
        )

    def _on_demand(self, what: str, list_all: ListAll[T], seconds: float) -> OnDemand[T]:
        return OnDemand(
            what=what,
            list_all=list_all,
            seconds=seconds,
            pools=self.pools,
            on_read=self.on_read,
            clock=self.clock,
        )

    def want(self, pool: Pool, *, workloads: bool, attachments: bool, budgets: bool) -> None:
        """Set what ``pool`` wants, in each of its passes: a list of each kind that begins from now on.

        ``budgets``: that they are watched, until a pass of it no longer wants that, or it is gone. As long,
        and while it is missing, the right is reviewed that a pool with ``onTimeout: Force`` needs.
        """
        forces = pool.spec is not None and pool.spec.upgrade is not None and pool.spec.upgrade.forces
        self._deletions.want(pool, wants=forces and (budgets or bool(self.deletions_forbidden)))
        self._workloads.want(pool, wants=workloads)
        self._attachments.want(pool, wants=attachments)
        self._budgets.want(pool, wants=budgets)

    def known(self) -> KnownRollout:
        """Return what is known now, the same for all pools."""
        parts = (self._workloads.problem, self._attachments.problem, self._budgets.problem)
        problems = [each for each in parts if each is not None]
        return KnownRollout(
            workloads=self._workloads.answer,
            attachments=self._attachments.answer,
            budgets=self.watched_budgets(),
            problems=_sentences(problems),
            forbidden=_sentences(each for each in problems if isinstance(each, Forbidden)),
        )

    @property
    def deletions_forbidden(self) -> str:
        """Which right is missing to delete pods, for people; empty where none is known to be."""
        problem = self._deletions.problem
        return problem.message if isinstance(problem, Forbidden) else ""

    async def _reviewed(self, *, started: datetime, began: float) -> bool:
        """Review the right, and return that it is there. Raises ApiErrors."""
        del started, began  # of no use in two minutes' time: only what is missing is kept
        await self.review_deletions()
        return True

    def watched_budgets(self) -> BudgetIndex | None:
        """Return all PodDisruptionBudgets as they are watched; None where they are not, or not in step."""
        return self._budgets.newest()

    async def budgets(self) -> BudgetIndex:
        """Return all PodDisruptionBudgets: those of the watch, or by a list. Raises ApiErrors."""
        watched = self.watched_budgets()
        return await self.list_budgets() if watched is None else watched

    async def run(self) -> None:
        """Read what is wanted until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._workloads.run(), name="lists of workloads")
            group.create_task(self._attachments.run(), name="lists of VolumeAttachments")
            group.create_task(self._deletions.run(), name="reviews of the right to delete pods")
            group.create_task(self._budgets.run(), name="budgets that are watched")


def _sentences(problems: Iterable[ApiError]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.message for each in problems))
