"""Strays: nodes that were in a pool and do not have the label ``kubernetes.io/os=windows`` any more.

A kubelet may change that label on its own node, and NodeRestriction lets it:
https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
It may not change its taints, labels of node-restriction and node-role, nor, under the guard, what is under
``winpool.dev/``. So as long as no one with the right to do so has deleted the pool, the operator does not
remove these either (P3). It removes what a kubelet could remove itself, and the pool reports the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.api.node_keys import OWN_ANNOTATIONS, OWN_LABELS, OWN_TAINTS
from winpool.api.syntax import is_restricted_label
from winpool.objects.keys import Keys
from winpool.objects.others import PoolName
from winpool.ownership.conformity import AS_WANTED, Conformity
from winpool.ownership.edits import difference, undo
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record, render
from winpool.ownership.rights import standing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.ownership.rights import Rights

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


def trim(node: Node, *, rights: Rights) -> Conformity:
    """Return the patch that removes only what the node's own kubelet could remove.

    The record continues to name the rest, which is removed by it once the pool is deleted.
    """
    found = record_of(node)
    if not isinstance(found, Record):
        return AS_WANTED
    believed = rights.believed(found)
    free = replace(
        believed,
        labels={key: own for key, own in believed.labels.items() if not is_restricted_label(key)},
        taints={},
    )
    if not (free.labels or free.annotations or free.unschedulable):
        return AS_WANTED
    rest = replace(
        found,
        labels={key: own for key, own in found.labels.items() if key not in free.labels},
        annotations={key: own for key, own in found.annotations.items() if key not in free.annotations},
        unschedulable=found.unschedulable and not free.unschedulable,
    )
    wanted = undo(node, free)
    wanted.annotations[APPLIED_ANNOTATION] = render(rest)
    return Conformity(difference(node, wanted, taints=node.taints))


def kept_on(node: Node, *, rights: Rights) -> Keys:
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
