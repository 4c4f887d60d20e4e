"""From a node as it is to the one patch that brings it to its target, or removes what is ours.

The rules, each with a test of its name:

- A key outside our prefix that the node already has with the wanted value belongs to someone else: it is
  not recorded, and so never removed.
- A key that the node has with another value is replaced, and the value from before is kept in
  the record. ``before`` is written once, when the key becomes ours, so that a repair or another
  goal does not lose it.
- A key that no room wants any more is undone: if it still has our value, the value from before
  is restored, or the key is removed. If someone changed it meanwhile, it is theirs, and stays.
- A key that is left stays as it is on the node, with its entry in the record.
- Taints are an atomic list: the patch has all of them, those of others unchanged and in place.
- Keys under ``winpool.dev/`` are ours without a record.
- A cordon is ours only where the node was not cordoned before.
- Where the record was damaged, what is on the node belongs to someone else; the next one names it
  (``recording``).
- A taint that is to be removed after a time has the time at which we added it.
- The record names a node condition before it is written, and until it is gone.
- What a record permits depends on the guard under which it was written (``rights``). A record that names
  another guard than the one in force, or none, is written again, with no more than it permits.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL
from winpool.api.node_keys import OWN_ANNOTATIONS, OWN_LABELS, OWN_TAINTS, ROOMS_ANNOTATIONS
from winpool.objects.keys import NO_KEYS, Keys
from winpool.ownership.brief import Brief
from winpool.ownership.conformity import AS_WANTED, Conformity
from winpool.ownership.edits import (
    as_list,
    difference,
    drifted,
    put,
    put_own,
    still_ours,
    times_of,
    undo,
    with_times,
)
from winpool.ownership.goals import LEAVE
from winpool.ownership.record import Record
from winpool.ownership.recording import (
    conditions_to_name,
    lost_on,
    settled,
    stays_behind,
    text_of,
    why_unreadable,
)
from winpool.ownership.release import release
from winpool.ownership.rights import names, standing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from winpool.objects.node import Node
    from winpool.ownership.edits import Standing
    from winpool.ownership.goals import Target
    from winpool.ownership.members import Member
    from winpool.ownership.record import Owned, Unreadable
    from winpool.ownership.rights import Rights

K = TypeVar("K")


def _nothing_was_written(_uid: str, _goal: object) -> bool:
    return False


class PatchMaker:
    """Makes the patches of one pool's nodes, for one pass.

    ``rights`` say what records permit, and which guard new ones name. ``has_written`` says whether the last
    write to the node with that UID had that very goal. ``now`` is the time of new taints that need one.
    """

    def __init__(
        self,
        *,
        pool_name: str,
        pool_uid: str,
        rights: Rights,
        has_written: Callable[[str, object], bool] = _nothing_was_written,
        now: datetime | None = None,
    ) -> None:
        self._pool_name = pool_name
        self._pool_uid = pool_uid
        self._rights = rights
        self._has_written = has_written
        self._now = now
        self._briefs: dict[Target, Brief] = {}

    def conform(self, member: Member, target: Target) -> Conformity:
        """Return the patch that brings the node to ``target``.

        A record of another pool is undone first: the caller decides whether that pool is gone
        (``membership.claim``). Deciding again on a node that the patch was applied to gives no patch.
        """
        if self.is_as_wanted(member, target) or target.wants_nothing:
            return AS_WANTED
        return self.compare(member.node, member.record, target)

    def compare(self, node: Node, found: Record | Unreadable | None, target: Target) -> Conformity:
        """Make the full comparison: what is to be undone, what is to be set, and the new record."""
        rights, nothing = self._rights, Record(pool_uid=self._pool_uid)
        old = rights.believed(found) if isinstance(found, Record) else nothing
        doubted = rights.doubted(found, node) if isinstance(found, Record) else nothing
        is_ours = old.pool_uid == self._pool_uid
        # Without a guard nothing that a record says is lost: one may have been in force all the time.
        kept = nothing if not is_ours else old if rights.guard or not isinstance(found, Record) else found
        kept = settled(kept, node=node)
        why = why_unreadable(node, found, pool_name=self._pool_name)
        known = rights.pools.get(self._pool_uid, NO_KEYS)
        lost = lost_on(node, found, pool_uid=self._pool_uid, known=known, why=why)

        rest = kept if target.leaves_rest else nothing
        absent = target.absent
        left_labels = target.left_labels | (rest.labels.keys() - target.labels.keys() - absent)
        left_annotations = target.left_annotations | (
            rest.annotations.keys() - target.annotations.keys() - absent
        )
        left_taints = target.left_taints | (rest.taints.keys() - target.taints.keys() - absent)
        leaves_cordon = target.unschedulable is LEAVE or (target.leaves_rest and target.unschedulable is None)
        wanted = undo(
            node,
            old,
            keep_labels=target.labels.keys() | left_labels if is_ours else (),
            keep_annotations=target.annotations.keys() | left_annotations if is_ours else (),
            keep_taints=target.taints.keys() | left_taints if is_ours else (),
            keep_cordon=is_ours and (target.unschedulable is True or leaves_cordon),
        )
        own_labels = put(wanted.labels, target.labels, kept.labels)
        own_labels.update(still_ours(wanted.labels, left_labels, kept.labels))
        own_annotations = put(wanted.annotations, target.annotations, kept.annotations)
        own_annotations.update(still_ours(wanted.annotations, left_annotations, kept.annotations))
        own_taints = with_times(node, put(wanted.taints, target.taints, kept.taints), kept.taints)
        own_taints.update(still_ours(wanted.taints, left_taints, kept.taints))
        lost = stays_behind(lost, labels=own_labels, taints=own_taints)
        is_cordon_ours = _cordon(wanted, target, kept=kept, leaves=leaves_cordon)
        named = conditions_to_name(node, found, target)
        goal = (target.goal, named)
        left = standing(found.left, node) if isinstance(found, Record) else NO_KEYS
        text = text_of(
            Record(
                pool_uid=self._pool_uid,
                labels=own_labels,
                annotations=own_annotations,
                taints=own_taints,
                unschedulable=is_cordon_ours,
                conditions=named,
                guard=rights.guard or kept.guard,
                left=left
                - Keys(
                    frozenset(target.labels),
                    frozenset(target.taints),
                    frozenset(target.annotations),
                    unschedulable=is_cordon_ours,
                ),
                lost=lost,
            ),
            doubted=doubted,
            goes_on=is_ours and not rights.guard,
        )
        self._put_own(wanted, target)
        wanted.annotations[APPLIED_ANNOTATION] = text
        taints = as_list(node, wanted.taints, old, times=times_of(target.timed, now=self._now))
        patch = difference(node, wanted, taints=taints, goal=goal)
        unchanged = text == node.annotations.get(APPLIED_ANNOTATION)
        is_repeat = unchanged and self._has_written(node.uid, goal)
        return Conformity(
            patch=patch,
            drifted=drifted(node, patch, is_repeat=is_repeat) if unchanged and patch else (),
            undone=tuple(
                f"taint {key}:{effect}"
                for key, effect in sorted(left_taints & kept.taints.keys())
                if (key, effect) not in own_taints
            ),
            unreadable=why,
            lost=lost,
            left_alone=left | names(doubted),
        )

    def is_as_wanted(self, member: Member, target: Target) -> bool:
        """Whether there is nothing to do: the quick check, since this is so for thousands of nodes in a pass.

        The node has all that is wanted, and exactly what is ours of it is recorded.
        """
        return self.brief_of(target).is_met_by(member)

    def brief_of(self, target: Target) -> Brief:
        """Return ``target`` in the form in which many nodes are compared with it."""
        brief = self._briefs.get(target)
        if brief is None:
            brief = self._briefs[target] = Brief(
                target,
                pool_name=self._pool_name,
                fits=partial(self._fits, target=target),
                is_as_wanted=partial(self._is_as_wanted_the_long_way, target=target),
            )
        return brief

    def _is_as_wanted_the_long_way(self, node: Node, record: Record, *, target: Target) -> bool:
        return self.compare(node, record, target) == AS_WANTED

    def release(self, node: Node) -> Conformity:
        """Return the patch that removes from ``node`` exactly what the pool set; none if there is nothing.

        Where the record cannot be read, only keys under ``winpool.dev/`` are the pool's, and only if
        the pool label names it.
        """
        return release(node, pool_uid=self._pool_uid, pool_name=self._pool_name, rights=self._rights)

    def _put_own(self, wanted: Standing, target: Target) -> None:
        put_own(
            wanted.labels,
            {**target.own_labels, POOL_LABEL: self._pool_name},
            keys=OWN_LABELS,
            left={*OWN_LABELS} - target.absent if target.leaves_rest else target.left_labels,
        )
        put_own(
            wanted.annotations,
            target.own_annotations,
            keys=ROOMS_ANNOTATIONS,
            left={*OWN_ANNOTATIONS} - target.absent if target.leaves_rest else target.left_annotations,
        )
        put_own(
            wanted.taints,
            target.own_taints,
            keys=OWN_TAINTS,
            left={*OWN_TAINTS} - target.absent if target.leaves_rest else target.left_taints,
        )
        for key in target.cleared:
            wanted.annotations.pop(key, None)

    def _fits(self, record: Record, *, target: Target) -> bool:
        """Whether ``record`` is what we would write for a node that has all that is wanted.

        Without a guard a record may name any guard: there is no better one.
        """
        guard = self._rights.guard
        return (
            record.is_canonical
            and not record.left
            and not record.lost
            and (not guard or record.guard == guard)
            and record.pool_uid == self._pool_uid
            and _are_of(record.labels, target.labels)
            and _are_of(record.annotations, target.annotations)
            and _are_of(record.taints, target.taints)
        )


def _cordon(wanted: Standing, target: Target, *, kept: Record, leaves: bool) -> bool:
    """Cordon where that is wanted; return whether the resulting cordon is ours."""
    if target.unschedulable is True:
        is_ours = kept.unschedulable or not wanted.unschedulable
        wanted.unschedulable = True
        return is_ours
    return leaves and kept.unschedulable and wanted.unschedulable


def _are_of(owned: Mapping[K, Owned], wanted: Mapping[K, str]) -> bool:
    return all(wanted.get(key) == own.set != own.before for key, own in owned.items())
