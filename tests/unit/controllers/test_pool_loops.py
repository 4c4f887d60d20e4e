"""When a pool is looked at: on a loop of virtual time, with the real loops, on a cluster in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from harness.builders import NOON, Object, a_node
from harness.loops import MemoryCluster, MemoryOperator
from harness.pods import EVERYTHING, a_pod, an_agent
from harness.services import some_services
from harness.stage import on_stage, status_of
from harness.virtual_time import in_virtual_time
from harness.writes import relabelled
from winpool.controllers.controller import GATHER_SECONDS, PoolLoops
from winpool.controllers.services import Services
from winpool.kube.errors import ApiError, TooLarge, TooManyRequests, Unavailable
from winpool.model.node import Node

LABELS: Object = {"labels": {"team": "payments"}}
STARTUP: Object = {"startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}
HARSH: Object = {"taints": [{"key": "os", "value": "windows", "effect": "NoExecute"}]}
DOWN = Unavailable("list pods: 503", status=503)
BROKEN = Unavailable("list pods of node w1: 500", status=500)
HUGE = TooLarge("list pods of node w1: an answer of more than 8388608 bytes")


def passes_since(operator: MemoryOperator, at: float) -> list[float]:
    return [time for time, _ in operator.passes if time >= at]


def a_joining_node(name: str = "w1", *, age: float = 60) -> Node:
    since = NOON - timedelta(seconds=age)
    return replace(a_node(name), created=since, ready_since=since)


def test_a_burst_of_changes_takes_one_pass() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        begun = cluster.time
        for number in range(5):
            moment = NOON + timedelta(seconds=number)  # something that is looked at, and changes nothing
            cluster.put_node(replace(cluster.nodes["w1"], ready_since=moment))
            await asyncio.sleep(0.004)
        await asyncio.sleep(30)
        assert [name for at, name in operator.wakes if at >= begun] == ["pool"] * 5
        assert passes_since(operator, begun) == [pytest.approx(begun + cluster.trouble.lag + GATHER_SECONDS)]

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_what_can_only_be_reported_takes_one_pass_in_five_seconds() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        begun, loops = cluster.time, operator._loops
        assert loops is not None
        for _ in range(9):
            loops.wake_later("pool")
            await asyncio.sleep(1)
        await asyncio.sleep(1)
        assert passes_since(operator, begun) == [pytest.approx(begun + 5 + GATHER_SECONDS)]
        await asyncio.sleep(10)
        assert len(passes_since(operator, begun)) == 2

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_what_comes_after_the_look_is_not_lost() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        cluster.trouble.latency = 0.2
        cluster.put_node(relabelled(cluster.nodes["w1"], team=None))
        # The pass writes w1 when w2 changes.
        await asyncio.sleep(0.2)
        assert cluster.writes[-1].name == "w1"
        cluster.put_node(relabelled(cluster.nodes["w2"], team=None))
        await asyncio.sleep(5)
        assert [cluster.nodes[name].labels["team"] for name in ("w1", "w2")] == ["payments"] * 2

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


@pytest.mark.parametrize("seconds_of_a_look", [20.0, 1e6])
def test_a_restart_with_a_node_whose_time_for_validation_is_over_waits_for_the_look(
    seconds_of_a_look: float,
) -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.pods = [an_agent(node="w1", is_ready=False)]
        await asyncio.sleep(700)
        assert status_of(cluster, "Stalled") == ("True", "ValidationTimedOut")
        await operator.stop()
        cluster.trouble.pods_seconds = seconds_of_a_look
        cluster.writes.clear()

        again = MemoryOperator(cluster)
        again.start()
        begun = cluster.time
        await asyncio.sleep(3)
        assert len(passes_since(again, begun)) <= 5
        await asyncio.sleep(300)
        assert cluster.writes == []
        assert len(passes_since(again, begun)) <= 10

    on_stage(scene, a_joining_node(), spec=STARTUP)


def test_a_retry_after_is_honoured_also_where_the_report_meets_a_conflict() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        cluster.trouble.latency = 0.3
        cluster.trouble.nodes["w1"] = TooManyRequests("patch nodes w1: 429", status=429, retry_after=40)
        cluster.trouble.lag = 5  # the watch of pools is behind, so that the report is
        body = cluster.bodies["pool"]
        cluster.put_pool({**body, "metadata": {**body["metadata"], "labels": {"a": "b"}}})
        cluster.trouble.lag = 0.02
        cluster.put_node(relabelled(cluster.nodes["w1"], team=None))
        await asyncio.sleep(2)
        first = next(write.at for write in cluster.writes if write.at > 30)
        cluster.trouble.nodes.clear()
        assert [write.kind for write in cluster.writes if write.at > 30] == ["node", "status"]
        await asyncio.sleep(60)
        _, second, *_ = [write.at for write in cluster.writes if write.at > 30 and write.kind == "node"]
        assert second - first >= 40

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_pool_of_which_nothing_changes_is_not_looked_at() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        begun = cluster.time
        await asyncio.sleep(7200)
        assert passes_since(operator, begun) == []

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


def test_the_figures_of_a_pool_are_kept_until_it_is_gone() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        assert operator.services.stats.figures.keys() == {"pool"}
        cluster.delete_pool("pool")
        await asyncio.sleep(30)
        assert cluster.bodies == {}
        assert operator.services.stats.figures == {}

    on_stage(scene, a_node("w1"), spec=LABELS)


UNREADABLE: Object = {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "Perhaps"}]}


class Shared(MemoryCluster):
    """Somebody else has put a condition there that nobody can read, and an apply leaves what others put."""

    def _put_pool(self, body: Object) -> Object:
        status = body.get("status")
        if status and "Perhaps" in str(self.bodies.get("pool", {}).get("status")):
            conditions = [*status["conditions"], *UNREADABLE["conditions"]]
            body = {**body, "status": {**status, "conditions": conditions}}
        return super()._put_pool(body)


def test_a_status_that_cannot_be_read_is_rebuilt_before_any_node_and_nothing_is_told_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.pods = [a_pod(node="w1", os="linux")]
        await asyncio.sleep(30)
        assert cluster.bodies["pool"]["status"]["misplacedPods"] == 1
        known, told = cluster.bodies["pool"]["status"], list(operator.events)
        assert ("MisplacedPods", "pool") in told
        cluster.put_pool({**cluster.bodies["pool"], "status": UNREADABLE})
        begun = cluster.time
        await asyncio.sleep(30)
        assert [write.kind for write in cluster.writes if write.at >= begun] == ["status"]
        assert cluster.bodies["pool"]["status"].keys() == known.keys()
        assert cluster.bodies["pool"]["status"]["misplacedPods"] == 1
        assert operator.events == told

        cluster.put_pool({**cluster.bodies["pool"], "status": UNREADABLE})
        cluster.put_node(relabelled(cluster.nodes["w1"], team=None))
        begun = cluster.time
        await asyncio.sleep(30)
        done = [write.kind for write in cluster.writes if write.at >= begun]
        assert done[:2] == ["status", "node"]

    on_stage(scene, a_node("w1"), spec=LABELS)
    said = [each.message for each in caplog.records if "its status cannot be read" in each.message]
    assert len(said) == 2, "once each time"
    assert "status.conditions[0]" in said[0]


def test_after_a_restart_the_rebuilt_status_waits_for_the_first_look_and_nodes_for_the_status() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.pods = [a_pod(node="w1", os="linux")]
        await asyncio.sleep(30)
        await operator.stop()
        cluster.put_pool({**cluster.bodies["pool"], "status": UNREADABLE})
        cluster.put_node(relabelled(cluster.nodes["w1"], team=None))
        cluster.writes.clear()
        cluster.trouble.pods_seconds = 20
        again = MemoryOperator(cluster)
        again.start()
        begun = cluster.time
        await asyncio.sleep(15)
        assert cluster.writes == []
        assert len(again.passes) <= 5
        await asyncio.sleep(30)
        assert [write.kind for write in cluster.writes][:2] == ["status", "node"]
        assert cluster.writes[0].at - begun == pytest.approx(20, abs=1)
        assert cluster.bodies["pool"]["status"]["misplacedPods"] == 1
        assert "MisplacedPods" not in {reason for reason, _ in again.events}

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_status_that_others_keep_unreadable_is_taken_off_whole() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        cluster.put_pool({**cluster.bodies["pool"], "status": UNREADABLE})
        cluster.put_node(relabelled(cluster.nodes["w1"], team=None))
        begun = cluster.time
        await asyncio.sleep(600)
        done = [write.kind for write in cluster.writes if write.at >= begun]
        assert done[:4] == ["status", "clear", "status", "node"]
        assert len(done) <= 6
        assert status_of(cluster, "Ready") == ("True", "UpToDate")

    on_stage(scene, a_node("w1"), cluster_of=Shared, spec=LABELS)


def test_a_pool_under_deletion_keeps_its_nodes_until_its_unreadable_status_is_rebuilt() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        cluster.put_pool({**cluster.bodies["pool"], "status": UNREADABLE})
        cluster.delete_pool("pool")
        begun = cluster.time
        await asyncio.sleep(30)
        done = [write.kind for write in cluster.writes if write.at >= begun]
        assert done[:2] == ["status", "node"]
        assert cluster.bodies == {}
        assert "team" not in cluster.nodes["w1"].labels

    on_stage(scene, a_node("w1"), spec=LABELS)


def test_a_status_that_is_never_kept_holds_up_nodes_and_burns_nothing() -> None:
    """Something in between takes out what we write: no pass after it is a step forward."""

    class Forgetful(MemoryCluster):
        def _put_pool(self, body: Object) -> Object:
            held = self.bodies.get("pool")
            if held and body.get("status") != held.get("status"):
                return held
            return super()._put_pool(body)

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        begun = cluster.time
        await asyncio.sleep(60)
        assert len(passes_since(operator, begun)) <= 65
        assert cluster.nodes["w1"].labels.get("team") is None

    on_stage(scene, a_node("w1"), cluster_of=Forgetful, status=UNREADABLE, spec=LABELS)


def test_of_several_errors_of_a_pass_the_longest_retry_after_counts() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(30)
        busy = TooManyRequests("patch nodes w1: 429", status=429, retry_after=40)
        cluster.trouble.nodes = {"w1": busy, "w2": Unavailable("patch nodes w2: 503", status=503)}
        for name in ("w1", "w2"):
            cluster.put_node(relabelled(cluster.nodes[name], team=None))
        begun = cluster.time
        await asyncio.sleep(60)
        tries = [write.at for write in cluster.writes if write.at >= begun and write.kind == "node"]
        assert len(tries) >= 4
        assert tries[2] - tries[1] >= 40

    on_stage(scene, a_node("w1"), a_node("w2"), spec=LABELS)


def taints_on(cluster: MemoryCluster, name: str) -> set[str]:
    return {taint.key for taint in cluster.nodes[name].taints}


def test_a_node_that_joins_ready_is_validated_by_its_own_looks() -> None:
    """Its first own look is made while it is bare, and asks nothing of readiness: the next one has to."""

    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(100)
        cluster.pods = [an_agent(node="w1")]  # in the way of NoExecute, so that the look leads to no write
        cluster.put_node(a_joining_node())
        await asyncio.sleep(0.2)
        assert taints_on(cluster, "w1") == {"example.com/starting"}
        await asyncio.sleep(60)
        assert taints_on(cluster, "w1") == set()
        assert status_of(cluster, "NodesUpToDate") == ("False", "TaintsHeld")

    on_stage(scene, spec={**HARSH, **STARTUP})


def test_a_node_that_joins_ready_and_never_gets_fit_is_told_once_its_time_is_over() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(100)
        cluster.pods = [an_agent(node="w1", is_ready=False)]
        cluster.put_node(a_joining_node())
        await asyncio.sleep(900)
        issues = cluster.bodies["pool"]["status"]["issues"]
        assert "ValidationTimedOut" in {each["reason"] for each in issues}

    on_stage(scene, spec={**HARSH, **STARTUP})


@pytest.mark.parametrize("error", [HUGE, BROKEN], ids=["too large", "failing"])
def test_where_the_pods_of_one_node_cannot_be_listed_a_look_at_all_pods_does(error: ApiError) -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        cluster.trouble.pods_of["w1"] = error
        await asyncio.sleep(100)
        assert taints_on(cluster, "w2") == {"os"}
        assert taints_on(cluster, "w1") == {"os"}
        cluster.trouble.pods_of["w3"] = error
        cluster.put_node(a_node("w3"))
        await asyncio.sleep(100)
        assert taints_on(cluster, "w3") == {"os"}
        await asyncio.sleep(600)
        assert status_of(cluster, "Ready") == ("True", "UpToDate")
        assert status_of(cluster, "Stalled") == ("False", "NotStalled")

    on_stage(scene, a_node("w1"), a_node("w2"), spec=HARSH)


def test_a_node_whose_pods_cannot_be_listed_is_validated_by_looks_at_all_pods() -> None:
    async def scene(cluster: MemoryCluster, operator: MemoryOperator) -> None:
        await asyncio.sleep(100)
        cluster.trouble.pods_of["w1"] = HUGE
        cluster.pods = [an_agent(node="w1", tolerations=EVERYTHING)]
        cluster.put_node(a_joining_node())
        await asyncio.sleep(100)
        assert taints_on(cluster, "w1") == {"os"}

    on_stage(scene, spec={**HARSH, **STARTUP})


@in_virtual_time
async def test_while_the_operator_stands_by_no_loop_starts_and_then_those_of_all_pools_do() -> None:
    made: list[str] = []
    part: Any = SimpleNamespace
    known = [part(name="a"), part(name="b")]

    def make(name: str) -> Any:
        made.append(name)
        return part(close=lambda: None)

    services = some_services(
        pools=part(get=lambda name: name, all=lambda: known, synced=False),
    )
    loops = PoolLoops(services, make_reconciler=make)
    loops.wake("a")
    loops.wake_all()
    await asyncio.sleep(10)
    before = list(made)
    loops.begin()
    await asyncio.sleep(10)
    assert (before, made) == ([], ["a", "b"])
    await loops.stop()


def services_of(known: Sequence[Any]) -> Services:
    part: Any = SimpleNamespace
    names = {each.name for each in known}
    return some_services(
        pools=part(get=lambda name: name in names, all=lambda: known, synced=True),
        nodes=part(synced=True),
        guard=part(known=True),
        lacking_fields=tuple,
    )


@in_virtual_time
async def test_a_pool_with_something_to_write_waits_for_one_pass_of_those_that_only_report() -> None:
    part: Any = SimpleNamespace
    known = [part(name=str(number)) for number in range(20)]
    loop, passes = asyncio.get_running_loop(), list[tuple[str, float]]()

    def reconciler(name: str) -> Any:
        async def run() -> None:
            passes.append((name, round(loop.time() - begun, 2)))
            await asyncio.sleep(1)
            if name == "3" and begun:
                raise DOWN  # its pause is not that of the others

        return part(close=lambda: None, run=run, has_nodes=True)

    begun = 0.0
    loops = PoolLoops(services_of(known), make_reconciler=reconciler)
    loops.begin()
    await asyncio.sleep(10)
    passes.clear()
    begun = loop.time()
    for each in (*known, part(name="gone")):
        loops.wake_later(each.name)
    await asyncio.sleep(10)
    first: dict[str, float] = {}
    for name, at in passes:
        first.setdefault(name, at)  # the one that failed has another, after a pause of its own
    late = [*first.values()]
    assert late[0] == 5.05
    assert {round(later - earlier, 2) for earlier, later in pairwise(late)} == {1.07}
    loops.wake("19")
    await asyncio.sleep(30)
    assert next(at for name, at in passes if name == "19") == 10.05
    assert {name for name, _ in passes} == {each.name for each in known}
    await loops.stop()


async def test_between_the_passes_of_many_pools_the_loop_serves_all_else() -> None:
    """In real time: what serves /healthz must not wait until sixty pools have decided."""
    part: Any = SimpleNamespace
    known = [part(name=str(number)) for number in range(20)]
    turns, seen = 0, list[int]()

    async def run() -> None:
        seen.append(turns)

    loops = PoolLoops(
        services_of(known),
        make_reconciler=lambda _: cast(Any, part(close=lambda: None, run=run, has_nodes=True)),
    )
    loops.begin()
    while len(seen) < len(known):
        await asyncio.sleep(0)
        turns += 1
    await loops.stop()
    assert all(later > earlier for earlier, later in pairwise(seen)), seen


@in_virtual_time
async def test_a_pool_with_nodes_waits_for_one_pass_of_those_without() -> None:
    part: Any = SimpleNamespace
    known = [part(name=f"{number:02}") for number in range(20)]
    passes = list[str]()

    def reconciler(name: str) -> Any:
        async def run() -> None:
            passes.append(name)

        return part(close=lambda: None, run=run, has_nodes=name == "19")

    loops = PoolLoops(services_of(known), make_reconciler=reconciler)
    loops.begin()
    await asyncio.sleep(10)
    assert passes[:2] == ["00", "19"]
    assert sorted(passes) == [each.name for each in known]
    await loops.stop()


async def test_a_loop_keeps_nothing_of_the_event_that_began_it() -> None:
    """Kopf's context has the whole object: one of each pool stayed in memory, as large as it gets."""
    part: Any = SimpleNamespace
    variable = ContextVar[str]("the object of the event")
    seen = asyncio.get_running_loop().create_future()

    async def run() -> None:
        seen.set_result(variable.get(""))

    loops = PoolLoops(
        services_of([part(name="a")]),
        make_reconciler=lambda _: cast(Any, part(close=lambda: None, run=run, has_nodes=True)),
    )
    variable.set("a thousand values")
    loops.begin()
    assert await seen == ""
    await loops.stop()
