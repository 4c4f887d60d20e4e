"""From a change to the pools that look again: all whom it may concern, and nobody else."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.builders import a_node, a_record
from harness.writes import relabelled
from winpool.controllers.controller import Dispatcher
from winpool.controllers.pools import Absences, Pools
from winpool.model.node import Node
from winpool.ownership.members import Selections

BLUE = {"agentpool": "blue"}


class World:
    """Two pools, one for red nodes and one for blue ones, and who was woken."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.later: list[str] = []
        self.pools = Pools(on_change=self.ignore, absences=Absences(grace_seconds=0))
        for version, colour in enumerate(("red", "blue"), start=1):
            metadata = {
                "name": colour,
                "uid": f"uid-of-{colour}",
                "resourceVersion": str(version),
                "generation": 1,
            }
            spec = {"nodeSelector": {"matchLabels": {"agentpool": colour}}, "os": {"version": "2022"}}
            self.pools.accept({"metadata": metadata, "spec": spec})
        self.dispatcher = Dispatcher(
            self.pools, Selections(), wake=self.woken.append, wake_later=self.later.append
        )

    def ignore(self, name: str, *, for_rivals: bool) -> None:
        """Take no note: the tests say themselves what changed."""

    def after(self, old: Node | None, new: Node | None) -> set[str]:
        self.woken.clear()
        self.dispatcher.node_changed(old, new)
        assert len(self.woken) == len(set(self.woken))
        return set(self.woken)


@pytest.fixture
def world() -> World:
    return World()


def test_a_node_that_joins_or_goes_wakes_the_pool_that_selects_it(world: World) -> None:
    assert world.after(None, a_node()) == {"red"}
    assert world.after(a_node(), None) == {"red"}


def test_a_node_that_changes_sides_wakes_both(world: World) -> None:
    assert world.after(a_node(), relabelled(a_node(), **BLUE)) == {"red", "blue"}


def test_a_node_that_a_pool_left_something_on_wakes_it(world: World) -> None:
    node = a_node(labels={"agentpool": "green"}, annotations=a_record("uid-of-red"))
    assert world.after(node, node) == {"red"}


def test_a_node_that_nobody_selects_wakes_nobody(world: World) -> None:
    assert world.after(None, a_node(labels={"agentpool": "green"})) == set()


def test_a_pool_that_only_selects_a_node_of_another_one_is_woken_later(world: World) -> None:
    owned = a_node(labels=BLUE, annotations=a_record("uid-of-red"))
    assert world.after(owned, owned) == {"red"}
    assert world.later == ["blue"]
    world.later.clear()
    gone = a_node(labels=BLUE, annotations=a_record("uid-of-no-pool"))
    assert (world.after(owned, gone), world.later) == ({"red", "blue"}, []), "it may be anybody's now"


def test_a_node_that_is_gone_is_forgotten(world: World) -> None:
    """Also where no pass follows: a replica that stands by sees nodes come and go for years."""
    world.after(None, a_node())
    world.after(a_node(), None)
    assert world.dispatcher.selections._labels == {}


def test_a_pool_that_changed_is_woken_and_rivals_where_it_matters_to_them(world: World) -> None:
    world.dispatcher.pool_changed("red", for_rivals=False)
    assert (world.woken, world.later) == (["red"], [])
    world.woken.clear()
    world.dispatcher.pool_changed("red", for_rivals=True)
    assert (world.woken, world.later) == (["red", "blue"], [])


def test_a_new_pool_is_last_in_line_and_wakes_its_rivals_later(world: World) -> None:
    world.dispatcher.pool_changed("red", for_rivals=True)
    assert (world.woken, world.later) == (["red"], ["blue"])


def test_a_pool_whose_spec_is_not_read_any_more_wakes_its_rivals_later(world: World) -> None:
    world.dispatcher.pool_changed("red", for_rivals=False)
    world.woken.clear()
    red, *others = sorted(world.pools.all(), key=lambda each: each.name, reverse=True)
    unread = replace(red, resource_version="3", spec=None, refusal="no room")
    world.pools.replace([unread, *others], resource_version="3", began=0.0)
    world.dispatcher.pool_changed("red", for_rivals=True)
    assert (world.woken, world.later) == (["red"], ["blue"])


def test_a_pool_that_is_gone_still_wakes_its_rivals(world: World) -> None:
    world.pools.forget(name="red", uid="uid-of-red", version="1")
    world.dispatcher.pool_changed("red", for_rivals=True)
    assert "blue" in world.woken
