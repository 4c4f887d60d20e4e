"""The request to upgrade a node whose memory no eviction brings back (``onUnattributed: RequestUpgrade``).

The request is the annotation ``winpool.dev/upgrade-requested``, which people and other programs write, too.
One of theirs stays as it is. Ours is named in the ownership record, so it is removed with the pressure, and
with the pool. It is written as the other marks are: not in the mode Observe.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.memory.known import Known
from winpool.ownership.goals import LEAVE
from winpool.ownership.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.objects.pressure import NodeView
    from winpool.ownership.goals import Goals, Wish
    from winpool.ownership.members import Member

REQUEST: Final = "winpool: most of the memory that was committed belongs to no pod"
"""The value of the annotation: who asks, and why. It is the same for all nodes, and while it lasts."""

_ASKED: Final[Mapping[str, Wish]] = MappingProxyType({UPGRADE_REQUESTED_ANNOTATION: REQUEST})
_LEFT: Final[Mapping[str, Wish]] = MappingProxyType({UPGRADE_REQUESTED_ANNOTATION: LEAVE})


def with_request(goals: Goals, member: Member, known: Known, view: NodeView | None) -> Goals:
    """Return ``goals`` with the request, where the node is to have it, or is to keep the one it has.

    Where it is not known whether the pressure lasts, the request stays as it is (P4).
    """
    standing = member.node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)
    if standing is not None and not _is_ours(member, standing):
        return goals
    if known is Known.PRESSURED and view is not None and view.guard is not None:
        return replace(goals, annotations=_ASKED)
    if standing is not None and known in (Known.UNDECIDED, Known.SILENT):
        return replace(goals, annotations=_LEFT)
    return goals


def _is_ours(member: Member, standing: str) -> bool:
    record = member.record
    return (
        isinstance(record, Record)
        and (own := record.annotations.get(UPGRADE_REQUESTED_ANNOTATION)) is not None
        and own.set == standing
    )
