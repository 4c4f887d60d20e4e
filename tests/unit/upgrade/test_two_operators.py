"""Two operators on one pool, whose news are late, and patch tools that act on what they have read (P6).

The API server is a status and nodes, each with its resourceVersion: a write that does not name the newest one
fails. The views of the operators are at most LATE seconds old, and so is the answer on which a tool begins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.builders import NOON
from harness.upgrade_feature import TARGET, settled_node
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.status import Slot, SlotState
from winpool.features.upgrade.slots import Line, held_slots, is_labelled, secured, slots_of
from winpool.model.node import Node, NodeVersions, is_available

NAMES: Final = tuple(f"w{place}" for place in range(1, 6))
MACHINES: Final = {name: replace(settled_node(name), boot_id="1") for name in NAMES}
LATE: Final = timedelta(seconds=14)
REJOIN: Final = 120.0
RARELY, OFTEN = 0.02, 0.3
PATCHED: Final = NodeVersions(kernel=f"10.0.20348.{TARGET}", kubelet="v1.36.3", runtime="containerd://2.3.0")
STEPS: Final = 400


@dataclass
class View:
    """What an operator knows."""

    slots: tuple[Slot, ...]
    version: int
    nodes: dict[str, Node]
    since: datetime


@dataclass
class World:
    """The API server, and what happens to the machines."""

    chance: Random
    allowed: int
    others: bool = False
    """Whether nodes become unavailable that have no permission."""
    now: datetime = NOON
    slots: tuple[Slot, ...] = ()
    version: int = 0
    asked: dict[str, datetime] = field(default_factory=dict)
    """When a tool has read that a node may be upgraded."""
    gone: dict[str, datetime] = field(default_factory=dict)
    writes: int = 0
    began: int = 0

    def __post_init__(self) -> None:
        self.nodes = {name: MACHINES[name] for name in NAMES}
        self.views = [self.newest(), self.newest()]

    def newest(self) -> View:
        return View(self.slots, self.version, dict(self.nodes), self.now)

    @property
    def unavailable(self) -> int:
        """How many machines are missing: also those that are gone, for as long as a new one may take."""
        gone = sum(self.now - at < timedelta(seconds=REJOIN) for at in self.gone.values())
        return gone + sum(not is_available(node) for node in self.nodes.values())

    def put(self, node: Node) -> None:
        version = str(int(node.resource_version) + 1)
        self.nodes[node.name] = replace(node, resource_version=version)

    # The operators

    def operate(self, view: View) -> None:
        """Make a pass as ``decide`` has it: withdraw first, then the status, then labels."""
        nodes, standing = view.nodes, view.slots
        due = {name for name, node in nodes.items() if node.versions is not PATCHED}
        waiting = {name: nodes[name] for name in sorted(due) if not nodes[name].annotations}
        held = held_slots(standing, nodes, others=(), rejoin_seconds=REJOIN, now=self.now)
        outside = {name for name, node in nodes.items() if not is_available(node)} - names(held)
        line = Line(
            nodes=nodes,
            due=due,
            waiting=waiting if len(outside) < self.allowed else {},
            unclear=(),
            allowed=self.allowed,
            now=self.now,
        )
        given = slots_of(standing, held, line)
        wishes = {name: "Required" if name in given.permitted else "Gated" for name in due & waiting.keys()}
        lost = [name for name, node in nodes.items() if is_labelled(node) and wishes.get(name) != "Required"]
        if any([self.label(view, name, wishes.get(name, "Gated")) for name in lost]):  # noqa: C419
            return
        if secured(given.slots) <= secured(standing):
            for name, wish in wishes.items():
                if wish != state_of(nodes[name]) and name not in lost:
                    self.label(view, name, wish)
        self.reserve(view, given.slots)

    def label(self, view: View, name: str, state: Any) -> bool:
        """Write the label, if the node is as it was read; return whether that was so."""
        seen = view.nodes[name]
        there = self.nodes.get(name)
        if there is None or (there.uid, there.resource_version) != (seen.uid, seen.resource_version):
            return False
        if state == "Required":
            # The other one may have withdrawn it, unseen here: then the slot is still held.
            assert name in names(self.slots), "a permission without a slot"
        self.put(replace(there, labels={**there.labels, UPGRADE_STATE_LABEL: state}))
        view.nodes[name] = self.nodes[name]
        self.writes += 1
        return True

    def reserve(self, view: View, slots: tuple[Slot, ...]) -> None:
        """Write the slots, if the status is as it was read."""
        if slots == view.slots or view.version != self.version:
            return
        unavailable = {name for name, node in view.nodes.items() if not is_available(node)}
        if taken := names(slots) - names(self.slots) - unavailable:
            assert len(names(slots) | unavailable) <= self.allowed, taken
        self.version += 1
        self.slots = view.slots = slots
        view.version = self.version
        self.writes += 1

    # What others do

    def tool(self, name: str) -> None:
        """Ask for a node, begin with it a little later, or go on with it."""
        node = self.nodes.get(name)
        if node is None:
            del self.gone[name]
            self.put(replace(MACHINES[name], uid=f"{name}-{self.now}", versions=PATCHED))
        elif name in self.asked:
            del self.asked[name]
            self.put(replace(node, unschedulable=True))
            self.began += 1
        elif not is_available(node):
            self.chance.choice((self.come_back, self.vanish))(node)
        elif is_labelled(node) and node.versions is not PATCHED:
            self.asked[name] = self.now

    def come_back(self, node: Node) -> None:
        versions = self.chance.choice((PATCHED, node.versions))
        self.put(replace(node, ready="True", unschedulable=False, versions=versions))

    def vanish(self, node: Node) -> None:
        del self.nodes[node.name]
        self.gone[node.name] = self.now

    def disturb(self, name: str) -> None:
        """Hold a node, restart its machine, or, where ``others`` do, let it be not Ready."""
        node = self.nodes.get(name)
        if node is None:
            return
        rest = {each: value for each, value in node.annotations.items() if each != HOLD_ANNOTATION}
        is_held = HOLD_ANNOTATION in node.annotations
        changes: list[dict[str, Any]] = [
            {"boot_id": str(self.now)},
            {"annotations": rest if is_held else {**rest, HOLD_ANNOTATION: ""}},
        ]
        if self.others:
            changes.append({"ready": "False" if node.ready == "True" else "True"})
        change = self.chance.choice(changes)
        self.put(replace(node, **change))

    def step(self) -> None:
        """Let something happen, and then a few seconds pass."""
        happens = self.chance.randrange(6)
        if happens < 2:
            self.operate(self.views[happens])
        else:
            # What is permitted happens most: there a withdrawal and a tool can miss each other.
            busy = [name for name, node in self.nodes.items() if is_labelled(node)]
            name = self.chance.choice((*NAMES, *busy, *busy, *self.asked, *self.asked))
            (self.tool if happens < 5 else self.disturb)(name)
        self.now += timedelta(seconds=self.chance.choice((0, 0, 0, 1, 3)))
        if self.chance.random() < RARELY:
            self.now += timedelta(minutes=31)
        self.asked = {name: at for name, at in self.asked.items() if self.now - at <= LATE}
        for place, view in enumerate(self.views):
            if self.now - view.since > LATE or self.chance.random() < OFTEN:
                self.views[place] = self.newest()


def state_of(node: Node) -> str | None:
    return node.labels.get(UPGRADE_STATE_LABEL)


def names(slots: Iterable[Slot]) -> set[str]:
    return {each.node for each in slots if each.state != SlotState.UNUSED}


seeds: Final = st.integers(0, 2**32)


@given(seeds, st.integers(1, 3))
def test_no_more_nodes_are_begun_with_than_may_be_unavailable(seed: int, allowed: int) -> None:
    world = World(Random(seed), allowed)
    for _ in range(STEPS):
        world.step()
        assert world.unavailable <= allowed


@given(seeds, st.integers(0, 3))
def test_no_slot_is_taken_while_others_use_up_the_budget(seed: int, allowed: int) -> None:
    world = World(Random(seed), allowed, others=True)
    for _ in range(STEPS):
        world.step()


@given(seeds, st.integers(0, 3))
def test_a_world_in_which_nothing_happens_any_more_is_silent(seed: int, allowed: int) -> None:
    world = World(Random(seed), allowed, others=True)
    for _ in range(STEPS // 4):
        world.step()

    def pass_on(minutes: int) -> None:
        for _ in range(minutes):
            world.now += timedelta(minutes=1)
            world.operate(world.newest())

    pass_on(32 * (len(NAMES) + 1))
    writes = world.writes
    pass_on(120)
    assert world.writes == writes


def test_these_worlds_upgrade_nodes() -> None:
    """A promise about begun nodes says nothing over worlds in which none begins, or none is missing."""
    worlds = [World(Random(seed), 2) for seed in range(20)]
    missing = 0
    for world in worlds:
        for _ in range(STEPS):
            world.step()
            missing = max(missing, world.unavailable)
    assert sum(each.began for each in worlds) > STEPS // 10
    assert missing == 2
