"""``make bench-plan``: the CPU that the plan of upgrades costs, in this process and without a cluster.

Two fleets are measured: one pool with all nodes, and pools of fifty with as many nodes together. All nodes
are due, and their pods were surveyed. Time is CPU time of this process: other work on the machine adds to it
by cold caches, so that a loop of plain Python that is measured between the rounds says how fast the machine
is now.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from bench.errors import BenchError
from bench.plan_fleet import FULL, PODS, PlanFleet, plan_fleet
from bench.report import Report
from bench.rounds import middle
from bench.targets import Target, at_most, exactly, of_the_machine, told
from winpool.app import OLDER, YOUNG
from winpool.decide import decide
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.feature import upgrade
from winpool.features.upgrade.plan import UpgradePlan, upgrade_plan
from winpool.features.upgrade.records import UpgradeOverview
from winpool.model.node import Node
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import divide

POOL_NODES: Final = 50
"""Nodes of each of many pools."""

ONE_POOL_SECONDS: Final = 0.5
"""CPU, at most, to plan one pool of 5,000 nodes from its snapshot."""

POOLS_SECONDS: Final = 2.0
"""CPU, at most, for a pass of each of 100 pools of fifty nodes and the plan of what it found. The plugin
makes no pass, but finds out by itself what the plan is made of: that must not take longer either."""


Overview = tuple[UpgradeOverview, list[Node]]
"""What the feature has found, and the nodes of the pool."""


@dataclass(frozen=True, slots=True)
class Times:
    """CPU seconds of each round."""

    one_pool: tuple[float, ...]
    one_pass: tuple[float, ...]
    full_pool: tuple[float, ...]
    pools: tuple[float, ...]
    passes: tuple[float, ...]
    plugin: tuple[float, ...]
    reference: tuple[float, ...]


def run_plan(*, nodes: int, rounds: int, report: Report) -> dict[str, Any]:
    """Measure; return the figures of the last line."""
    report.say(
        f"making {nodes} nodes in one pool, and in pools of {POOL_NODES}; each has {PODS} pods to move"
    )
    many = -(-nodes // POOL_NODES)
    one, full = plan_fleet(pools=1, nodes=nodes), plan_fleet(pools=1, nodes=nodes, used=FULL)
    pools = plan_fleet(pools=many, nodes=POOL_NODES)
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, OLDER, OLDER)
    try:
        times = _measured(one, full, pools, rounds=rounds, report=report)
    finally:
        gc.set_threshold(*before)
    figures = plan_figures(times, nodes=nodes, pools=many)
    figures |= _checked(one.snapshots[0], nodes=nodes)
    report.table("CPU seconds", ("what", "median", "lowest", "highest"), plan_rows(times))
    wanted = plan_targets(figures)
    report.targets(wanted)
    return {**figures, **told(wanted)}


def _measured(one: PlanFleet, full: PlanFleet, pools: PlanFleet, *, rounds: int, report: Report) -> Times:
    found: list[tuple[float, ...]] = []
    with_overviews = [(each, _overview(each)) for each in pools.snapshots]
    for number in range(1, rounds + 1):
        found.append(
            (
                cpu_of(lambda: _planned(one.snapshots[0])),
                cpu_of(lambda: _pass(one.snapshots[0])),
                cpu_of(lambda: _planned(full.snapshots[0])),
                cpu_of(lambda: _passes_and_plans(with_overviews)),
                cpu_of(lambda: _passes(pools.snapshots)),
                cpu_of(lambda: [_planned(each) for each in pools.snapshots]),
                cpu_of(reference),
            )
        )
        report.say(f"round {number}: one pool {found[-1][0]:.3f} s, all pools {found[-1][3]:.3f} s")
    return Times(*zip(*found, strict=True))


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds of ``work``."""
    started = time.process_time()
    work()
    return time.process_time() - started


def reference() -> int:
    """Do what says how fast the machine is: a second of nothing but Python is a hundred of these."""
    counts: dict[int, int] = {}
    for number in range(100_000):
        counts[number % 1000] = counts.get(number % 1000, 0) + number
    return sum(counts.values())


def _planned(snapshot: Snapshot) -> UpgradePlan:
    """Plan as the plugin does: the members of the pool, the feature, and the plan of what it found."""
    return _plan_of(snapshot, _overview(snapshot))


