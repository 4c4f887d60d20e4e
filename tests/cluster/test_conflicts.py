"""Somebody else writes to the same nodes, or a write goes wrong: nobody loses anything, and nobody storms."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from harness.faulty import through_proxy
from harness.nodes import labels_of, record_of, taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, Record, answer, call, cut, drop, event, on
from winpool.api.keys import APPLIED_ANNOTATION

Object = dict[str, Any]

LABEL: Final = "example.com/team"
TAINT: Final = "os=windows:NoSchedule"
SPEC: Final[Object] = {
    "labels": {LABEL: "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
PATCH: Final = on("patch", "nodes")
PAUSES: Final = (2.0, 4.0, 8.0)
"""Seconds between repairs of one node that somebody else keeps undoing (design §6)."""
AT_ONCE_SECONDS: Final = 2.0
"""For the first repair: a promise of a second, and as much again for kubectl and a busy machine."""
RETRY_AFTER_SECONDS: Final = 3
CLOCKS_SECONDS: Final = 0.05
"""Two processes, the operator's clock that counts a pause and the proxy's that measures it."""


@pytest.fixture
def proxy(world: World) -> Iterator[FaultProxy]:
    with through_proxy(world) as between:
        yield between


def test_a_writer_that_keeps_removing_our_taint_and_label_is_answered_at_once_and_then_ever_later(
    world: World, proxy: FaultProxy
) -> None:
    [name, quiet] = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    proxy.clear()
    start = world.now()
    with removing(world, name):
        eventually(lambda: len(applied(proxy, name)) > len(PAUSES), what="four repairs", seconds=90)
    times = [each.time for each in applied(proxy, name)]
    assert (times[0] - start).total_seconds() <= AT_ONCE_SECONDS
    assert_pauses(applied(proxy, name))
    assert applied(proxy, quiet) == []
    told = world.reasons(kind="Node", name=name)
    assert set(told) == {"DriftRepaired"}
    assert len(told) <= 2, "one of the label, one of both: the same is said once"
    world.delete(pool)  # does not wait for the next repair, which is due in 16 s
    assert LABEL not in labels_of(world.node(name))


def test_a_writer_that_keeps_removing_the_ownership_record_is_answered_ever_later_too(
    world: World, proxy: FaultProxy
) -> None:
    """Without the record there is no drift to be seen: the labels and taints all stand there."""
    [name] = world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    proxy.clear()
    with removing_record(world, name):
        eventually(lambda: len(applied(proxy, name)) > 2, what="three repairs")
    assert_pauses(applied(proxy, name))
    assert "OwnershipRecordUnreadable" in world.reasons(kind="Node", name=name)


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

    with proxy.add(PATCH, call(interfere), nth=1):
        world.operator.start()
        world.wait_up_to_date(pool, nodes=1)
    assert labels_of(world.node(name))[LABEL] == "payments"
    world.delete(pool)
    assert labels_of(world.node(name))[LABEL] == "theirs"
    assert taints_of(world.node(name)) == {"os=theirs:NoSchedule"}


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


def test_a_pool_is_not_let_go_while_a_write_of_ours_may_stand_that_nobody_told_us_of(
    world: World, proxy: FaultProxy
) -> None:
    """The answers to all tries of the write are lost, and the watch is silent about the node."""
    [name] = world.fleet(windows=1)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    with (
        proxy.add(on("watch", "nodes"), drop(where=event("MODIFIED", name=name))),
        proxy.add(on("patch", "nodes", name=name), cut(when="after")),
    ):
        world.operator.start()
        eventually(lambda: LABEL in labels_of(world.node(name)), what="the write stands")
        world.delete(pool, wait=False)
        eventually(lambda: marked_lists(proxy), what="the API server itself is asked")
    eventually(lambda: pool not in world.pools(), what="the pool is gone")
    assert world.carried() == bare


def test_a_node_that_registers_anew_with_taints_of_its_own_gets_those_back_in_the_end(world: World) -> None:
    equal, other = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    registers_with = {
        equal: [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
        other: [{"key": "os", "value": "theirs", "effect": "NoSchedule"}],
    }
    for name, taints in registers_with.items():
        reborn(world, name, taints=taints)
    world.wait_up_to_date(pool, nodes=2)
    eventually(
        lambda: all(TAINT in taints_of(node) for node in world.nodes().values()), what="the taint on both"
    )
    eventually(
        lambda: {labels_of(node).get(LABEL) for node in world.nodes().values()} == {"payments"},
        what="the label on both",
    )
    assert record_of(world.node(equal))["taints"] == [], "an equal taint that was there is not ours"
    world.delete(pool)
    assert os_taints(world, equal) == {TAINT}
    assert os_taints(world, other) == {"os=theirs:NoSchedule"}


def test_429_is_obeyed(world: World, proxy: FaultProxy) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    with proxy.add(PATCH, answer(429, retry_after=RETRY_AFTER_SECONDS), first=len(names)):
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
    for name in names:
        refused, accepted = proxy.writes(on("patch", "nodes", name=name))
        assert (refused.status, accepted.status) == (429, 200)
        assert (accepted.time - refused.time).total_seconds() >= RETRY_AFTER_SECONDS - CLOCKS_SECONDS


def test_writes_whose_replies_are_lost_are_not_made_twice(world: World, proxy: FaultProxy) -> None:
    names = world.fleet(windows=2)
    bare = world.carried()
    with world.watch_nodes() as witness:
        pool = world.apply(world.pool(**SPEC))
        lost = [
            proxy.add(on("patch", resource), cut(when="after"), first=2)
            for resource in ("windowsnodepools", "nodes", "windowsnodepools/status")
        ]
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        witness.catch_up(world.nodes().values())
    assert all(rule.hits for rule in lost)
    assert witness.changes("metadata", "labels") == dict.fromkeys(names, 1)
    assert [len(applied(proxy, name)) for name in names] == [1, 1]
    proxy.heal()
    world.delete(pool)
    assert world.carried() == bare


# Helpers


def marked_lists(proxy: FaultProxy) -> list[Record]:
    """Return the lists of the nodes that carry a pool's label."""
    return [each for each in proxy.log if each.verb == "list" and "winpool.dev%2Fpool%3D" in each.path]


