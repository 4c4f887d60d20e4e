"""What is due on each node of a pool: one patch, and its conditions, from what the rooms want."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from winpool.model.node import ConditionsPatch, Node, NodeCondition
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import NO_GOALS, Goals, merged
from winpool.ownership.diff import AS_WANTED, Brief, Conformity, PatchMaker
from winpool.ownership.members import Claim, Member, Members
from winpool.ownership.record import Record


class Due(msgspec.Struct, frozen=True):
    """What is due on one node.

    ``conditions`` can be written now, ``following`` once the patch has named them in the record.
    ``awaits_guard`` says that the patch has to wait until it is known what the record permits,
    ``awaits_conditions`` that the conditions that the record names have to be removed first: once the record
    is gone, nothing names them any more.
    """

    state: Conformity = AS_WANTED
    conditions: ConditionsPatch | None = None
    following: ConditionsPatch | None = None
    awaits_guard: bool = False
    awaits_conditions: bool = False


NOTHING_DUE: Final = Due()


def dues_of(
    snapshot: Snapshot,
    members: Members,
    goals: Sequence[Mapping[str, Goals]],
    *,
    is_finishing: bool = False,
) -> dict[str, Due]:
    """Return what is due, by the UIDs of the nodes; ``goals`` are those of each room, by the same.

    Without a readable spec nothing is known to be due, except for rooms that are finishing
    (``is_finishing``).

    Nodes of other pools are not among them, nor nodes with nothing to do. Raises RoomsDisagreeError.
    """
    pool = snapshot.pool
    maker = PatchMaker(
        pool_name=pool.name,
        pool_uid=pool.uid,
        rights=members.rights,
        has_written=snapshot.attempts.has_written,
        now=snapshot.now,
    )
    briefs: dict[tuple[Goals, ...], Brief] = {}
    found: dict[str, Due] = {}
    for member in members.all:
        uid = member.node.uid
        if member.claim is Claim.LEFT:
            found[uid] = _of_left(member, maker, members, written=snapshot.written_conditions.get(uid))
        elif member.claim is Claim.OURS and (is_finishing or pool.spec is not None):
            wishes = tuple([each.get(uid, NO_GOALS) for each in goals])
            brief = briefs.get(wishes)
            if brief is None:
                brief = briefs[wishes] = maker.brief_of(merged(wishes))
            has_conditions = brief.target.conditions or _recorded(member.record)
            if not has_conditions and (brief.target.wants_nothing or brief.is_met_by(member)):
                continue  # in each pass, this is so for thousands of nodes
            wanted, written = brief.target.conditions, snapshot.written_conditions.get(uid)
            is_named = _are_named(member, wanted, pool_uid=pool.uid)
            due = Due(
                maker.conform(member, brief.target),
                _conditions_due(member, wanted, ours=_ours(member.record, members, written))
                if is_named
                else None,
                None if is_named or not wanted else ConditionsPatch(member.node, wanted),
            )
            if due != NOTHING_DUE:
                found[uid] = due
    return found


def _of_left(
    member: Member,
    maker: PatchMaker,
    members: Members,
    *,
    written: tuple[NodeCondition, ...] | None,
) -> Due:
    """Return what is due on a node that the pool releases.

    Conditions that were removed once and are there again belong to someone else: they cannot block the
    release.
    """
    record = member.record
    is_doubtful = isinstance(record, Record) and members.rights.is_in_doubt(record)
    stale = written != () and bool(_ours(record, members, written) & _types(member.node))
    return Due(
        maker.release(member.node),
        ConditionsPatch(member.node, ()) if stale else None,
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
    is_stale = bool((ours - types) & _types(node))
    return ConditionsPatch(node, wanted) if is_missing or is_stale else None


def _ours(record: object, members: Members, written: tuple[NodeCondition, ...] | None) -> frozenset[str]:
    """Return the types of conditions that are ours: by a record that is believed, or because we wrote them.

    Without a guard, a kubelet can forge both record and condition. It could then make the operator write to
    its node again and again, and stop the pool where the right to write conditions is missing.
    """
    believed = members.rights.believed(record).conditions if isinstance(record, Record) else frozenset()
    return believed | {each.type for each in written or ()}


def _recorded(record: object) -> frozenset[str]:
    return record.conditions if isinstance(record, Record) else frozenset()


def _types(node: Node) -> frozenset[str]:
    return frozenset(each.type for each in node.conditions)
