"""The request to upgrade a node whose memory no eviction brings back, through ``decide``."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import GUARD, a_node, a_pool, a_spec, edited
from harness.evicting import READ_AT, an_intent, answered, listed
from harness.house import House
from harness.memory import GIB, Watched, committed
from harness.views import CALM, HARD, JUST_STARTED, STALE, a_view, all_of
from winpool.api.keys import MEMORY_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION
from winpool.features.contract.feature import contract
from winpool.features.memory.detector import eviction_begun, eviction_gone
from winpool.features.memory.feature import REQUEST, memory
from winpool.features.memory.intents import written
from winpool.model.node_pods import Answer, KnownEvictions
from winpool.model.pressure import Guard, Level, NodePressure

OUTSIDE: Final = a_view(Level.HARD, guard=Guard.OUTSIDE_SHARE)
THEIRS: Final = "patch me on Monday"


def block(on: str | None = "RequestUpgrade", mode: str = "Signal") -> dict[str, Any]:
    return {"memoryPressure": {"mode": mode, **({"onUnattributed": on} if on else {})}, "upgrade": {}}


def a_house(guard: str = GUARD, **of_block: Any) -> House:
    """Return a settled house of two nodes that asks for an upgrade, unless ``of_block`` says otherwise."""
    nodes = {name: a_node(name) for name in ("w1", "w2")}
    house = House(a_pool(more=block(**of_block)), nodes, features=(contract, memory), guard=guard)
    house.memory = all_of(house.nodes, CALM)
    house.settle()
    house.patches.clear()
    return house


def see(house: House, view: NodePressure) -> None:
    house.memory = replace(house.memory, told={**house.memory.told, "uid-of-w1": view})
    house.settle()


def asked(house: House, name: str = "w1") -> str | None:
    return house.nodes[name].annotations.get(UPGRADE_REQUESTED_ANNOTATION)


@pytest.mark.parametrize("mode", ["Signal", "Evict"])
@pytest.mark.parametrize("guard", list(Guard), ids=lambda each: each.value)
def test_a_node_whose_memory_belongs_to_no_pod_is_to_be_upgraded(mode: str, guard: Guard) -> None:
    house = a_house(mode=mode)
    see(house, a_view(Level.HARD, guard=guard))
    assert (asked(house), asked(house, "w2")) == (REQUEST, None)


def test_a_node_from_which_pods_were_evicted_is_to_be_upgraded_too() -> None:
    """A pressure that no eviction ends comes after evictions, whose record is still on the node."""
    house = a_house(mode="Evict")
    house.write("w1", annotations={MEMORY_ANNOTATION: written((an_intent("hog", ago=10),))})
    house.evictions = KnownEvictions(
        pods={"uid-of-w1": listed()}, answers={"uid-hog": answered(Answer.GONE, ago=5)}, read_at=READ_AT
    )
    see(house, a_view(Level.HARD, guard=Guard.INEFFECTIVE))
    assert asked(house) == REQUEST
    assert MEMORY_ANNOTATION in house.nodes["w1"].annotations


class Leak:
    """A node of which no pod's commit is known, whose every sample is followed by a pass."""

    def __init__(self) -> None:
        self.house = a_house(mode="Evict")
        self.node = Watched()
        self.requests = set[str | None]()
        self.guards = set[Guard | None]()

    def commits(self, gib: float, *, samples: int) -> None:
        for _ in range(samples):
            view = self.node.poll(**committed(gib, pods_commit=None))
            see(self.house, view)
            self.requests.add(asked(self.house))
            self.guards.add(view.guard)

    def evict(self, number: int, *, left: float, share: float = 8 * GIB) -> None:
        """Evict a pod, after which ``left`` GiB are committed, and let its memory come back."""
        uid = f"uid-{number}"
        self.node.state = eviction_begun(self.node.state, uid=uid, share=share)
        self.node.state = eviction_gone(self.node.state, uid=uid, at=self.node.now)
        self.commits(left, samples=8)