@contextmanager
def removing(world: World, name: str) -> Iterator[None]:
    """Have somebody take our label and our taint off a node whenever they are there."""

    def remove() -> None:
        node = world.node(name)
        if LABEL in labels_of(node):
            world.kubectl("label", "node", name, f"{LABEL}-")
        if TAINT in taints_of(node):
            world.kubectl("taint", "node", name, "os:NoSchedule-", check=False)

    with repeating(remove):
        yield


@contextmanager
def removing_record(world: World, name: str) -> Iterator[None]:
    """Have somebody take the ownership record off a node whenever it is there."""

    def remove() -> None:
        if APPLIED_ANNOTATION in world.node(name)["metadata"].get("annotations", {}):
            world.kubectl("annotate", "node", name, f"{APPLIED_ANNOTATION}-")

    with repeating(remove):
        yield


@contextmanager
def repeating(action: Callable[[], None]) -> Iterator[None]:
    """Do something again and again in a thread of its own."""
    over = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not over.is_set():
                action()
        except BaseException as error:  # noqa: BLE001 - raised again below, in the thread of the test
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=60)
    assert failures == []


def applied(proxy: FaultProxy, name: str) -> list[Record]:
    """Return the writes to a node that the API server carried out."""
    return [each for each in proxy.writes(on("patch", "nodes", name=name)) if each.applied]


def assert_pauses(writes: list[Record] | tuple[Record, ...]) -> None:
    """Assert that each write but the first came after its pause, or later."""
    for (before, after), pause in zip(itertools.pairwise(writes), PAUSES, strict=False):
        waited = (after.time - before.time).total_seconds()
        assert waited >= pause - CLOCKS_SECONDS, [str(each.time) for each in writes]


def reborn(world: World, name: str, *, taints: list[Object]) -> None:
    """Delete a node and register it again as its kubelet would, with these taints and a new UID."""
    old = world.node(name)
    labels = {key: value for key, value in labels_of(old).items() if "kubernetes.io/" in key}
    manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **world.selector}},
        "spec": {"taints": taints},
    }
    world.kubectl("delete", "node", name)
    world.kubectl("create", "-f", "-", stdin=json.dumps(manifest))
    assert world.node(name)["metadata"]["uid"] != old["metadata"]["uid"]


def os_taints(world: World, name: str) -> set[str]:
    """Return the taints of a node with the key that the pool uses."""
    return {taint for taint in taints_of(world.node(name)) if taint.startswith("os=")}
