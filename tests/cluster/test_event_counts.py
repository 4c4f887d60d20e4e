"""Few nodes that share a cause have an event each, many have one of their pool, which counts them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from cluster.denying import WHY, denying
from harness.nodes import labels_of
from harness.waiting import eventually, holds
from harness.world import World

Object = dict[str, Any]

LABEL: Final = "example.com/team"
SPEC: Final[Object] = {"labels": {LABEL: "payments"}}
MORE_TO_COME: Final = timedelta(seconds=4)
"""Longer than events of nodes wait for others."""


def events(world: World, pool: str, reason: str) -> list[Object]:
    found = world.own_events(kind="WindowsNodePool", name=pool)
    return [each for each in found if each["reason"] == reason]


def of_nodes(world: World, names: list[str], reason: str) -> list[str]:
    """Return the nodes that have an event of their own, each as often as it has one."""
    return [name for name in names for each in world.reasons(kind="Node", name=name) if each == reason]


def first(names: list[str]) -> str:
    return f"{len(names)} nodes ({', '.join(sorted(names)[:3])} and {len(names) - 3} more)"


@pytest.mark.nightly
def test_twelve_nodes_that_one_policy_denies_are_one_event_of_the_pool(world: World) -> None:
    names = world.fleet(windows=12)
    with denying(world, *names):
        pool = world.apply(world.pool(**SPEC))
        world.operator.start()
        [event] = eventually(lambda: events(world, pool, "WriteRefused"), what="the event of the pool")
        assert first(names) in event["message"]
        assert WHY in event["message"]
        assert event["type"] == "Warning"
        holds(
            lambda: (
                of_nodes(world, names, "WriteRefused") == [] and len(events(world, pool, "WriteRefused")) == 1
            ),
            seconds=MORE_TO_COME.total_seconds(),
        )
    world.wait_up_to_date(pool, nodes=12)


def test_two_nodes_that_a_policy_denies_have_an_event_each(world: World) -> None:
    *denied, _ = world.fleet(windows=3)
    with denying(world, *denied):
        pool = world.apply(world.pool(**SPEC))
        world.operator.start()
        eventually(lambda: of_nodes(world, denied, "WriteRefused") == denied, what="an event of each")
        for name in denied:
            [event] = world.own_events(kind="Node", name=name)
            assert WHY in event["message"]
            assert pool in event["message"]
    world.wait_up_to_date(pool, nodes=3)
    assert events(world, pool, "WriteRefused") == []


@pytest.mark.nightly
def test_twelve_nodes_that_somebody_changes_at_once_are_one_event_of_the_pool(world: World) -> None:
    names = world.fleet(windows=12)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=12)
    world.kubectl("label", "node", *names, f"{LABEL}-")
    eventually(lambda: all(LABEL in labels_of(node) for node in world.nodes().values()), what="all repaired")
    [event] = eventually(lambda: events(world, pool, "DriftRepaired"), what="the event of the pool")
    assert first(names) in event["message"]
    assert LABEL in event["message"]
    holds(
        lambda: (
            of_nodes(world, names, "DriftRepaired") == [] and len(events(world, pool, "DriftRepaired")) == 1
        ),
        seconds=MORE_TO_COME.total_seconds(),
    )
    assert "DriftRepaired" in world.kubectl("describe", "wnp", pool).partition("\nEvents:")[2]


def test_a_deletion_says_how_many_nodes_it_has_released(world: World) -> None:
    world.fleet(windows=4)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=4)
    world.delete(pool)
    [event] = eventually(lambda: events(world, pool, "NodesReleased"), what="the event NodesReleased")
    assert event["message"] == "Released 4 nodes."
