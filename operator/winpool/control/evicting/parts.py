"""Assembles what passes ask for and read about evictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.cluster.disruption_budgets import BudgetLister
from winpool.cluster.victim_pods import list_victim_pods
from winpool.control.evicting.answers import Answers
from winpool.control.evicting.looks import VictimLooks
from winpool.control.evicting.shared_budgets import SharedBudgets
from winpool.control.memory.evicted import EvictedPods, NoDetectors
from winpool.control.memory.stats import MemoryStats

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.transport import Transport
    from winpool.control.clock import Clock
    from winpool.control.memory.collector import MemoryCollector


@dataclass(frozen=True, slots=True)
class EvictionParts:
    """``answers`` are for the lane of evictions, ``looks`` for the passes."""

    answers: Answers
    looks: VictimLooks


def eviction_parts(
    transport: Transport, *, memory: MemoryCollector | None, on_looked: Callable[[str], None], clock: Clock
) -> EvictionParts:
    """Make the parts. ``memory`` has detectors and counters, ``on_looked`` wakes the pool of a name."""
    time = clock.monotonic
    detectors = NoDetectors() if memory is None else EvictedPods(memory.watched, monotonic=time)
    stats = MemoryStats() if memory is None else memory.stats
    answers = Answers(detectors=detectors, results=stats.evictions, monotonic=time)
    looks = VictimLooks(
        list_pods=lambda name: list_victim_pods(transport.request, name),
        list_budgets=SharedBudgets(BudgetLister(transport.request).list, monotonic=time).of,
        answers=answers,
        on_looked=on_looked,
        now=clock.now,
        monotonic=time,
    )
    return EvictionParts(answers, looks)
