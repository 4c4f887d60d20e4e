"""What runs on each node, from all pods: right, in the same order always, and in bounded memory."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON
from harness.pods import a_pod, a_question, an_agent, some_work
from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.model import surveyor as workload_tally
from winpool.model.budgets import Budget, BudgetIndex
from winpool.model.pods import (
    BLOCKS_KEPT,
    NO_WORKLOAD,
    SHAPES_KEPT,
    Block,
    BlockedBy,
    DeclaredBuild,
    Pod,
    PodShape,
    Requests,
    RuntimeClass,
    RuntimeClasses,
    Toleration,
    Unclear,
    Workload,
)
from winpool.model.survey import PoolQuestion, Survey
from winpool.model.surveyor import BUILDS_KEPT, Surveyor, work_nodes

WEB = {"app": "web"}
NONE_LEFT = Budget("shop", "web", labels=WEB, allowed=0)


def surveyed(
    pods: Iterable[Pod],
    *questions: PoolQuestion,
    budgets: Sequence[Budget] | None = (),
    runtime_classes: RuntimeClasses | None = None,
    unreadable: Iterable[str] = (),
) -> dict[str, Survey]:
    surveyor = Surveyor(
        questions or [a_question(workloads=True)],
        budgets=None if budgets is None else BudgetIndex(budgets),
    )
    for pod in pods:
        surveyor.see(pod)
    return surveyor.finish(
        started=NOON, finished=NOON, runtime_classes=runtime_classes, unreadable=frozenset(unreadable)
    )


def workload(*pods: Pod, node: str = "w1", **how: Any) -> Workload:
    [survey] = surveyed(pods, **how).values()
    assert survey.workloads is not None
    return survey.workloads[node]


def working(full_name: str = "shop/web-1", *, node: str = "w1", **changes: Any) -> Pod:
    return a_pod(full_name, node=node, **{"work": some_work(), **changes})


def test_a_question_that_does_not_ask_gets_none() -> None:
    asks, asks_not = a_question(workloads=True, pool_uid="asks"), a_question(pool_uid="asks not")
    found = surveyed([working()], asks, asks_not)
    assert found["asks not"].workloads is None
    assert found["asks"].workloads is not None
    assert work_nodes([asks, asks_not, a_question(nodes=["w7"])]) == {"w1", "w2"}


def test_pools_that_share_a_node_both_get_what_runs_there_and_of_other_nodes_nothing() -> None:
    red = a_question(workloads=True, pool_uid="red", nodes=["w1", "w2"])
    blue = a_question(workloads=True, pool_uid="blue", nodes=["w2", "w3"])
    found = surveyed([working("shop/a", node="w2"), working("shop/b", node="w9")], red, blue)
    assert [set(each.workloads or ()) for each in found.values()] == [{"w1", "w2"}, {"w2", "w3"}]
    assert {each.workloads["w2"].moving_pods for each in found.values() if each.workloads} == {1}


def test_a_node_without_pods_has_nothing_to_move() -> None:
    assert workload() == NO_WORKLOAD


def test_all_that_has_not_finished_uses_the_node_and_a_drain_moves_what_it_would() -> None:
    pods = [
        working("shop/web-1"),
        an_agent("kube-system/cni-1", work=some_work(100, 10)),
        working("kube-system/static", is_mirror=True, work=some_work(10, 1)),
        working("shop/going", is_terminating=True, work=some_work(1, 100)),
        working("shop/done", is_finished=True, work=some_work(7777, 7777)),
    ]
    found = workload(*pods)
    assert found.used == Requests(250 + 100 + 10 + 1, 2**30 + 10 + 1 + 100, 4)
    assert found.moving == ((PodShape(Requests(250, 2**30, 1)), 1),)
    assert found.is_complete


def test_pods_that_are_alike_share_a_shape_also_over_nodes() -> None:
    shape = PodShape(Requests(), selector=(("disk", "ssd"),))
    pods = [
        working(f"shop/web-{number}", node=node, work=some_work(shape=replace(shape)))
        for number in range(4)
        for node in ("w1", "w2")
    ]
    [survey] = surveyed(pods).values()
    assert survey.workloads is not None
    [first], [second] = survey.workloads["w1"].moving, survey.workloads["w2"].moving
    assert first == (replace(shape, requests=Requests(250, 2**30, 1)), 4)
    assert first is second


def test_whatever_the_order_of_the_pods_the_workload_is_the_same() -> None:
    shapes = [
        PodShape(Requests(), selector=selector, tolerations=tolerations, unclear=unclear)
        for selector in ((), (("a", "b"),))
        for tolerations in ((), (Toleration("os", seconds=None),), (Toleration("os", seconds=300),))
        for unclear in ("", Unclear.VOLUMES)
    ]
    pods = [
        working(
            f"shop/p{number}-{memory}",
            labels=WEB,
            work=some_work(memory=memory, shape=shape, build=f"10.0.{number}", is_bound=number % 2 == 0),
        )
        for number, shape in enumerate(shapes)
        for memory in (1, 2**30, 5)
    ]
    expected = workload(*pods, budgets=[NONE_LEFT])
    for seed in range(10):
        random.Random(seed).shuffle(pods)
        assert workload(*pods, budgets=[NONE_LEFT]) == expected
    sizes = [shape.requests.memory for shape, _ in expected.moving]
    assert sizes == sorted(sizes, reverse=True), "the largest first"


def test_builds_are_distinguished_by_how_they_are_declared() -> None:
    pods = [
        *(working(f"shop/old-{number}", work=some_work(build="10.0.17763")) for number in range(5, 0, -1)),
        working("shop/bound", work=some_work(build="10.0.17763", is_bound=True)),
        working("shop/new", work=some_work(build="10.0.20348")),
        working("shop/any"),
        an_agent(work=some_work(build="10.0.1")),
    ]
    found = workload(*pods)
    assert found.declared == (
        DeclaredBuild("10.0.17763"),
        DeclaredBuild("10.0.17763", is_bound=True),
        DeclaredBuild("10.0.20348"),
    )
    assert found.undeclared == 1


def test_pods_that_cannot_be_evicted_are_counted_and_the_first_named() -> None:
    pods = [working(f"shop/web-{number}", labels=WEB) for number in range(9, 0, -1)]
    found = workload(*pods, an_agent("shop/agent", labels=WEB, work=some_work()), budgets=[NONE_LEFT])
    assert found.blocked == 9
    assert found.blocks == tuple(
        Block(f"shop/web-{number}", BlockedBy.NONE_ALLOWED, ("web",)) for number in range(1, BLOCKS_KEPT + 1)
    )


def test_budgets_that_are_not_known_block_nothing_and_that_is_said() -> None:
    found = workload(working(labels=WEB), budgets=None)
    assert (found.budgets_known, found.blocks, found.blocked) == (False, (), 0)
    assert workload(working(labels=WEB), budgets=()).budgets_known


def test_what_a_drain_loses_and_how_long_it_may_take() -> None:
    pods = [
        working("shop/a", controller_kind="", controller="", work=some_work(grace_seconds=5)),
        working("shop/b", work=some_work(is_local=True, grace_seconds=600)),
        an_agent(work=some_work(is_local=True, grace_seconds=9999)),
    ]
    found = workload(*pods)
    assert (found.unmanaged, found.local, found.longest_grace) == (1, 1, 600)


def test_a_pod_that_could_not_be_read_leaves_its_node_incomplete() -> None:
    assert not workload(working(work=None)).is_complete
    assert not workload(working(), unreadable=["w1"]).is_complete
    assert workload(working(), unreadable=["w2"]).is_complete
    assert workload(working(work=None, is_finished=True)).is_complete


# Hostile pods


def test_a_node_with_more_shapes_than_any_node_has_is_incomplete() -> None:
    pods = [working(f"shop/{number}", work=some_work(cpu_milli=number)) for number in range(SHAPES_KEPT + 1)]
    assert workload(*pods[:-1]).is_complete
    found = workload(*pods, working("shop/again", work=some_work(cpu_milli=0)))
    assert not found.is_complete
    assert found.moving_pods == SHAPES_KEPT + 1
    assert found.used.pods == SHAPES_KEPT + 2


def test_a_node_with_a_shape_too_many_for_all_nodes_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload_tally, "MOST_SHAPES", 3)
    pods = [working(f"shop/{number}", work=some_work(cpu_milli=number)) for number in range(3)]
    other = [working("shop/x", node="w2", work=some_work(cpu_milli=number)) for number in (2, 3)]
    assert workload(*pods, *other).is_complete
    found = workload(*pods, *other, node="w2")
    assert (found.is_complete, found.moving_pods) == (False, 1)


def test_a_node_with_more_builds_than_there_are_is_incomplete() -> None:
    pods = [
        working(f"shop/{number}", work=some_work(build=f"10.0.{number}")) for number in range(BUILDS_KEPT + 1)
    ]
    assert workload(*pods[:-1]).is_complete
    found = workload(*pods)
    assert (found.is_complete, len(found.declared)) == (False, BUILDS_KEPT)


@pytest.mark.slow
def test_very_many_hostile_pods_leave_little() -> None:
    """Each has requests, a selector, a build and labels of its own, and is blocked by a budget of all."""
    surveyor = Surveyor([a_question(workloads=True)], budgets=BudgetIndex([Budget("shop", "all")]))
    tracemalloc.start()
    try:
        for number in range(12_000):
            shape = PodShape(Requests(), selector=((f"key-{number}", "x" * 1000),))
            work = some_work(cpu_milli=number, shape=shape, build=f"10.0.{number}")
            surveyor.see(working(f"shop/{number}", labels={"n": str(number)}, work=work))
        [survey] = surveyor.finish(started=NOON, finished=NOON).values()
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 32 * 1024 * 1024
    assert survey.workloads is not None
    found = survey.workloads["w1"]
    assert (found.is_complete, found.blocked, len(found.moving)) == (False, 12_000, SHAPES_KEPT)


@pytest.mark.slow
def test_what_a_pool_of_many_nodes_keeps_is_a_few_kilobytes_for_each() -> None:
    names = [f"w{number}" for number in range(1000)]
    surveyor = Surveyor([a_question(workloads=True, nodes=names)], budgets=BudgetIndex(()))
    tracemalloc.start()
    try:
        for node in names:
            for number in range(30):
                surveyor.see(working(f"shop/{number}", node=node, work=some_work(cpu_milli=number)))
        surveys = surveyor.finish(started=NOON, finished=NOON)
        del surveyor
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert surveys
    assert kept < 1000 * 2048


# RuntimeClasses

BUILD = WINDOWS_BUILD_LABEL
OS = ("kubernetes.io/os", "windows")
OF_2022 = RuntimeClass(((OS[0], OS[1]), (BUILD, "10.0.20348")), (Toleration("os", "Exists"),))
MERGED = PodShape(Requests(), selector=OF_2022.selector, tolerations=OF_2022.tolerations)


def named(shape: PodShape = MERGED, **work: Any) -> Pod:
    """Return a pod that names a RuntimeClass, and has of it what ``shape`` says."""
    return working(work=some_work(shape=shape, runtime_class="windows", **work))


def moved(pod: Pod, now: RuntimeClass) -> tuple[PodShape, Sequence[DeclaredBuild], int]:
    found = workload(pod, runtime_classes={"windows": now})
    [(shape, _)] = found.moving
    return replace(shape, requests=Requests()), found.declared, found.undeclared


def test_a_pod_whose_runtime_class_is_what_it_was_is_what_it_is() -> None:
    pod = named(build="10.0.20348", is_bound=True)
    assert workload(pod, runtime_classes={"windows": OF_2022}) == workload(
        working(work=some_work(shape=MERGED, build="10.0.20348", is_bound=True))
    )


def test_the_pod_that_replaces_another_has_what_its_runtime_class_adds_now() -> None:
    class_now = RuntimeClass((("a", "b"), (BUILD, "10.0.26100")), (Toleration("gpu", "Exists"),))
    found, declared, undeclared = moved(named(build="10.0.20348", is_bound=True), class_now)
    assert found == PodShape(
        Requests(),
        selector=(("a", "b"), OS, (BUILD, "10.0.26100")),
        tolerations=(*OF_2022.tolerations, *class_now.tolerations),
    )
    assert (declared, undeclared) == ((DeclaredBuild("10.0.26100", is_bound=True),), 0)


def test_a_pod_of_before_its_runtime_class_named_a_build_declares_it() -> None:
    _, declared, undeclared = moved(named(PodShape(Requests())), OF_2022)
    assert (declared, undeclared) == ((DeclaredBuild("10.0.20348", is_bound=True),), 0)


def test_what_a_runtime_class_no_longer_adds_stays() -> None:
    """It looks the same as what the pod has by itself."""
    assert moved(named(build="10.0.20348"), RuntimeClass()) == (MERGED, (DeclaredBuild("10.0.20348"),), 0)


def test_a_runtime_class_without_a_build_leaves_what_the_pod_declares() -> None:
    tolerating = RuntimeClass(tolerations=(Toleration("gpu", "Exists"),))
    _, declared, _ = moved(named(build="10.0.17763", is_bound=True), tolerating)
    assert declared == (DeclaredBuild("10.0.17763", is_bound=True),)


def test_the_first_runtime_classes_that_do_not_exist_are_named_once() -> None:
    pods = [
        working(f"shop/{number}-{name}", work=some_work(runtime_class=name))
        for number in range(2)
        for name in "edcba"
    ]
    found = workload(*pods, named(), runtime_classes={"windows": OF_2022})
    assert (found.missing_runtime_classes, found.runtime_classes_known) == (("a", "b", "c"), True)
    assert found.moving_pods == 11


def test_the_runtime_class_of_a_pod_that_does_not_move_does_not_matter() -> None:
    """Its DaemonSet does not read it, and no one replaces a mirror pod."""
    agent = an_agent(work=some_work(runtime_class="gone"))
    assert workload(agent, runtime_classes={}).missing_runtime_classes == ()
    assert workload(agent).runtime_classes_known


@pytest.mark.parametrize("runtime_classes", [None, {"windows": None}], ids=["not listed", "too long"])
def test_of_a_pod_whose_runtime_class_is_not_known_that_is_noted(
    runtime_classes: RuntimeClasses | None,
) -> None:
    found = workload(named(), runtime_classes=runtime_classes)
    assert (found.runtime_classes_known, found.missing_runtime_classes) == (False, ())
    [(shape, _)] = found.moving
    assert shape.selector == MERGED.selector
    assert workload(working(), runtime_classes=runtime_classes).runtime_classes_known
