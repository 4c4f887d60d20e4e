"""From a node as it is to the one patch that makes it as a pool wants it, or takes ours off again.

The rules, each with a test of its name:

- A label or taint that already stands there with the wanted value is somebody else's: it is
  not recorded, and so never removed.
- One that stands there with another value is replaced, and what stood there before is kept in
  the record. ``before`` is written once, when we take the key, so that a repair or a changed
  spec does not forget it.
- One that the pool no longer wants is undone: if our value still stands there, what was before
  comes back, or the key goes. If somebody changed it meanwhile it is theirs now, and stays.
- A taint that the brake holds (``brake``) is left as it stands on the node, with what the record says of it.
- Taints are an atomic list: the patch carries all of them, foreign ones unchanged and in place.
- Labels and taints under ``winpool.dev/`` are ours without a record.
- What a record permits depends on the guard under which it was written (``rights``). One that names another
  guard than the one in force, or none, is written anew, with no more than it permits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from winpool.api.keys import APPLIED_ANNOTATION, OS_REVISION_LABEL, OS_VERSION_LABEL, POOL_LABEL
from winpool.contract.brake import NOTHING_HELD
from winpool.objects.keys import NO_KEYS, Keys
from winpool.ownership import record as records
from winpool.ownership.edits import (
    MISMATCH_TAINT,
    OS_LABELS,
    as_list,
    difference,
    drifted,
    put,
    still_ours,
    undo,
    with_times,
)
from winpool.ownership.record import Record, Unreadable, record_of
from winpool.ownership.rights import NO_RIGHTS, Rights, names, standing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.contract.brake import Held
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node
    from winpool.ownership.record import Owned, TaintIdentity

K = TypeVar("K")

NONE: Final[Mapping[Any, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Own:
    """What a node is to carry under ``winpool.dev/``, beside the label of its pool.

    ``labels`` are of ``OS_LABELS`` those that are known. ``mismatch`` says whether ``MISMATCH_TAINT`` is to
    stand there, None leaves it as it is: nothing is known (P4).
    """

    labels: Mapping[str, str] = field(default_factory=lambda: NONE)
    mismatch: bool | None = False


NOTHING_KNOWN: Final = Own()
"""Of a node whose Windows is not known, in a pool that declares no reserved memory."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool wants on each of its nodes, its own ``winpool.dev/`` keys not counted.

    ``rights`` say what records permit, and which guard new ones name. ``compared`` notes, by its identity,
    whether a record fits: mostly all nodes of a pool share one. It holds the record too, or another could
    come to have the same identity.
    """

    pool_name: str
    pool_uid: str
    labels: Mapping[str, str]
    taints: Mapping[TaintIdentity, str]
    rights: Rights = NO_RIGHTS
    compared: dict[int, tuple[Record, bool]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def lacks_taints(self, node: Node) -> bool:
        """Whether a taint that is wanted does not stand on ``node`` with its value."""
        standing = {taint.identity: taint.value for taint in node.taints}
        return not self.taints.items() <= standing.items()


@dataclass(frozen=True, slots=True)
class Conformity:
    """How a node stands to what is wanted.

    ``patch`` is None when nothing is to be done. ``drifted`` names, for people, what somebody
    changed or removed after we had put it there; ``undone`` the same where it may not be put back now.
    ``unreadable`` says why the record on the node gives no rights. ``left_alone`` is what the record names,
    stands there, and is not touched, since the record may be forged; ``is_doubted`` that this is so of all of
    it, since its owner was never seen.
    """

    patch: NodePatch | None = None
    drifted: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    unreadable: str = ""
    left_alone: Keys = NO_KEYS
    is_doubted: bool = False


def conform(
    node: Node,
    *,
    wanted: Wanted,
    own: Own = NOTHING_KNOWN,
    held: Held = NOTHING_HELD,
    startup: Mapping[TaintIdentity, str] = NONE,
) -> Conformity:
    """Return the patch after which ``node`` carries what is ``wanted``, with ``own`` and ``startup``.

    A record of another pool is undone first: the caller decides whether that pool is gone
    (``membership.claim``). Deciding again on a node that the patch was applied to gives no patch.
    """
    found = record_of(node)
    if is_as_wanted(node, found, wanted=wanted, own=own):
        return AS_WANTED
    return compare(node, found, wanted=wanted, own=own, held=held, startup=startup)


def compare(
    node: Node,
    found: Record | Unreadable | None,
    *,
    wanted: Wanted,
    own: Own = NOTHING_KNOWN,
    held: Held = NOTHING_HELD,
    startup: Mapping[TaintIdentity, str] = NONE,
) -> Conformity:
    """Go the long way: what is to be undone, what is to be put, and what the record says then."""
    unreadable = found.why if isinstance(found, Unreadable) else ""
    if found is None and node.labels.get(POOL_LABEL) == wanted.pool_name:
        unreadable = "it is missing, though the pool label is there"
    rights, nothing = wanted.rights, Record(pool_uid=wanted.pool_uid)
    old = rights.believed(found) if isinstance(found, Record) else nothing
    doubted = rights.doubted(found, node) if isinstance(found, Record) else nothing
    is_ours = old.pool_uid == wanted.pool_uid
    # Without a guard nothing that a record says is lost: one may have been in force all the time.
    kept = nothing if not is_ours else old if rights.guard or not isinstance(found, Record) else found

    carried = {**{each: value for each, value in wanted.taints.items() if each not in held.all}, **startup}
    labels, taints = undo(
        node,
        old,
        keep_labels=wanted.labels if is_ours else NONE,
        keep_taints=carried.keys() | held.all if is_ours else NONE,
    )
    own_labels = put(labels, wanted.labels, kept.labels)
    own_taints = with_times(node, put(taints, carried, kept.taints), kept.taints)
    own_taints.update(still_ours(taints, held, kept.taints))
    left = standing(found.left, node) if isinstance(found, Record) else NO_KEYS
    text = _record_text(
        Record(
            pool_uid=wanted.pool_uid,
            labels=own_labels,
            taints=own_taints,
            guard=rights.guard or kept.guard,
            left=left - Keys(frozenset(wanted.labels), frozenset(carried)),
        ),
        doubted=doubted,
        goes_on=is_ours and not rights.guard,
    )
    labels[POOL_LABEL] = wanted.pool_name
    for key in OS_LABELS:
        labels.pop(key, None)
    labels.update(own.labels)
    if own.mismatch:
        taints[MISMATCH_TAINT] = ""
    elif own.mismatch is False:
        taints.pop(MISMATCH_TAINT, None)

    patch = difference(node, labels=labels, taints=as_list(node, taints, old), applied=text)
    unchanged = text == node.annotations.get(APPLIED_ANNOTATION)
    return Conformity(
        patch=patch,
        drifted=drifted(node, patch) if unchanged and patch else (),
        undone=tuple(
            f"taint {key}:{effect}"
            for key, effect in sorted(held.all & kept.taints.keys())
            if (key, effect) not in own_taints
        ),
        unreadable=unreadable,
        left_alone=left | names(doubted),
    )


def _record_text(record: Record, *, doubted: Record, goes_on: bool) -> str:
    """Return the text of ``record``, which goes on to claim what is ``doubted``, or names it as left alone.

    The first while there is no guard: it may turn out to count. Where there is no room for both, what is ours
    comes before what is doubted: a record that is too long gives no rights at all.
    """
    claimed = replace(
        record, labels={**doubted.labels, **record.labels}, taints={**doubted.taints, **record.taints}
    )
    told = replace(record, left=record.left | (names(doubted) - names(record)))
    choices = (claimed, told, replace(record, left=NO_KEYS))
    return records.render_first_fitting(*choices[0 if goes_on else 1 :])


AS_WANTED: Final = Conformity()


def is_as_wanted(
    node: Node, record: Record | Unreadable | None, *, wanted: Wanted, own: Own = NOTHING_KNOWN
) -> bool:
    """Whether there is nothing to do: the short way, since that is so of thousands of nodes in a pass.

    All that is wanted stands there, and what is recorded as ours is just the part of it that is.
    """
    if not isinstance(record, Record):
        return False
    compared = wanted.compared.get(id(record))
    if compared is None:
        compared = wanted.compared[id(record)] = (record, _fits(record, wanted))
    labels = node.labels
    if not (
        compared[1]
        and labels.get(POOL_LABEL) == wanted.pool_name
        and labels.get(OS_VERSION_LABEL) == own.labels.get(OS_VERSION_LABEL)
        and labels.get(OS_REVISION_LABEL) == own.labels.get(OS_REVISION_LABEL)
        and wanted.labels.items() <= labels.items()
    ):
        return False
    if not (wanted.taints or node.taints or own.mismatch):
        return True
    taints = {(taint.key, taint.effect): taint.value for taint in node.taints}
    if own.mismatch is not None and (MISMATCH_TAINT in taints) != own.mismatch:
        return False
    return wanted.taints.items() <= taints.items()


def _fits(record: Record, wanted: Wanted) -> bool:
    """Whether ``record`` is what we would write, of a node on which all that is wanted stands.

    Without a guard a record may name any: there is nothing better to name.
    """
    guard = wanted.rights.guard
    return (
        record.is_canonical
        and not record.left
        and (not guard or record.guard == guard)
        and record.pool_uid == wanted.pool_uid
        and _are_of(record.labels, wanted.labels)
        and _are_of(record.taints, wanted.taints)
    )


def _are_of(owned: Mapping[K, Owned], wanted: Mapping[K, str]) -> bool:
    return all(wanted.get(key) == own.set != own.before for key, own in owned.items())


def release(node: Node, *, pool_uid: str, pool_name: str, rights: Rights) -> Conformity:
    """Return the patch that takes off ``node`` exactly what the pool put there; none if there is nothing.

    Where the record cannot be read, only keys under ``winpool.dev/`` are the pool's, and only if
    the pool label names it.
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
    labels, taints = undo(node, old, keep_labels=NONE, keep_taints=NONE)
    if labels.get(POOL_LABEL) == pool_name:
        del labels[POOL_LABEL]
    for key in OS_LABELS:
        labels.pop(key, None)
    taints.pop(MISMATCH_TAINT, None)
    return Conformity(
        difference(node, labels=labels, taints=as_list(node, taints, old), applied=None),
        unreadable=found.why if isinstance(found, Unreadable) else "",
        left_alone=names(doubted) | (standing(found.left, node) if isinstance(found, Record) else NO_KEYS),
    )
