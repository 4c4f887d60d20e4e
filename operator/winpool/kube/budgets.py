"""Lists all PodDisruptionBudgets of the cluster, and shares one list among all that need it at a time.

One list of all: the namespaces of the pods of a node are up to a hundred, and a cluster has fewer budgets
than Deployments. Nodes of one pool often run short of memory together, and each list of pods by itself would
list all budgets again. So those that ask at the same time wait for the same list, and those that ask soon
after it get it too.

The budgets may so be older than the pods that they are compared with. The API server checks the budget again
when it evicts. A budget that permits less by then costs a refusal (429) and two writes to the node, and one
that permits more costs the time until the next list.

While nodes are drained, a watch keeps them up to date instead: a drain asks for no more evictions than
budgets permit, and continues as soon as one of them permits more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.kube.errors import ApiError
from winpool.kube.lists import Kind, ListPage, NamespaceStore, Pager
from winpool.kube.request import ApiServer, Send
from winpool.kube.watch import ListWatch, Source
from winpool.kube.wire import Base, Bounded, Condition, ObjectMeta, SelectorExpression
from winpool.model.budgets import Budget, BudgetHealth, BudgetIndex, Requirement


class _Selector(Base):
    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorExpression] | None = None


class _Spec(Base):
    selector: _Selector | None = None
    unhealthy_pod_eviction_policy: Bounded | None = None


class _Status(Base):
    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, msgspec.Raw] | None = None
    conditions: list[Condition] | None = None


class _Budget(Base):
    """The part of policy/v1 PodDisruptionBudget that is read."""

    metadata: ObjectMeta
    spec: _Spec | None = None
    status: _Status | None = None


ALWAYS_ALLOW: Final = "AlwaysAllow"
"""The value of ``unhealthyPodEvictionPolicy`` that lets pods go that are not Ready (KEP-3017)."""

SYNC_FAILED: Final = "SyncFailed"
"""The reason of a condition: the disruption controller cannot count the pods of a budget. k8s.io/api:
policy/v1 SyncFailedReason."""

PAGE_BYTES: Final = 8 * 1024 * 1024
"""A budget has 1 to 3 kB."""

LARGEST: Final = 16 * 1024
"""The size of a budget that is kept with its selector. Real ones have less than a kilobyte. The API server
accepts a megabyte, and anyone who may create budgets in a namespace could fill the memory of the operator by
thirty."""

MOST_OF_NAMESPACE: Final = 4 * 1024 * 1024
"""The size of what is kept of one namespace: of five thousand real budgets."""

MOST_OF_ALL: Final = 32 * 1024 * 1024
"""The size of what is kept of one list: of forty thousand real budgets. Beyond it the namespaces with the
most are as those with too many, so that no one can have those of others left out."""

LIST_SECONDS: Final = 15.0
"""For the whole list, with all its pages. The pods of a node are listed before, in at most 10 s, and both
together permit nothing after 30 s (``memory.eviction``)."""


def _budget(found: _Budget) -> Budget:
    metadata, status = found.metadata, found.status or _Status()
    if not metadata.namespace:
        raise ValueError("it has no namespace")
    spec = found.spec or _Spec()
    selector = spec.selector or _Selector()
    is_current = found.status is not None and status.observed_generation >= metadata.generation
    budget = Budget(
        namespace=metadata.namespace,
        name=metadata.name,
        selects=spec.selector is not None,
        labels=selector.match_labels or {},
        requirements=tuple(
            Requirement(each.key, each.operator, frozenset(each.values or ()))
            for each in selector.match_expressions or ()
        ),
        allowed=status.disruptions_allowed if is_current else 0,
        # As the API server does, this goes by the status also where that is older than the spec
        # (``EvictionREST.Create`` in k8s.io/kubernetes, pkg/registry/core/pod/storage).
        lets_unready_go=spec.unhealthy_pod_eviction_policy == ALWAYS_ALLOW
        or status.current_healthy >= status.desired_healthy > 0,
        health=BudgetHealth(
            healthy=status.current_healthy,
            desired=status.desired_healthy,
            expected=status.expected_pods,
            is_current=is_current,
            is_settled=not status.disrupted_pods,
            is_failing=any(each.reason == SYNC_FAILED for each in status.conditions or ()),
        ),
    )
    if budget.size > LARGEST:
        return Budget(metadata.namespace, metadata.name, is_too_large=True)
    return budget


SHARED_SECONDS: Final = 5.0
"""How long after its begin a list is used. Less than between two evictions that begin in a pool
(``memory.feature``), since each of them uses up what a budget permits. Then the list is dropped: each budget
takes half a kilobyte, and MOST_OF_ALL of them are the most that is kept."""

FAILED_SECONDS: Final = 1.0
"""How long after its end a list that failed is not made again: as long as a list of pods waits after its
first failure. One that is made again so asks again, and the first lists of many nodes ask once."""


@dataclass(frozen=True, slots=True)
class WatchedBudget:
    """A budget as a watch keeps it: ``name`` is "namespace/name"."""

    name: str
    uid: str
    resource_version: str = field(compare=False)
    budget: Budget


def _watched(found: _Budget) -> WatchedBudget:
    metadata = found.metadata
    name = f"{metadata.namespace}/{metadata.name}"
    return WatchedBudget(name, metadata.uid, metadata.resource_version, _budget(found))


_BUDGETS: Final = Kind(
    _Budget, _budget, resource="poddisruptionbudgets", kind="PodDisruptionBudget", api_version="policy/v1"
)

BUDGETS: Final = replace(_BUDGETS.listing, page_bytes=PAGE_BYTES)

_WATCHED: Final = Kind(
    _Budget, _watched, resource="poddisruptionbudgets", kind="PodDisruptionBudget", api_version="policy/v1"
)

WATCHED_BUDGETS: Final = Source(
    listing=replace(_WATCHED.listing, page_bytes=PAGE_BYTES), decode_event=_WATCHED.event
)


class BudgetWatch:
    """All budgets of the cluster, kept up to date while ``run`` runs.

    ``on_change`` is called, synchronously, when any of them or ``is_in_step`` has changed. It must not block
    and must not raise. ``is_too_large``: they take more than MOST_OF_ALL, so that the watch is to be ended. A
    list takes less memory, since it keeps little of the namespaces with the most.
    """

    def __init__(
        self, transport: ApiServer, *, on_change: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self._on_change = on_change
        self._size = 0
        self._watch = ListWatch(
            transport, WATCHED_BUDGETS, on_change=self._note, on_state=on_change, monotonic=monotonic
        )
        self.run = self._watch.run

    def _note(self, old: WatchedBudget | None, new: WatchedBudget | None) -> None:
        self._size += (new.budget.size if new else 0) - (old.budget.size if old else 0)
        self._on_change()

    @property
    def is_in_step(self) -> bool:
        """Whether these are the budgets as they are now."""
        return self._watch.synced and self._watch.failing is None

    @property
    def is_too_large(self) -> bool:
        """Whether they take too much memory."""
        return self._size > MOST_OF_ALL

    @property
    def problem(self) -> ApiError | None:
        """Why they are not in step; None where there is no error."""
        return self._watch.last_error

    def all(self) -> tuple[Budget, ...]:
        """Return those that exist."""
        return tuple([each.budget for each in self._watch.objects.values()])


class _Flight(msgspec.Struct):
    """A list that is under way or was made. ``waiting`` is how many wait for it."""

    began: float
    task: asyncio.Task[BudgetIndex]
    ended: float | None = None
    waiting: int = 0

    def is_usable(self, now: float) -> bool:
        """Whether who asks ``now`` gets this one."""
        if self.ended is None:
            return True
        if self.task.cancelled() or self.task.exception() is not None:
            return now - self.ended < FAILED_SECONDS
        return now - self.began < SHARED_SECONDS


class BudgetLister:
    """Lists the budgets of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, BUDGETS)

    async def list(self) -> tuple[Budget, ...]:
        """Return all budgets, as of one moment, within LIST_SECONDS. Raises ApiErrors."""
        kept = NamespaceStore(
            attrgetter("size"), most=MOST_OF_ALL, free=MOST_OF_NAMESPACE, most_of_namespace=MOST_OF_NAMESPACE
        )

        def keep(page: ListPage[Budget]) -> tuple[Budget, ...]:
            for each in page.items:
                kept.keep(each.namespace, each.name, each)
            return ()

        await self._pager.collect_within(LIST_SECONDS, keep)
        left_out = [Budget(*each, is_too_large=True) for each in kept.left_out.items()]
        return (*(each for _, each in kept.items()), *left_out)


