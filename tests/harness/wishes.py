"""What one pool wants on one node, without the rest of a pass: desired, and the patch that comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.builders import GUARDED
from winpool.api.keys import MISMATCH_TAINT
from winpool.features.contract.taints import NOTHING_HELD, Held
from winpool.model.node import Node
from winpool.ownership.desired import KEEP, NONE, Desired, DesiredValue, merged
from winpool.ownership.diff import Comparer, NodeDiff, PatchContext
from winpool.ownership.diff import release as releases_release
from winpool.ownership.members import Claim, Member, values_of
from winpool.ownership.record import Record, TaintIdentity, Unreadable, record_of
from winpool.ownership.trust import RecordTrust


@dataclass(frozen=True, slots=True)
class Own:
    """What a node is to carry of ours. ``mismatch`` says whether that taint stands there, None leaves it."""

    labels: Mapping[str, str] = field(default_factory=lambda: NONE)
    mismatch: bool | None = False


NOTHING_KNOWN = Own()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a pool wants on each of its nodes."""

    pool_name: str
    pool_uid: str
    labels: Mapping[str, str]
    taints: Mapping[TaintIdentity, str]
    rights: RecordTrust = GUARDED

    def comparer(
        self,
        *,
        own: Own = NOTHING_KNOWN,
        held: Held = NOTHING_HELD,
        startup: Mapping[TaintIdentity, str] = NONE,
    ) -> Comparer:
        """Return what the node contract makes of this."""
        taints: dict[TaintIdentity, DesiredValue] = {
            **self.taints,
            **dict.fromkeys(held.all, KEEP),
            **startup,
        }
        if own.mismatch:
            taints[MISMATCH_TAINT] = ""
        elif own.mismatch is None:
            taints[MISMATCH_TAINT] = KEEP
        context = PatchContext(
            self.pool_name, self.pool_uid, self.rights, has_written=lambda _uid, _goal: False
        )
        return Comparer(context, merged([Desired(labels={**self.labels, **own.labels}, taints=taints)]))


def conform(
    node: Node,
    *,
    wanted: Wanted,
    own: Own = NOTHING_KNOWN,
    held: Held = NOTHING_HELD,
    startup: Mapping[TaintIdentity, str] = NONE,
) -> NodeDiff:
    comparer = wanted.comparer(own=own, held=held, startup=startup)
    return comparer.conform(_member(node, record_of(node)))


def compare(
    node: Node, found: Record | Unreadable | None, *, wanted: Wanted, own: Own = NOTHING_KNOWN
) -> NodeDiff:
    """Go the long way."""
    return wanted.comparer(own=own).compare(node, found)


def is_as_wanted(
    node: Node, found: Record | Unreadable | None, *, wanted: Wanted, own: Own = NOTHING_KNOWN
) -> bool:
    """Go the short way."""
    return wanted.comparer(own=own).is_met_by(_member(node, found))


def release(node: Node, *, pool_uid: str, pool_name: str, rights: RecordTrust) -> NodeDiff:
    return releases_release(node, pool_uid=pool_uid, pool_name=pool_name, rights=rights)


def _member(node: Node, found: Record | Unreadable | None) -> Member:
    return Member(node, Claim.OURS, found, values_of(node))
