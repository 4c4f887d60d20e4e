"""What the history of one node and its pool shows of an upgrade: one way, one claim, no clock begun anew."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any, Final

from cluster.upgrade_ground import STATE_LABEL, WAY
from harness.nodes import annotations_of, labels_of

Object = dict[str, Any]

ONCE: Final = ("drainUntil", "cordonedAt", "drainedAt", "restartedAt", "before", "limits", "baseline")
"""What a claim notes once, and keeps."""


def assert_one_way(node: list[Object], pool: list[Object]) -> None:
    """Assert that a node went its way once, by all of its states and those of its pool, as they were seen.

    Each deadline that was ever written is the only one of its state, in the annotation, in the slot and in
    the copy of the claim there.
    """
    said = _changes([labels_of(each).get(STATE_LABEL) for each in node])
    assert said == [None, *WAY], said
    boots = _changes([each["status"]["nodeInfo"]["bootID"] for each in node])
    assert len(boots) == 2, f"the machine was started again {len(boots) - 1} times"
    cordoned = _changes([bool(each["spec"].get("unschedulable")) for each in node])
    assert cordoned == [False, True, False], "the node is cordoned once, and uncordoned once"

    slots = [slot for each in pool for slot in each.get("status", {}).get("slots", [])]
    claims = [json.loads(annotations_of(each).get("winpool.dev/upgrade", "{}")) for each in node]
    claims += [json.loads(slot["claim"]) for slot in slots if slot.get("claim")]
    claims = [each for each in claims if "claim" in each]
    assert len({each["claim"] for each in claims}) == 1, "one claim"
    clocks: defaultdict[str, set[tuple[str, str | None]]] = defaultdict(set)
    for each in (*claims, *slots):
        clocks[each["state"]].add((each["since"], each.get("deadline")))
    assert clocks.keys() == {"Reserved", *WAY[1:-1]}
    assert {state: times for state, times in clocks.items() if len(times) > 1} == {}, "a clock begun anew"
    for field in ONCE:
        noted = _changes([json.dumps(each[field]) for each in claims if each.get(field)])
        assert len(noted) == 1, f"{field}: {noted}"


def _changes(values: list[Any]) -> list[Any]:
    """Return the values without those that equal the one before."""
    return [each for place, each in enumerate(values) if place == 0 or values[place - 1] != each]
