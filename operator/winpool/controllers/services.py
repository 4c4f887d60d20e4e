"""Holds what the loops of one operator share: caches of the cluster, writers, and the loops themselves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from winpool.api.crd import FieldPath
from winpool.api.status import MAX_SLOTS, Slot
from winpool.controllers.evictions import Evictor
from winpool.controllers.machines import ObservedMachines
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.pod_pass import PodPass
from winpool.controllers.pools import Pools, Relister
from winpool.controllers.rollout_facts import RolloutFacts
from winpool.controllers.writes import ConditionApplier, NodePatcher
from winpool.decide import FEATURES
from winpool.features.feature import Feature
from winpool.kube.control_plane import ControlPlane, Guard
from winpool.kube.events import EventRecorder
from winpool.kube.watch import ListWatch
from winpool.kube.writer import Writer
from winpool.loops import Clock, Durations, PassResult
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.status.status import Figures
from winpool.support.rows import Row

DRAIN_BUCKETS: Final = (30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)
"""Seconds. A pod has a grace of 30 s by default, a drain one hour, and one that was blocked has no limit."""


@dataclass(slots=True)
class ControlStats:
    """Passes by result, their time (seconds) in total, and when the last one succeeded (Unix seconds).

    ``figures`` are what the last pass of each pool has found, by the name of the pool, ``drains`` how long
    the drains of nodes took.
    """

    passes: Counter[PassResult] = field(default_factory=Counter)
    seconds: float = 0.0
    last_success: float = 0.0
    figures: dict[str, Figures] = field(default_factory=dict)
    drains: Durations = field(default_factory=lambda: Durations(DRAIN_BUCKETS))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count one pass: a success unless it raises."""
        started = time.perf_counter()
        result: PassResult = "Error"
        try:
            yield
            result = "Success"
            self.last_success = time.time()
        finally:
            self.passes[result] += 1
            self.seconds += time.perf_counter() - started


@dataclass(slots=True)
class NodesInWork:
    """Counts the slots of all pools against ``limit``, which holds within this process; None for no limit.

    What a pass has decided counts from that moment on: the pass of another pool may come before the status
    that has it is written.
    """

    pools: Pools
    limit: int | None = None
    _decided: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    def most_slots(self, pool: Pool) -> int:
        """Return how many slots ``pool`` may have."""
        if self.limit is None:
            return MAX_SLOTS
        others = [each for each in self.pools.all() if each.uid != pool.uid]
        self._decided = {each.uid: self._decided.get(each.uid, frozenset()) for each in (*others, pool)}
        taken = (in_work(each.status.slots) | self._decided[each.uid] for each in others)
        return max(self.limit - sum(map(len, taken)), 0)

    def note(self, pool: Pool, slots: Iterable[Slot]) -> None:
        """Note the slots that a pass has decided on."""
        if self.limit is not None:
            self._decided[pool.uid] = in_work(slots)


def in_work(slots: Iterable[Slot]) -> frozenset[str]:
    """Return the names of the nodes that have a slot."""
    return frozenset([each.node for each in slots if each.is_held])


@dataclass(kw_only=True, slots=True)
class Services:
    """What the passes of all pools use.

    ``wake`` asks for a pass of the pool of a name. ``other_operator`` says who else writes, see
    ``Elector.other``, ``lacking_fields`` which fields the CRD lacks, None before it was looked at.
    ``list_labelled`` asks the API server which Windows nodes have the label of a pool, ``list_strays`` which
    nodes with our label have no Windows. ``memory`` is None where no source of samples is set.
    ``operator_node`` is as in ``Snapshot``.
    ``allows_force``: pods may be deleted that a drain could not evict in time.
    """

    clock: Clock
    writer: Writer
    recorder: EventRecorder
    pools: Pools
    nodes: ListWatch[Node]
    control_plane: ControlPlane
    guard: Guard
    relister: Relister
    wake: Callable[[str], None]
    other_operator: Callable[[], str | None]
    lacking_fields: Callable[[], tuple[FieldPath, ...] | None]
    list_labelled: Callable[[str], Awaitable[Sequence[Node]]]
    list_strays: Callable[[], Awaitable[tuple[Node, ...]]]
    patches: NodePatcher
    conditions: ConditionApplier
    evictions: Evictor
    pod_pass: PodPass
    node_pods: NodePodLists
    memory: MemoryCollector | None
    rollout_facts: RolloutFacts
    upgrades: ObservedMachines
    taint_absent_since: TaintAbsentSince
    nodes_in_work: NodesInWork
    allows_force: bool = False
    features: Sequence[Feature] = FEATURES
    cluster_rows: tuple[Row, ...] = ()
    operator_node: str = ""
    stats: ControlStats = field(default_factory=ControlStats)
    strays: tuple[Node, ...] | None = None
    """Nodes that were in a pool, do not run Windows, and are not released; None before the first list."""
