"""What must still be so when an eviction is sent, seconds after it was decided."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON
from harness.evicting import READ_AT, a_hot_node, a_pod, a_view, an_intent, listed, steps
from winpool.api.keys import HOLD_ANNOTATION, MEMORY_ANNOTATION
from winpool.features.memory.eviction import VALID_SECONDS, objection
from winpool.model.node import Eviction, Node
from winpool.model.pressure import Axis, Hold, Level, NodePressure

HOG = an_intent("hog", ago=3)
NODE = a_hot_node("w1", HOG)
CHANGED = "the node has changed"
SYSTEMIC = "too much of the pool may be under pressure"
NOT_SHOWN = "no fresh sample shows that the node needs it"


def decided(node: Node = NODE, **limits: Any) -> Eviction:
    eviction = steps(node, pods=listed(a_pod("hog")), **limits)["w1"].eviction
    assert eviction is not None
    return eviction


def objected(node: Node | None = NODE, view: NodePressure | None = None, *, later: float = 1.0) -> str:
    pool = {NODE.uid: (NODE, a_view() if view is None else view)}
    return objection(decided(), node=node, pool=pool, now=NOON + timedelta(seconds=later))


def test_what_was_decided_is_sent_while_all_is_as_it_was() -> None:
    assert objected() == ""
    assert objected(replace(NODE, resource_version="77")) == "", "a heartbeat changes nothing"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"annotations": {**NODE.annotations, HOLD_ANNOTATION: ""}}, CHANGED),
        ({"annotations": {**NODE.annotations, HOLD_ANNOTATION: "2026-11-02T00:00:00Z"}}, CHANGED),
        ({"annotations": {}}, CHANGED),
        ({"annotations": {MEMORY_ANNOTATION: "not readable"}}, CHANGED),
        ({"unschedulable": True}, CHANGED),
        ({"uid": "uid-of-the-next-machine"}, "another machine has the name of the node"),
        ({"labels": {"kubernetes.io/os": "windows"}}, CHANGED),
        ({"kubelet_pressure": "True"}, CHANGED),
        ({"ready": "Unknown"}, CHANGED),
        ({"deleting": True}, CHANGED),
    ],
    ids=[
        "held",
        "held until a time",
        "no intent",
        "unreadable intents",
        "cordoned",
        "another machine",
        "left the pool",
        "the kubelet evicts",
        "not Ready",
        "being deleted",
    ],
)
def test_a_node_that_changed_since_is_left_alone(change: dict[str, Any], said: str) -> None:
    assert objected(replace(NODE, **change)) == said


def test_a_node_that_is_gone_is_left_alone() -> None:
    assert objected(None) == "the node is gone"


@pytest.mark.parametrize("hold", Hold, ids=lambda hold: hold.value)
def test_a_pressure_that_permits_nothing_any_more_permits_nothing(hold: Hold) -> None:
    assert objected(view=a_view(commit=hold)) == NOT_SHOWN


def test_the_pressure_of_another_axis_permits_nothing() -> None:
    """The pod was chosen for what it has committed; on the other axis another one may be right."""
    assert decided().premise is not None
    assert objected(view=a_view(commit=Hold.RECOVERING, physical=None)) == NOT_SHOWN
    assert objected(view=a_view(commit=None, physical=None)) == ""


def test_a_node_whose_memory_is_not_watched_any_more_is_left_alone() -> None:
    assert objection(decided(), node=NODE, pool={}, now=NOON) == NOT_SHOWN


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([(Level.NORMAL, READ_AT - 1.0), (Level.WARNING, READ_AT - 1.0)], ""),
        ([(Level.NORMAL, READ_AT - 1.0), (Level.SOFT, READ_AT - 1.0)], SYSTEMIC),
        ([(Level.NORMAL, READ_AT - 1.0), (None, READ_AT - 1.0)], SYSTEMIC),
        ([(Level.NORMAL, READ_AT - 1.0), (Level.NORMAL, READ_AT - 300.0)], SYSTEMIC),
    ],
    ids=["calm", "under pressure", "unknown", "not seen since"],
)
def test_other_nodes_that_came_under_pressure_since_permit_nothing(
    others: list[tuple[Level | None, float]], said: str
) -> None:
    pool = {NODE.uid: (NODE, a_view())}
    for number, (level, sampled_at) in enumerate(others, start=2):
        node = a_hot_node(f"w{number}")
        view = a_view(commit=Hold.NO_PRESSURE, level=level, held=Level.NORMAL, sampled_at=sampled_at)
        pool[node.uid] = (node, replace(view, axes={Axis.COMMIT: view.axes[Axis.COMMIT]}))
    assert objection(decided(maxPressuredNodes=1), node=NODE, pool=pool, now=NOON) == said


def test_an_intent_that_grew_too_old_while_it_waited_permits_nothing() -> None:
    """So a request that is sent is over two minutes after its intent, however long it has waited."""
    assert objected(later=VALID_SECONDS - 3) == ""
    assert objected(later=VALID_SECONDS - 2) == f"its intent is older than {VALID_SECONDS} s"


def test_an_eviction_for_another_reason_is_not_about_memory() -> None:
    drain = Eviction("shop", "hog", "uid-hog", "w1", "a drain")
    assert objection(drain, node=None, pool={}, now=NOON) == ""


def test_what_an_eviction_was_decided_on_goes_with_it() -> None:
    premise = decided().premise
    assert premise is not None
    assert (premise.node, premise.axis, premise.intended_at) == (NODE, Axis.COMMIT, HOG.at)
