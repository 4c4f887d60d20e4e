"""Wakes pools for what changes in the cluster, and runs the passes of each pool, one at a time.

``Controller`` assembles the caches of the cluster and all loops that act on it, and hands each change to
those that it concerns. It decides nothing.

Passes of one pool never overlap, so applying and releasing cannot either. A failure of the API
server ends a pass, not the loop: the loop repeats the pass after a growing pause. A change does
not shorten the pause. Otherwise an API server that comes back would get all requests at once.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from contextvars import Context
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from winpool.controllers.evictions import eviction_answers, make_evictor
from winpool.controllers.machines import ObservedMachines
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.memory_polls import Connections
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.pod_pass import PodPass, Questions
from winpool.controllers.pool import Reconciler
from winpool.controllers.pools import Absences, Pools, Relister
from winpool.controllers.rollout_facts import RolloutFacts
from winpool.controllers.services import NodesInWork, Observer, Services, is_complete
from winpool.controllers.sweep import Sweeper
from winpool.controllers.writes import ConditionApplier, NodePatcher
from winpool.decide import FEATURES
from winpool.features.feature import Feature
from winpool.features.memory.victims import is_system_namespace, namespaces_of
from winpool.kube.backoff import Backoff, Outage
from winpool.kube.budgets import BudgetCache, BudgetLister, BudgetWatch
from winpool.kube.client import Transport
from winpool.kube.control_plane import ControlPlane, Guard
from winpool.kube.errors import ApiError
from winpool.kube.events import EventRecorder
from winpool.kube.leader_election import Elector
from winpool.kube.listers import AttachmentLister, DaemonSetLister, RuntimeClassLister, WorkloadLister
from winpool.kube.nodes import WINDOWS_NODES, list_labelled, list_strays
from winpool.kube.pods import PodLister
from winpool.kube.pools import PoolKind
from winpool.kube.tokens import review_deletions
from winpool.kube.watch import ListWatch
from winpool.kube.writer import Writer
from winpool.loops import Clock, Wake
from winpool.model.node import Node
from winpool.model.pool import PoolName
from winpool.model.survey import PoolQuestion
from winpool.ownership.leftovers import owner_of
from winpool.ownership.members import Selections
from winpool.settings import Settings
from winpool.support.rows import Row

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


@dataclass(eq=False)
class Controller:
    """The caches and loops of one operator. The owner of the tasks runs ``loops``.

    The loop of a pool starts when the pool appears and this operator leads: no pass comes before ``begin``.
    Without ``connections`` no memory is sampled.
    """

    transport: Transport
    settings: Settings
    _: KW_ONLY
    elector: Elector
    clock: Clock
    cluster_rows: tuple[Row, ...] = ()
    features: Sequence[Feature] = FEATURES
    connections: Connections | None = None

    def __post_init__(self) -> None:
        """Make the caches and the loops."""
        self._begun = asyncio.Event()
        self._questions = Questions()
        self.pool_kind = PoolKind(
            self.transport,
            on_change=self._pool_kind_changed,
            on_fields=self.all_changed,
            monotonic=self.clock.monotonic,
        )
        self.services = services = self._make_services()
        observer = Observer(services)
        self._loops = PoolLoops(services, make_reconciler=lambda name: Reconciler(name, services, observer))
        self._dispatcher = Dispatcher(
            services.pools, observer.selections, wake=self._wake_pool, wake_later=self._loops.wake_later
        )
        self._sweeper = Sweeper(services, observer)

    def _make_services(self) -> Services:
        transport, settings, clock = self.transport, self.settings, self.clock
        writer, pools = Writer(transport), self._make_pools()
        control_plane = ControlPlane(transport, on_change=self.all_changed, now=clock.now)
        nodes = self._make_nodes(control_plane)
        memory = None
        if self.connections is not None:
            memory = MemoryCollector(
                self.connections, wake=self._wake_pool, now=clock.now, monotonic=clock.monotonic
            )
        pods = PodLister(transport.request)
        budgets = BudgetCache(BudgetLister(transport.request).list, monotonic=clock.monotonic)
        pod_pass = self._make_pod_pass(pods, budgets)
        facts = self._make_rollout_facts(budgets, pools)
        answers = eviction_answers(memory, clock=clock)
        known, accept = nodes.objects, nodes.accept_written
        return Services(
            clock=clock,
            writer=writer,
            recorder=self._make_recorder(),
            pools=pools,
            nodes=nodes,
            control_plane=control_plane,
            guard=self._make_guard(nodes),
            relister=self._make_relister(writer, pools),
            wake=self._wake_pool,
            other_operator=lambda: self.elector.other,
            lacking_fields=lambda: self.pool_kind.lacking_fields,
            list_labelled=lambda pool: list_labelled(transport, pool_name=pool),
            list_strays=lambda: list_strays(transport),
            patches=NodePatcher(writer, known, accept, clock),
            conditions=ConditionApplier(writer, known, accept, clock),
            evictions=make_evictor(transport, answers=answers, memory=memory, known=known, clock=clock),
            pod_pass=pod_pass,
            node_pods=NodePodLists(
                list_pods=pods.list_node,
                list_budgets=facts.budgets,
                watched_budgets=facts.watched_budgets,
                pools=pools,
                nodes=known,
                answers=answers,
                on_listed=self._wake_pool,
                ask_for_all=pod_pass.ask,
                clock=clock,
            ),
            memory=memory,
            rollout_facts=facts,
            upgrades=self._make_machines(pools, nodes, control_plane),
            taint_absent_since=TaintAbsentSince(monotonic=clock.monotonic),
            allows_force=settings.allow_force,
            nodes_in_work=NodesInWork(pools, settings.max_nodes_in_work),
            features=self.features,
            cluster_rows=self.cluster_rows,
            operator_node=settings.node_name or "",
        )

    def _make_pools(self) -> Pools:
        absences = Absences(
            grace_seconds=self.settings.orphan_grace_seconds,
            clock=self.clock,
            on_doubt=self._pool_doubted,
        )
        return Pools(on_change=self._pool_changed, absences=absences)

    def _make_nodes(self, control_plane: ControlPlane) -> ListWatch[Node]:
        return ListWatch(
            self.transport,
            WINDOWS_NODES,
            on_change=self._node_changed,
            on_contact=control_plane.ask,
            relist_seconds=self.settings.node_relist_seconds,
        )

    def _make_pod_pass(self, pods: PodLister, budgets: BudgetCache) -> PodPass:
        request, unaudited = self.transport.request, namespaces_of(self.settings.unaudited_namespaces or "")
        return PodPass(
            list_pods=pods.list_all,
            list_budgets=budgets.get,
            list_daemon_sets=DaemonSetLister(request).list,
            list_runtime_classes=RuntimeClassLister(request).list,
            questions=self._ask_of_pods,
            on_surveyed=self.all_changed,
            period_seconds=self.settings.pod_pass_seconds,
            clock=self.clock,
            is_exempt=lambda namespace: namespace in unaudited or is_system_namespace(namespace),
        )

    def _make_rollout_facts(self, budgets: BudgetCache, pools: Pools) -> RolloutFacts:
        transport, monotonic = self.transport, self.clock.monotonic
        return RolloutFacts(
            list_workloads=WorkloadLister(transport.request).list,
            list_attachments=AttachmentLister(transport.request).list,
            list_budgets=budgets.get,
            review_deletions=lambda: review_deletions(transport.request),
            open_watch=lambda changed: BudgetWatch(transport, on_change=changed, monotonic=monotonic),
            pools=pools,
            on_read=self._wake_pool,
            on_budgets=self._budgets_changed,
            clock=self.clock,
        )

    def _make_recorder(self) -> EventRecorder:
        return EventRecorder(
            self.transport,
            reporting_instance=socket.gethostname(),
            now=self.clock.now,
            per_second=self.settings.events_per_second,
        )

    def _make_guard(self, nodes: ListWatch[Node]) -> Guard:
        return Guard(
            self.transport,
            on_change=self._guard_changed,
            others_silent_seconds=lambda: nodes.last_contact_seconds,
            now=self.clock.now,
            monotonic=self.clock.monotonic,
        )

    def _make_relister(self, writer: Writer, pools: Pools) -> Relister:
        return Relister(
            writer=writer,
            pools=pools,
            period_seconds=self.settings.pool_relist_seconds,
            after=self._pools_listed,
            monotonic=self.clock.monotonic,
        )

    def _make_machines(
        self, pools: Pools, nodes: ListWatch[Node], control_plane: ControlPlane
    ) -> ObservedMachines:
        return ObservedMachines(
            pools=pools,
            nodes=nodes.objects,
            control_plane=control_plane,
            on_change=self.all_changed,
            clock=self.clock,
        )

    def all_changed(self) -> None:
        """Ask for a pass of all pools: what all of them report has changed.

        The API server has another version, another operator writes as well, or no longer does; the CRD lacks
        other fields than before; or all pods were listed.
        """
        self._loops.wake_all()

    def begin(self) -> None:
        """Begin passes over all pools: this operator leads from now on."""
        self._begun.set()
        self._loops.begin()

    def loops(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return, by name, the loops to run. Those that act wait for ``begin``."""
        services = self.services
        memory = {} if services.memory is None else {"memory": self._after_begin(services.memory.run)}
        return {
            "nodes": services.nodes.run(),
            "guard": services.guard.run(),
            "kind": self.pool_kind.run(),
            "pools": services.relister.run(),
            "events": services.recorder.run(),
            **memory,
            "pods": self._after_begin(services.pod_pass.run),
            "pods of nodes": self._after_begin(services.node_pods.run),
            "rollouts": self._after_begin(services.rollout_facts.run),
            "version": self._after_begin(services.upgrades.run),
            "sweeper": self._after_begin(self._sweeper.run),
        }

    async def stop(self) -> None:
        """End the loops of all pools, wherever they are."""
        await self._loops.stop()

    async def _after_begin(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._begun.wait()
        await run()

    def _pool_changed(self, name: str, *, for_rivals: bool) -> None:
        """Ask for a pass of the pool; ``for_rivals``: and of all others, since nodes may change owners."""
        services = self.services
        self._dispatcher.pool_changed(name, for_rivals=for_rivals)
        services.upgrades.pool_changed()
        pool = services.pools.get(name)
        if pool is None and services.memory is not None:
            services.memory.forget(name)
        if pool is None or (pool.deleting and for_rivals):
            self._sweeper.sweep_soon()

    def _pool_doubted(self) -> None:
        self.services.relister.doubted()

    def _pool_kind_changed(self) -> None:
        self.services.relister.kind_changed()

    def _pools_listed(self) -> None:
        self._loops.wake_all()
        self._sweeper.sweep_soon()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        """Ask for a pass of each pool that a node concerns, or did. None: it did not exist, or is gone."""
        self.services.taint_absent_since.note(old, new)
        self.services.upgrades.node_changed(old, new)
        self._dispatcher.node_changed(old, new)
        if old is not None and new is None:
            self._sweeper.node_gone(old)

    def _guard_changed(self) -> None:
        self._loops.wake_all()
        self._sweeper.guard_changed()

    def _budgets_changed(self, name: str) -> None:
        self.services.node_pods.budgets_changed(name)

    def _wake_pool(self, name: str) -> None:
        self._loops.wake(name)

    def _ask_of_pods(self) -> list[PoolQuestion]:
        """Return what the pools want to know of all pods; nothing before all nodes are known."""
        services = self.services
        if not is_complete(services):
            return []
        nodes = tuple(services.nodes.objects.values())
        return self._questions.of(services.pools.all(), nodes, now=services.clock.now())
