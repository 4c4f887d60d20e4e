"""The hold: people ask the operator, by an annotation of a node, to write nothing to that node.

Its value is empty, or the time at which the hold ends. Any other value holds: who wrote it wanted a hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.keys import HOLD_ANNOTATION
from winpool.api.moments import read_moment

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.objects.node import Node


def is_held(node: Node, *, now: datetime) -> bool:
    """Whether someone holds ``node`` now."""
    if HOLD_ANNOTATION not in node.annotations:
        return False
    end = hold_end(node)
    return end is None or end > now


def hold_end(node: Node) -> datetime | None:
    """Return the time that the annotation names; None where it names none, or is absent."""
    return read_moment(node.annotations.get(HOLD_ANNOTATION))
