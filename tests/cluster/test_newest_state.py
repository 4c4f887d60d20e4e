"""Between deciding on thousands of nodes and writing the last one the world goes on: no write is wasted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from harness.faulty import through_proxy
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from testbed.faults import FaultProxy, Record, delay, on
from winpool.controllers.writes import PATCHES_IN_FLIGHT

Object = dict[str, Any]

LABEL: Final = "example.com/team"
SPEC: Final[Object] = {"labels": {LABEL: "payments"}}
PATCH: Final = on("patch", "nodes")
WAITING: Final = 6
"""Nodes for which there is no room in flight while the others are held up."""
HELD_UP_SECONDS: Final = 4.0
"""Long enough for kubectl to write to all that wait, and shorter than a pass goes on starting patches."""


@pytest.fixture
def proxy(world: World) -> Iterator[FaultProxy]:
    with through_proxy(world) as between:
        between.add(PATCH, delay(HELD_UP_SECONDS), first=PATCHES_IN_FLIGHT)
        yield between


def begin(world: World, proxy: FaultProxy) -> tuple[str, list[str]]:
    """Start a pass over more nodes than fit in flight; return its pool, and the nodes whose turn is last."""
    names = world.fleet(windows=PATCHES_IN_FLIGHT + WAITING)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start(wait=False)
    eventually(lambda: in_flight(proxy) == PATCHES_IN_FLIGHT, what="as many in flight as may be", every=0.02)
    return pool, names[PATCHES_IN_FLIGHT:]


def in_flight(proxy: FaultProxy) -> int:
    return len([each for each in proxy.log if PATCH(each)])


def written(proxy: FaultProxy, name: str) -> list[Record]:
    return list(proxy.writes(on("patch", "nodes", name=name)))


@pytest.mark.nightly
def test_a_node_that_only_reported_meanwhile_is_written_on_its_newest_state(
    world: World, proxy: FaultProxy
) -> None:
    pool, waiting = begin(world, proxy)
    world.kubectl("annotate", "node", *waiting, "example.com/heart=beats")
    assert in_flight(proxy) == PATCHES_IN_FLIGHT, "it was written too late for this test"
    world.wait_up_to_date(pool, nodes=PATCHES_IN_FLIGHT + WAITING)
    assert [[each.status for each in written(proxy, name)] for name in waiting] == [[200]] * WAITING


@pytest.mark.nightly
def test_a_node_that_was_changed_meanwhile_is_decided_on_anew(world: World, proxy: FaultProxy) -> None:
    pool, waiting = begin(world, proxy)
    world.kubectl("label", "node", *waiting, f"{LABEL}=theirs")
    assert in_flight(proxy) == PATCHES_IN_FLIGHT, "it was written too late for this test"
    world.wait_up_to_date(pool, nodes=PATCHES_IN_FLIGHT + WAITING)
    assert [[each.status for each in written(proxy, name)] for name in waiting] == [[200]] * WAITING
    world.delete(pool)
    assert {labels_of(world.node(name)).get(LABEL) for name in waiting} == {"theirs"}


def test_an_edit_does_not_wait_until_the_old_spec_is_everywhere(world: World, proxy: FaultProxy) -> None:
    pool, waiting = begin(world, proxy)
    world.apply(world.pool(labels={LABEL: "platform"}))
    assert in_flight(proxy) == PATCHES_IN_FLIGHT, "it was written too late for this test"
    world.wait_up_to_date(pool, nodes=PATCHES_IN_FLIGHT + WAITING)
    assert [[each.status for each in written(proxy, name)] for name in waiting] == [[200]] * WAITING
    assert {labels_of(node)[LABEL] for node in world.nodes().values()} == {"platform"}
