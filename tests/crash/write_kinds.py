"""What each write of a run with evictions is for, told by what it says: so that none of them is left out.

How many statuses and events there are depends on the moments at which samples arrive. So a kill is not "at
the 17th write", which is another one each time, but "at the second eviction".
"""

from __future__ import annotations

import json
from enum import Enum
from typing import Any

from testbed.faults import Record
from winpool.api.keys import APPLIED_ANNOTATION, MEMORY_ANNOTATION, MEMORY_PRESSURE_TAINT, PLURAL, POOL_LABEL

Object = dict[str, Any]


class Kind(Enum):
    """Of writes; in the order in which they come first."""

    FINALIZER = "the pool gets its finalizer"
    TOKEN = "a token for the kubelets"
    JOIN = "a node joins the pool"
    STATUS = "the status of the pool"
    EVENT = "an event, or that it has come again"
    MARK = "a node gets the taint"
    CONDITION = "a node gets the condition"
    INTENT = "a node gets an intent"
    RECORD = "the record of a node, by itself"
    """After a restart: it names no condition that a kill has kept from being written."""
    EVICTION = "an eviction"
    CLEAR = "a node loses the taint"
    CALM = "the condition of a node says that all is well"
    FORGET = "a node loses its intents"
    STALE = "the condition of a node says that nothing is known"
    UNCONDITION = "a node loses the condition"
    RELEASE = "a node leaves the pool"
    UNFINALIZER = "the pool loses its finalizer"


def kind_of(write: Record) -> Kind:
    """Return what a write is for; an AssertionError where a run has no such writes."""
    says = json.loads(write.body) if write.body else {}
    match write.verb, write.resource:
        case "patch", "nodes":
            return _of_node(says)
        case "patch", "nodes/status":
            return _of_conditions(says)
        case "create", "pods/eviction":
            return Kind.EVICTION
        case "create" | "patch", "events":
            return Kind.EVENT
        case "create", "serviceaccounts/token":
            return Kind.TOKEN
        case "patch", resource if resource == f"{PLURAL}/status":
            return Kind.STATUS
        case "patch", resource if resource == PLURAL:
            return Kind.FINALIZER if says["metadata"]["finalizers"] else Kind.UNFINALIZER
    raise AssertionError(f"a write that a run with evictions does not have: {write} {write.body[:500]!r}")


def _of_node(patch: Object) -> Kind:
    labels, annotations = patch["metadata"].get("labels", {}), patch["metadata"].get("annotations", {})
    if POOL_LABEL in labels:
        return Kind.RELEASE if labels[POOL_LABEL] is None else Kind.JOIN
    if MEMORY_ANNOTATION in annotations:
        return Kind.FORGET if annotations[MEMORY_ANNOTATION] is None else Kind.INTENT
    if "spec" not in patch and annotations.keys() == {APPLIED_ANNOTATION}:
        return Kind.RECORD
    taints = patch.get("spec", {}).get("taints")
    assert taints is not None, f"a patch of a node that a run with evictions does not have: {patch}"
    return Kind.MARK if any(each["key"] == MEMORY_PRESSURE_TAINT for each in taints) else Kind.CLEAR


def _of_conditions(apply: Object) -> Kind:
    found = apply["status"].get("conditions", [])
    if not found:
        return Kind.UNCONDITION
    return {"True": Kind.CONDITION, "False": Kind.CALM, "Unknown": Kind.STALE}[found[0]["status"]]
