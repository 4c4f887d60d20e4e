"""Which nodes a selector selects, and which pool has a node when several pools select it.

The recorded owner keeps a node. A node without an owner goes to the oldest of the pools that
select it, then by name. So the passes of all pools come to the same answer independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.api.v1alpha1 import SelectorOperator
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from winpool.api.v1alpha1 import NodeSelector, PodRequirement, PodSelector, SelectorRequirement
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.ownership.record import Unreadable
    from winpool.ownership.rights import Rights


def selects(selector: NodeSelector | PodSelector, labels: Mapping[str, str]) -> bool:
    """Whether ``selector`` selects an object with these labels.

    As in Kubernetes, ``NotIn`` and ``DoesNotExist`` also select an object without the key.
    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#set-based-requirement
    """
    # A loop, not all(): a pass does this for every node, and the generator costs more than the comparison.
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    return not selector.match_expressions or all(
        meets(requirement, labels) for requirement in selector.match_expressions
    )


def meets(requirement: SelectorRequirement | PodRequirement, labels: Mapping[str, str]) -> bool:
    """Whether an object with these labels meets one requirement of a selector."""
    value = labels.get(requirement.key)
    match requirement.operator:
        case SelectorOperator.IN:
            return value in requirement.values
        case SelectorOperator.NOT_IN:
            return value not in requirement.values
        case SelectorOperator.EXISTS:
            return value is not None
        case SelectorOperator.DOES_NOT_EXIST:
            return value is None


class Claim(Enum):
    """What a pool may do with a node."""

    OURS = "ours"
    """Selected, and ours or without an owner: write what the spec asks for."""
    LEFT = "left"
    """Ours by the record (or by the pool label), but no longer selected: release it."""
    RIVAL = "rival"
    """Selected, but another pool has it: do not change it, and report that."""
    UNKNOWN = "unknown"
    """Selected, but recorded for a UID that is not known to have been a pool and to be gone: do not change
    it, and check again (P4)."""
    NONE = "none"
    """Nothing to do with this pool."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim, and the name of the other pool where it is a RIVAL.

    ``is_gone`` says of an UNKNOWN owner that it is certain that no pool has that UID: then only its record,
    which may be forged, prevents a claim.
    """

    claim: Claim
    rival: str = ""
    is_gone: bool = False


_OURS: Final = Claimed(Claim.OURS)


def claim(
    node: Node,
    *,
    found: Record | Unreadable | None,
    pool: Pool,
    rivals: Collection[Pool],
    vanished: Collection[str],
    rights: Rights,
) -> Claimed:
    """Say which claim ``pool`` has to ``node``; ``found`` is the record on it."""
    owner = found.pool_uid if isinstance(found, Record) else None
    if not is_asked_for(node, by=pool):
        if node.labels.get(OS_LABEL) != OS_WINDOWS:
            return Claimed(Claim.NONE)  # a stray: its kubelet can have changed the label (``strays``)
        # The annotation was lost or damaged, the label still names us: what is under winpool.dev/ is ours.
        left = owner == pool.uid or (owner is None and node.labels.get(POOL_LABEL) == pool.name)
        return Claimed(Claim.LEFT if left else Claim.NONE)
    if owner == pool.uid:
        return _OURS
    if rival := next((rival.name for rival in rivals if rival.uid == owner), ""):
        return Claimed(Claim.RIVAL, rival)
    if isinstance(found, Record) and not (owner in vanished and rights.know_owner(found)):
        return Claimed(Claim.UNKNOWN, is_gone=owner in vanished and not rights.is_in_doubt(found))
    first = min((pool, *asking(rivals, node)), key=lambda each: each.seniority)
    return _OURS if first is pool else Claimed(Claim.RIVAL, first.name)


def asking(pools: Iterable[Pool], node: Node) -> tuple[Pool, ...]:
    """Return those of ``pools`` that select ``node``, the first in line first."""
    found = (pool for pool in pools if not pool.deleting and is_asked_for(node, by=pool))
    return tuple(sorted(found, key=lambda pool: pool.seniority))


def may_share(pool: Pool, other: Pool) -> bool:
    """Whether a node can have the labels that both select, as far as their ``matchLabels`` show.

    Most pools differ in the value of one label, and need not be compared for every single node.
    """
    if pool.spec is None or other.spec is None:
        return False
    theirs = other.spec.node_selector.match_labels
    return all(theirs.get(key, value) == value for key, value in pool.spec.node_selector.match_labels.items())


def concerns(node: Node, pool: Pool) -> bool:
    """Whether a change of ``node`` may matter to ``pool``: it selects it, or has something on it."""
    found = record_of(node)
    return (
        is_asked_for(node, by=pool)
        or node.labels.get(POOL_LABEL) == pool.name
        or (isinstance(found, Record) and found.pool_uid == pool.uid)
    )


def is_asked_for(node: Node, *, by: Pool) -> bool:
    """Whether the selector selects the node. ``kubernetes.io/os: windows`` is always implied."""
    return (
        by.spec is not None
        and node.labels.get(OS_LABEL) == OS_WINDOWS
        and selects(by.spec.node_selector, node.labels)
    )
