"""What is known of the memory of a node: what people read of it, and what is signalled on it, go by this."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from winpool.objects.pressure import Axis, Level

if TYPE_CHECKING:
    from winpool.objects.pressure import AxisView, NodeView


class Known(Enum):
    """What is known of a node."""

    PRESSURED = "pressured"
    """It is under pressure: to be signalled."""
    CALM = "calm"
    """It is not, or not for long enough to be signalled."""
    UNDECIDED = "undecided"
    """There are samples, or will be soon, but they do not show yet which of the two it is."""
    SILENT = "silent"
    """There is no fresh sample: it may be either."""


def known_of(view: NodeView | None, *, has_problem: bool, was_pressured: bool) -> Known:
    """Return what ``view`` says; None where there never was one. ``has_problem``: a source gives no samples.

    What was signalled stays so while an axis still shows it, also where the other axis is not known any more.
    ``was_pressured``: it may have been under pressure before. Then what was said and signalled of it stays
    after a start, until it has been calm for as long as it has to be. Any other node is calm as soon as its
    level is known.
    """
    if view is None:
        return Known.SILENT if has_problem else Known.UNDECIDED
    lost, known, is_sampled = Level.NORMAL, None, False
    for axis in view.axes.values():  # ``NodeView.level``, for thousands of nodes in a pass
        level = axis.level
        is_sampled = is_sampled or axis.sampled_at is not None
        if level is None:
            lost = max(lost, axis.held)
        elif known is None or level > known:
            known = level
    if view.is_signalled and known is not None and known >= Level.PROXY_ONLY:
        return Known.PRESSURED
    if known is None or lost > known:
        return Known.SILENT if is_sampled or has_problem else Known.UNDECIDED
    if view.is_signalled is None:
        return Known.UNDECIDED if was_pressured or known >= Level.PROXY_ONLY else Known.CALM
    return Known.PRESSURED if view.is_signalled else Known.CALM


def worst_axis(view: NodeView) -> AxisView:
    """Return the axis with the highest level that is known; COMMIT where both have it, or none is known."""
    return max((view.axes[axis] for axis in Axis), key=_rank)


def _rank(axis: AxisView) -> int:
    return -1 if axis.level is None else axis.level
