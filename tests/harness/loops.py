"""The loops of one operator on a cluster in memory, in virtual time: for what is about loops, not Kubernetes.

The loops, the passes, the looks at pods and what they go by are the real ones. The cluster keeps objects and
compares resourceVersions, no more: nothing that is about Kubernetes may be tested on it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, cast

from msgspec import structs
from msgspec.structs import replace

from harness.builders import CONTROL_PLANE, GUARD, NOON, Object
from harness.writes import patched
from winpool.api.crd import FieldPath
from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.controllers.controller import Dispatcher, PoolLoops
from winpool.controllers.evictions import Answers, Evictor
from winpool.controllers.machines import ObservedMachines
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.memory_polls import Connections
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.pod_pass import PodPass, Questions
from winpool.controllers.pool import Reconciler
from winpool.controllers.pools import Absences, Pools, Relister
from winpool.controllers.rollout_facts import RolloutFacts
from winpool.controllers.services import NodesInWork, Observer, Services, is_complete
from winpool.controllers.writes import ConditionApplier, NodePatcher
from winpool.decide import FEATURES
from winpool.features.feature import Feature
from winpool.kube.control_plane import ControlPlane, Guard
from winpool.kube.errors import ApiError, Conflict, NoAnswer, NotFound
from winpool.kube.events import EventRecord, EventRecorder
from winpool.kube.lists import ItemT, ListPage
from winpool.kube.pods import ListedPods, PodPage
from winpool.kube.watch import ListWatch, Store
from winpool.kube.writer import Writer
from winpool.loops import Clock
from winpool.model.budgets import Budget, BudgetIndex
from winpool.model.node import ConditionsPatch, Eviction, Node, NodePatch
from winpool.model.pods import DaemonSet, Pod, RuntimeClasses
from winpool.model.pool import Pool
from winpool.model.rollout import NOTHING_READ, KnownRollout
from winpool.model.survey import PoolQuestion

NEVER = 1e9
"""Seconds between the regular lists: what happens here has another cause."""

_TICK = 1e-6


@dataclass
class Trouble:
    """What goes wrong now. ``lag`` is how late watches are, ``deaf`` whether they tell nothing at all.

    ``lost`` are the kinds of writes that are carried out and whose answers do not come; ``labelled`` is the
    answer to the question which nodes carry the label of a pool.
    """

    latency: float = 0.01
    lag: float = 0.02
    deaf: bool = False
    writes: ApiError | None = None
    statuses: ApiError | None = None
    finalizers: ApiError | None = None
    conditions: ApiError | None = None
    labelled: ApiError | None = None
    evictions: ApiError | None = None
    lost: set[str] = field(default_factory=set)
    nodes: dict[str, ApiError] = field(default_factory=dict)
    pods: ApiError | None = None
    budgets: ApiError | None = None
    pods_of: dict[str, ApiError] = field(default_factory=dict)
    pods_seconds: float = 0.5


@dataclass(frozen=True)
class Write:
    """A write that was asked for: when, of what kind, to which object. ``bodies`` are the pools of then."""

    at: float
    kind: str
    name: str
    bodies: Mapping[str, Object] = field(default_factory=dict, compare=False, repr=False)


class MemoryCluster:
    """Nodes, pools and pods as they stand. Each change is told to whoever ``listens``."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.bodies: dict[str, Object] = {}
        self.pods: list[Pod] = []
        self.budgets: list[Budget] = []
        self.trouble = Trouble()
        self.writes: list[Write] = []
        self.changes: list[float] = []
        self.listeners: list[MemoryOperator] = []
        self._loop = asyncio.get_running_loop()
        self._begun = self._loop.time()
        self._told_at: dict[str, float] = {}
        self._version = 1

    @property
    def time(self) -> float:
        """Seconds since the beginning."""
        return self._loop.time() - self._begun

    def now(self) -> datetime:
        """Return what the clock on the wall shows."""
        return NOON + timedelta(seconds=self.time)

    def next_version(self) -> str:
        """Return the resourceVersion of the next write."""
        self._version += 1
        return str(self._version)

    # What others do

    def put_node(self, node: Node) -> None:
        """Create or change a node, as others do."""
        self.changes.append(self.time)
        self._put_node(node)

    def drop_node(self, name: str) -> None:
        """Delete a node, as others do."""
        if node := self.nodes.pop(name, None):
            self.changes.append(self.time)
            gone = replace(node, resource_version=self.next_version())
            self._tell("nodes", lambda operator: operator.store.remove(gone))

    def put_pool(self, body: Object) -> None:
        """Create or change a pool, as others do; its status too."""
        self.changes.append(self.time)
        self._put_pool(body)

    def edit_pool(self, name: str, **changes: Any) -> None:
        """Change the spec of a pool, as others do."""
        body = self.bodies[name]
        generation = body["metadata"]["generation"] + 1
        self.put_pool(
            {
                **body,
                "metadata": {**body["metadata"], "generation": generation},
                "spec": {**body["spec"], **changes},
            }
        )

    def delete_pool(self, name: str) -> None:
        """Delete a pool, as others do: it stays as long as it has a finalizer."""
        body = self.bodies[name]
        metadata = {**body["metadata"], "deletionTimestamp": "2026-11-01T12:00:00Z"}
        metadata["generation"] += 1
        self.put_pool({**body, "metadata": metadata})

    # What the API server does

    async def asked(self, kind: str, name: str) -> None:
        """Take a write of the operator's: it takes its time, and may be refused."""
        self.writes.append(Write(self.time, kind, name, dict(self.bodies)))
        await asyncio.sleep(self.trouble.latency)
        of_kind = {
            "status": self.trouble.statuses,
            "finalizers": self.trouble.finalizers,
            "conditions": self.trouble.conditions,
            "eviction": self.trouble.evictions,
        }
        if error := self.trouble.writes or of_kind.get(kind) or self.trouble.nodes.get(name):
            raise error

    async def carried_out(self, kind: str, name: str) -> None:
        """Answer a write of the operator's that stands by now, or lose the answer."""
        if kind in self.trouble.lost:
            raise NoAnswer(f"patch {kind} {name}: no answer")

    def _put_node(self, node: Node) -> Node:
        written = replace(node, resource_version=self.next_version())
        self.nodes[node.name] = written
        self._tell("nodes", lambda operator: operator.store.put(written))
        return written

    def _put_pool(self, body: Object) -> Object:
        metadata = {**body["metadata"], "resourceVersion": self.next_version()}
        written = {**body, "metadata": metadata}
        name = metadata["name"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            self.bodies.pop(name, None)
            gone = {"name": name, "uid": metadata["uid"], "version": metadata["resourceVersion"]}
            self._tell("pools", lambda operator: operator.pools.forget(**gone))
        else:
            self.bodies[name] = written
            self._tell("pools", lambda operator: operator.pools.accept(written))
        return written

    def _tell(self, kind: str, what: Callable[[MemoryOperator], object]) -> None:
        if self.trouble.deaf:
            return
        # In order, as each watch is.
        at = max(self._loop.time() + self.trouble.lag, self._told_at.get(kind, 0) + _TICK)
        self._told_at[kind] = at
        for operator in self.listeners:
            self._loop.call_at(at, operator.hear, what)

    def held(self, name: str, version: str) -> Object:
        """Return the pool of that name; as the API server, for a write, answers 404 and 409."""
        body = self.bodies.get(name)
        if body is None:
            raise NotFound(f"patch windowsnodepools {name}: 404", status=404)
        if body["metadata"]["resourceVersion"] != version:
            raise Conflict(f"patch windowsnodepools {name}: 409", status=409)
        return body


class MemoryWriter(Writer):
    """Writes to a cluster in memory."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    async def patch_node(self, patch: NodePatch) -> Node:
        cluster, name = self._cluster, patch.node.name
        await cluster.asked("node", name)
        node = cluster.nodes.get(name)
        if node is None or node.uid != patch.node.uid:
            raise NotFound(f"patch nodes {name}: 404", status=404)
        if node.resource_version != patch.node.resource_version:
            raise Conflict(f"patch nodes {name}: 409", status=409)
        written = cluster._put_node(patched(node, patch))
        await cluster.carried_out("node", name)
        return written

    async def apply_node_conditions(self, patch: ConditionsPatch, *, now: datetime) -> Node:
        cluster, name = self._cluster, patch.node.name
        await cluster.asked("conditions", name)
        node = cluster.nodes.get(name)
        if node is None or node.uid != patch.node.uid:
            raise NotFound(f"patch nodes/status {name}: 404", status=404)
        written = cluster._put_node(
            replace(node, conditions=tuple(replace(each, since=now) for each in patch.conditions))
        )
        await cluster.carried_out("conditions", name)
        return written

    async def patch_pool_finalizers(
        self, *, name: str, resource_version: str, finalizers: Sequence[str]
    ) -> dict[str, Any]:
        await self._cluster.asked("finalizers", name)
        body = self._cluster.held(name, resource_version)
        metadata = {**body["metadata"], "finalizers": list(finalizers)}
        written = self._cluster._put_pool({**body, "metadata": metadata})
        await self._cluster.carried_out("finalizers", name)
        return written

    async def apply_pool_status(
        self, *, name: str, resource_version: str, status: Mapping[str, Any]
    ) -> dict[str, Any]:
        await self._cluster.asked("status", name)
        body = self._cluster.held(name, resource_version)
        if body.get("status") != status:
            body = self._cluster._put_pool({**body, "status": status})
        await self._cluster.carried_out("status", name)
        return body

    async def clear_pool_status(self, *, name: str, resource_version: str) -> dict[str, Any]:
        await self._cluster.asked("clear", name)
        body = dict(self._cluster.held(name, resource_version))
        body.pop("status", None)
        return self._cluster._put_pool(body)

    async def evict(self, eviction: Eviction) -> None:
        await self._cluster.asked("eviction", eviction.full_name)

    async def list_pools(
        self,
        items: Callable[[tuple[Object, ...]], Iterable[ItemT]],
        *,
        begin: Callable[[], object] = tuple,
    ) -> ListPage[ItemT]:
        await asyncio.sleep(self._cluster.trouble.latency)
        begin()
        listed = items(tuple(self._cluster.bodies.values()))
        return ListPage(tuple(listed), str(self._cluster._version))


class _Told:
    """What the recorder of events was told."""

    def __init__(self) -> None:
        self.events: list[EventRecord] = []

    def record(self, event: EventRecord, **_: object) -> None:
        self.events.append(event)


class _Seen:
    """What the reflector knows."""

    def __init__(self, nodes: Mapping[str, Node], ask_for_list: Callable[[], None]) -> None:
        self.objects = nodes
        self.synced = True
        self.ask_for_list = ask_for_list


class _NoRollout:
    """Nothing is read for rollouts: the pools of these tests upgrade no node."""

    def want(self, pool: Pool, **wants: bool) -> None:
        """No pool wants anything."""
        assert not any(wants.values()), pool.name

    deletions_forbidden = ""

    def known(self) -> KnownRollout:
        """Return that nothing is known."""
        return NOTHING_READ


class _Version:
    """A control plane that reports one version, and is asked for nothing else."""

    version, unchanged_since = CONTROL_PLANE, NOON - timedelta(hours=1)
    age_seconds, is_first = 0.0, True

    def read_regularly(self, *, is_on: bool) -> None:
        """Take no note."""


async def _no_daemon_sets() -> tuple[DaemonSet, ...]:
    return ()


async def _no_runtime_classes() -> RuntimeClasses:
    return {}


async def _no_strays() -> tuple[Node, ...]:
    return ()


class _InForce:
    """The guard."""

    identity, problem, known, is_unknown = GUARD, "", True, False


class _Counted:
    """A reconciler whose passes are noted."""

    def __init__(self, name: str, reconciler: Reconciler, operator: MemoryOperator) -> None:
        self._name = name
        self._reconciler = reconciler
        self._operator = operator

    @property
    def has_nodes(self) -> bool:
        return self._reconciler.has_nodes

    async def run(self) -> float | None:
        self._operator.passes.append((self._operator.cluster.time, self._name))
        return await self._reconciler.run()

    def close(self) -> None:
        self._reconciler.close()


class MemoryOperator:
    """The loops of an operator. ``passes`` are the times and pools of all passes, ``wakes`` those of news.

    ``lacking_fields`` is what is known of the CRD. With ``connections``, memory is sampled. All pods are
    listed every ``pods_seconds``.
    """

    def __init__(
        self,
        cluster: MemoryCluster,
        *,
        connections: Connections | None = None,
        features: Sequence[Feature] = FEATURES,
        pods_seconds: float = NEVER,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.cluster = cluster
        self.passes: list[tuple[float, str]] = []
        self.wakes: list[tuple[float, str]] = []
        self.lacking_fields: tuple[FieldPath, ...] | None = ()
        self._told = _Told()
        self._clock = Clock(now=cluster.now, monotonic=loop.time)
        self._is_alive = True
        self._loops: PoolLoops | None = None
        self.pools = Pools(
            on_change=self._pool_changed,
            absences=Absences(grace_seconds=0, clock=self._clock, on_doubt=self._doubted),
        )
        self.store: Store[Node] = Store(self._node_changed)
        self._writer = MemoryWriter(cluster)
        answers = Answers(detectors=None, results=Counter(), monotonic=loop.time)
        self._asked = Questions()
        self.pod_pass = PodPass(
            list_pods=self._list_pods,
            list_budgets=self._list_budgets,
            list_runtime_classes=_no_runtime_classes,
            list_daemon_sets=_no_daemon_sets,
            questions=self._questions,
            on_surveyed=self._wake_all,
            period_seconds=pods_seconds,
            clock=self._clock,
        )
        self.node_pods = NodePodLists(
            list_pods=self._list_pods_of,
            list_budgets=self._list_budgets,
            watched_budgets=lambda: None,
            pools=self.pools,
            nodes=self.store.objects,
            answers=answers,
            on_listed=self._wake,
            ask_for_all=self.pod_pass.ask,
            clock=self._clock,
        )
        self.memory = (
            None
            if connections is None
            else MemoryCollector(
                connections, wake=self._wake, now=cluster.now, monotonic=loop.time, jitter=lambda: 0.5
            )
        )
        control_plane = cast(ControlPlane, _Version())
        accept, nodes = self._accept_written, self.store.objects
        self.upgrades = ObservedMachines(
            pools=self.pools,
            nodes=nodes,
            control_plane=control_plane,
            on_change=self._wake_all,
            clock=self._clock,
        )
        self._relister = Relister(
            writer=self._writer,
            pools=self.pools,
            period_seconds=NEVER,
            after=self._wake_all,
            monotonic=loop.time,
        )
        self.services = Services(
            clock=self._clock,
            writer=self._writer,
            recorder=cast(EventRecorder, self._told),
            pools=self.pools,
            nodes=cast("ListWatch[Node]", _Seen(nodes, lambda: self._soon(self.list_nodes))),
            control_plane=control_plane,
            guard=cast(Guard, _InForce()),
            relister=self._relister,
            wake=self._wake,
            other_operator=lambda: "",
            lacking_fields=lambda: self.lacking_fields,
            list_labelled=self._list_labelled,
            list_strays=_no_strays,
            patches=NodePatcher(self._writer, nodes, accept, self._clock),
            conditions=ConditionApplier(self._writer, nodes, accept, self._clock),
            evictions=Evictor(writer=self._writer, monotonic=loop.time, answers=answers),
            pod_pass=self.pod_pass,
            node_pods=self.node_pods,
            memory=self.memory,
            rollout_facts=cast(RolloutFacts, _NoRollout()),
            upgrades=self.upgrades,
            taint_absent_since=TaintAbsentSince(monotonic=loop.time),
            nodes_in_work=NodesInWork(self.pools),
            features=features,
            strays=(),
        )
        self._observer = Observer(self.services)
        self._loops = PoolLoops(
            self.services,
            make_reconciler=lambda name: cast(Reconciler, _Counted(name, self._reconciler(name), self)),
        )
        self._loops.begin()
        self._dispatcher = Dispatcher(
            self.pools, self._observer.selections, wake=self._wake, wake_later=self._loops.wake_later
        )
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def events(self) -> list[tuple[str, str]]:
        """Reason and object of each event, in order."""
        return [(event.reason, event.name) for event in self.told]

    @property
    def told(self) -> list[EventRecord]:
        """All events, in order."""
        return self._told.events

    def start(self) -> None:
        """List everything, begin to watch and to act."""
        self.list_nodes()
        self.cluster.listeners.append(self)
        sampling = [] if self.memory is None else [self.memory.run()]
        looking = (self.pod_pass.run(), self.node_pods.run(), self.upgrades.run())
        for work in (self._relister.run(), *looking, *sampling):
            self._tasks.append(self._create_task(work, "loop"))

    async def stop(self) -> None:
        """End, wherever it is."""
        self._is_alive = False
        self.cluster.listeners.remove(self)
        assert self._loops is not None
        await self._loops.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hear(self, what: Callable[[MemoryOperator], object]) -> None:
        """Take in what a watch brings."""
        if self._is_alive:
            what(self)

    def list_nodes(self) -> None:
        """List all nodes anew."""
        nodes = self.cluster.nodes
        for node in list(nodes.values()):
            if node.labels.get(OS_LABEL) == OS_WINDOWS:
                self.store.put(node)
        self.store.keep_only(list(nodes))

    def list_everything(self) -> None:
        """List nodes and pools anew, as after a watch that was lost."""
        self.list_nodes()
        self._relister.ask()

    def _reconciler(self, name: str) -> Reconciler:
        return Reconciler(name, self.services, self._observer)

    async def _list_labelled(self, pool: str) -> list[Node]:
        await asyncio.sleep(self.cluster.trouble.latency)
        if self.cluster.trouble.labelled:
            raise self.cluster.trouble.labelled
        return [node for node in self.cluster.nodes.values() if node.labels.get(POOL_LABEL) == pool]

    async def _list_budgets(self) -> BudgetIndex:
        await asyncio.sleep(self.cluster.trouble.latency)
        if self.cluster.trouble.budgets:
            raise self.cluster.trouble.budgets
        return BudgetIndex(self.cluster.budgets)

    async def _list_pods(self, *, see: Callable[[Pod], None], with_work: Collection[str]) -> ListedPods:
        await asyncio.sleep(self.cluster.trouble.pods_seconds)
        if self.cluster.trouble.pods:
            raise self.cluster.trouble.pods
        for pod in self.cluster.pods:
            see(pod if pod.node in with_work else structs.replace(pod, work=None))
        return ListedPods(count=len(self.cluster.pods))

    async def _list_pods_of(self, name: str, /, *, for_eviction: bool = False) -> PodPage:
        assert not for_eviction, "no pods run out of memory here"
        await asyncio.sleep(self.cluster.trouble.pods_seconds)
        if self.cluster.trouble.pods:
            raise self.cluster.trouble.pods
        if error := self.cluster.trouble.pods_of.get(name):
            raise error
        return PodPage(tuple(pod for pod in self.cluster.pods if pod.node == name), (), "9", "")

    def _questions(self) -> list[PoolQuestion]:
        if not is_complete(self.services):
            return []
        nodes = tuple(self.store.objects.values())
        return self._asked.of(self.pools.all(), nodes, now=self.cluster.now())

    def _soon(self, what: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(0.5, self.hear, lambda _: what())

    def _create_task(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work, name=name)

    def _accept_written(self, node: Node) -> None:
        if self._is_alive:
            self.store.accept_written(node)

    def _wake(self, name: str) -> None:
        if self._loops and self._is_alive:
            self.wakes.append((self.cluster.time, name))
            self._loops.wake(name)

    def _wake_all(self) -> None:
        for pool in self.pools.all():
            self._wake(pool.name)

    def _doubted(self) -> None:
        if self._loops:
            self._relister.doubted()

    def _pool_changed(self, name: str, *, for_rivals: bool) -> None:
        if self.memory is not None and self.pools.get(name) is None:
            self.memory.forget(name)
        if self._loops:
            self._dispatcher.pool_changed(name, for_rivals=for_rivals)
            self.upgrades.pool_changed()

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._loops:
            self.services.taint_absent_since.note(old, new)
            self.upgrades.node_changed(old, new)
            self._dispatcher.node_changed(old, new)
