"""Pools whose nodes are all due, with pods surveyed: what the plan of upgrades is measured on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from msgspec.structs import replace

from bench.errors import BenchError
from harness.builders import CONTROL_PLANE, NOON, a_node, a_pool, a_snapshot, a_survey, with_status
from harness.writes import patched
from winpool.api.quantity import GIB
from winpool.api.upgrade import DEFAULT_TOPOLOGY_KEY
from winpool.decide import decide
from winpool.model.node import Allocatable, Node, NodeMemory, NodeVersions
from winpool.model.pods import Block, BlockedBy, PodShape, Requests, Toleration, Workload
from winpool.model.pool import KnownUpgrades, Pool
from winpool.model.snapshot import Snapshot

PODS: Final = 30
"""Pods of a node that would move."""

WORKLOADS: Final = 40
"""Different shapes of pods of a pool: as many Deployments as a team has, or few teams."""

USED: Final = 0.7
"""The share of a node that its pods request in a pool with feature."""

FULL: Final = 1.0
"""The same in a full pool, where no pod fits elsewhere."""

BLOCKED_PERCENT: Final = 2
"""Nodes with a pod that cannot be evicted now."""

PASSES: Final = 10
"""Guard for passes until nothing is left to write: labels and taints, and what follows from them."""

SEED: Final = 18

# Shared by the nodes, as the operator keeps what thousands of nodes report once.
VERSIONS: Final = NodeVersions(kernel="10.0.20348.4052", kubelet=CONTROL_PLANE, runtime="containerd://2.3.0")
TOLERATIONS: Final = (Toleration(key="os", operator="Equal", value="windows", effect="NoSchedule"),)
SPEC: Final[dict[str, Any]] = {
    "os": {"version": "2022", "targetRevision": 5000},
    "upgrade": {
        "maxUnavailable": "10%",
        "canary": {"nodes": 2},
        "maintenanceWindows": [{"schedule": "0 11 * * *", "durationSeconds": 7200}],
    },
}


@dataclass(frozen=True, slots=True)
class PlanFleet:
    """Snapshots of the pools of a cluster, each converged, so that a pass over one writes nothing."""

    snapshots: tuple[Snapshot, ...]

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.snapshots[0].nodes)


def plan_fleet(*, pools: int, nodes: int, used: float = USED) -> PlanFleet:
    """Return ``pools`` with ``nodes`` each, whose pods request the share ``used`` of each node.

    Raises BenchError where the pools do not come to rest.
    """
    chance = random.Random(SEED)
    specs = [_pool(number) for number in range(pools)]
    shapes = [_shapes(chance) for _ in specs]
    workloads = {
        f"p{number:03d}-w{place:04d}": _workload(chance, shapes[number], f"{number}-{place}")
        for number in range(pools)
        for place in range(nodes)
    }
    sizes: dict[tuple[int, int], tuple[NodeMemory, Allocatable]] = {}
    listed = [
        _node(name, number // nodes, each, sizes, used=used)
        for number, (name, each) in enumerate(workloads.items())
    ]
    return PlanFleet(_converged(specs, listed, workloads, each=nodes))


def _pool(number: int) -> Pool:
    selector = {"matchLabels": {"agentpool": f"p{number}"}}
    return a_pool(
        f"pool-{number:03d}",
        selector=selector,
        labels={"example.com/team": "payments"},
        taints=["os=windows:NoSchedule"],
        more=SPEC,
    )


def _shapes(chance: random.Random) -> list[PodShape]:
    return [
        PodShape(
            Requests(
                cpu_milli=chance.choice([100, 250, 500, 1000]),
                memory=chance.choice([1, 2, 4, 8]) * GIB // 4,
                pods=1,
            ),
            tolerations=TOLERATIONS,
        )
        for _ in range(WORKLOADS)
    ]


def _workload(chance: random.Random, shapes: Sequence[PodShape], name: str) -> Workload:
    numbers: dict[int, int] = {}
    for _ in range(PODS):
        shape = chance.randrange(len(shapes))
        numbers[shape] = numbers.get(shape, 0) + 1
    moving = tuple((shapes[shape], number) for shape, number in sorted(numbers.items()))
    blocked = chance.randrange(100) < BLOCKED_PERCENT
    return Workload(
        used=Requests(
            cpu_milli=sum(shape.requests.cpu_milli * number for shape, number in moving),
            memory=sum(shape.requests.memory * number for shape, number in moving),
            pods=PODS,
        ),
        moving=moving,
        undeclared=PODS,
        blocks=(Block(f"shop/db-{name}", BlockedBy.NONE_ALLOWED, ("db",)),) if blocked else (),
        blocked=int(blocked),
        longest_grace=30,
    )


def _node(
    name: str,
    pool: int,
    workload: Workload,
    sizes: dict[tuple[int, int], tuple[NodeMemory, Allocatable]],
    *,
    used: float,
) -> Node:
    cpu = round(workload.used.cpu_milli / used / 1000) * 1000 if used < FULL else workload.used.cpu_milli
    memory = round(workload.used.memory / used / GIB) * GIB if used < FULL else workload.used.memory
    if (cpu, memory) not in sizes:
        sizes[cpu, memory] = (
            NodeMemory(capacity=memory + 2 * GIB, allocatable=memory),
            Allocatable(cpu_milli=cpu, pods=110),
        )
    reported, allocatable = sizes[cpu, memory]
    zone = f"zone-{int(name[-1]) % 3}"
    return replace(
        a_node(name, labels={"agentpool": f"p{pool}", DEFAULT_TOPOLOGY_KEY: zone}, versions=VERSIONS),
        created=NOON - timedelta(days=30),
        ready_since=NOON - timedelta(days=1),
        memory=reported,
        allocatable=allocatable,
    )


def _converged(
    pools: list[Pool], nodes: list[Node], workloads: dict[str, Workload], *, each: int
) -> tuple[Snapshot, ...]:
    """Run passes of all pools until none has anything to write."""
    for _ in range(PASSES):
        is_quiet = True
        for number, pool in enumerate(pools):
            own = slice(number * each, (number + 1) * each)
            decision = decide(_snapshot(pool, pools, nodes, nodes[own], workloads))
            patches = {patch.node.name: patch for patch in decision.writes.patches}
            nodes[own] = [patched(node, patches.get(node.name)) for node in nodes[own]]
            finalizers = pool.finalizers if decision.writes.finalizers is None else decision.writes.finalizers
            after = with_status(replace(pool, finalizers=finalizers), decision.status)
            is_quiet = is_quiet and not patches and after == pool
            pools[number] = after
        if is_quiet:
            return tuple(
                _snapshot(pool, pools, nodes, nodes[number * each : (number + 1) * each], workloads)
                for number, pool in enumerate(pools)
            )
    raise BenchError(f"the pools are not at rest after {PASSES} passes")


def _snapshot(
    pool: Pool,
    pools: Sequence[Pool],
    nodes: Sequence[Node],
    own: Sequence[Node],
    workloads: dict[str, Workload],
) -> Snapshot:
    survey = a_survey(pool, own, workloads={node.name: workloads[node.name] for node in own})
    snapshot = a_snapshot(
        pool,
        nodes,
        rivals=[other for other in pools if other.name != pool.name],
        survey=survey,
        looks=(),
        written_generation=pool.generation,
    )
    return replace(snapshot, upgrades=KnownUpgrades(control_plane_since=NOON - timedelta(hours=1)))
