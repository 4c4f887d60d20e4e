"""Sources at fault in the bench of memory pressure, and the count of evictions that stale data decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import inf
from typing import Any

import pytest

from bench.pressure import operator_node
from bench.pressure.operator_node import BEGAN, Evidence, OperatorNode, Variant
from bench.pressure.race import race
from bench.pressure.scene import FaultKind, Source, families, scene_of
from bench.pressure.world import World
from unit.bench.test_pressure import a_family
from winpool.controllers.watched_nodes import WatchedNode
from winpool.features.memory.eviction import EvictionState, Pass, Step
from winpool.model.node import Eviction, Node
from winpool.ownership.desired import KEEP

BEGINS, ENDS = 1000, 1700
DECIDED_SECONDS = 1500
UNTRUE = [each for each in FaultKind if each is not FaultKind.SLOW]
"""With these, what a source says is not what is so at that time."""


def a_fault(source: Source, kind: FaultKind, *, begins: float = BEGINS, ends: float = ENDS) -> dict[str, Any]:
    return {"source": source, "kind": kind, "begins": begins, "ends": ends}


@pytest.mark.parametrize(
    ("node", "pods", "is_stale"),
    [
        ([40, 70], 70, False),
        ([40], 70, True),
        ([39.9, 70], 70, True),
        ([70, 70], 70, True),
        ([40, 70], 39.9, True),
        ([], None, True),
    ],
    ids=["recent", "one", "one too old", "one twice", "old pods", "nothing"],
)
def test_an_eviction_needs_two_recent_measurements_of_the_node_and_one_of_its_pods(
    node: Sequence[float], pods: float | None, is_stale: bool
) -> None:
    evidence = Evidence()
    if pods is not None:
        evidence.pods = pods
    for at in node:
        evidence.note(at)
    assert evidence.is_stale(100.0) is is_stale


@pytest.mark.slow
@pytest.mark.parametrize("kind", UNTRUE)
@pytest.mark.parametrize("source", Source)
def test_nothing_is_measured_by_a_source_while_it_is_at_fault(source: Source, kind: FaultKind) -> None:
    (other,) = set(Source) - {source}
    alone = a_fault(other, FaultKind.SILENT, begins=0, ends=inf)
    scene = scene_of(a_family(faults=[alone, a_fault(source, kind)]), 1)
    world = World(scene)
    operator = OperatorNode(scene, Variant("both", ("Prometheus/main", "Kubelet")), max_pods=3)
    while operator.due < scene.seconds:
        world.step(operator.due)
        operator.look(world)
    times = operator.evidence.node
    assert not [at for at in times if BEGINS < at < ENDS]
    assert min(times) < BEGINS
    assert max(times) > ENDS


def evict_at_the_set_time(nodes: Sequence[Node], of: Pass) -> Mapping[str, Step]:
    """Evict the pod that leaks, whatever is known of the node."""
    node, at = nodes[0], BEGAN + timedelta(seconds=DECIDED_SECONDS)
    leak = Eviction(namespace="shop", name="leak-0-0", uid="uid-leak-0-0", node=node.name, why="")
    eviction = leak if of.now >= at else None
    return {node.uid: Step(node, EvictionState.BEGINNING, KEEP, eviction=eviction, again_at=at)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("faults", "stale"),
    [([], 0), *(([a_fault(Source.KUBELET, kind)], kind in UNTRUE) for kind in FaultKind)],
    ids=["no fault", *FaultKind],
)
def test_an_eviction_on_old_data_is_counted(
    faults: list[dict[str, Any]], stale: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator_node, "steps_of", evict_at_the_set_time)
    (result,) = race(a_family(faults=faults), 1, only=("kubelets",))
    assert (result.evictions, result.stale) == (1, stale)


def test_faults_are_drawn_for_each_machine() -> None:
    (family,) = (each for each in families() if each.name == "leak-frozen-samples")
    first, second = (scene_of(family, seed).faults for seed in (1, 2))
    assert [each.kind for each in first] == [each.kind for each in second]
    assert [each.begins for each in first] != [each.begins for each in second]
    assert all(each.begins < each.ends for each in first)


@pytest.mark.slow
@pytest.mark.parametrize("restarts", [False, True])
def test_an_operator_that_is_restarted_at_hard_begins_once_more_with_nothing_known(
    restarts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[float] = []

    class Noted(WatchedNode):
        def __post_init__(self) -> None:
            began.append(self.began)
            super().__post_init__()

    monkeypatch.setattr(operator_node, "WatchedNode", Noted)
    (result,) = race(a_family(restarts=restarts), 1, only=("kubelets",))
    assert (len([at for at in began if at > 0]), result.evictions) == (restarts, 1)