class BudgetCache:
    """All budgets of the cluster, listed at most once at a time and as rarely as SHARED_SECONDS permit.

    ``list_all`` lists them, and raises ApiErrors. It has a time limit of its own: no one waits longer than
    that, and no list that is used is older than that.
    """

    def __init__(
        self, list_all: Callable[[], Awaitable[Sequence[Budget]]], *, monotonic: Callable[[], float]
    ) -> None:
        self._list_all = list_all
        self._monotonic = monotonic
        self._flight: _Flight | None = None

    async def get(self) -> BudgetIndex:
        """Return all budgets, as of one moment. Raises ApiErrors.

        All that wait for a list that fails get its error. One that is cancelled ends the list only if no
        other waits for it.
        """
        flight = self._flight
        if flight is None or not flight.is_usable(self._monotonic()):
            flight = self._begin()
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                # One that asks meanwhile begins another.
                self._drop(flight)
                flight.task.cancel()
                await asyncio.wait([flight.task])

    def _begin(self) -> _Flight:
        task = asyncio.create_task(self._indexed(), name="list of PodDisruptionBudgets")
        flight = self._flight = _Flight(self._monotonic(), task)
        task.add_done_callback(lambda _: self._ended(flight))
        return flight

    async def _indexed(self) -> BudgetIndex:
        began = self._monotonic()
        return BudgetIndex(await self._list_all(), began=began)

    def _ended(self, flight: _Flight) -> None:
        flight.ended = now = self._monotonic()
        left = max(flight.began + SHARED_SECONDS, now + FAILED_SECONDS) - now
        asyncio.get_running_loop().call_later(left, self._drop, flight)

    def _drop(self, flight: _Flight) -> None:
        if self._flight is flight:
            self._flight = None
