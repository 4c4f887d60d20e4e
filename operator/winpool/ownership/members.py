"""All nodes that concern a pool, and which pool has each: computed once in a pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.keys import POOL_LABEL
from winpool.objects.node import Node
from winpool.ownership.membership import Claim, asking, claim, may_share
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record, TaintIdentity, Unreadable
from winpool.ownership.rights import Rights, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.objects.pool import Pool
    from winpool.snapshot import Snapshot


NO_TAINTS: Final[Mapping[TaintIdentity, str]] = MappingProxyType({})


class Member(msgspec.Struct, frozen=True):
    """A node that concerns a pool.

    ``record`` is its ownership record, of any pool, and ``taints`` are the values of its taints.
    ``rival`` names the other pool that has the
    node or asks for it too; ``owner_is_gone`` says that its owner is no pool.

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
    rights: Rights
    ours: tuple[Member, ...]


def rights_of(snapshot: Snapshot) -> Rights:
    """Return the rights that decide which records are believed in this pass."""
    pool = snapshot.pool
    return Rights(
        guard=snapshot.guard.identity,
        pools={**snapshot.others.seen, pool.uid: keys_of(pool)},
        is_unknown=snapshot.guard.is_unknown,
    )


def divide(snapshot: Snapshot) -> Members:
    """Say which pool has each node.

    A pool that is being deleted has no claim any more: it only releases its nodes. A pool whose spec cannot
    be read keeps the nodes that it has (P4).
    """
    rights = rights_of(snapshot)
    found = tuple(_divided(snapshot, rights))
    return Members(all=found, rights=rights, ours=tuple([each for each in found if each.claim is Claim.OURS]))


def _divided(snapshot: Snapshot, rights: Rights) -> Iterator[Member]:
    pool = snapshot.pool
    nodes = sorted(snapshot.nodes, key=_name_of)
    if pool.deleting or pool.spec is None:
        for node in nodes:
            record = record_of(node)
            if isinstance(record, Record) and record.pool_uid == pool.uid:
                yield Member(node, Claim.LEFT if pool.deleting else Claim.OURS, record, values_of(node))
            elif pool.deleting and _is_labelled(node, record, pool):
                yield Member(node, Claim.LEFT, record, values_of(node))
        return
    rivals, vanished = _rivals(snapshot), snapshot.others.vanished
    for node in nodes:
        record = record_of(node)
        found = claim(node, found=record, pool=pool, rivals=rivals, vanished=vanished, rights=rights)
        if found.claim is Claim.NONE:
            continue
        rival = found.rival
        if found.claim is Claim.OURS and rivals:
            others = asking(rivals, node)
            rival = others[0].name if others else ""
        yield Member(node, found.claim, record, values_of(node), rival, found.is_gone)


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
