"""Assembles the lane of evictions, and what passes ask for and read about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.disruption_budgets import BudgetLister
from winpool.cluster.victim_pods import list_victim_pods
from winpool.cluster.writer import Writer
from winpool.control.act.evictions import EvictionLane
from winpool.control.evicting.answers import Answers
from winpool.control.evicting.looks import VictimLooks
from winpool.control.evicting.shared_budgets import SharedBudgets
from winpool.control.memory.evicted import EvictedPods, NoDetectors
from winpool.control.memory.stats import MemoryStats
from winpool.memory.recheck import objection

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.transport import Transport
    from winpool.control.clock import Clock
    from winpool.control.memory.collector import MemoryCollector
    from winpool.objects.acts import Eviction
    from winpool.objects.node import Node
    from winpool.objects.pressure import NodeView


@dataclass(frozen=True, slots=True)
class EvictionParts:
    """``lane`` performs evictions, ``looks`` are for the passes."""

    lane: EvictionLane
    looks: VictimLooks


def eviction_parts(
    transport: Transport,
    *,
    memory: MemoryCollector | None,
    known: Mapping[str, Node],
    on_looked: Callable[[str], None],
    clock: Clock,
) -> EvictionParts:
    """Make the parts. ``memory`` has detectors and counters, ``on_looked`` wakes the pool of a name.

    ``known`` are the nodes as the watch last reported them, by name.
    """
    time = clock.monotonic
    detectors = NoDetectors() if memory is None else EvictedPods(memory.watched, monotonic=time)
    stats = MemoryStats() if memory is None else memory.stats
    answers = Answers(detectors=detectors, results=stats.evictions, monotonic=time)
    looks = VictimLooks(
        list_pods=lambda name: list_victim_pods(transport.request, name),
        list_budgets=SharedBudgets(BudgetLister(transport.request).list, monotonic=time).of,
        answers=answers,
        on_looked=on_looked,
        protected=frozenset() if memory is None else memory.protected_namespaces,
        now=clock.now,
        monotonic=time,
    )

    def still(eviction: Eviction) -> str:
        pool = _pool_of(memory, eviction.node_uid, now=time())
        return objection(eviction, node=known.get(eviction.node), pool=pool, now=clock.now())

    lane = EvictionLane(writer=Writer(transport), monotonic=time, notes=answers, objection=still)
    return EvictionParts(lane, looks)


def _pool_of(
    memory: MemoryCollector | None, node_uid: str, *, now: float
) -> dict[str, tuple[Node, NodeView]]:
    """Return what is known ``now`` of the nodes of the pool of a node; nothing where it is not watched."""
    return (
        {}
        if memory is None
        else {each.node.uid: (each.node, each.view_at(now)) for each in memory.watched.beside(node_uid)}
    )
