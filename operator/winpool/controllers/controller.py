"""All loops that act on the cluster: the passes of the pools, the lists of pools, the sweeps.

The controller assembles them from the parts that read and write the cluster, which notify it of each change.
It decides nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from winpool.api.crd import FieldPath
from winpool.controllers.evictions import eviction_answers, eviction_lane
from winpool.controllers.executor import Lanes
from winpool.controllers.machines import UpgradeSights
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.memory_polls import Connections
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.observe import Observer
from winpool.controllers.pod_pass import PodPass, Questions
from winpool.controllers.pool import Asking, OtherReports, Reconciler
from winpool.controllers.pools import Pools, Relister
from winpool.controllers.queue import Dispatcher, PoolLoops
from winpool.controllers.services import Clock, ControlStats
from winpool.controllers.status import Announcer
from winpool.controllers.sweep import KeptStrays, Sweeper
from winpool.controllers.writes import ConditionLane, PatchLane
from winpool.decide import ROOMS
from winpool.features.feature import Room
from winpool.kube.budgets import BudgetCache, BudgetLister
from winpool.kube.client import Transport
from winpool.kube.control_plane import ControlPlane
from winpool.kube.events import EventRecorder
from winpool.kube.guard import Guard
from winpool.kube.nodes import list_labelled, list_strays
from winpool.kube.pods import PodLister
from winpool.kube.watch import ListWatch
from winpool.kube.writer import Writer
from winpool.model.node import Node
from winpool.model.survey import PoolQuestion
from winpool.status.events import Announcement
from winpool.support.rows import Row


class Controller:
    """The loops of one operator.

    The owner of the tasks runs ``relister`` and what ``when_leading`` returns; the loop of a pool starts when
    the pool appears and this operator leads.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        pools: Pools,
        nodes: ListWatch[Node],
        control_plane: ControlPlane,
        guard: Guard,
        other_operator: Callable[[], str | None],
        lacking_fields: Callable[[], tuple[FieldPath, ...] | None],
        recorder: EventRecorder,
        create_task: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
        pool_relist_seconds: float,
        pod_pass_seconds: float,
        cluster_rows: tuple[Row, ...],
        clock: Clock,
        rooms: Sequence[Room] = ROOMS,
        connections: Connections | None = None,
    ) -> None:
        """Make the loops; ``create_task`` starts that of a pool, with a name, from any context.

        There is no pass before ``begin``. ``other_operator`` is ``Elector.other``, ``lacking_fields`` is
        ``PoolKind.lacking_fields``. Without ``connections`` no memory is sampled.
        """
        self._begun = asyncio.Event()
        self.stats = ControlStats()
        self._transport = transport
        self._pools = pools
        self._nodes = nodes
        self._recorder = recorder
        self._clock = clock
        self._rooms = rooms
        self._taint_absent_since = TaintAbsentSince(monotonic=clock.monotonic)
        self._asked = Questions()
        self.memory = self._make_collector(connections)
        self.upgrades = UpgradeSights(
            pools=pools,
            nodes=nodes.objects,
            control_plane=control_plane,
            on_change=self.all_changed,
            clock=clock,
        )
        pods = PodLister(transport.request)
        budgets = BudgetCache(BudgetLister(transport.request).list, monotonic=clock.monotonic)
        self.pod_pass = PodPass(
            list_pods=pods.list_all,
            list_budgets=budgets.get,
            questions=self._questions,
            on_surveyed=self.all_changed,
            period_seconds=pod_pass_seconds,
            clock=clock,
        )
        self._answers = eviction_answers(self.memory, clock=clock)
        self.node_pods = NodePodLists(
            list_pods=pods.list_node,
            list_budgets=budgets.get,
            pools=pools,
            nodes=nodes.objects,
            answers=self._answers,
            on_listed=self._wake_pool,
            ask_for_all=self.pod_pass.ask,
            clock=clock,
        )
        self._writer = Writer(transport)
        self._create_task = create_task
        self._lanes = self._make_lanes()
        self._kept_strays = KeptStrays(pools=pools, wake=self._wake_pool)
        self._observer = Observer(
            pools=pools,
            nodes=nodes,
            control_plane=control_plane,
            guard=guard,
            pods=self.pod_pass,
            node_pods=self.node_pods,
            taint_absent_since=self._taint_absent_since,
            written_conditions=self._lanes.conditions.standing,
            strays_of=self._kept_strays.of,
            other_operator=OtherReports(other_operator, pools=pools, monotonic=clock.monotonic).other,
            lacking_fields=lacking_fields,
            memory_of=None if self.memory is None else self.memory.known,
            upgrades_of=self.upgrades.known,
            now=clock.now,
            cluster_rows=cluster_rows,
        )
        self._loops = PoolLoops(
            pools=pools,
            observer=self._observer,
            make_reconciler=self._make_reconciler,
            create_task=create_task,
            stats=self.stats,
            stands_by=True,
        )
        self._dispatcher = Dispatcher(pools=pools, wake=self._loops.wake)
        self.relister = self._make_relister(period_seconds=pool_relist_seconds)
        self.sweeper = self._make_sweeper()

    def pool_changed(self, name: str, *, for_rivals: bool) -> None:
        """Ask for a pass of the pool; ``for_rivals``: and of all others, since nodes may change owners."""
        self._dispatcher.pool_changed(name, for_rivals=for_rivals)
        self.upgrades.pool_changed()
        pool = self._pools.get(name)
        if pool is None and self.memory is not None:
            self.memory.forget(name)
        if pool is None or (pool.deleting and for_rivals):
            self.sweeper.pool_gone()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Ask for a pass of each pool that a node concerns, or did. None: it did not exist, or is gone."""
        self._taint_absent_since.note(old, new)
        self.upgrades.node_changed(old, new)
        self._dispatcher.node_changed(old, new)
        if old is not None and new is None:
            self.sweeper.node_gone(old)

    def control_plane_changed(self) -> None:
        """Ask for a pass of all pools: the version of the API server has changed."""
        self._loops.wake_all()

    def guard_changed(self) -> None:
        """Ask for a pass of all pools: the guard was added, was removed, or has changed."""
        self._loops.wake_all()
        self.sweeper.guard_changed()

    def all_changed(self) -> None:
        """Ask for a pass of all pools: what all of them report has changed.

        Another operator writes as well, or no longer does; the CRD lacks other fields than before; or all
        pods were listed.
        """
        self._loops.wake_all()

    def begin(self) -> None:
        """Begin passes over all pools: this operator leads from now on."""
        self._begun.set()
        self._loops.begin()

    def when_leading(self) -> dict[str, Coroutine[Any, Any, None]]:
        """Return, by name, the further loops to run. They wait for ``begin``."""
        memory = {} if self.memory is None else {"memory": self._after_begin(self.memory.run)}
        return {
            **memory,
            "pods": self._after_begin(self.pod_pass.run),
            "pods of nodes": self._after_begin(self.node_pods.run),
            "version": self._after_begin(self.upgrades.run),
            "sweeper": self._after_begin(self.sweeper.run),
        }

    async def _after_begin(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        await self._begun.wait()
        await run()

    async def stop(self) -> None:
        """End the loops of all pools, wherever they are."""
        await self._loops.stop()

    def _questions(self) -> list[PoolQuestion]:
        """Return what the pools want to know of all pods; nothing before all nodes are known."""
        if not self._observer.complete:
            return []
        nodes, now = tuple(self._nodes.objects.values()), self._clock.now()
        return self._asked.of(self._pools.all(), nodes, now=now)

    def _wake_pool(self, name: str) -> None:
        self._loops.wake(name)

    def _pools_listed(self) -> None:
        self._loops.wake_all()
        self.sweeper.pools_listed()

    def _make_collector(self, connections: Connections | None) -> MemoryCollector | None:
        if connections is None:
            return None
        return MemoryCollector(
            connections, wake=self._wake_pool, now=self._clock.now, monotonic=self._clock.monotonic
        )

    def _make_lanes(self) -> Lanes:
        writer, nodes, clock = self._writer, self._nodes, self._clock
        return Lanes(
            patches=PatchLane(
                writer=writer,
                known=nodes.objects,
                accept_written=nodes.accept_written,
                monotonic=clock.monotonic,
            ),
            conditions=ConditionLane(
                writer=writer, known=nodes.objects, accept_written=nodes.accept_written, clock=clock
            ),
            evictions=eviction_lane(
                self._transport, answers=self._answers, memory=self.memory, known=nodes.objects, clock=clock
            ),
        )

    def _make_relister(self, *, period_seconds: float) -> Relister:
        return Relister(
            writer=self._writer,
            pools=self._pools,
            period_seconds=period_seconds,
            after=self._pools_listed,
            monotonic=self._clock.monotonic,
        )

    def _make_sweeper(self) -> Sweeper:
        return Sweeper(
            pools=self._pools,
            nodes=self._nodes,
            patch_lane=self._lanes.patches,
            list_strays=lambda: list_strays(self._transport),
            kept_strays=self._kept_strays,
            rights_over=self._observer.rights_over,
            announce=self._announce,
            is_complete=lambda: self._observer.complete,
            clock=self._clock,
        )

    def _announce(self, announcement: Announcement) -> None:
        Announcer(self._recorder, pool_name=announcement.name).announce((announcement,))

    def _make_reconciler(self, name: str) -> Reconciler:
        return Reconciler(
            name,
            observer=self._observer,
            pools=self._pools,
            lanes=self._lanes,
            writer=self._writer,
            recorder=self._recorder,
            create_task=self._create_task,
            wake=self._wake_pool,
            relister=self.relister,
            list_labelled=lambda pool: list_labelled(self._transport, pool_name=pool),
            asking=Asking(
                nodes=self._nodes.ask_for_list,
                pods=self.pod_pass.ask,
                node_lists=self.node_pods.want_surveys,
                samples=None if self.memory is None else self.memory.want,
                victims=self.node_pods.want_for_evictions,
            ),
            note_figures=self.stats.note_figures,
            clock=self._clock,
            rooms=self._rooms,
        )
