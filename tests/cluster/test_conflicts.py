"""Somebody writes a node between our read and our write: nobody loses anything, and no try is wasted."""

from __future__ import annotations

import json

import pytest

from cluster.contended import LABEL, PAUSES, SPEC, TAINT, Object, applied, assert_pauses
from harness.nodes import labels_of, record_of, taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, Record, answer, call, drop, event, on


def test_a_write_between_our_read_and_our_write_is_not_lost(world: World, proxy: FaultProxy) -> None:
    name, *others = world.fleet(windows=3, labels={"example.com/tier": "silver"})
    bare = world.carried()
    theirs: Object = {
        "metadata": {"labels": {"example.com/late": "theirs"}, "annotations": {"example.com/late": "theirs"}},
        "spec": {"taints": [{"key": "example.com/late", "value": "theirs", "effect": "NoSchedule"}]},
    }

    def interfere(_: Record) -> None:
        world.kubectl("patch", "node", name, "--type=merge", "-p", json.dumps(theirs))

    pool = world.apply(world.pool(**{**SPEC, "labels": {LABEL: "payments", "example.com/tier": "gold"}}))
    with proxy.add(on("patch", "nodes", name=name), call(interfere), nth=1):
        world.operator.start()
        world.wait_up_to_date(pool, nodes=3)
    assert [each.status for each in proxy.writes(on("patch", "nodes", name=name))] == [409, 200]
    assert [len(applied(proxy, other)) for other in others] == [1, 1]
    node = world.node(name)
    assert taints_of(node) == {TAINT, "example.com/late=theirs:NoSchedule"}
    assert labels_of(node).items() >= {"example.com/late": "theirs", LABEL: "payments"}.items()
    assert record_of(node)["labels"]["example.com/tier"]["before"] == "silver"

    world.delete(pool)
    now = world.carried()
    assert {other: now[other] for other in others} == {other: bare[other] for other in others}
    assert now[name] == {
        **bare[name],
        "labels": {**bare[name]["labels"], "example.com/late": "theirs"},
        "annotations": {**bare[name]["annotations"], "example.com/late": "theirs"},
        "taints": theirs["spec"]["taints"],
    }


def test_somebody_who_takes_the_very_key_between_our_read_and_our_write_gets_it_back_in_the_end(
    world: World, proxy: FaultProxy
) -> None:
    [name] = world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))

    def interfere(_: Record) -> None:
        world.kubectl("label", "node", name, f"{LABEL}=theirs")
        world.kubectl("taint", "node", name, "os=theirs:NoSchedule")

    with proxy.add(on("patch", "nodes"), call(interfere), nth=1):
        world.operator.start()
        world.wait_up_to_date(pool, nodes=1)
    assert labels_of(world.node(name))[LABEL] == "payments"
    world.delete(pool)
    assert labels_of(world.node(name))[LABEL] == "theirs"
    assert taints_of(world.node(name)) == {"os=theirs:NoSchedule"}


@pytest.mark.nightly
def test_409_on_every_write_to_one_node_slows_down_that_node_and_no_other(
    world: World, proxy: FaultProxy
) -> None:
    cursed, *others = world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    with proxy.add(on("patch", "nodes", name=cursed), answer(409)):
        world.operator.start()
        eventually(lambda: all(applied(proxy, other) for other in others), what="the others are written to")
        tried = on("patch", "nodes", name=cursed)
        proxy.wait_for(tried, count=3)
        status = world.status(pool)
        assert (status["nodes"], status["upToDateNodes"]) == (3, 2)
        assert_pauses(proxy.writes(tried))
        # An edit finds the others ready, and has this one tried anew, which starts its pauses anew.
        proxy.clear()
        world.apply(world.pool(**{**SPEC, "labels": {LABEL: "platform"}}))
        eventually(lambda: all(len(applied(proxy, each)) == 1 for each in others), what="the others edited")
        proxy.wait_for(tried, count=2)
    world.wait_up_to_date(pool, nodes=3)
    assert len(applied(proxy, cursed)) == 1
    assert_pauses(proxy.writes(tried))
    assert {labels_of(node)[LABEL] for node in world.nodes().values()} == {"platform"}


def test_a_conflict_waits_for_the_newer_state_and_not_a_moment_longer(
    world: World, proxy: FaultProxy
) -> None:
    """A heartbeat of the kubelet changes nothing that we look at, but it does make the write too late."""
    [name] = world.fleet(windows=1)

    def heartbeat(_: Record) -> None:
        world.kubectl("annotate", "node", name, "example.com/heart=beats", "--overwrite")

    pool = world.apply(world.pool(**SPEC))
    with proxy.add(on("patch", "nodes", name=name), call(heartbeat), nth=1):
        world.operator.start()
        world.wait_up_to_date(pool, nodes=1)
    late, done = proxy.writes(on("patch", "nodes", name=name))
    assert (late.status, done.status) == (409, 200)
    assert (done.time - late.time).total_seconds() < PAUSES[0]


def test_a_newer_state_that_the_watch_has_lost_is_found_by_a_list(world: World, proxy: FaultProxy) -> None:
    name, other = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    with proxy.add(on("watch", "nodes"), drop(where=event("MODIFIED", name=name))) as lost:
        world.kubectl("annotate", "node", name, "example.com/heart=beats", "--overwrite")
        eventually(lambda: lost.hits, what="the line is lost")
        proxy.clear()
        world.apply(world.pool(**{**SPEC, "labels": {LABEL: "platform"}}))
        world.wait_up_to_date(pool, nodes=2)
    *late, done = [each.status for each in proxy.writes(on("patch", "nodes", name=name))]
    assert (set(late), done) == ({409}, 200)
    assert 2 <= len(late) <= 3, (
        "the second shows that the watch has lost something; a list may have to wait 10 s"
    )
    assert [each.status for each in proxy.writes(on("patch", "nodes", name=other))] == [200]
    assert len([each for each in proxy.log if (each.verb, each.resource) == ("list", "nodes")]) == 1