@pytest.mark.slow
def test_a_node_whose_pressure_each_eviction_has_ended_is_not_to_be_upgraded() -> None:
    """While the level is held for five minutes more, and when another pod leaks (issue 1941 of Azure/AKS)."""
    leak = Leak()
    for number in range(3):
        leak.commits(23.5, samples=3)
        assert leak.house.memory.told["uid-of-w1"].is_signalled
        leak.evict(number, left=12.0)
        leak.commits(12.0, samples=36)
    assert (leak.requests, leak.guards) == ({None}, {None})


def test_one_whose_pressure_an_eviction_has_not_ended_is_only_until_it_has_ended() -> None:
    leak = Leak()
    leak.commits(23.5, samples=3)
    assert leak.requests == {None}
    leak.evict(0, left=23.4)
    assert (leak.guards, asked(leak.house)) == ({None, Guard.INEFFECTIVE}, REQUEST)
    leak.commits(12.0, samples=36)
    assert asked(leak.house) is None
    leak.requests.clear()
    leak.guards.clear()
    leak.commits(12.0, samples=30)
    assert leak.node.state.ineffective == 1, "which is remembered for an hour"
    assert (leak.requests, leak.guards) == ({None}, {None})


@pytest.mark.parametrize("guard", list(Guard), ids=lambda each: each.value)
def test_what_kept_pods_from_being_evicted_requests_nothing_once_the_node_is_calm(guard: Guard) -> None:
    house = a_house()
    see(house, a_view(Level.HARD, guard=guard))
    assert asked(house) == REQUEST
    see(house, a_view(guard=guard))
    assert asked(house) is None


def test_it_comes_with_the_taint_in_one_patch() -> None:
    house = a_house()
    see(house, OUTSIDE)
    [patch] = house.patches
    assert patch.taints
    assert patch.annotations[UPGRADE_REQUESTED_ANNOTATION] == REQUEST


@pytest.mark.parametrize(
    "of_block", [{"on": "Report"}, {"on": None}, {"mode": "Observe"}], ids=["Report", "default", "Observe"]
)
def test_no_one_is_asked_where_the_pool_does_not_want_it(of_block: dict[str, Any]) -> None:
    house = a_house(**of_block)
    see(house, OUTSIDE)
    assert asked(house) is None


def test_pressure_that_pods_cause_asks_for_nothing() -> None:
    house = a_house()
    see(house, HARD)
    assert asked(house) is None


def test_the_request_goes_with_the_pressure() -> None:
    house = a_house()
    see(house, OUTSIDE)
    see(house, CALM)
    assert asked(house) is None


@pytest.mark.parametrize("view", [STALE, JUST_STARTED], ids=["stale", "just started"])
def test_the_request_stays_while_nothing_is_known(view: NodePressure) -> None:
    house = a_house()
    see(house, OUTSIDE)
    house.patches.clear()
    see(house, view)
    assert asked(house) == REQUEST


def test_a_request_of_others_is_not_replaced_and_stays() -> None:
    house = a_house()
    house.write("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: THEIRS})
    see(house, OUTSIDE)
    assert asked(house) == THEIRS
    see(house, CALM)
    assert asked(house) == THEIRS
    house.delete()
    house.settle()
    assert asked(house) == THEIRS


def test_a_request_of_others_that_reads_like_ours_stays() -> None:
    house = a_house()
    house.write("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: REQUEST})
    see(house, OUTSIDE)
    see(house, CALM)
    assert asked(house) == REQUEST


def test_a_request_that_someone_replaced_is_theirs() -> None:
    house = a_house()
    see(house, OUTSIDE)
    house.write("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: THEIRS})
    house.settle()
    assert asked(house) == THEIRS
    house.delete()
    house.settle()
    assert asked(house) == THEIRS


def test_ours_goes_with_the_block_and_with_the_pool() -> None:
    house = a_house()
    see(house, OUTSIDE)
    house.edit(edited(house.pool, a_spec()))
    house.settle()
    assert asked(house) is None
    house.edit(edited(house.pool, a_spec(more=block())))
    house.settle()
    assert asked(house) == REQUEST
    house.delete()
    house.settle()
    assert asked(house) is None


def test_a_settled_request_is_not_written_again() -> None:
    house = a_house()
    see(house, OUTSIDE)
    house.patches.clear()
    house.conditions.clear()
    house.settle()
    assert (house.patches, house.conditions) == ([], [])
