"""What must still be so when an eviction is sent, seconds after it was decided."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from harness.builders import NOON
from harness.evicting import a_hot_node, a_pod, a_view, an_intent, listed, steps
from winpool.api.keys import HOLD_ANNOTATION, MEMORY_ANNOTATION
from winpool.memory.evicting import VALID_SECONDS
from winpool.memory.recheck import objection
from winpool.objects.acts import Eviction
from winpool.objects.node import Node
from winpool.objects.pressure import Axis, Hold, NodeView

HOG = an_intent("hog", ago=3)
NODE = a_hot_node("w1", HOG)
CHANGED = "the node has changed"
NOT_SHOWN = "no fresh sample shows that the node needs it"


def decided(node: Node = NODE) -> Eviction:
    eviction = steps(node, pods=listed(a_pod("hog")))["w1"].eviction
    assert eviction is not None
    return eviction


def objected(node: Node | None = NODE, view: NodeView | None = None, *, later: float = 1.0) -> str:
    return objection(
        decided(), node=node, view=a_view() if view is None else view, now=NOON + timedelta(seconds=later)
    )


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
    assert objection(decided(), node=NODE, view=None, now=NOON) == NOT_SHOWN


def test_an_intent_that_grew_too_old_while_it_waited_permits_nothing() -> None:
    """So a request that is sent is over two minutes after its intent, however long it has waited."""
    assert objected(later=VALID_SECONDS - 3) == ""
    assert objected(later=VALID_SECONDS - 2) == f"its intent is older than {VALID_SECONDS} s"


def test_an_eviction_for_another_reason_is_not_about_memory() -> None:
    drain = Eviction("shop", "hog", "uid-hog", "w1", "a drain")
    assert objection(drain, node=None, view=None, now=NOON) == ""


def test_what_an_eviction_was_decided_on_goes_with_it() -> None:
    premise = decided().premise
    assert premise is not None
    assert (premise.node, premise.axis, premise.intended_at) == (NODE, Axis.COMMIT, HOG.at)
