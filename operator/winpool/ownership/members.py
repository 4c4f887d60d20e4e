"""Says which nodes belong to a pool: by its selector, by ownership records, and where pools overlap.

The recorded owner keeps a node. A node without an owner goes to the oldest of the pools that select it, then
by name. So the passes of all pools come to the same answer independently. ``divide`` computes it once in a
pass, for all nodes that concern the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import attrgetter
from types import MappingProxyType
from typing import Final

import msgspec

from winpool.api.keys import APPLIED_ANNOTATION, HOLD_ANNOTATION, OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.api.selector import (
    NodeSelector,
    PodRequirement,
    PodSelector,
    SelectorOperator,
    SelectorRequirement,
)
from winpool.model.node import Node, Taint, is_held
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.record import Record, TaintIdentity, Unreadable, parse, record_of
from winpool.ownership.trust import RecordTrust, keys_of


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
    rights: RecordTrust,
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
        return Claimed(Claim.UNKNOWN, is_gone=owner in vanished and not rights.is_undecided(found))
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


NO_TAINTS: Final[Mapping[TaintIdentity, str]] = MappingProxyType({})


class Member(msgspec.Struct, frozen=True):
    """A node that concerns a pool.

    ``record`` is its ownership record, of any pool, and ``taints`` are the values of its taints: one object
    for all nodes with the same. ``rival`` names the other pool that has the node or asks for it too;
    ``owner_is_gone`` says that its owner is no pool.

    It is a struct, since every pass makes one for each node: making a frozen dataclass takes ten times as
    long.
    """

    node: Node
    claim: Claim
    record: Record | Unreadable | None
    taints: Mapping[TaintIdentity, str]
    rival: str = ""
    owner_is_gone: bool = False


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes that concern a pool, in the order of their names, and the rights of their records.

    ``ours`` are those that it selects and has, or may have.
    """

    all: tuple[Member, ...]
    rights: RecordTrust
    ours: tuple[Member, ...]
    pool_uid: str


def record_trust_of(snapshot: Snapshot) -> RecordTrust:
    """Return the rights that decide which records are believed in this pass."""
    pool = snapshot.pool
    return RecordTrust(
        guard=snapshot.guard.identity,
        pools={**snapshot.others.seen, pool.uid: keys_of(pool)},
        is_unknown=snapshot.guard.is_unknown,
    )


def divide(snapshot: Snapshot) -> Members:
    """Say which pool has each node.

    A pool that is being deleted has no claim any more: it only releases its nodes. A pool whose spec cannot
    be read keeps the nodes that it has (P4).
    """
    rights = record_trust_of(snapshot)
    found = tuple(_divided(snapshot, rights))
    ours = tuple([each for each in found if each.claim is Claim.OURS])
    return Members(all=found, rights=rights, ours=ours, pool_uid=snapshot.pool.uid)


def _kept(pool: Pool, nodes: Iterable[Node]) -> Iterator[Member]:
    """Yield the nodes that a pool has which is being deleted, or whose spec cannot be read."""
    for node in nodes:
        record = record_of(node)
        if isinstance(record, Record) and record.pool_uid == pool.uid:
            yield Member(node, Claim.LEFT if pool.deleting else Claim.OURS, record, values_of(node))
        elif pool.deleting and _is_labelled(node, record, pool):
            yield Member(node, Claim.LEFT, record, values_of(node))


def _divided(snapshot: Snapshot, rights: RecordTrust) -> Iterator[Member]:
    pool = snapshot.pool
    nodes = sorted(snapshot.nodes, key=_name_of)
    if pool.deleting or pool.spec is None:
        yield from _kept(pool, nodes)
        return
    rivals, vanished = _rivals(snapshot), snapshot.others.vanished
    selector, uid = pool.spec.node_selector, pool.uid
    records: dict[str | None, Record | Unreadable | None] = {None: None}
    taints: dict[tuple[Taint, ...], Mapping[TaintIdentity, str]] = {}
    for node in nodes:
        text = node.annotations.get(APPLIED_ANNOTATION)
        record = records.get(text)
        if record is None and text is not None:
            record = records[text] = parse(text)
        values = taints.get(node.taints)
        if values is None:
            values = taints[node.taints] = values_of(node)
        if (
            not rivals  # in each pass, this is so for thousands of nodes
            and isinstance(record, Record)
            and record.pool_uid == uid
            and node.labels.get(OS_LABEL) == OS_WINDOWS
            and selects(selector, node.labels)
        ):
            yield Member(node, Claim.OURS, record, values)
            continue
        found = claim(node, found=record, pool=pool, rivals=rivals, vanished=vanished, rights=rights)
        if found.claim is not Claim.NONE:
            others = asking(rivals, node) if found.claim is Claim.OURS else ()
            rival = others[0].name if others else found.rival
            yield Member(node, found.claim, record, values, rival, found.is_gone)


def held_nodes(snapshot: Snapshot, members: Members) -> frozenset[str]:
    """Return the names of the nodes of the pool that people hold: nothing is written to them.

    The release of a deleted pool does not wait for people.
    """
    if snapshot.pool.deleting:
        return frozenset()
    return frozenset(
        [
            each.node.name
            for each in members.all
            if HOLD_ANNOTATION in each.node.annotations
            and each.claim in (Claim.OURS, Claim.LEFT)
            and is_held(each.node, now=snapshot.now)
        ]
    )


_name_of: Final = attrgetter("name")


def values_of(node: Node) -> Mapping[TaintIdentity, str]:
    """Return the values of the taints on ``node``."""
    return {(each.key, each.effect): each.value for each in node.taints} if node.taints else NO_TAINTS


def _is_labelled(node: Node, record: Record | Unreadable | None, pool: Pool) -> bool:
    """Whether only the pool label says which pool has the node: there is no record that can be read."""
    return not isinstance(record, Record) and node.labels.get(POOL_LABEL) == pool.name


def _rivals(snapshot: Snapshot) -> tuple[Pool, ...]:
    """Return the pools that may have a claim to a node: they can select it, or have it."""
    if not snapshot.others.rivals:
        return ()
    owners = {found.pool_uid for node in snapshot.nodes if isinstance(found := record_of(node), Record)}
    return tuple(
        other for other in snapshot.others.rivals if other.uid in owners or may_share(snapshot.pool, other)
    )
