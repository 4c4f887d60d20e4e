"""Says which nodes belong to a pool: by all selectors, by ownership records, and where pools overlap.

Anyone who may create pools may write selectors of a thousand values that select every node. Asked in every
pass of every pool for every node, sixty such pools held up all others for minutes (P7). So a selector is
asked about a node when either of them has changed, and by no pass: ``Selections`` remembers the answers.

The recorded owner keeps a node. A node without an owner goes to the oldest of the pools that select it, then
by name. So the passes of all pools come to the same answer independently. ``divide`` computes it once in a
pass, for all nodes that concern the pool.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Final

import msgspec

from winpool.api.keys import APPLIED_ANNOTATION, HOLD_ANNOTATION, OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.api.selector import NodeSelector, selects
from winpool.model.node import Node, Taint, is_held
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import NONE
from winpool.ownership.record import Record, TaintIdentity, Unreadable, parse, record_of
from winpool.ownership.trust import RecordTrust, keys_of


def is_asked_for(node: Node, *, by: Pool) -> bool:
    """Whether the selector selects the node. ``kubernetes.io/os: windows`` is always implied."""
    return by.spec is not None and _is_selected(node.labels, by.spec.node_selector)


def _is_selected(labels: Mapping[str, str], selector: NodeSelector) -> bool:
    return labels.get(OS_LABEL) == OS_WINDOWS and selects(selector, labels)


@dataclass(slots=True)
class Selections:
    """The UIDs of the pools that select each node. A pool that is being deleted selects none."""

    _selectors: dict[str, NodeSelector] = field(default_factory=dict, init=False)
    _labels: dict[str, Mapping[str, str]] = field(default_factory=dict, init=False)
    """Of each node by its name, as they were when the selectors were asked about it."""
    _found: dict[str, frozenset[str]] = field(default_factory=dict, init=False)
    _same: dict[frozenset[str], frozenset[str]] = field(default_factory=dict, init=False)
    """One set for all nodes that the same pools select."""

    def of(self, node: Node, pools: Iterable[Pool]) -> frozenset[str]:
        """Return the UIDs of those of ``pools``, which are all, that select ``node``."""
        self._note(pools)
        return self._of(node)

    def of_all(self, nodes: Collection[Node], pools: Iterable[Pool]) -> dict[str, frozenset[str]]:
        """Return the same for ``nodes``, which are all, by their names."""
        self._note(pools)
        return {node.name: self._of(node) for node in nodes}

    def forget(self, name: str) -> None:
        """Forget a node that is gone."""
        self._found.pop(name, None)
        self._labels.pop(name, None)

    def _of(self, node: Node) -> frozenset[str]:
        labels = self._labels.get(node.name)
        if labels is not node.labels:
            if labels != node.labels:
                selectors = self._selectors.items()
                self._keep(
                    node.name, frozenset([uid for uid, each in selectors if _is_selected(node.labels, each)])
                )
            self._labels[node.name] = node.labels
        return self._found[node.name]

    def _note(self, pools: Iterable[Pool]) -> None:
        """Ask the selectors that have changed about all known nodes."""
        now = {each.uid: each.spec.node_selector for each in pools if each.spec and not each.deleting}
        before, self._selectors = self._selectors, now
        asked = {
            uid: each for uid, each in now.items() if each is not (was := before.get(uid)) and each != was
        }
        if not asked and before.keys() <= now.keys():
            return
        old = asked.keys() | (before.keys() - now.keys())
        self._same.clear()
        joined: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}
        for name, labels in self._labels.items():
            found = self._found[name]
            chosen = frozenset([uid for uid, each in asked.items() if _is_selected(labels, each)])
            both = joined.get((found, chosen))
            if both is None:  # the same pools select most nodes, and there may be hundreds
                both = joined[found, chosen] = (found - old) | chosen
            self._keep(name, both)

    def _keep(self, name: str, uids: frozenset[str]) -> None:
        if len(self._same) > len(self._found):  # a kubelet may change its labels for ever
            self._same.clear()
        self._found[name] = self._same.setdefault(uids, uids)


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


class Claimed(msgspec.Struct, frozen=True):
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
    found: Record | Unreadable | None,
    *,
    pool: Pool,
    selecting: Collection[str],
    asking: tuple[Pool, ...],
    owners: Mapping[str, Pool],
    vanished: Collection[str],
    rights: RecordTrust,
) -> Claimed:
    """Say which claim ``pool`` has to ``node``; ``found`` is the record on it.

    ``selecting`` are the UIDs of all pools that select the node, and ``asking`` are these, the first in line
    first; ``owners`` are all pools, by UID.
    """
    owner = found.pool_uid if isinstance(found, Record) else None
    if pool.uid not in selecting:
        if node.labels.get(OS_LABEL) != OS_WINDOWS:
            return Claimed(Claim.NONE)  # a stray: its kubelet can have changed the label (``leftovers``)
        # The annotation was lost or damaged, the label still names us: what is under winpool.dev/ is ours.
        return Claimed(Claim.LEFT if is_marked_for(pool, node, found) else Claim.NONE)
    if owner == pool.uid:
        return _OURS
    if owner is not None and owner in owners:
        return Claimed(Claim.RIVAL, owners[owner].name)
    if isinstance(found, Record) and not (owner in vanished and rights.know_owner(found)):
        return Claimed(Claim.UNKNOWN, is_gone=owner in vanished and not rights.is_undecided(found))
    return _OURS if asking[0] is pool else Claimed(Claim.RIVAL, asking[0].name)


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


class Members(msgspec.Struct, frozen=True):
    """The nodes that concern a pool, in the order of their names, and the rights of their records.

    ``ours`` are those that it selects and has, or may have.
    """

    all: tuple[Member, ...]
    rights: RecordTrust
    ours: tuple[Member, ...]


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
    return Members(all=found, rights=rights, ours=ours)


def _kept(pool: Pool, nodes: Iterable[Node]) -> Iterator[Member]:
    """Yield the nodes that a pool has which is being deleted, or whose spec cannot be read."""
    for node in nodes:
        record = record_of(node)
        if is_marked_for(pool, node, record) and (pool.deleting or isinstance(record, Record)):
            yield Member(node, Claim.LEFT if pool.deleting else Claim.OURS, record, values_of(node))


def _divided(snapshot: Snapshot, rights: RecordTrust) -> Iterator[Member]:
    pool = snapshot.pool
    nodes = sorted(snapshot.nodes, key=attrgetter("name"))
    if pool.deleting or pool.spec is None:
        yield from _kept(pool, nodes)
        return
    others = snapshot.others
    owners, vanished = {each.uid: each for each in (*others.rivals, pool)}, others.vanished
    alone = frozenset([pool.uid])
    lines: dict[frozenset[str], tuple[Pool, ...]] = {}
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
        selecting = snapshot.selected_by[node.name]
        if selecting == alone and isinstance(record, Record) and record.pool_uid == pool.uid:
            yield Member(node, Claim.OURS, record, values)  # in each pass, thousands of nodes
            continue
        asking = lines.get(selecting)
        if asking is None:
            asking = lines[selecting] = _in_line(owners[uid] for uid in selecting)
        found = claim(
            node,
            record,
            pool=pool,
            selecting=selecting,
            asking=asking,
            owners=owners,
            vanished=vanished,
            rights=rights,
        )
        if found.claim is not Claim.NONE:
            second = (each.name for each in asking if each is not pool)
            rival = next(second, "") if found.claim is Claim.OURS else found.rival
            yield Member(node, found.claim, record, values, rival, found.is_gone)


def _in_line(pools: Iterable[Pool]) -> tuple[Pool, ...]:
    return tuple(sorted(pools, key=attrgetter("seniority")))


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


def values_of(node: Node) -> Mapping[TaintIdentity, str]:
    """Return the values of the taints on ``node``."""
    return {(each.key, each.effect): each.value for each in node.taints} if node.taints else NONE


def is_marked_for(pool: Pool, node: Node, record: Record | Unreadable | None) -> bool:
    """Whether the record on a node names the pool; where none can be read, whether the pool label does."""
    if isinstance(record, Record):
        return record.pool_uid == pool.uid
    return node.labels.get(POOL_LABEL) == pool.name
