"""What each write of an upgrade of one node is for, by what it says: so that none of them is left out.

How many statuses and events there are depends on the moments at which lists arrive. So a kill is not "at the
17th write", which is another one each time, but "at the first patch that says Draining".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from cluster.upgrade_ground import STATE_LABEL
from testbed.faults import PROGRESS, Match, Record, When, on

Object = dict[str, Any]

PLURAL: Final = "windowsnodepools"
EVENT: Final = "an event, or that it has come again"
EVICTION: Final = "an eviction"
FINALIZER: Final = "the pool gets its finalizer"


@dataclass(frozen=True, slots=True)
class Kill:
    """At the nth write of a kind: before the API server has it, or when it has answered and no one knows."""

    kind: str
    nth: int
    when: When

    def __str__(self) -> str:
        return f"killed {self.when} write {self.nth} of: {self.kind}"

    @property
    def match(self) -> Match:
        """The writes that count."""
        return on(where=lambda record: record.writes and PROGRESS(record) and kind_of(record) == self.kind)


def kind_of(write: Record) -> str:
    """Return what a write is for; an AssertionError where an upgrade has no such writes."""
    says = json.loads(write.body) if write.body else {}
    match write.verb, write.resource:
        case "patch", "nodes":
            return _of_node(says["metadata"])
        case "patch", "nodes/status":
            return conditions_are(*(each["type"] for each in says["status"].get("conditions", [])))
        case "create", "pods/eviction":
            return EVICTION
        case "create" | "patch", "events":
            return EVENT
        case "patch", resource if resource == f"{PLURAL}/status":
            return _of_slots(says["status"].get("slots", []))
        case "patch", resource if resource == PLURAL:
            return FINALIZER if says["metadata"]["finalizers"] else "the pool loses its finalizer"
    raise AssertionError(f"a write that an upgrade does not have: {write} {write.body[:500]!r}")


def node_says(state: str) -> str:
    """Return the kind of the patch of a node that has this state."""
    return f"the node: {state}"


def conditions_are(*types: str) -> str:
    """Return the kind of the apply of these conditions of a node."""
    return f"conditions of the node: {' and '.join(sorted(types)) or 'none'}"


def status_has(state: str) -> str:
    """Return the kind of the status with a slot in this state, or ``no slot``."""
    return f"the status: {state}"


def status_copies(state: str, copied: str) -> str:
    """Return the kind of the status with a slot in this state, and in it a claim in that state."""
    return status_has(f"{state}, with a copy that says {copied}")


def _of_node(metadata: Object) -> str:
    labels = metadata.get("labels", {})
    if "winpool.dev/pool" in labels:
        return "the node leaves the pool" if labels["winpool.dev/pool"] is None else "the node joins the pool"
    if STATE_LABEL in labels:
        return node_says(labels[STATE_LABEL])
    return f"of the node: {', '.join(sorted({*labels, *metadata.get('annotations', {})}))}"


def _of_slots(slots: list[Object]) -> str:
    if not slots:
        return status_has("no slot")
    [slot] = slots
    if not slot.get("claim"):
        return status_has(slot["state"])
    return status_copies(slot["state"], json.loads(slot["claim"])["state"])
