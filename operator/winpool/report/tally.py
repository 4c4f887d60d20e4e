"""The counts of a pool, from its assessments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.contract.membership import Claim

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from winpool.contract.assess import Assessment
    from winpool.snapshot import Node

NAMES_SHOWN: Final = 3
"""As many names as a sentence bears."""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many nodes are in which state.

    ``outstanding`` names those that a patch is due for, ``refused`` those of them that the API server does
    not let us write. ``foreign`` are selected and another pool's, ``unknown`` and nobody knows whose.
    """

    nodes: int
    ready: int
    up_to_date: int
    up_to_date_and_ready: int
    available: int
    outstanding: tuple[str, ...]
    refused: tuple[str, ...]
    foreign: int
    unknown: int


def tally(assessed: Sequence[Assessment]) -> Tally:
    """Count the nodes that belong to the pool, and those that it selects but another pool has.

    A node that the pool has left belongs to it until it is released, or a gate that compares counts
    would pass too early.
    """
    members = [each for each in assessed if each.claim in (Claim.OURS, Claim.LEFT)]
    current = [each for each in members if each.compared and each.patch is None]
    return Tally(
        nodes=len(members),
        ready=sum(is_ready(each.node) for each in members),
        up_to_date=len(current),
        up_to_date_and_ready=sum(is_ready(each.node) for each in current),
        available=sum(is_available(each.node) for each in members),
        outstanding=tuple(each.node.name for each in assessed if each.patch is not None),
        refused=tuple(each.node.name for each in assessed if each.refused),
        foreign=sum(each.claim is Claim.RIVAL for each in assessed),
        unknown=sum(each.claim is Claim.UNKNOWN for each in assessed),
    )


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
