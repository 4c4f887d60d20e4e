"""Releases keys of ours that no pool releases any more: of deleted pools, and on nodes without Windows.

- A *stray* has keys of ours and is not a Windows node any more, so no pool sees it.
- An *orphan* has keys of a pool that is gone: deleted by force, or without its finalizer.

Both are released by their own record, exactly as their pool would have done it, if the record was written
under the guard, or names a pool that this process has seen. Any other record may be forged, with an owner
that never existed, so nothing is removed by it (``trust``).

A stray is released only once its pool was deleted. Before, it loses only what its own kubelet could remove
(``trim``), and nothing while someone holds it. What a deleted pool left is released from held nodes too, as
the pool itself would have done it.

A kubelet may change the label ``kubernetes.io/os`` of its own node, and NodeRestriction lets it:
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
It may not change its taints, labels of node-restriction and node-role, nor, under the guard, what is under
``winpool.dev/``. So as long as no one with the right to do so has deleted the pool, the operator does not
remove these either (P3). It removes what a kubelet could remove itself, and the pool reports the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from winpool.api.fields import is_restricted_label
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    OS_LABEL,
    OS_WINDOWS,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    POOL_LABEL,
)
from winpool.model.node import Keys, Node, is_held
from winpool.model.pool import Pool, PoolName
from winpool.ownership.diff import NO_DIFF, NodeDiff, difference, release, undo
from winpool.ownership.members import is_asked_for
from winpool.ownership.record import Record, record_of, render
from winpool.ownership.trust import RecordTrust, names, standing

_OWN: Final = Keys(frozenset(OWN_LABELS), frozenset(OWN_TAINTS), frozenset(OWN_ANNOTATIONS))


def owner_of(node: Node) -> str | PoolName | None:
    """Return the UID of the pool that the record names; without a readable record the name in the label."""
    found = record_of(node)
    if isinstance(found, Record):
        return found.pool_uid
    name = node.labels.get(POOL_LABEL)
    return PoolName(name) if name else None


def strays_of(pool: Pool, strays: Iterable[Node]) -> tuple[Node, ...]:
    """Return those of ``strays`` that were in ``pool``."""
    return tuple(node for node in strays if owner_of(node) in (pool.uid, PoolName(pool.name)))


def trim(node: Node, *, rights: RecordTrust) -> NodeDiff:
    """Return the patch that removes only what the node's own kubelet could remove.

    The record continues to name the rest, which is removed by it once the pool is deleted.
    """
    found = record_of(node)
    if not isinstance(found, Record):
        return NO_DIFF
    believed = rights.believed(found)
    free = replace(
        believed,
        labels={key: own for key, own in believed.labels.items() if not is_restricted_label(key)},
        taints={},
    )
    if not (free.labels or free.annotations or free.unschedulable):
        return NO_DIFF
    rest = replace(
        found,
        labels={key: own for key, own in found.labels.items() if key not in free.labels},
        annotations={key: own for key, own in found.annotations.items() if key not in free.annotations},
        unschedulable=found.unschedulable and not free.unschedulable,
    )
    wanted = undo(node, free)
    wanted.annotations[APPLIED_ANNOTATION] = render(rest)
    return NodeDiff(difference(node, wanted, taints=node.taints))


def kept_on(node: Node, *, rights: RecordTrust) -> Keys:
    """Return what ``trim`` leaves on the node, and what is known to be ours of it."""
    found, own = record_of(node), standing(_OWN, node)
    if not isinstance(found, Record):
        return own
    believed = rights.believed(found)
    values = {taint.identity: taint.value for taint in node.taints}
    return own | Keys(
        frozenset(
            key
            for key, owned in believed.labels.items()
            if is_restricted_label(key) and node.labels.get(key) == owned.set
        ),
        frozenset(each for each, owned in believed.taints.items() if values.get(each) == owned.set),
    )


def release_stray(
    node: Node, *, is_let_go: Callable[[str | PoolName], bool], rights: RecordTrust, now: datetime
) -> NodeDiff:
    """Return the patch that removes ours from a node that is not a Windows node; none for one that is.

    ``is_let_go`` says whether it is certain that the pool with a UID or name was deleted, or does not exist
    (P4). Of any other, only what the node's kubelet could remove itself is removed (P3), and nothing where
    someone holds the node ``now``.
    """
    owner = owner_of(node)
    if owner is None or node.labels.get(OS_LABEL) == OS_WINDOWS:
        return NO_DIFF
    found = record_of(node)
    if isinstance(found, Record) and not rights.know_owner(found):
        return _release_by_record(node, rights=rights)  # not at all: do not ask about invented UIDs
    if is_let_go(owner):
        return _release_by_record(node, rights=rights)
    return NO_DIFF if is_held(node, now=now) else trim(node, rights=rights)


def release_orphan(
    node: Node, *, pools: Collection[Pool], is_vanished: Callable[[str | PoolName], bool], rights: RecordTrust
) -> NodeDiff:
    """Return the patch that removes what a pool that is gone left on a Windows node.

    ``is_vanished`` says whether it is certain that no pool has a UID or a name (P4). A node that another pool
    selects is not released: that pool takes it over, unless it is being deleted itself.
    """
    owner = owner_of(node)
    if not owner or not is_vanished(owner):
        return NO_DIFF
    if any(is_asked_for(node, by=pool) for pool in pools if not pool.deleting):
        return NO_DIFF
    return _release_by_record(node, rights=rights)


def _release_by_record(node: Node, *, rights: RecordTrust) -> NodeDiff:
    found = record_of(node)
    if isinstance(found, Record) and rights.is_undecided(found):
        return NO_DIFF  # until the guard can be read
    if isinstance(found, Record) and not rights.know_owner(found):
        return NodeDiff(is_doubted=True, left_alone=names(found))
    uid = found.pool_uid if isinstance(found, Record) else ""
    return release(node, pool_uid=uid, pool_name=node.labels.get(POOL_LABEL, ""), rights=rights)
