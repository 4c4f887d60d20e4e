"""Somebody else keeps writing to the same nodes: they are answered, and there is no war."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from cluster.contended import LABEL, PAUSES, SPEC, TAINT, Object, applied, assert_pauses
from harness.nodes import labels_of, record_of, taints_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy
from winpool.api.keys import APPLIED_ANNOTATION

AT_ONCE_SECONDS: Final = 2.0
"""For the first repair: a promise of a second, and as much again for kubectl and a busy machine."""


@pytest.mark.nightly
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
    assert set(told) == {"DriftRepaired", "ForeignTaintConflict"}
    assert told.count("DriftRepaired") <= 2, "one of the label, one of both: the same is said once"
    assert told.count("ForeignTaintConflict") == 1
    world.delete(pool)  # does not wait for the next repair, which is due in 16 s
    assert LABEL not in labels_of(world.node(name))


@pytest.mark.nightly
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


# Helpers


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
