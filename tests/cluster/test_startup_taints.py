"""A node that joins carries the startup taints until it has been seen to work, once and never again."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from cluster.pods import EVERYTHING, NAMESPACE, Pods, await_passes, passes, pods_in, tainted
from cluster.test_support_matrix import operator_here
from cluster.told import about, expect, issues
from harness.faulty import through_proxy
from harness.nodes import annotations_of, labels_of, record_of, taints_of
from harness.waiting import eventually
from harness.watcher import Watcher
from harness.world import World
from testbed.faults import on, stall
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL

Object = dict[str, Any]

KEY: Final = "startup-taint.cluster-autoscaler.kubernetes.io/agents"
STARTUP: Final = f"{KEY}=:NoSchedule"
NO_EXECUTE: Final = "os=windows:NoExecute"
LABEL: Final = "example.com/team"
GATE: Final = "example.com/go"
"""A condition that the agents' readiness waits for: a test says when they are Ready."""
TIMEOUT_SECONDS: Final = 10
ALL_PODS: Final = on("list", "pods", path="limit=")
MOST_NODE_LISTS: Final = on("list", "pods", path="spec.nodeName%3D")


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    with pods_in(world) as pods:
        yield pods


def a_spec(world: World, **validation: Any) -> Object:
    """Return what a pool asks for: quick to be content, but with a pod that each node is to have."""
    exporter = {"namespace": NAMESPACE, "podSelector": {"matchLabels": exporter_of(world)}}
    return {
        "labels": {LABEL: "payments"},
        "startupTaints": [{"key": KEY, "effect": "NoSchedule"}],
        "validation": {"readySeconds": 2, "requiredPods": [exporter], **validation},
    }


def exporter_of(world: World) -> dict[str, str]:
    return {"app": f"exporter-{world.suffix}"}


@pytest.mark.nightly
def test_it_comes_off_once_when_the_node_is_valid_also_if_the_operator_is_killed_meanwhile(
    world: World, pods: Pods
) -> None:
    [used] = world.fleet(windows=1)
    pods.bind("web", used)
    [joining] = world.fleet(windows=1)
    bare = world.carried()
    agent = pods.daemon_set(
        "agent",
        tolerations=[EVERYTHING],
        priorityClassName="system-node-critical",
        readinessGates=[{"conditionType": GATE}],
    )
    pods.wait_running(count=3)
    with world.watch_nodes() as witness:
        # That a node has pods counts where it is known: so they are looked at before anything is written.
        world.apply(world.pool(mode="DryRun", **a_spec(world)))
        world.operator.start()
        await_passes(world)
        pool = world.apply(world.pool(**a_spec(world)))
        eventually(lambda: tainted(world, STARTUP) == {joining}, what="the startup taint on the new node")
        assert [each["key"] for each in record_of(world.node(joining))["taints"]] == [KEY]
        expect(
            world, pool, NodesUpToDate=("False", "ValidatingNodes"), Reconciling=("True", "ValidatingNodes")
        )
        pods.bind("exporter", joining, labels=exporter_of(world))
        pods.wait_running(count=4)
        await_passes(world)
        assert tainted(world, STARTUP) == {joining}, "its agent is not Ready"

        world.operator.kill()
        pods.tell(pods.of(agent)[joining]["metadata"]["name"], GATE, status="True")
        world.operator.start()
        eventually(lambda: tainted(world, STARTUP) == set(), what="the startup taint off")
        world.wait_up_to_date(pool, nodes=2)
        eventually(
            lambda: "NodeValidated" in world.reasons(kind="Node", name=joining),
            what="the event NodeValidated",
        )

        # What happens to a node later is no reason to put it on again.
        pods.tell(pods.of(agent)[joining]["metadata"]["name"], GATE, status="False")
        world.operator.kill()
        world.operator.start()
        await_passes(world)
        world.wait_up_to_date(pool, nodes=2)
        witness.catch_up(world.nodes().values())
    assert tainted_in_turn(witness, joining) == [False, True, False]
    assert tainted_in_turn(witness, used) == [False], "a node with pods is none that joins"
    assert was_in_the_first_write(witness, joining)
    world.delete(pool)
    assert world.carried() == bare


def test_a_node_that_joins_is_closed_with_its_first_write_however_long_a_look_takes(world: World) -> None:
    start = world.now()
    [first] = world.fleet(windows=1)
    with through_proxy(world) as proxy:
        taints = [
            {"key": "os", "value": "windows", "effect": effect} for effect in ("NoSchedule", "NoExecute")
        ]
        pool = world.apply(world.pool(taints=taints, **a_spec(world)))
        world.operator.start()
        eventually(lambda: tainted(world, NO_EXECUTE) == {first}, what="all taints on the first node")
        eventually(lambda: passes(world, since=start), what="a look at all pods")
        with proxy.add(ALL_PODS, stall()):
            with proxy.add(MOST_NODE_LISTS, stall()), world.watch_nodes() as witness:
                [name] = world.fleet(windows=1)
                eventually(lambda: name in tainted(world, STARTUP), what="the startup taint")
                witness.catch_up(world.nodes().values())
                assert was_in_the_first_write(witness, name)
                assert {LABEL, POOL_LABEL} <= labels_of(world.node(name)).keys()
                assert tainted(world, "os=windows:NoSchedule") == {first, name}
                assert tainted(world, NO_EXECUTE) == {first}, "nothing is known of its pods"
            eventually(lambda: name in tainted(world, NO_EXECUTE), what="NoExecute after its own look")
        world.delete(pool)


