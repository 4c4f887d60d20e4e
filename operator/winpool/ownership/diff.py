"""Compares nodes with what is desired there, and makes the one patch that brings a node to it or releases it.

``diffs_of`` does so for all nodes of a pool: a quick check (``Comparer``) passes over the thousands that are
as desired. The rules of the full comparison, each with a test of its name:

- A key outside our prefix that the node already has with the wanted value belongs to someone else: it is
  not recorded, and so never removed.
- A key that the node has with another value is replaced, and the value from before is kept in
  the record. ``before`` is written once, when the key becomes ours, so that a repair or another
  goal does not lose it.
- A key that no feature desires any more is undone: if it still has our value, the value from before
  is restored, or the key is removed. If someone changed it meanwhile, it is theirs, and stays.
- A key that is kept stays as it is on the node, with its entry in the record.
- Taints are an atomic list: the patch has all of them, those of others unchanged and in place.
- Keys under ``winpool.dev/`` are ours without a record.
- A cordon is ours only where the node was not cordoned before.
- Where the record was damaged, what is on the node belongs to someone else; the next one names it.
- A taint that is to be removed after a time has the time at which we added it.
- The record names a node condition before it is written, and until it is gone.
- What a record permits depends on the guard under which it was written (``ownership.trust``). A record that
  names another guard than the one in force, or none, is written again, with no more than it permits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from datetime import datetime
from typing import Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from winpool.api.keys import (
    APPLIED_ANNOTATION,
    BORROWED_ANNOTATIONS,
    FEATURE_ANNOTATIONS,
    FEATURE_LABELS,
    MISMATCH_TAINT,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    POOL_LABEL,
    REQUEST_ANNOTATIONS,
    TOLD_BY_THE_NODE,
)
from winpool.api.text import written_moment
from winpool.model.node import NO_KEYS, ConditionsPatch, Keys, Node, NodeCondition, NodePatch, Taint
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import (
    KEEP,
    NONE,
    NOTHING_DESIRED,
    Desired,
    DesiredValue,
    conditions_to_name,
    lost_on,
    merged,
    settled,
    stays_behind,
    text_of,
    why_unreadable,
)
from winpool.ownership.members import Claim, Member, Members
from winpool.ownership.record import Owned, Record, TaintIdentity, Unreadable, record_of
from winpool.ownership.trust import RecordTrust, conditions_left, names, own_conditions, standing

K = TypeVar("K")


class Standing(msgspec.Struct):
    """The values on a node, to be edited. ``annotations`` are all that are read of it."""

    labels: dict[str, str]
    annotations: dict[str, str]
    taints: dict[TaintIdentity, str]
    unschedulable: bool

    @classmethod
    def of(cls, node: Node) -> Standing:
        """Return the values on ``node``."""
        taints = {taint.identity: taint.value for taint in node.taints}
        return cls(dict(node.labels), dict(node.annotations), taints, node.unschedulable)


def undo(node: Node, old: Record) -> Standing:
    """Return the values on the node once all that ``old`` has set is removed."""
    wanted = Standing.of(node)
    _take_off(wanted.labels, old.labels)
    _take_off(wanted.annotations, old.annotations)
    _take_off(wanted.taints, old.taints)
    wanted.unschedulable = node.unschedulable and not old.unschedulable
    return wanted


def _take_off(values: dict[K, str], owned: Mapping[K, Owned], *, keep: Container[K] = ()) -> None:
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
    return dict.fromkeys(timed, written_moment(now)) if timed and now else NONE


def as_list(
    node: Node,
    taints: Mapping[TaintIdentity, str],
    old: Record,
    *,
    times: Mapping[TaintIdentity, str] = NONE,
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


def drifted(patch: NodePatch, *, is_repeat: bool) -> tuple[str, ...]:
    """Name what ``patch`` restores, in the words of kubectl.

    Where the record is unchanged, someone has undone what it names. Keys under our prefix are in no record:
    of these, someone has undone the pool's label, and the others where we had written the node with this very
    goal (``is_repeat``). Labels in which the operator reports facts of the node are no drift: usually the
    machine itself has changed.
    """
    quiet = {*TOLD_BY_THE_NODE, *(() if is_repeat else OWN_LABELS)} - {POOL_LABEL}
    labels = [f"label {key}" for key in sorted(patch.labels) if key not in quiet]
    told = {*BORROWED_ANNOTATIONS, *(FEATURE_ANNOTATIONS if is_repeat else ())}
    annotations = [f"annotation {key}" for key in sorted(patch.annotations) if key in told]
    quiet_taints = {MISMATCH_TAINT, *(() if is_repeat else OWN_TAINTS)}
    taints = [
        f"taint {each.key}:{each.effect}"
        for each in patch.taints or ()
        if each not in patch.node.taints and each.identity not in quiet_taints
    ]
    cordon = [] if patch.unschedulable is None else ["spec.unschedulable"]
    return (*labels, *annotations, *taints, *cordon)


class NodeDiff(msgspec.Struct, frozen=True):
    """How a node differs from what is desired, and what has to be written.

    ``patch`` is None when nothing is to be done. ``conditions`` can be written now, ``following`` once the
    patch has named them in the record. ``drifted`` names, for people, what someone changed or
    removed after we had set it; ``undone`` the same where it may not be restored now. ``unreadable`` says why
    the record on the node gives no rights. ``lost`` is what stays on the node when the pool is deleted, since
    a record could not be read, now or earlier. ``left_alone`` is what the record names and the node has, and
    what is not changed, since the record may be forged; ``is_doubted`` says that this holds for the whole
    record, since its owner was never seen. ``awaits_guard`` says that the patch has to wait until it is known
    what the record permits, ``awaits_conditions`` that the conditions that the record names have to be
    removed first: once the record is gone, nothing names them any more.
    """

    patch: NodePatch | None = None
    drifted: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    unreadable: str = ""
    lost: Keys = NO_KEYS
    left_alone: Keys = NO_KEYS
    is_doubted: bool = False
    conditions: ConditionsPatch | None = None
    following: ConditionsPatch | None = None
    awaits_guard: bool = False
    awaits_conditions: bool = False


NO_DIFF: Final = NodeDiff()


class Past(msgspec.Struct, frozen=True):
    """What the record on a node says of the past, by what it counts.

    ``old`` is what is believed of it, ``doubted`` what is on the node and is not believed. ``left`` is what
    an earlier record claimed, ``lost`` what could not be read of this one or an earlier one; both only as far
    as it is on the node. ``why`` says why the record gives no rights, empty where it does.
    """

    old: Record
    doubted: Record
    left: Keys
    lost: Keys
    why: str

    @classmethod
    def of(
        cls,
        node: Node,
        found: Record | Unreadable | None,
        *,
        pool_uid: str,
        pool_name: str,
        rights: RecordTrust,
    ) -> Past:
        """Read ``found``, which is the record on the node, as the pool does."""
        old = doubted = Record(pool_uid=pool_uid)
        left = NO_KEYS
        if isinstance(found, Record):
            old, doubted = rights.believed(found), rights.doubted(found, node)
            left = standing(found.left, node)
        why = why_unreadable(node, found, pool_name=pool_name)
        known = rights.pools.get(pool_uid, NO_KEYS)
        lost = lost_on(node, found, pool_uid=pool_uid, known=known, why=why)
        return cls(old, doubted, left, lost, why)

    @property
    def left_alone(self) -> Keys:
        """What is named by the record, and is not changed."""
        return self.left | names(self.doubted)


def release(node: Node, *, pool_uid: str, pool_name: str, rights: RecordTrust) -> NodeDiff:
    """Return the patch that removes from ``node`` exactly what the pool set; none if there is nothing.

    Where the record cannot be read, only keys under ``winpool.dev/`` are the pool's, and only if
    the pool label names it. Conditions have to be gone before: the record names them.
    """
    found = record_of(node)
    if isinstance(found, Record):
        if found.pool_uid != pool_uid:
            return NO_DIFF
    elif node.labels.get(POOL_LABEL) != pool_name:
        return NO_DIFF
    past = Past.of(node, found, pool_uid=pool_uid, pool_name=pool_name, rights=rights)
    wanted = undo(node, past.old)
    if wanted.labels.get(POOL_LABEL) == pool_name:
        del wanted.labels[POOL_LABEL]
    put_own(wanted.labels, {}, keys=FEATURE_LABELS, left=())
    put_own(wanted.annotations, {}, keys=OWN_ANNOTATIONS, left=())
    put_own(wanted.taints, {}, keys=OWN_TAINTS, left=())
    return NodeDiff(
        difference(node, wanted, taints=as_list(node, wanted.taints, past.old)),
        unreadable=past.why,
        lost=past.lost & Keys(frozenset(wanted.labels), frozenset(wanted.taints)),
        left_alone=past.left_alone,
    )


class PatchContext(msgspec.Struct, frozen=True):
    """What the patches of one pool's nodes have in common, in one pass.

    ``rights`` say what records permit, and which guard new ones name. ``has_written`` says whether the last
    write to the node with that UID had that very goal. ``now`` is the time of new taints that need one.
    """

    pool_name: str
    pool_uid: str
    rights: RecordTrust
    has_written: Callable[[str, object], bool]
    now: datetime | None = None


class _Split(msgspec.Struct, Generic[K], frozen=True):
    """The desired labels, annotations or taints, by what is to be done with them.

    ``own`` are under our prefix, and need no record, ``recorded`` are the others; ``kept`` stay as they are,
    and ``absent`` are to be gone, whatever else is kept. ``own_keys`` are all that are ours alone. With
    ``keeps_rest`` what nothing is desired of stays as it is.
    """

    own_keys: Collection[K]
    keeps_rest: bool
    recorded: dict[K, str]
    own: dict[K, str]
    kept: frozenset[K]
    absent: frozenset[K]

    @classmethod
    def of(cls, desired: Mapping[K, DesiredValue], own_keys: Collection[K], *, keeps_rest: bool) -> _Split[K]:
        values = {key: value for key, value in desired.items() if isinstance(value, str)}
        return cls(
            own_keys=own_keys,
            keeps_rest=keeps_rest,
            recorded={key: value for key, value in values.items() if key not in own_keys},
            own={key: value for key, value in values.items() if key in own_keys},
            kept=frozenset(key for key, value in desired.items() if value is KEEP),
            absent=frozenset(key for key, value in desired.items() if value is None),
        )

    @property
    def all(self) -> dict[K, str]:
        """All values that are to be there."""
        return {**self.recorded, **self.own}

    def left(self, kept: Mapping[K, Owned]) -> frozenset[K]:
        """Return the keys that stay as they are; ``kept`` is what the next record keeps of ours."""
        rest = kept.keys() - self.recorded.keys() - self.absent
        return self.kept | rest if self.keeps_rest else self.kept

    def apply(
        self, values: dict[K, str], old: Mapping[K, Owned], kept: Mapping[K, Owned], *, is_ours: bool
    ) -> dict[K, Owned]:
        """Undo in ``values`` what ``old`` has set and is not desired, and set what is; return what is ours.

        ``old`` is what is believed of the record; ``kept`` is what the next record keeps of ours.
        """
        left = self.left(kept)
        _take_off(values, old, keep=self.recorded.keys() | left if is_ours else ())
        return put(values, self.recorded, kept) | still_ours(values, left, kept)

    def put_own(self, values: dict[K, str]) -> None:
        """Set or remove in ``values`` the keys that are ours alone, except those that stay as they are."""
        left = frozenset(self.own_keys) - self.absent if self.keeps_rest else self.kept
        put_own(values, self.own, keys=self.own_keys, left=left)


class Comparer:
    """Compares nodes with what is ``desired`` there: all of them quickly, and those that differ in full."""

    def __init__(self, context: PatchContext, desired: Desired) -> None:
        """Prepare the comparison."""
        self.desired = desired
        self._context = context
        with_pool, rest = {**desired.labels, POOL_LABEL: context.pool_name}, desired.keeps_rest
        self._labels = labels = _Split.of(with_pool, OWN_LABELS, keeps_rest=rest)
        self._annotations = annotations = _Split.of(desired.annotations, FEATURE_ANNOTATIONS, keeps_rest=rest)
        self._taints = taints = _Split.of(desired.taints, OWN_TAINTS, keeps_rest=rest)
        self._cleared = annotations.absent.intersection(REQUEST_ANNOTATIONS)
        # All that the node is to have in the end: it distinguishes the repetition of a write that someone
        # undid from a write with another goal.
        self._goal = (
            labels.all,
            annotations.all,
            {**taints.all, **desired.withheld},
            desired.unschedulable is True,
            self._cleared,
        )
        self._is_nothing = desired.keeps_rest and not (
            desired.labels
            or desired.annotations
            or desired.taints
            or desired.conditions
            or desired.unschedulable is not None
        )
        self._is_plain = not (
            desired.keeps_rest
            or desired.unschedulable
            or desired.conditions
            or self._cleared
            or labels.kept
            or annotations.kept.difference(FEATURE_ANNOTATIONS)
            or taints.kept.difference(OWN_TAINTS)
        )
        # Whether a record fits, by its identity: usually all nodes of a pool share one. The record is kept
        # with the answer. Otherwise another one could get the same identity.
        self._fit: dict[int, tuple[Record, bool]] = {}
        # The same for taints: nodes with the same share one object.
        self._taints_fit: dict[int, tuple[Mapping[TaintIdentity, str], bool]] = {}
        self._all_labels = labels.all.items()
        self._no_labels = tuple(key for key in FEATURE_LABELS if key not in labels.own)
        self._all_annotations = annotations.all.items()
        self._no_annotations = tuple(
            key for key in FEATURE_ANNOTATIONS if key not in annotations.own and key not in annotations.kept
        )
        self._all_taints = taints.all.items()
        self._no_taints = tuple(
            each for each in OWN_TAINTS if each not in taints.own and each not in taints.kept
        )

    def is_unchanged(self, member: Member) -> bool:
        """Whether neither the node nor its conditions have to be written, now or later."""
        record = member.record
        if self.desired.conditions or (isinstance(record, Record) and record.conditions):
            return False
        return self._is_nothing or self.is_met_by(member)

    def is_met_by(self, member: Member) -> bool:
        """Whether there is nothing to do: the quick check, since this is so for thousands of nodes in a pass.

        The node has all that is desired, and exactly what is ours of it is recorded.
        """
        record = member.record
        if not isinstance(record, Record):
            return False
        if not self._is_plain or record.unschedulable or record.conditions:
            return self.compare(member.node, record) == NO_DIFF
        fit = self._fit.get(id(record))
        if fit is None:
            fit = self._fit[id(record)] = (record, self._fits(record))
        return fit[1] and self._stands_on(member)

    def conform(self, member: Member) -> NodeDiff:
        """Return the patch that brings the node to what is desired, by the full comparison.

        A record of another pool is undone first: the caller decides whether that pool is gone
        (``members.claim``). Deciding again on a node that the patch was applied to gives no patch.
        """
        return NO_DIFF if self._is_nothing else self.compare(member.node, member.record)

    def compare(self, node: Node, found: Record | Unreadable | None) -> NodeDiff:
        """Make the full comparison: what is to be undone, what is to be set, and the new record."""
        context = self._context
        past = Past.of(
            node, found, pool_uid=context.pool_uid, pool_name=context.pool_name, rights=context.rights
        )
        kept = self._kept(node, found, past.old)
        wanted = Standing.of(node)
        record = self._record(node, found, past=past, kept=kept, ours=self._put(wanted, node, past.old, kept))
        self._put_own(wanted)
        wanted.annotations[APPLIED_ANNOTATION] = text_of(
            record,
            doubted=past.doubted,
            claims_doubted=self._is_ours(past.old) and not context.rights.guard,
        )
        goal = (self._goal, record.conditions)
        times = times_of(self.desired.timed, now=context.now)
        taints = as_list(node, wanted.taints, past.old, times=times)
        patch = difference(node, wanted, taints=taints, goal=goal)
        return NodeDiff(
            patch=patch,
            drifted=self._drifted(patch) if patch else (),
            undone=tuple(
                f"taint {key}:{effect}"
                for key, effect in sorted(self._taints.left(kept.taints) & kept.taints.keys())
                if (key, effect) not in record.taints
            ),
            unreadable=past.why,
            lost=record.lost,
            left_alone=past.left_alone,
        )

    def _is_ours(self, record: Record) -> bool:
        return record.pool_uid == self._context.pool_uid

    def _kept(self, node: Node, found: Record | Unreadable | None, old: Record) -> Record:
        """Return what the next record keeps of the one on the node: nothing of another pool's.

        Without a guard nothing that a record says is lost: one may have been in force all the time.
        """
        if not self._is_ours(old):
            return Record(pool_uid=self._context.pool_uid)
        is_guarded = bool(self._context.rights.guard)
        return settled(old if is_guarded or not isinstance(found, Record) else found, node=node)

    def _put(self, wanted: Standing, node: Node, old: Record, kept: Record) -> Record:
        """Undo in ``wanted`` what is not desired any more, set what is; return what of it is ours then."""
        is_ours = self._is_ours(old)
        taints = self._taints.apply(wanted.taints, old.taints, kept.taints, is_ours=is_ours)
        return Record(
            pool_uid=self._context.pool_uid,
            labels=self._labels.apply(wanted.labels, old.labels, kept.labels, is_ours=is_ours),
            annotations=self._annotations.apply(
                wanted.annotations, old.annotations, kept.annotations, is_ours=is_ours
            ),
            taints=with_times(node, taints, kept.taints),
            unschedulable=_cordon(wanted, self.desired, old=old, kept=kept, is_ours=is_ours),
        )

    def _record(
        self, node: Node, found: Record | Unreadable | None, *, past: Past, kept: Record, ours: Record
    ) -> Record:
        """Return the next record: what is ``ours``, and what else it has to name."""
        recorded = Keys(
            frozenset(self._labels.recorded),
            frozenset(self._taints.recorded),
            frozenset(self._annotations.recorded),
            unschedulable=ours.unschedulable,
        )
        return replace(
            ours,
            conditions=conditions_to_name(node, found, self.desired),
            guard=self._context.rights.guard or kept.guard,
            left=past.left - recorded,
            lost=stays_behind(past.lost, labels=ours.labels, taints=ours.taints),
        )

    def _put_own(self, wanted: Standing) -> None:
        """Set in ``wanted`` the keys that need no record, and remove requests of others that are served."""
        self._labels.put_own(wanted.labels)
        self._annotations.put_own(wanted.annotations)
        self._taints.put_own(wanted.taints)
        for key in self._cleared:
            wanted.annotations.pop(key, None)

    def _drifted(self, patch: NodePatch) -> tuple[str, ...]:
        """Name what others have undone, which is so only where the record stays as it is."""
        if APPLIED_ANNOTATION in patch.annotations:
            return ()
        return drifted(patch, is_repeat=self._context.has_written(patch.node.uid, patch.goal))

    def _stands_on(self, member: Member) -> bool:
        # Views, not any(): a pass does this for every node, and the generators cost more than the comparison.
        labels, annotations, taints = member.node.labels, member.node.annotations, member.taints
        stands = self._taints_fit.get(id(taints))
        if stands is None:
            is_met = self._all_taints <= taints.items() and taints.keys().isdisjoint(self._no_taints)
            stands = self._taints_fit[id(taints)] = (taints, is_met)
        return (
            stands[1]
            and self._all_labels <= labels.items()
            and labels.keys().isdisjoint(self._no_labels)
            and (
                (len(annotations) == 1 and not self._all_annotations)  # only the record
                or (
                    self._all_annotations <= annotations.items()
                    and annotations.keys().isdisjoint(self._no_annotations)
                )
            )
        )

    def _fits(self, record: Record) -> bool:
        """Whether ``record`` is what we would write for a node that has all that is desired.

        Without a guard a record may name any guard: there is no better one.
        """
        guard = self._context.rights.guard
        return (
            record.is_canonical
            and not record.left
            and not record.lost
            and (not guard or record.guard == guard)
            and record.pool_uid == self._context.pool_uid
            and _are_of(record.labels, self._labels.recorded)
            and _are_of(record.annotations, self._annotations.recorded)
            and _are_of(record.taints, self._taints.recorded)
        )


def _cordon(wanted: Standing, desired: Desired, *, old: Record, kept: Record, is_ours: bool) -> bool:
    """Cordon, or undo our cordon, as desired; return whether the resulting cordon is ours."""
    is_cordoned = desired.unschedulable is True
    leaves = desired.unschedulable is KEEP or (desired.keeps_rest and desired.unschedulable is None)
    if old.unschedulable and not (is_ours and (is_cordoned or leaves)):
        wanted.unschedulable = False
    if not is_cordoned:
        return leaves and kept.unschedulable and wanted.unschedulable
    is_cordon_ours = kept.unschedulable or not wanted.unschedulable
    wanted.unschedulable = True
    return is_cordon_ours


def _are_of(owned: Mapping[K, Owned], wanted: Mapping[K, str]) -> bool:
    return all(wanted.get(key) == own.set != own.before for key, own in owned.items())


def diffs_of(
    snapshot: Snapshot,
    members: Members,
    desired: Sequence[Mapping[str, Desired]],
    *,
    is_finishing: bool = False,
) -> dict[str, NodeDiff]:
    """Return how nodes differ, by their UIDs, from what each feature desires; ``desired`` is by the same.

    Without a readable spec nothing is known to be due, except for features that are finishing
    (``is_finishing``).

    Nodes of other pools are not among them, nor nodes with nothing to do. Raises FeaturesDisagreeError.
    """
    pool = snapshot.pool
    context = PatchContext(
        pool_name=pool.name,
        pool_uid=pool.uid,
        rights=members.rights,
        has_written=snapshot.attempts.has_written,
        now=snapshot.now,
    )
    used = [each for each in desired if each]  # a feature that wants nothing costs nothing
    comparers: dict[tuple[Desired, ...], Comparer] = {}
    found: dict[str, NodeDiff] = {}
    for member in members.all:
        uid = member.node.uid
        if member.claim is Claim.OURS and (is_finishing or pool.spec is not None):
            wanted = tuple([each.get(uid, NOTHING_DESIRED) for each in used])
            comparer = comparers.get(wanted)
            if comparer is None:
                comparer = comparers[wanted] = Comparer(context, merged(wanted))
            if comparer.is_unchanged(member):
                continue  # in each pass, this is so for thousands of nodes
            written = snapshot.written_conditions.get(uid)
            diff = _with_conditions(comparer, member, context, written)
        elif member.claim is Claim.LEFT:
            diff = _of_left(member, context, snapshot.written_conditions.get(uid))
        else:
            continue
        if diff != NO_DIFF or member.claim is Claim.LEFT:
            found[uid] = diff
    return found


def _with_conditions(
    comparer: Comparer, member: Member, context: PatchContext, written: tuple[NodeCondition, ...] | None
) -> NodeDiff:
    """Return the difference; with the conditions to write now, where the record names them, or after that."""
    diff, record, wanted = comparer.conform(member), member.record, comparer.desired.conditions
    if _are_named(member, wanted, pool_uid=context.pool_uid):
        conditions = _conditions_due(member, wanted, ours=own_conditions(record, context.rights, written))
        return msgspec.structs.replace(diff, conditions=conditions) if conditions else diff
    return msgspec.structs.replace(diff, following=ConditionsPatch(member.node, wanted)) if wanted else diff


def _of_left(member: Member, context: PatchContext, written: tuple[NodeCondition, ...] | None) -> NodeDiff:
    """Return what is due on a node that the pool releases."""
    record, rights = member.record, context.rights
    is_doubtful = isinstance(record, Record) and rights.is_undecided(record)
    stale = bool(conditions_left(member.node, record, rights, written))
    return msgspec.structs.replace(
        release(member.node, pool_uid=context.pool_uid, pool_name=context.pool_name, rights=rights),
        conditions=ConditionsPatch(member.node, ()) if stale else None,
        awaits_guard=is_doubtful,
        awaits_conditions=stale,
    )


def _are_named(member: Member, wanted: tuple[NodeCondition, ...], *, pool_uid: str) -> bool:
    """Whether the record names these conditions. Others are not written: they might never be removed."""
    record = member.record
    return (
        isinstance(record, Record)
        and record.pool_uid == pool_uid
        and {each.type for each in wanted} <= record.conditions
    )


def _conditions_due(
    member: Member, wanted: tuple[NodeCondition, ...], *, ours: frozenset[str]
) -> ConditionsPatch | None:
    """Return the conditions to write, which the record names.

    ``ours`` are the types that are known to be ours; they are removed where they are not wanted.
    """
    node, types = member.node, {each.type for each in wanted}
    is_missing = any(each not in node.conditions for each in wanted)
    is_stale = any(each.type in ours - types for each in node.conditions)
    return ConditionsPatch(node, wanted) if is_missing or is_stale else None
