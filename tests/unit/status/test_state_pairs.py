"""Of every two troubles that a pool can be in at once, STATE tells the worse one.

Issue 15, §1: "STATE is the worst that is true, in this order".
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import (
    MINUTE,
    NOON,
    SUPPORTED,
    Nodes,
    Object,
    a_node,
    a_pool,
    a_record,
    a_snapshot,
    a_spec,
    a_survey,
    by_name,
    deleted,
    edited,
    unreadable,
)
from harness.every import every
from harness.views import CALM, HARD, told
from harness.writes import relabelled, settled
from winpool.api.keys import HOLD_ANNOTATION
from winpool.decide import decide
from winpool.model.node import Node, NodeMemory
from winpool.model.pool import Pool
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory

ORDER: Final = (
    "Deleting",
    "SpecRejected",
    "MissingPermission",
    "PoolOverlap",
    "OwnerUnknown",
    "TooFewAvailable",
    "WriteRefused",
    "Paused",
    "DryRun",
    "SystemicPressure",
    "TaintsHeld",
    "ValidationTimedOut",
    "PodListFailing",
    "RolloutInProgress",
    "ValidatingNodes",
    "NodesUnderPressure",
    "NodesHeld",
    "RevisionBelowFloor",
    "PodsUnreadable",
    "MemoryMismatch",
    "UpgradeDue",
    "BuildUnknown",
)
"""Of the reasons for which OSSupported is False one stands for all; what is no trouble is left out."""
NOT_READY: Final = ORDER[: ORDER.index("Paused")]
OWNERLESS: Final = ("PoolOverlap",)
"""In these the pool has no node, so that nothing can be true of its nodes."""
WITH_OWNERLESS: Final = ("Deleting", "SpecRejected", "MissingPermission", "OwnerUnknown", "Paused", "DryRun")
EXCLUDED: Final = (
    {"Paused", "DryRun"},
    {"ValidationTimedOut", "ValidatingNodes"},
    {"PodListFailing", "TaintsHeld"},
    {"PodListFailing", "PodsUnreadable"},
    {"SystemicPressure", "NodesUnderPressure"},
)
"""Two that cannot be true at once."""

GIB: Final = 1024**3
LABELS: Final = {"team": "payments"}
NO_EXECUTE: Final = "os=windows:NoExecute"
TAINTED: Final[Object] = {"taints": [{"key": "os", "value": "windows", "effect": "NoExecute"}]}
STARTUP: Final[Object] = {"startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}
RESERVED: Final[Object] = {"reservedMemory": {"systemReserved": "3Gi", "onMismatch": "Taint"}}
WATCHED: Final[Object] = {"memoryPressure": {}}
ALLOWING_ONE: Final[Object] = {"memoryPressure": {"eviction": {"maxPressuredNodes": 1}}}
FLOOR: Final[Object] = {"os": {"version": "2022", "minRevision": 2000}}
HELD_POD: Final = "held/shop/web-1"
WHY: Final = 'patch nodes refused: 403 nodes "refused" is forbidden: not on Fridays'
RIVAL: Final = a_pool("rival")


@dataclass
class Scene:
    """A pool and its nodes, all as they are to be, for troubles to happen to."""

    pool: Pool
    nodes: Nodes
    now: datetime = NOON
    intolerant: list[str] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    is_blind: bool = False
    seen: dict[str, Any] = field(default_factory=dict)
    memory: KnownMemory = NOTHING_KNOWN

    def put(self, node: Node) -> None:
        self.nodes[node.name] = node

    def edit(self, **spec: Any) -> None:
        assert self.pool.spec is not None
        self.pool = edited(self.pool, self.pool.spec.model_copy(update=spec))

    def ready(self) -> tuple[str, str]:
        """Return status and reason of Ready."""
        nodes = self.nodes.values()
        survey = a_survey(
            self.pool,
            nodes,
            now=self.now,
            intolerant={NO_EXECUTE: self.intolerant},
            unreadable=frozenset(self.unreadable),
        )
        snapshot = a_snapshot(
            self.pool,
            self.nodes,
            survey=None if self.is_blind else survey,
            now=self.now,
            **self.seen,
        )
        found = decide(replace(snapshot, memory=self.memory)).status.condition("Ready")
        assert found is not None
        return found.status, found.reason


@dataclass(frozen=True)
class Trouble:
    """What makes a state true: in the spec and on nodes from the start, and what happens then."""

    happens: Callable[[Scene], None] = lambda _: None
    spec: Mapping[str, Any] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()


def a_host(name: str, kernel: str) -> Node:
    return a_node(name, versions=replace(SUPPORTED, kernel=kernel))


def delete(scene: Scene) -> None:
    scene.pool = deleted(scene.pool)


def reject(scene: Scene) -> None:
    scene.pool = unreadable(scene.pool)


def forbid(scene: Scene) -> None:
    scene.seen["missing_permission"] = 'winpool may not patch nodes. Add the rule {verbs: ["patch"]}.'


def give_away(scene: Scene) -> None:
    scene.seen["rivals"] = [RIVAL]


def break_down(scene: Scene) -> None:
    for name in ("down-1", "down-2"):
        scene.put(replace(scene.nodes[name], ready="False"))


def refuse(scene: Scene) -> None:
    node = scene.nodes["refused"]
    scene.put(relabelled(node, team=None))
    scene.seen["refused"] = {node.uid: WHY}


def set_mode(mode: str) -> Callable[[Scene], None]:
    return lambda scene: scene.edit(mode=a_spec(mode=mode).mode)


def hold(scene: Scene) -> None:
    scene.intolerant.append(HELD_POD)


def blind(scene: Scene) -> None:
    scene.is_blind = True
    scene.seen |= {"pods_problem": "list pods: 503", "looks": ()}


def wait_long(scene: Scene) -> None:
    scene.now = NOON + timedelta(hours=1)


def drift(scene: Scene) -> None:
    scene.put(relabelled(scene.nodes["drifted"], team=None))


def keep_away(scene: Scene) -> None:
    node = relabelled(scene.nodes["kept"], team=None)
    scene.put(replace(node, annotations={**node.annotations, HOLD_ANNOTATION: ""}))


def garble(scene: Scene) -> None:
    scene.unreadable.add("garbled")


def starve(*names: str) -> Callable[[Scene], None]:
    """Let these nodes run out of memory, and no other."""

    def happens(scene: Scene) -> None:
        scene.memory = told({**dict.fromkeys(scene.nodes, CALM), **dict.fromkeys(names, HARD)})

    return happens


JOINING: Final = replace(a_node("joining"), created=NOON - MINUTE)
SMALL: Final = replace(a_node("small"), memory=NodeMemory(16 * GIB, 15 * GIB))
TROUBLES: Final[dict[str, Trouble]] = {
    "Deleting": Trouble(delete),
    "SpecRejected": Trouble(reject),
    "MissingPermission": Trouble(forbid),
    "PoolOverlap": Trouble(give_away, nodes=(a_node("given", annotations=a_record(RIVAL.uid)),)),
    "OwnerUnknown": Trouble(nodes=(a_node("nobodys", annotations=a_record("stranger")),)),
    "TooFewAvailable": Trouble(break_down, nodes=(a_node("down-1"), a_node("down-2"))),
    "WriteRefused": Trouble(refuse, nodes=(a_node("refused"),)),
    "Paused": Trouble(set_mode("Paused")),
    "DryRun": Trouble(set_mode("DryRun")),
    "SystemicPressure": Trouble(
        starve("short-1", "short-2"), ALLOWING_ONE, (a_node("short-1"), a_node("short-2"))
    ),
    "TaintsHeld": Trouble(hold, TAINTED, (a_node("held"),)),
    "ValidationTimedOut": Trouble(wait_long, STARTUP, (JOINING,)),
    "PodListFailing": Trouble(blind, TAINTED, (a_node("blind"),)),
    "RolloutInProgress": Trouble(drift, nodes=(a_node("drifted"),)),
    "ValidatingNodes": Trouble(spec=STARTUP, nodes=(JOINING,)),
    "NodesUnderPressure": Trouble(starve("short"), WATCHED, (a_node("short"),)),
    "NodesHeld": Trouble(keep_away, nodes=(a_node("kept"),)),
    "RevisionBelowFloor": Trouble(spec=FLOOR, nodes=(a_host("below", "10.0.20348.1607"),)),
    "PodsUnreadable": Trouble(garble, nodes=(a_node("garbled"),)),
    "MemoryMismatch": Trouble(spec=RESERVED, nodes=(SMALL,)),
    "UpgradeDue": Trouble(nodes=(a_host("newer", "10.0.26100.32995"),)),
    "BuildUnknown": Trouble(nodes=(a_host("odd", "10.0.?"),)),
}


def scene_of(*states: str) -> Scene:
    """Return the scene in which all of these have happened to a pool that was well."""
    troubles = [TROUBLES[state] for state in states]
    spec: Object = {}
    for each in troubles:
        spec |= each.spec
    fine = () if set(states) & set(OWNERLESS) else (a_node("fine-1"), a_node("fine-2"))
    nodes = by_name(*fine, *(node for each in troubles for node in each.nodes))
    pool = a_pool(labels=LABELS, more=spec)
    # Of two nodes no look has ever permitted to put the NoExecute taint there.
    survey = a_survey(
        pool, nodes.values(), intolerant={NO_EXECUTE: [HELD_POD]}, unreadable=frozenset({"blind"})
    )
    for _ in range(2):  # the second time for what waits until a taint of the first is there
        pool, nodes = settled(pool, nodes, survey=survey)
    scene = Scene(pool, nodes)
    for each in reversed(troubles):  # the milder first: a spec that cannot be read cannot be edited either
        each.happens(scene)
    return scene


def expected(state: str) -> tuple[str, str]:
    return ("False" if state in NOT_READY else "True", state)


def can_be(worse: str, milder: str) -> bool:
    """Whether both can be true of one pool."""
    if {worse, milder} in EXCLUDED:
        return False
    return not {worse, milder} & set(OWNERLESS) or bool({worse, milder} & set(WITH_OWNERLESS))


PAIRS: Final = [pair for pair in itertools.combinations(ORDER, 2) if can_be(*pair)]


def test_each_state_but_those_of_a_pool_that_is_well_has_its_trouble() -> None:
    assert tuple(TROUBLES) == ORDER


def test_a_pool_that_is_well_is_up_to_date_and_an_empty_one_selects_no_node() -> None:
    assert scene_of().ready() == ("True", "UpToDate")
    assert Scene(a_pool(labels=LABELS), {}).ready() == ("True", "NoNodesSelected")


@every("state", ORDER)
def test_each_trouble_alone_is_told(state: str) -> None:
    assert scene_of(state).ready() == expected(state)


@pytest.mark.slow
@every(("worse", "milder"), PAIRS)
def test_of_two_troubles_the_worse_one_is_told(worse: str, milder: str) -> None:
    assert scene_of(worse, milder).ready() == expected(worse)


def test_memory_that_is_only_reported_is_no_state() -> None:
    """The issue: "MemoryMismatch (the nodes are tainted)"."""
    reserved = {"reservedMemory": {"systemReserved": "3Gi", "onMismatch": "Report"}}
    pool, nodes = settled(a_pool(labels=LABELS, more=reserved), by_name(SMALL, a_node("fine")))
    scene = Scene(pool, nodes)
    assert scene.ready() == ("True", "UpToDate")
