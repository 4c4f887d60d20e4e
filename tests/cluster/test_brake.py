"""A NoExecute taint deletes pods without asking anybody: it waits until it would delete none (P3, P4, P5)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pytest

from cluster.pods import EVERYTHING, NAMESPACE, OFTEN, Pods, await_passes, pods_in, removals, tainted
from cluster.told import about, expect, issues, stood_first, words
from harness.faulty import through_proxy
from harness.nodes import labels_of, record_of, taints_of
from harness.operator import Operator
from harness.waiting import eventually
from harness.world import World
from testbed.audit import AuditRecord
from testbed.faults import answer, cut, on, rewrite

Object = dict[str, Any]

LABEL: Final = "example.com/team"
TAINT: Final = "os=windows:NoExecute"
NEXT: Final = "os=win2025:NoExecute"
GENTLE: Final = "os=windows:NoSchedule"
TOLERATES: Final[Object] = {"key": "os", "value": "windows", "effect": "NoExecute"}
HELD: Final = {"NodesUpToDate": ("False", "TaintsHeld"), "Stalled": ("True", "TaintsHeld")}
LISTS: Final = on("list", "pods")


def is_own_look(record: AuditRecord) -> bool:
    """Whether it lists the pods of one node."""
    return (record.verb, record.resource) == ("list", "pods") and "spec.nodeName%3D" in record.uri


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    with pods_in(world) as pods:
        yield pods


def no_execute(value: str = "windows", **more: str) -> Object:
    return {"key": "os", "value": value, "effect": "NoExecute", **more}


def test_a_taint_that_would_delete_pods_waits_on_their_nodes_and_nowhere_else(
    world: World, pods: Pods
) -> None:
    with_web, with_patient, with_agent, with_leaving = names = world.fleet(windows=4)
    bare = world.carried()
    web = pods.bind("web", with_web)
    patient = pods.bind("patient", with_patient, tolerations=[{**TOLERATES, "tolerationSeconds": 3600}])
    pods.bind("agent", with_agent, tolerations=[TOLERATES])
    leaving = pods.bind("leaving", with_leaving, finalizers=["example.com/hold"])
    pods.wait_running(count=4)
    world.kubectl("delete", "pod", leaving, "-n", NAMESPACE, "--wait=false")
    kept = pods.uids()
    assert leaving not in kept
    start = world.now()

    pool = world.apply(world.pool(labels={LABEL: "payments"}, taints=[no_execute()]))
    world.operator.start()
    eventually(lambda: tainted(world, TAINT) == {with_agent, with_leaving}, what="the taint where it may be")
    status = expect(world, pool, **HELD)
    assert status["upToDateNodes"] == 2
    assert world.condition(pool, "Ready")["status"] == "True"
    found = issues(status, "IntolerantPods")
    assert about(status, "IntolerantPods") == {with_web, with_patient}
    told = words(found)
    for name in (with_web, with_patient, f"{NAMESPACE}/{web}", f"{NAMESPACE}/{patient}", "NoExecute"):
        assert name in told
    assert all(each["fix"] for each in found)
    assert {labels_of(node).get(LABEL) for node in world.nodes().values()} == {"payments"}
    eventually(
        lambda: "TaintsHeld" in world.reasons(kind="WindowsNodePool", name=pool), what="the event TaintsHeld"
    )

    await_passes(world)
    assert tainted(world, TAINT) == {with_agent, with_leaving}
    assert pods.uids() == kept
    assert removals(world, since=start, of=kept) == []

    # As soon as a pod has gone, its node gets the taint; the others still wait.
    pods.delete(web)
    eventually(lambda: with_web in tainted(world, TAINT), what="the taint where the pod has gone")
    assert tainted(world, TAINT) == {with_web, with_agent, with_leaving}
    assert pods.uids() == {name: uid for name, uid in kept.items() if name != web}
    pods.delete(patient)
    status = world.wait_up_to_date(pool, nodes=4)
    expect(world, pool, Stalled=("False", "NotStalled"))
    assert issues(status, "IntolerantPods") == []
    assert tainted(world, TAINT) == set(names)
    world.delete(pool)
    assert world.carried() == bare


@pytest.mark.nightly
def test_another_value_of_a_taint_that_is_held_leaves_the_old_one_standing(world: World, pods: Pods) -> None:
    used, free = world.fleet(windows=2)
    bare = world.carried()
    web = pods.bind("web", used, tolerations=[TOLERATES])
    pods.wait_running(count=1)
    kept = pods.uids()
    start = world.now()
    pool = world.apply(world.pool(taints=[no_execute()]))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    assert tainted(world, TAINT) == {used, free}

    world.apply(world.pool(taints=[no_execute("win2025")]))
    eventually(lambda: tainted(world, NEXT) == {free}, what="the new value where it may be")
    status = expect(world, pool, **HELD)
    assert used in words(issues(status, "IntolerantPods"))
    await_passes(world)
    assert tainted(world, NEXT) == {free}
    assert taints_of(world.node(used)) == {TAINT}
    assert pods.uids() == kept
    assert removals(world, since=start, of=kept) == []

    pods.delete(web)
    world.wait_up_to_date(pool, nodes=2)
    assert tainted(world, NEXT) == {used, free}
    world.delete(pool)
    assert world.carried() == bare


def test_where_the_spec_says_delete_the_pods_are_named_first_and_only_the_intolerant_ones_go(
    world: World, pods: Pods
) -> None:
    used, other = world.fleet(windows=2)
    web = pods.bind("web", used)
    pods.bind("agent", used, tolerations=[TOLERATES])
    pods.bind("other", other, tolerations=[EVERYTHING])
    pods.wait_running(count=3)
    kept = {name: uid for name, uid in pods.uids().items() if name != web}
    start = world.now()
    pool = world.apply(world.pool(taints=[no_execute(onIntolerantPods="Delete")]))
    with world.watch_pool(pool) as statuses, world.watch_nodes() as nodes:
        world.operator.start()
        eventually(lambda: web not in pods.all(), what="the pod deleted")
        world.wait_up_to_date(pool, nodes=2)
        statuses.catch_up([world.get("wnp", pool)])
        nodes.catch_up(world.nodes().values())
    named = stood_first(
        statuses, lambda seen: f"{NAMESPACE}/{web}" in words(issues(seen.get("status", {}), "IntolerantPods"))
    )
    assert named < stood_first(nodes, lambda node: TAINT in taints_of(node))
    assert pods.uids() == kept
    assert removals(world, since=start, of=kept) == []
    assert [each.uri for each in world.writes(since=start) if each.resource == "pods"] == [], "not by us"
    eventually(lambda: not issues(world.status(pool), "IntolerantPods"), what="the issue gone")
    expect(world, pool, Stalled=("False", "NotStalled"))


@pytest.mark.nightly
def test_a_taint_that_somebody_took_off_is_not_put_back_on_a_pod_that_has_come_since(
    world: World, pods: Pods
) -> None:
    used, free = world.fleet(windows=2)
    pool = world.apply(world.pool(labels={LABEL: "payments"}, taints=[no_execute()]))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()  # so that it can know neither of the taint nor of the pod before both are there
    world.kubectl("taint", "node", used, free, "os:NoExecute-")
    world.kubectl("label", "node", used, free, f"{LABEL}-")
    web = pods.bind("web", used)
    pods.wait_running(count=1)
    kept = pods.uids()
    start = world.now()
    with world.watch_nodes() as witness:
        world.operator.start()
        eventually(lambda: tainted(world, TAINT) == {free}, what="the taint back where it may be")
        status = expect(world, pool, **HELD)
        assert f"{NAMESPACE}/{web}" in words(issues(status, "IntolerantPods"))
        assert LABEL in labels_of(world.node(used)), "nothing else waits"
        await_passes(world)
        witness.catch_up(world.nodes().values())
    assert [seen for seen in witness.states[used] if TAINT in taints_of(seen)] == []
    assert pods.uids() == kept
    assert removals(world, since=start, of=kept) == []
    pods.delete(web)
    world.wait_up_to_date(pool, nodes=2)
    assert tainted(world, TAINT) == {used, free}


def test_a_pod_that_came_between_the_last_look_and_the_repair_is_seen_before_the_taint_goes_back(
    world: World, pods: Pods
) -> None:
    used, free = world.fleet(windows=2)
    pool = world.apply(world.pool(labels={LABEL: "payments"}, taints=[no_execute()]))
    # The usual operator: its one look at all pods is a few seconds old when the taint goes.
    world.operator = Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"), log_file=world.operator.log_file
    )
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    with world.watch_nodes() as witness:
        os.kill(world.operator.pid, signal.SIGSTOP)  # so that the pod is there before it can act
        world.kubectl("taint", "node", used, free, "os:NoExecute-")
        web = pods.bind("web", used)
        kept = pods.uids()
        start = world.now()
        os.kill(world.operator.pid, signal.SIGCONT)
        eventually(lambda: tainted(world, TAINT) == {free}, what="the taint back where it may be")
        status = expect(world, pool, **HELD)
        assert f"{NAMESPACE}/{web}" in words(issues(status, "IntolerantPods"))
        witness.catch_up(world.nodes().values())
    bare = [taints_of(seen) for seen in witness.states[used]]
    assert TAINT not in bare[-1]
    assert sum(TAINT in after - before for before, after in pairwise(bare)) == 0, "it was put back"
    assert pods.uids() == kept
    assert removals(world, since=start, of=kept) == []
    alone = [each for each in world.requests(since=start) if is_own_look(each)]
    assert alone, "its pods were listed by themselves"
    assert all("limit=" not in each.uri and "resourceVersion" not in each.uri for each in alone)


@pytest.mark.nightly
def test_while_pods_cannot_be_listed_nothing_is_known_and_nothing_but_that_taint_waits(
    world: World, pods: Pods
) -> None:
    used, free = world.fleet(windows=2)
    bare = world.carried()
    gentle = {"key": "os", "value": "windows", "effect": "NoSchedule"}
    web = pods.bind("web", used)
    pods.wait_running(count=1)
    kept = pods.uids()
    start = world.now()
    with through_proxy(world, environment=OFTEN) as proxy:
        pool = world.apply(world.pool(labels={LABEL: "payments"}, taints=[gentle]))
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        with proxy.add(LISTS, answer(500)) as failing:
            world.kubectl("taint", "node", used, "os:NoSchedule-")
            eventually(lambda: GENTLE in taints_of(world.node(used)), what="that taint repaired all the same")
            world.apply(world.pool(labels={LABEL: "billing"}, taints=[gentle, no_execute()]))
            eventually(
                lambda: {labels_of(node)[LABEL] for node in world.nodes().values()} == {"billing"},
                what="the new label on all nodes",
            )
            told = failing.hits
            eventually(lambda: failing.hits > told + 1, what="pods asked for in vain")
            assert tainted(world, TAINT) == set()
            assert tainted(world, GENTLE) == {used, free}
            assert world.condition(pool, "NodesUpToDate")["status"] == "False"
        eventually(lambda: tainted(world, TAINT) == {free}, what="the taint as soon as pods are known")
        assert f"{NAMESPACE}/{web}" in words(issues(expect(world, pool, **HELD), "IntolerantPods"))
        assert pods.uids() == kept
        assert removals(world, since=start, of=kept) == []
        with proxy.add(LISTS, answer(500)):
            world.delete(pool)  # what was put on comes off, whatever is known of pods
        assert world.carried() == bare


@pytest.mark.nightly
def test_half_a_list_of_pods_says_nothing(world: World, pods: Pods) -> None:
    used, free = world.fleet(windows=2)
    for name in ("aa", "ab", "ac"):
        pods.bind(name, free, tolerations=[EVERYTHING])
    pods.bind("zz", used)  # the last one of all, so that it is never on the first page
    pods.wait_running(count=4)
    kept = pods.uids()
    start = world.now()
    with through_proxy(world, environment=OFTEN) as proxy, world.watch_nodes() as witness:
        proxy.add(LISTS, rewrite(lambda path: path.replace("limit=500", "limit=2")))
        later_pages = on("list", "pods", path="continue=")
        own_looks = on("list", "pods", path="spec.nodeName%3D")
        pool = world.apply(world.pool(labels={LABEL: "payments"}, taints=[no_execute()]))
        with (
            proxy.add(own_looks, answer(500)),
            proxy.add(later_pages, answer(500), nth=1),
            proxy.add(later_pages, answer(410, reason="Expired"), nth=2),
            proxy.add(later_pages, cut()) as broken,
        ):
            world.operator.start()
            eventually(lambda: broken.hits > 3, what="pages that fail, expire and are lost")
            assert tainted(world, TAINT) == set()
            eventually(
                lambda: {labels_of(node).get(LABEL) for node in world.nodes().values()} == {"payments"},
                what="the label on all nodes",
            )
        eventually(lambda: tainted(world, TAINT) == {free}, what="the taint once a list was whole")
        expect(world, pool, **HELD)
        assert [each["key"] for each in record_of(world.node(free))["taints"]] == ["os"]
        assert record_of(world.node(used))["taints"] == []
        witness.catch_up(world.nodes().values())
    assert [seen for seen in witness.states[used] if TAINT in taints_of(seen)] == []
    assert pods.uids() == kept
    assert removals(world, since=start, of=kept) == []
