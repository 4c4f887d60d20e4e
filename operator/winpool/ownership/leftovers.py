"""What a pool left behind that cannot remove it itself any more.

- A *stray* has keys of ours and is not a Windows node any more, so no pool sees it.
- An *orphan* has keys of a pool that is gone: deleted by force, or without its finalizer.

Both are released by their own record, exactly as their pool would have done it, if the record was written
under the guard, or names a pool that this process has seen. Any other record may be forged, with an owner
that never existed, so nothing is removed by it (``rights``).

A stray is released only once its pool was deleted. Before, it loses only what its own kubelet could remove
(``strays``), and nothing while someone holds it. What a deleted pool left is released from held nodes too, as
the pool itself would have done it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.objects.hold import is_held
from winpool.ownership.conformity import AS_WANTED, Conformity
from winpool.ownership.membership import asking
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record
from winpool.ownership.release import release
from winpool.ownership.rights import names
from winpool.ownership.strays import owner_of, trim

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from winpool.objects.node import Node
    from winpool.objects.others import PoolName
    from winpool.objects.pool import Pool
    from winpool.ownership.rights import Rights


def release_stray(
    node: Node, *, is_let_go: Callable[[str | PoolName], bool], rights: Rights, now: datetime
) -> Conformity:
    """Return the patch that removes ours from a node that is not a Windows node; none for one that is.

    ``is_let_go`` says whether it is certain that the pool with a UID or name was deleted, or does not exist
    (P4). Of any other, only what the node's kubelet could remove itself is removed (P3), and nothing where
    someone holds the node ``now``.
    """
    owner = owner_of(node)
    if owner is None or node.labels.get(OS_LABEL) == OS_WINDOWS:
        return AS_WANTED
    found = record_of(node)
    if isinstance(found, Record) and not rights.know_owner(found):
        return _release_by_record(node, rights=rights)  # not at all: do not ask about invented UIDs
    if is_let_go(owner):
        return _release_by_record(node, rights=rights)
    return AS_WANTED if is_held(node, now=now) else trim(node, rights=rights)


def release_orphan(
    node: Node, *, pools: Collection[Pool], is_vanished: Callable[[str | PoolName], bool], rights: Rights
) -> Conformity:
    """Return the patch that removes what a pool that is gone left on a Windows node.

    ``is_vanished`` says whether it is certain that no pool has a UID or a name (P4). A node that another pool
    selects is not released: that pool takes it over, unless it is being deleted itself.
    """
    owner = owner_of(node)
    if not owner or not is_vanished(owner) or asking(pools, node):
        return AS_WANTED
    return _release_by_record(node, rights=rights)


def _release_by_record(node: Node, *, rights: Rights) -> Conformity:
    found = record_of(node)
    if isinstance(found, Record) and rights.is_in_doubt(found):
        return AS_WANTED  # until the guard can be read
    if isinstance(found, Record) and not rights.know_owner(found):
        return Conformity(is_doubted=True, left_alone=names(found))
    uid = found.pool_uid if isinstance(found, Record) else ""
    return release(node, pool_uid=uid, pool_name=node.labels.get(POOL_LABEL, ""), rights=rights)