def _overview(snapshot: Snapshot) -> Overview:
    members = divide(snapshot)
    overview = upgrade(snapshot, members, AllowedActions.ACT).overview
    if overview is None:
        raise BenchError(f"the pool {snapshot.pool.name} has nothing to plan")
    return overview, [member.node for member in members.ours]


def _plan_of(snapshot: Snapshot, found: Overview) -> UpgradePlan:
    overview, nodes = found
    spec = snapshot.pool.spec
    if spec is None:
        raise BenchError(f"the pool {snapshot.pool.name} has no spec")
    return upgrade_plan(overview, spec=spec, nodes_of_pool=nodes)


def _pass(snapshot: Snapshot) -> None:
    decision = decide(snapshot)
    if decision.writes.patches:
        raise BenchError(f"the pool {snapshot.pool.name} is not at rest")


def _passes(snapshots: Iterable[Snapshot]) -> None:
    for each in snapshots:
        _pass(each)


def _passes_and_plans(pools: Iterable[tuple[Snapshot, Overview]]) -> None:
    """Do what passes in the mode DryRun do: the feature has found an overview, which becomes a plan."""
    for snapshot, found in pools:
        _pass(snapshot)
        _plan_of(snapshot, found)


def _checked(snapshot: Snapshot, *, nodes: int) -> dict[str, int]:
    """Return how many nodes the plan has, and how many plans differ from it: again, and of shuffled nodes."""
    first = _planned(snapshot)
    mixed = list(snapshot.nodes)
    random.Random(nodes).shuffle(mixed)
    others = (snapshot, replace(snapshot, nodes=tuple(mixed)))
    return {
        "planned_nodes": len(_planned(snapshot).nodes),
        "plans_that_differ": sum(_planned(each) != first for each in others),
    }


def plan_rows(times: Times) -> list[tuple[str, float, float, float]]:
    """Return the rows of the table."""
    return [
        (name, middle(each), min(each), max(each))
        for name, each in (
            ("one pool: plan", times.one_pool),
            ("one pool: pass", times.one_pass),
            ("one full pool: plan", times.full_pool),
            ("many pools: passes and plans", times.pools),
            ("many pools: passes alone", times.passes),
            ("many pools: plans of the plugin", times.plugin),
            ("reference", times.reference),
        )
    ]


def plan_figures(times: Times, *, nodes: int, pools: int) -> dict[str, Any]:
    """Return what is told, by name. The lowest of the rounds: what else runs there only adds."""
    lowest = min(times.reference)
    return {
        "nodes": nodes,
        "pools": pools,
        "pods": nodes * PODS,
        "one_pool_cpu_seconds": min(times.one_pool),
        "one_pool_cpu_seconds_rounds": list(times.one_pool),
        "one_pool_by_reference": min(times.one_pool) / lowest if lowest else None,
        "one_pool_pass_cpu_seconds": min(times.one_pass),
        "full_pool_cpu_seconds": min(times.full_pool),
        "pools_cpu_seconds": min(times.pools),
        "pools_cpu_seconds_rounds": list(times.pools),
        "pools_by_reference": min(times.pools) / lowest if lowest else None,
        "pools_pass_cpu_seconds": min(times.passes),
        "pools_plugin_cpu_seconds": min(times.plugin),
        "reference_cpu_seconds": lowest,
        "reference_cpu_seconds_rounds": list(times.reference),
    }


def plan_targets(figures: dict[str, Any]) -> list[Target]:
    """Return what must be shown. CPU of this process decides too: it waits for no one."""
    return [
        exactly("planned_nodes", figures["planned_nodes"], figures["nodes"]),
        exactly("plans_that_differ", figures["plans_that_differ"], 0),
        at_most("one_pool_cpu_seconds", figures["one_pool_cpu_seconds"], ONE_POOL_SECONDS),
        at_most("pools_cpu_seconds", figures["pools_cpu_seconds"], POOLS_SECONDS),
        at_most("pools_plugin_cpu_seconds", figures["pools_plugin_cpu_seconds"], POOLS_SECONDS),
        of_the_machine(at_most("full_pool_cpu_seconds", figures["full_pool_cpu_seconds"], ONE_POOL_SECONDS)),
    ]
