"""The patch that removes from a node exactly what a pool set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import POOL_LABEL
from winpool.api.node_keys import OWN_ANNOTATIONS, OWN_TAINTS, ROOMS_LABELS
from winpool.objects.keys import NO_KEYS, Keys
from winpool.ownership.conformity import AS_WANTED, Conformity
from winpool.ownership.edits import as_list, difference, put_own, undo
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record
from winpool.ownership.recording import lost_on, why_unreadable
from winpool.ownership.rights import names, standing

if TYPE_CHECKING:
    from winpool.objects.node import Node
    from winpool.ownership.rights import Rights


def release(node: Node, *, pool_uid: str, pool_name: str, rights: Rights) -> Conformity:
    """Return the patch that removes from ``node`` exactly what the pool set; none if there is nothing.

    Where the record cannot be read, only keys under ``winpool.dev/`` are the pool's, and only if
    the pool label names it. Conditions have to be gone before: the record names them.
    """
    found = record_of(node)
    if isinstance(found, Record):
        if found.pool_uid != pool_uid:
            return AS_WANTED
    elif node.labels.get(POOL_LABEL) != pool_name:
        return AS_WANTED
    old = doubted = Record(pool_uid=pool_uid)
    if isinstance(found, Record):
        old, doubted = rights.believed(found), rights.doubted(found, node)
    wanted = undo(node, old)
    why = why_unreadable(node, found, pool_name=pool_name)
    known = rights.pools.get(pool_uid, NO_KEYS)
    lost = lost_on(node, found, pool_uid=pool_uid, known=known, why=why)
    if wanted.labels.get(POOL_LABEL) == pool_name:
        del wanted.labels[POOL_LABEL]
    put_own(wanted.labels, {}, keys=ROOMS_LABELS, left=())
    put_own(wanted.annotations, {}, keys=OWN_ANNOTATIONS, left=())
    put_own(wanted.taints, {}, keys=OWN_TAINTS, left=())
    return Conformity(
        difference(node, wanted, taints=as_list(node, wanted.taints, old)),
        unreadable=why,
        lost=lost & Keys(frozenset(wanted.labels), frozenset(wanted.taints)) if lost else lost,
        left_alone=names(doubted) | (standing(found.left, node) if isinstance(found, Record) else NO_KEYS),
    )
