"""What a pass sees of the memory of nodes, without a detector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import EllipsisType
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from harness.memory import CEILING, GIB, KUBELET, RAM
from winpool.model.pressure import Axis, AxisPressure, Guard, Hold, KnownMemory, Level, NodePressure, Reading

SIGNALLED: Final = (Level.PROXY_ONLY, Level.SOFT, Level.HARD)

_LEFT: Final = {
    Axis.COMMIT: {None: 1, Level.NORMAL: 12, Level.WARNING: 4, Level.SOFT: 2, Level.HARD: 0.5},
    Axis.PHYSICAL: {
        None: 1,
        Level.NORMAL: 8,
        Level.WARNING: 2,
        Level.PROXY_ONLY: 0.4,
        Level.SOFT: 1.5,
        Level.HARD: 0.6,
    },
}
"""GiB that are left at each level."""


TAKEN_AT: Final = 1795435200.0
"""When each reading was taken, by the clock of its source: 2026-11-23T12:00:00Z."""

_HOLDS: Final = {None: Hold.UNKNOWN, Level.PROXY_ONLY: Hold.ESTIMATE}


def an_axis(axis: Axis, level: Level | None = Level.NORMAL, **changes: Any) -> AxisPressure:
    """Return one axis; with no level it was ``held`` at Normal, and sampled before."""
    whole = CEILING if axis is Axis.COMMIT else RAM
    paging = axis is Axis.PHYSICAL and level in (Level.SOFT, Level.HARD)
    view = AxisPressure(
        axis=axis,
        level=level,
        held=level or Level.NORMAL,
        since=None if not level else 100.0,
        ready_since=100.0 if level in (Level.SOFT, Level.HARD) else None,
        sampled_at=100.0,
        looked_at=100.0,
        source=KUBELET,
        reading=Reading(
            axis,
            left=_LEFT[axis].get(level, 1) * GIB,
            whole=whole,
            hard_reads_per_second=1200 if paging else None,
            is_estimate=level is Level.PROXY_ONLY,
            taken_at=TAKEN_AT,
        ),
        seconds_left=None,
        missing=0.0,
        hold=None if level in (Level.SOFT, Level.HARD) else _HOLDS.get(level, Hold.NO_PRESSURE),
    )
    return replace(view, **changes)


def a_view(
    commit: Level | None = Level.NORMAL,
    physical: Level | None = Level.NORMAL,
    *,
    signalled: bool | EllipsisType | None = ...,
    guard: Guard | None = None,
    held: Level | None = None,
    outside_pods: float | None = None,
) -> NodePressure:
    """Return a node at these levels, signalled as it follows from them, or as given.

    ``held`` is what an axis had before it became unknown.
    """
    axes = {Axis.COMMIT: an_axis(Axis.COMMIT, commit), Axis.PHYSICAL: an_axis(Axis.PHYSICAL, physical)}
    if held is not None:
        axes = {axis: replace(each, held=held) if each.level is None else each for axis, each in axes.items()}
    if isinstance(signalled, EllipsisType):
        signalled = any(each.held in SIGNALLED for each in axes.values())
    return NodePressure(axes=axes, guard=guard, is_signalled=signalled, outside_pods=outside_pods)


CALM: Final = a_view()
HARD: Final = a_view(Level.HARD)
SOFT: Final = a_view(Level.SOFT)
PAGING: Final = a_view(physical=Level.HARD)
WARNED: Final = a_view(Level.WARNING)
STALE: Final = a_view(None, None, held=Level.SOFT)
"""It was signalled when its last sample arrived."""
JUST_STARTED: Final = a_view(signalled=None)
"""There are samples, and none shows yet whether what stands on the node is right."""


def told(views: Mapping[str, NodePressure], *, problems: Mapping[str, str] | None = None) -> KnownMemory:
    """Return what is known of nodes of ``a_node``, by their names."""
    by_uid = {f"uid-of-{name}": view for name, view in views.items()}
    why = {f"uid-of-{name}": text for name, text in (problems or {}).items()}
    return KnownMemory(told=by_uid, views=by_uid, problems=why)


def all_of(names: Iterable[str], view: NodePressure) -> KnownMemory:
    """Return that all these nodes are so."""
    return told(dict.fromkeys(names, view))


def _axes(axis: Axis) -> st.SearchStrategy[AxisPressure]:
    levels = [None, *(each for each in Level if axis is Axis.PHYSICAL or each is not Level.PROXY_ONLY)]
    return st.builds(
        lambda level, held, is_sampled: an_axis(
            axis,
            level,
            held=held if level is None else level,
            sampled_at=100.0 if is_sampled or level is not None else None,
        ),
        st.sampled_from(levels),
        st.sampled_from(Level),
        st.booleans(),
    )


views: Final = st.builds(
    lambda commit, physical, guard, signalled: NodePressure(
        {Axis.COMMIT: commit, Axis.PHYSICAL: physical}, guard, signalled, outside_pods=None
    ),
    _axes(Axis.COMMIT),
    _axes(Axis.PHYSICAL),
    st.sampled_from([None, *Guard]),
    st.sampled_from([None, False, True]),
)
"""Any view, also those that no detector would make."""


def known(names: Iterable[str]) -> st.SearchStrategy[KnownMemory]:
    """Return strategies for all that may be known of these nodes, also nothing."""
    listed = list(names)
    return st.builds(
        lambda found, problems: told(found, problems=problems),
        st.dictionaries(st.sampled_from(listed), views),
        st.dictionaries(st.sampled_from(listed), st.sampled_from(["It is off.", "It is slow."])),
    )
