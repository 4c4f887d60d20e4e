"""The nodes that people hold: which, and until when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.keys import HOLD_ANNOTATION
from winpool.objects.hold import hold_end
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from winpool.report.assessment import Assessment

_HELD: Final = (
    f"Someone holds these nodes with the annotation {HOLD_ANNOTATION}, so the operator writes nothing there."
)
_NO_TIME: Final = (
    "The value of the annotation is neither empty nor a time such as 2026-01-31T18:00:00Z, so the hold does "
    "not end by itself."
)
_FIX: Final = (
    f"Remove the annotation once the operator may continue: kubectl annotate node NODE {HOLD_ANNOTATION}-. A "
    "hold whose value is a time ends then."
)


def held_findings(assessed: Iterable[Assessment]) -> Iterator[Finding]:
    """Yield a finding for the nodes that are held, and one for those whose value is no time."""
    held = [each.node for each in assessed if each.is_held]
    unread = [node for node in held if node.annotations.get(HOLD_ANNOTATION) and hold_end(node) is None]
    others = [node for node in held if node not in unread]
    if others:
        yield Finding(IssueReason.NODES_HELD, [node.name for node in others], _HELD, _FIX)
    if unread:
        yield Finding(IssueReason.NODES_HELD, [node.name for node in unread], f"{_HELD} {_NO_TIME}", _FIX)


def holds_end_at(assessed: Iterable[Assessment]) -> datetime | None:
    """Return when the first hold ends; None where none ends by itself."""
    ends = (hold_end(each.node) for each in assessed if each.is_held)
    return min((end for end in ends if end is not None), default=None)
