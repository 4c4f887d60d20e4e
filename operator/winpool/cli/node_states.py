"""How the nodes of a pool are doing, each counted once: by the worst that its Node object shows.

A help for the eye. What the operator has decided is in the pool's status.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import MEMORY_PRESSURE_TAINT, OS_REVISION_LABEL, OS_VERSION_LABEL, RESERVED_MEMORY_TAINT
from winpool.api.model import InvalidSpecError
from winpool.api.v1alpha1 import WindowsNodePool
from winpool.cli.lenient import mapping
from winpool.model.node import is_held
from winpool.ownership.members import selects
from winpool.support.matrix import built_in

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.model.node import Node


class NodeState(StrEnum):
    """How a node is doing, in one word for programs; the order is from the worst to the best."""

    TO_BE_RELEASED = "ToBeReleased"
    NOT_READY = "NotReady"
    CORDONED = "Cordoned"
    MEMORY_PRESSURE = "MemoryPressure"
    HELD = "Held"
    KEYS_MISSING = "KeysMissing"
    VALIDATING = "Validating"
    UPGRADE_DUE = "UpgradeDue"
    BUILD_UNKNOWN = "BuildUnknown"
    MEMORY_MISMATCH = "MemoryMismatch"
    NOT_WRITTEN = "NotWritten"
    NOT_AS_ASKED = "NotAsAsked"
    UP_TO_DATE = "UpToDate"


_MOST_DIGITS: Final = 10
"""Of a revision, as of any integer of 32 bits."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes in the same state. ``names`` are in order, empty where the nodes are known by number only."""

    state: NodeState
    count: int
    names: tuple[str, ...] = ()


def node_groups(
    pool: Mapping[str, Any], nodes: Sequence[Node], *, counted: int, up_to_date: int, now: datetime
) -> tuple[NodeGroup, ...]:
    """Fold the nodes that carry the label of ``pool``: those that are up to date first, then the worst.

    ``counted`` is how many nodes the pool has by its status: those of them that do not carry the label are
    not written to yet. ``up_to_date`` is how many are up to date by its status: no more are called so here,
    since not all that is wrong with a node is seen on it. A hold may have ended by ``now``.
    """
    shows = _signs(pool, now=now)
    found: dict[NodeState, list[str]] = {}
    for node in nodes:
        state = next((each for each, shown in shows if shown(node)), NodeState.UP_TO_DATE)
        found.setdefault(state, []).append(node.name)
    groups = {state: NodeGroup(state, len(names), tuple(sorted(names))) for state, names in found.items()}
    good = groups.pop(NodeState.UP_TO_DATE, NodeGroup(NodeState.UP_TO_DATE, 0))
    if others := max(0, good.count - up_to_date):
        # Which of them, the status does not say, unless it is all.
        names = () if up_to_date else good.names
        groups[NodeState.NOT_AS_ASKED] = NodeGroup(NodeState.NOT_AS_ASKED, others, names)
        good = NodeGroup(NodeState.UP_TO_DATE, up_to_date)
    if good.count:
        groups[NodeState.UP_TO_DATE] = good
    if counted > len(nodes):
        groups[NodeState.NOT_WRITTEN] = NodeGroup(NodeState.NOT_WRITTEN, counted - len(nodes))
    order = (NodeState.UP_TO_DATE, *(each for each in NodeState if each is not NodeState.UP_TO_DATE))
    return tuple(groups[state] for state in order if state in groups)


_Sign = tuple[NodeState, "Callable[[Node], bool]"]


def _of_any_pool(now: datetime) -> tuple[_Sign, ...]:
    """Return what shows without the spec. What is missing on a node that is held, is missing for the hold."""
    return (
        (NodeState.NOT_READY, lambda node: node.ready != "True"),
        (NodeState.CORDONED, lambda node: node.unschedulable),
        (NodeState.MEMORY_PRESSURE, lambda node: _has_taint(node, MEMORY_PRESSURE_TAINT)),
        (NodeState.HELD, lambda node: is_held(node, now=now)),
    )


def _signs(pool: Mapping[str, Any], *, now: datetime) -> tuple[_Sign, ...]:
    """Return by what each state shows, the worst first."""
    if mapping(pool.get("metadata")).get("deletionTimestamp"):
        return ((NodeState.TO_BE_RELEASED, lambda _: True),)
    try:
        spec = WindowsNodePool.from_object(pool).spec
    except InvalidSpecError:
        return _of_any_pool(now)
    return (
        (NodeState.TO_BE_RELEASED, lambda node: not selects(spec.node_selector, node.labels)),
        *_of_any_pool(now),
        *_of_spec(spec),
    )


def _of_spec(spec: WindowsNodePoolSpec) -> tuple[_Sign, ...]:
    taints = {(each.key, each.effect, each.value) for each in spec.taints}
    startup = {(each.key, each.effect) for each in spec.startup_taints}
    release, target = built_in().judged_as(spec.os.version), spec.os.target_revision

    def lacks_keys(node: Node) -> bool:
        there = {(each.key, each.effect, each.value) for each in node.taints}
        return not taints <= there or any(node.labels.get(key) != value for key, value in spec.labels.items())

    def is_behind(node: Node) -> bool:
        runs, revision = node.labels.get(OS_VERSION_LABEL), _revision(node)
        if runs is not None and runs != release:
            return True
        return target is not None and revision is not None and revision < target

    def is_unknown(node: Node) -> bool:
        return OS_VERSION_LABEL not in node.labels or (target is not None and _revision(node) is None)

    return (
        (NodeState.KEYS_MISSING, lacks_keys),
        (NodeState.VALIDATING, lambda node: any(each.identity in startup for each in node.taints)),
        (NodeState.UPGRADE_DUE, is_behind),
        (NodeState.BUILD_UNKNOWN, is_unknown),
        (NodeState.MEMORY_MISMATCH, lambda node: _has_taint(node, RESERVED_MEMORY_TAINT)),
    )


def _has_taint(node: Node, key: str) -> bool:
    return any(each.key == key for each in node.taints)


def _revision(node: Node) -> int | None:
    """Return the revision that the node is labelled with, None where that is no number."""
    revision = node.labels.get(OS_REVISION_LABEL, "")
    return int(revision) if revision.isdecimal() and len(revision) <= _MOST_DIGITS else None
