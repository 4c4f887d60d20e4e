"""The edits of a node's labels and taints: undo, put, and make one patch of the difference.

``conform`` has the rules; here is how each is carried out on plain values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from winpool.api.keys import (
    APPLIED_ANNOTATION,
    OS_REVISION_LABEL,
    OS_VERSION_LABEL,
    RESERVED_MEMORY_TAINT,
)
from winpool.api.syntax import NO_SCHEDULE
from winpool.objects.acts import NodePatch
from winpool.objects.node import Taint
from winpool.ownership.record import Owned

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from winpool.contract.brake import Held
    from winpool.objects.node import Node
    from winpool.ownership.record import Record, TaintIdentity

K = TypeVar("K")

OS_LABELS: Final = (OS_VERSION_LABEL, OS_REVISION_LABEL)
"""The labels that tell a node's Windows: ours, and as they are read from what the node reports."""

MISMATCH_TAINT: Final = (RESERVED_MEMORY_TAINT, NO_SCHEDULE)
"""The taint on a node that does not reserve the memory that the pool declares: ours, without a value."""


def undo(
    node: Node,
    old: Record,
    *,
    keep_labels: Container[str],
    keep_taints: Container[TaintIdentity],
) -> tuple[dict[str, str], dict[TaintIdentity, str]]:
    """Return the values on the node once all that ``old`` put there, but what is kept, is taken off."""
    labels = dict(node.labels)
    taints = {taint.identity: taint.value for taint in node.taints}
    _take_off(labels, {key: own for key, own in old.labels.items() if key not in keep_labels})
    _take_off(taints, {identity: own for identity, own in old.taints.items() if identity not in keep_taints})
    return labels, taints


def _take_off(values: dict[K, str], owned: Mapping[K, Owned]) -> None:
    for key, own in owned.items():
        if values.get(key) != own.set:
            continue
        if own.before is None:
            del values[key]
        else:
            values[key] = own.before


def put(values: dict[K, str], wanted: Mapping[K, str], owned: Mapping[K, Owned]) -> dict[K, Owned]:
    """Put what is wanted into ``values``; return what of it is ours."""
    ours: dict[K, Owned] = {}
    for key, value in wanted.items():
        own, standing = owned.get(key), values.get(key)
        if standing == value and (own is None or own.set != value):
            continue
        values[key] = value
        before = own.before if own else standing
        if before != value:  # a key that is back at what it was before us is not ours any more
            ours[key] = replace(own, set=value) if own else Owned(set=value, before=before)
    return ours


def still_ours(
    taints: Mapping[TaintIdentity, str], held: Held, owned: Mapping[TaintIdentity, Owned]
) -> dict[TaintIdentity, Owned]:
    """Return what stays recorded of the taints that are held.

    One that is gone from the node and may not be put back now is nobody's: should others put it there, it is
    theirs.
    """
    return {
        identity: own
        for identity in held.all
        if (own := owned.get(identity)) and taints.get(identity) == own.set
    }


def difference(
    node: Node, *, labels: Mapping[str, str], taints: tuple[Taint, ...], applied: str | None
) -> NodePatch | None:
    """Return the patch after which the node carries just these; ``applied`` is the text of the record."""
    changed: dict[str, str | None] = {k: v for k, v in labels.items() if node.labels.get(k) != v}
    changed.update(dict.fromkeys(node.labels.keys() - labels.keys()))
    annotated = node.annotations.get(APPLIED_ANNOTATION) != applied
    if not changed and not annotated and taints == node.taints:
        return None
    return NodePatch(
        node=node,
        labels=changed,
        annotations={APPLIED_ANNOTATION: applied} if annotated else {},
        taints=None if taints == node.taints else taints,
    )


def with_times(
    node: Node, ours: Mapping[TaintIdentity, Owned], owned: Mapping[TaintIdentity, Owned]
) -> dict[TaintIdentity, Owned]:
    """Note on taints that we take now when those that give way had been added."""
    added = {taint.identity: taint.time_added for taint in node.taints}
    return {
        identity: replace(own, before_time=time)
        if identity not in owned and (time := added.get(identity))
        else own
        for identity, own in ours.items()
    }


def as_list(node: Node, taints: Mapping[TaintIdentity, str], old: Record) -> tuple[Taint, ...]:
    """Return the list to stand on the node: those that are there in their order, then new ones."""
    standing = {taint.identity: taint for taint in node.taints}
    stay = [
        taint if taint.value == taints[identity] else _changed(taint, taints[identity], old)
        for identity, taint in standing.items()
        if identity in taints
    ]
    new = [
        Taint(key, effect, value) for (key, effect), value in taints.items() if (key, effect) not in standing
    ]
    return (*stay, *new)


def _changed(taint: Taint, value: str, old: Record) -> Taint:
    """Return the taint with another value; with the old time, where that is what stood there before us."""
    own = old.taints.get(taint.identity)
    time = own.before_time if own and own.before == value else None
    return Taint(taint.key, taint.effect, value, time)


def drifted(node: Node, patch: NodePatch) -> tuple[str, ...]:
    """Name the labels and taints that ``patch`` puts back, in the words of kubectl.

    Not what the operator tells of the node by itself: mostly it is the machine that has changed.
    """
    labels = [f"label {key}" for key in sorted(patch.labels) if key not in OS_LABELS]
    before = {*node.taints, Taint(*MISMATCH_TAINT)}
    taints = [f"taint {t.key}:{t.effect}" for t in patch.taints or () if t not in before]
    return (*labels, *taints)
