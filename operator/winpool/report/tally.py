"""The counts of a pool, from its assessments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.ownership.membership import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from winpool.contract.assess import Assessment
    from winpool.objects.node import Node

NAMES_SHOWN: Final = 3
"""As many names as a sentence bears."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many nodes are in which state.

    ``outstanding`` names those that a patch is due for, ``writable`` those of them that nothing has to
    come first for, ``refused`` those that the API server does not let us write. ``held`` names those that
    the brake keeps a taint from, ``waiting`` those for which a look at all pods has to come first,
    ``validating`` those that carry startup taints and ``timed_out`` those of them whose time is over.
    ``asking`` names those that a look at all pods soon would help along. ``foreign`` are selected and
    another pool's, ``unknown`` and nobody knows whose.
    """

    nodes: int
    ready: int
    up_to_date: int
    up_to_date_and_ready: int
    available: int
    outstanding: tuple[str, ...]
    writable: tuple[str, ...]
    refused: tuple[str, ...]
    held: tuple[str, ...]
    waiting: tuple[str, ...]
    validating: tuple[str, ...]
    timed_out: tuple[str, ...]
    asking: tuple[str, ...]
    foreign: int
    unknown: int


def tally(assessed: Sequence[Assessment]) -> Tally:
    """Count the nodes that belong to the pool, and those that it selects but another pool has.

    A node that the pool has left belongs to it until it is released, or a gate that compares counts
    would pass too early.
    """
    nodes = ready = up_to_date = up_to_date_and_ready = available = foreign = unknown = 0
    outstanding: list[str] = []
    writable: list[str] = []
    refused: list[str] = []
    held: list[str] = []
    waiting: list[str] = []
    validating: list[str] = []
    timed_out: list[str] = []
    # One walk, not one for each count: a pass does this for every node.
    for each in assessed:
        node, whose = each.node, each.claim
        if each.patch is not None:
            outstanding.append(node.name)
            if each.may_be_written:
                writable.append(node.name)
            if each.refused:
                refused.append(node.name)
        if whose is Claim.OURS or whose is Claim.LEFT:
            nodes += 1
            current = each.is_current
            up_to_date += current
            if not current:
                _note_pending(each, held=held, waiting=waiting, validating=validating, timed_out=timed_out)
            if is_ready(node):
                ready += 1
                up_to_date_and_ready += current
                available += is_available(node)
        elif whose is Claim.RIVAL:
            foreign += 1
        elif whose is Claim.UNKNOWN:
            unknown += 1
    return Tally(
        nodes=nodes,
        ready=ready,
        up_to_date=up_to_date,
        up_to_date_and_ready=up_to_date_and_ready,
        available=available,
        outstanding=tuple(outstanding),
        writable=tuple(writable),
        refused=tuple(refused),
        held=tuple(held),
        waiting=tuple(waiting),
        validating=tuple(validating),
        timed_out=tuple(timed_out),
        asking=tuple(each.node.name for each in assessed if each.needs_pods),
        foreign=foreign,
        unknown=unknown,
    )


def _note_pending(
    each: Assessment,
    *,
    held: list[str],
    waiting: list[str],
    validating: list[str],
    timed_out: list[str],
) -> None:
    """Note why a node is not as it should be, beside a patch that is due."""
    name = each.node.name
    if each.held.intolerant:
        held.append(name)
    if each.held.waiting:
        waiting.append(name)
    if each.startup.timed_out:
        timed_out.append(name)
    elif each.startup.waits_for and not each.refused:
        validating.append(name)


def is_ready(node: Node) -> bool:
    """Whether the kubelet reports Ready; a node that nothing is heard of is not ready."""
    return node.ready == "True"


def is_available(node: Node) -> bool:
    """Whether new pods can run there: ready, not cordoned, not on its way out."""
    return is_ready(node) and not node.unschedulable and not node.deleting


def enumerate_names(names: Iterable[str]) -> str:
    """Write ``names`` as a sentence bears them: the first three, and how many more."""
    listed = tuple(names)
    more = len(listed) - NAMES_SHOWN
    return ", ".join(listed[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def count_nodes(number: int) -> str:
    """Write a number of nodes: "1 node", "12 nodes"."""
    return f"{number} node" if number == 1 else f"{number} nodes"


def count_pods(number: int) -> str:
    """Write a number of pods: "1 pod", "12 pods"."""
    return f"{number} pod" if number == 1 else f"{number} pods"
