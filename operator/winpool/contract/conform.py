"""From a node as it is to the one patch that makes it as a pool wants it, or takes ours off again.

The rules, each with a test of its name:

- A label or taint that already stands there with the wanted value is somebody else's: it is
  not recorded, and so never removed.
- One that stands there with another value is replaced, and what stood there before is kept in
  the record. ``before`` is written once, when we take the key, so that a repair or a changed
  spec does not forget it.
- One that the pool no longer wants is undone: if our value still stands there, what was before
  comes back, or the key goes. If somebody changed it meanwhile it is theirs now, and stays.
- Taints are an atomic list: the patch carries all of them, foreign ones unchanged and in place.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeVar

from winpool.api.keys import APPLIED_ANNOTATION, OS_REVISION_LABEL, OS_VERSION_LABEL, POOL_LABEL
from winpool.contract import record as records
from winpool.contract.record import Owned, Record, Unreadable
from winpool.snapshot import NodePatch, Taint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.contract.record import TaintIdentity
    from winpool.snapshot import Node

K = TypeVar("K")

OS_LABELS: Final = (OS_VERSION_LABEL, OS_REVISION_LABEL)
"""The labels that tell a node's Windows: ours, and as they are read from what the node reports."""

NOT_KNOWN: Final[Mapping[str, str]] = MappingProxyType({})
"""The ``OS_LABELS`` of a node whose Windows is not known: none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool wants on each of its nodes, its own ``winpool.dev/`` keys not counted.

    ``compared`` notes, by its identity, whether a record fits: mostly all nodes of a pool share one. It holds
    the record too, or another could come to have the same identity.
    """

    pool_name: str
    pool_uid: str
    labels: Mapping[str, str]
    taints: Mapping[TaintIdentity, str]
    compared: dict[int, tuple[Record, bool]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )


@dataclass(frozen=True, slots=True)
class Conformity:
    """How a node stands to what is wanted.

    ``patch`` is None when nothing is to be done. ``drifted`` names, for people, what somebody
    changed or removed after we had put it there. ``unreadable`` says why the record on the node
    gives no rights.
    """

    patch: NodePatch | None
    drifted: tuple[str, ...] = ()
    unreadable: str = ""


def record_of(node: Node) -> Record | Unreadable | None:
    """Return the ownership record on ``node``; None where there is none. It is read once."""
    try:
        found: Record | Unreadable | None = node.memo[APPLIED_ANNOTATION]
    except KeyError:
        text = node.annotations.get(APPLIED_ANNOTATION)
        found = node.memo[APPLIED_ANNOTATION] = None if text is None else records.parse(text)
    return found


def conform(node: Node, *, wanted: Wanted, os_labels: Mapping[str, str] = NOT_KNOWN) -> Conformity:
    """Return the patch after which ``node`` carries what is ``wanted``, and of ``OS_LABELS`` ``os_labels``.

    A record of another pool is undone first: the caller decides whether that pool is gone
    (``membership.claim``). Deciding again on a node that the patch was applied to gives no patch.
    """
    found = record_of(node)
    if isinstance(found, Record) and _is_as_wanted(node, found, wanted=wanted, os_labels=os_labels):
        return _AS_WANTED
    return _compare(node, found, wanted=wanted, os_labels=os_labels)


def _compare(
    node: Node, found: Record | Unreadable | None, *, wanted: Wanted, os_labels: Mapping[str, str]
) -> Conformity:
    """Go the long way: what is to be undone, what is to be put, and what the record says then."""
    unreadable = found.why if isinstance(found, Unreadable) else ""
    if found is None and node.labels.get(POOL_LABEL) == wanted.pool_name:
        unreadable = "it is missing, though the pool label is there"
    old = found if isinstance(found, Record) else Record(pool_uid=wanted.pool_uid)
    keep = wanted if old.pool_uid == wanted.pool_uid else replace(wanted, labels={}, taints={})

    labels, taints = _undo(node, old, keep_labels=keep.labels, keep_taints=keep.taints)
    kept = old if old.pool_uid == wanted.pool_uid else Record(pool_uid=wanted.pool_uid)
    own_labels = _put(labels, wanted.labels, kept.labels)
    own_taints = _with_times(node, _put(taints, wanted.taints, kept.taints), kept.taints)
    text = records.render(Record(pool_uid=wanted.pool_uid, labels=own_labels, taints=own_taints))
    labels[POOL_LABEL] = wanted.pool_name
    for key in OS_LABELS:
        labels.pop(key, None)
    labels.update(os_labels)

    patch = _difference(node, labels=labels, taints=_as_list(node, taints, old), applied=text)
    unchanged = text == node.annotations.get(APPLIED_ANNOTATION)
    return Conformity(
        patch=patch, drifted=_drifted(node, patch) if unchanged and patch else (), unreadable=unreadable
    )


