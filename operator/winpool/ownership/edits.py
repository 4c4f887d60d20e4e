"""The edits of the values on a node: undo, set, and make one patch of the difference.

``patch`` has the rules; this module carries out each of them on plain values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from winpool.api.keys import POOL_LABEL
from winpool.api.moments import written_moment
from winpool.api.node_keys import (
    BORROWED_ANNOTATIONS,
    MISMATCH_TAINT,
    OWN_LABELS,
    OWN_TAINTS,
    ROOMS_ANNOTATIONS,
    TOLD_BY_THE_NODE,
)
from winpool.objects.acts import NodePatch
from winpool.objects.node import Taint
from winpool.ownership.record import Owned

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Mapping
    from datetime import datetime

    from winpool.objects.node import Node
    from winpool.ownership.record import Record, TaintIdentity

K = TypeVar("K")

NO_TIMES: Final[Mapping[TaintIdentity, str]] = MappingProxyType({})


@dataclass(slots=True)
class Standing:
    """The values on a node, to be edited. ``annotations`` are all that are read of it."""

    labels: dict[str, str]
    annotations: dict[str, str]
    taints: dict[TaintIdentity, str]
    unschedulable: bool


def undo(
    node: Node,
    old: Record,
    *,
    keep_labels: Container[str] = (),
    keep_annotations: Container[str] = (),
    keep_taints: Container[TaintIdentity] = (),
    keep_cordon: bool = False,
) -> Standing:
    """Return the values on the node once all that ``old`` has set is removed, except what is kept."""
    standing = Standing(
        dict(node.labels),
        dict(node.annotations),
        {taint.identity: taint.value for taint in node.taints},
        node.unschedulable and (keep_cordon or not old.unschedulable),
    )
    _take_off(standing.labels, old.labels, keep=keep_labels)
    _take_off(standing.annotations, old.annotations, keep=keep_annotations)
    _take_off(standing.taints, old.taints, keep=keep_taints)
    return standing


def _take_off(values: dict[K, str], owned: Mapping[K, Owned], *, keep: Container[K]) -> None:
    for key, own in owned.items():
        if key in keep or values.get(key) != own.set:
            continue
        if own.before is None:
            del values[key]
        else:
            values[key] = own.before


def put(values: dict[K, str], wanted: Mapping[K, str], owned: Mapping[K, Owned]) -> dict[K, Owned]:
    """Set what is wanted in ``values``; return which of it is ours."""
    ours: dict[K, Owned] = {}
    for key, value in wanted.items():
        own, standing = owned.get(key), values.get(key)
        if standing == value and (own is None or own.set != value):
            continue
        values[key] = value
        before = own.before if own else standing
        if before != value:  # a key that has its value from before again is not ours any more
            ours[key] = replace(own, set=value) if own else Owned(set=value, before=before)
    return ours


def still_ours(standing: Mapping[K, str], left: Collection[K], owned: Mapping[K, Owned]) -> dict[K, Owned]:
    """Return what stays in the record of the keys that are left as they are.

    A key that is gone from the node and may not be restored now belongs to no one: if others set it, it is
    theirs.
    """
    return {key: own for key in left if (own := owned.get(key)) and standing.get(key) == own.set}


def put_own(
    values: dict[K, str], wanted: Mapping[K, str], *, keys: Collection[K], left: Container[K]
) -> None:
    """Set or remove those of ``keys``, which are ours alone, as wanted; except what is left as it is."""
    for key in keys:
        if key in wanted:
            values[key] = wanted[key]
        elif key not in left:
            values.pop(key, None)


def difference(
    node: Node, wanted: Standing, *, taints: tuple[Taint, ...], goal: object = None
) -> NodePatch | None:
    """Return the patch after which the node has exactly these; ``taints`` are its taints, in order."""
    labels = _changes(node.labels, wanted.labels)
    annotations = _changes(node.annotations, wanted.annotations)
    cordons = wanted.unschedulable is not node.unschedulable
    if not labels and not annotations and not cordons and taints == node.taints:
        return None
    return NodePatch(
        node=node,
        labels=labels,
        annotations=annotations,
        taints=None if taints == node.taints else taints,
        unschedulable=wanted.unschedulable if cordons else None,
        goal=goal,
    )


def _changes(standing: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {key: v for key, v in wanted.items() if standing.get(key) != v}
    changed.update(dict.fromkeys(standing.keys() - wanted.keys()))
    return changed


def with_times(
    node: Node, ours: Mapping[TaintIdentity, Owned], owned: Mapping[TaintIdentity, Owned]
) -> dict[TaintIdentity, Owned]:
    """Note, on taints that become ours now, when the taints that they replace had been added."""
    added = {taint.identity: taint.time_added for taint in node.taints}
    return {
        identity: replace(own, before_time=time)
        if identity not in owned and (time := added.get(identity))
        else own
        for identity, own in ours.items()
    }


def times_of(timed: Collection[TaintIdentity], *, now: datetime | None) -> Mapping[TaintIdentity, str]:
    """Return the time that each of these taints gets if it is added or changed ``now``."""
    return dict.fromkeys(timed, written_moment(now)) if timed and now else NO_TIMES


def as_list(
    node: Node,
    taints: Mapping[TaintIdentity, str],
    old: Record,
    *,
    times: Mapping[TaintIdentity, str] = NO_TIMES,
) -> tuple[Taint, ...]:
    """Return the list that the node is to have: taints that are there in their order, then new ones.

    Taints that are new or changed get the times in ``times``.
    """
    standing = {taint.identity: taint for taint in node.taints}
    stay = [
        taint if taint.value == taints[identity] else _changed(taint, taints[identity], old, times)
        for identity, taint in standing.items()
        if identity in taints
    ]
    new = [
        Taint(key, effect, value, times.get((key, effect)))
        for (key, effect), value in taints.items()
        if (key, effect) not in standing
    ]
    return (*stay, *new)


def _changed(taint: Taint, value: str, old: Record, times: Mapping[TaintIdentity, str]) -> Taint:
    """Return the taint with another value; with the old time, where this is the value from before us."""
    own = old.taints.get(taint.identity)
    time = own.before_time if own and own.before == value else times.get(taint.identity)
    return Taint(taint.key, taint.effect, value, time)


def drifted(node: Node, patch: NodePatch, *, is_repeat: bool) -> tuple[str, ...]:
    """Name what ``patch`` restores, in the words of kubectl.

    Where the record is unchanged, someone has undone what it names. Keys under our prefix are in no record:
    of these, someone has undone the pool's label, and the others where we had written the node with this very
    goal (``is_repeat``). Labels in which the operator reports facts of the node are no drift: usually the
    machine itself has changed.
    """
    quiet = {*TOLD_BY_THE_NODE, *(() if is_repeat else OWN_LABELS)} - {POOL_LABEL}
    labels = [f"label {key}" for key in sorted(patch.labels) if key not in quiet]
    told = {*BORROWED_ANNOTATIONS, *(ROOMS_ANNOTATIONS if is_repeat else ())}
    annotations = [f"annotation {key}" for key in sorted(patch.annotations) if key in told]
    quiet_taints = {MISMATCH_TAINT, *(() if is_repeat else OWN_TAINTS)}
    taints = [
        f"taint {each.key}:{each.effect}"
        for each in patch.taints or ()
        if each not in node.taints and each.identity not in quiet_taints
    ]
    cordon = [] if patch.unschedulable is None else ["spec.unschedulable"]
    return (*labels, *annotations, *taints, *cordon)