@pytest.mark.nightly
def test_another_value_in_the_spec_does_not_open_a_node_that_is_being_validated(
    world: World, pods: Pods
) -> None:
    [name] = world.fleet(windows=1)
    bare = world.carried()
    pool = world.apply(world.pool(**a_spec(world)))
    world.operator.start()
    eventually(lambda: tainted(world, STARTUP) == {name}, what="the startup taint")
    with world.watch_nodes() as witness:
        changed = {"key": KEY, "value": "v2", "effect": "NoSchedule"}
        spec = {**a_spec(world), "startupTaints": [changed], "labels": {LABEL: "billing"}}
        world.apply(world.pool(**spec))
        eventually(lambda: labels_of(world.node(name)).get(LABEL) == "billing", what="the new label")
        await_passes(world)
        witness.catch_up(world.nodes().values())
    keys = [{taint.partition("=")[0] for taint in taints_of(seen)} for seen in witness.states[name]]
    assert all(KEY in each for each in keys)
    assert [each["key"] for each in record_of(world.node(name))["taints"]] == [KEY]
    pods.bind("exporter", name, labels=exporter_of(world))
    world.wait_up_to_date(pool, nodes=1)
    assert KEY not in words_of(taints_of(world.node(name)))
    world.delete(pool)
    assert world.carried() == bare


def words_of(taints: set[str]) -> str:
    return " ".join(sorted(taints))


@pytest.mark.nightly
def test_it_is_not_put_back_when_a_person_takes_it_off_and_goes_with_the_pool(
    world: World, pods: Pods
) -> None:
    pool = world.apply(world.pool(**a_spec(world)))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=0)
    by_hand, left = world.fleet(windows=2)
    eventually(lambda: tainted(world, STARTUP) == {by_hand, left}, what="the startup taint on new nodes")
    with world.watch_nodes() as witness:
        world.kubectl("taint", "node", by_hand, f"{KEY}:NoSchedule-")
        world.kubectl("label", "node", by_hand, f"{LABEL}-")
        eventually(lambda: LABEL in labels_of(world.node(by_hand)), what="the label put back")
        await_passes(world)
        witness.catch_up(world.nodes().values())
    assert tainted_in_turn(witness, by_hand) == [True, False]
    assert tainted_in_turn(witness, left) == [True], "the pod that it must have is not there"
    world.delete(pool)
    for node in world.nodes().values():
        assert taints_of(node) == set()
        assert not {POOL_LABEL, LABEL} & labels_of(node).keys()
        assert APPLIED_ANNOTATION not in annotations_of(node)


@pytest.mark.nightly
def test_a_node_that_is_not_valid_in_time_is_reported_and_keeps_it(world: World, pods: Pods) -> None:
    pool = world.apply(world.pool(**a_spec(world, timeoutSeconds=TIMEOUT_SECONDS)))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=0)
    [name] = world.fleet(windows=1)
    eventually(lambda: tainted(world, STARTUP) == {name}, what="the startup taint")
    added = added_at(world.node(name))
    world.operator.kill()  # the deadline goes by the time of the taint, not by the age of the operator
    world.operator.start()
    status = expect(world, pool, Stalled=("True", "ValidationTimedOut"))
    assert about(status, "ValidationTimedOut") == {name}
    [issue] = issues(status, "ValidationTimedOut")
    assert exporter_of(world)["app"] in issue["message"], "it says what is missing"
    assert issue["fix"]
    since = datetime.fromisoformat(issue["since"])
    assert since - added >= timedelta(seconds=TIMEOUT_SECONDS)
    eventually(
        lambda: "ValidationTimedOut" in world.reasons(kind="Node", name=name),
        what="the event ValidationTimedOut",
    )
    await_passes(world)
    assert tainted(world, STARTUP) == {name}
    assert added_at(world.node(name)) == added
    world.delete(pool)
    assert tainted(world, STARTUP) == set()


def added_at(node: Object) -> datetime:
    """Return when the startup taint on a node was added, by what the taint says itself."""
    [taint] = [each for each in node["spec"]["taints"] if each["key"] == KEY]
    return datetime.fromisoformat(taint["timeAdded"])


async def test_a_node_that_is_older_than_ten_minutes_gets_none(world: World) -> None:
    """A testbed is never that old, so it is the operator's clock that is ahead."""
    async with operator_here(world, now=lambda: datetime.now(UTC) + timedelta(minutes=11)):
        await asyncio.to_thread(old_node_is_written_without, world)


def old_node_is_written_without(world: World) -> None:
    start = world.now()
    [name] = world.fleet(windows=1)
    bare = world.carried()
    pool = world.apply(world.pool(**a_spec(world)))
    with world.watch_nodes() as witness:
        world.wait_up_to_date(pool, nodes=1)
        eventually(lambda: passes(world, since=start), what="a look at all pods", every=0.5)
        witness.catch_up(world.nodes().values())
    assert LABEL in labels_of(world.node(name))
    assert tainted_in_turn(witness, name) == [False]
    world.delete(pool)
    assert world.carried() == bare


def tainted_in_turn(witness: Watcher, name: str) -> list[bool]:
    """Return whether a node carried the startup taint, each time that this changed."""
    seen = (STARTUP in taints_of(each) for each in witness.states[name])
    return [carries for carries, _ in itertools.groupby(seen)]


def was_in_the_first_write(witness: Watcher, name: str) -> bool:
    """Whether the first write of the operator to a node, which leaves a record, brought the taint."""
    written = [each for each in witness.states[name] if APPLIED_ANNOTATION in annotations_of(each)]
    return STARTUP in taints_of(written[0])