_AS_WANTED: Final = Conformity(patch=None)


def _is_as_wanted(node: Node, record: Record, *, wanted: Wanted, os_labels: Mapping[str, str]) -> bool:
    """Whether there is nothing to do: the short way, since that is so of thousands of nodes in a pass.

    All that is wanted stands there, and what is recorded as ours is just the part of it that is.
    """
    compared = wanted.compared.get(id(record))
    if compared is None:
        compared = wanted.compared[id(record)] = (record, _fits(record, wanted))
    labels = node.labels
    if not (
        compared[1]
        and labels.get(POOL_LABEL) == wanted.pool_name
        and labels.get(OS_VERSION_LABEL) == os_labels.get(OS_VERSION_LABEL)
        and labels.get(OS_REVISION_LABEL) == os_labels.get(OS_REVISION_LABEL)
        and wanted.labels.items() <= labels.items()
    ):
        return False
    if not wanted.taints:
        return True
    taints = {(taint.key, taint.effect): taint.value for taint in node.taints}
    return wanted.taints.items() <= taints.items()


def _fits(record: Record, wanted: Wanted) -> bool:
    """Whether ``record`` is what we would write, of a node on which all that is wanted stands."""
    return (
        record.is_canonical
        and record.pool_uid == wanted.pool_uid
        and _are_of(record.labels, wanted.labels)
        and _are_of(record.taints, wanted.taints)
    )


def _are_of(owned: Mapping[K, Owned], wanted: Mapping[K, str]) -> bool:
    return all(wanted.get(key) == own.set != own.before for key, own in owned.items())


def release(node: Node, *, pool_uid: str, pool_name: str) -> NodePatch | None:
    """Return the patch that takes off ``node`` exactly what the pool put there; None if there is nothing.

    Where the record cannot be read, only keys under ``winpool.dev/`` are the pool's, and only if
    the pool label names it.
    """
    found = record_of(node)
    if isinstance(found, Record):
        if found.pool_uid != pool_uid:
            return None
    elif node.labels.get(POOL_LABEL) != pool_name:
        return None
    old = found if isinstance(found, Record) else Record(pool_uid=pool_uid)
    labels, taints = _undo(node, old, keep_labels={}, keep_taints={})
    if labels.get(POOL_LABEL) == pool_name:
        del labels[POOL_LABEL]
    for key in OS_LABELS:
        labels.pop(key, None)
    return _difference(node, labels=labels, taints=_as_list(node, taints, old), applied=None)


def _undo(
    node: Node,
    old: Record,
    *,
    keep_labels: Mapping[str, str],
    keep_taints: Mapping[TaintIdentity, str],
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


def _put(values: dict[K, str], wanted: Mapping[K, str], owned: Mapping[K, Owned]) -> dict[K, Owned]:
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


def _difference(
    node: Node, *, labels: Mapping[str, str], taints: tuple[Taint, ...], applied: str | None
) -> NodePatch | None:
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


def _with_times(
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


def _as_list(node: Node, taints: Mapping[TaintIdentity, str], old: Record) -> tuple[Taint, ...]:
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


def _drifted(node: Node, patch: NodePatch) -> tuple[str, ...]:
    """Name the labels and taints that ``patch`` puts back, in the words of kubectl.

    Not ``OS_LABELS``: mostly it is the machine that has changed.
    """
    labels = [f"label {key}" for key in sorted(patch.labels) if key not in OS_LABELS]
    before = set(node.taints)
    taints = [f"taint {t.key}:{t.effect}" for t in patch.taints or () if t not in before]
    return (*labels, *taints)
