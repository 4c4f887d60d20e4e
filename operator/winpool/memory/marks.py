"""What is on a node because of memory pressure: a NoSchedule taint, and the condition.

========== ================= ==========================================
Known      taint             condition WindowsMemoryPressure
========== ================= ==========================================
pressured  is set            True, with the numbers of the transition
calm       is removed        False where ours stands
undecided  stays as it is    stays as it is
silent     stays as it is    Unknown (MetricsStale) where ours stands
========== ================= ==========================================

A node that never was under pressure gets no condition: False on each of thousands of nodes would be thousands
of writes that say nothing. One that was keeps it as False, since its transition time says when the pressure
ended, and since removing it would take a write more: the record names a condition until it is gone.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from winpool.api.keys import MEMORY_PRESSURE_TAINT, PRESSURE_CONDITION
from winpool.api.node_keys import PRESSURE_TAINT
from winpool.memory.known import Known, worst_axis
from winpool.memory.numbers import all_numbers
from winpool.objects.node import NodeCondition
from winpool.objects.pressure import Axis
from winpool.ownership.goals import LEAVE, NO_GOALS, Goals, Wish
from winpool.ownership.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.objects.pressure import NodeView
    from winpool.ownership.members import Member
    from winpool.ownership.record import TaintIdentity
    from winpool.ownership.rights import Rights

_SET: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: ""})
_LEFT: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: LEAVE})
_OFF: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: None})

_ENDED: Final = NodeCondition(
    PRESSURE_CONDITION, "False", "NoPressure", "The node is not under memory pressure."
)
_STALE: Final = NodeCondition(
    PRESSURE_CONDITION,
    "Unknown",
    "MetricsStale",
    f"There is no fresh sample of the node's memory. The taint {MEMORY_PRESSURE_TAINT} stays as it is.",
)

# Nodes that are alike share one object, so that a pass compares them with one target.
CALM: Final = Goals(conditions=(_ENDED,))
UNDECIDED: Final = Goals(taints=_LEFT)
SILENT: Final = Goals(taints=_LEFT, conditions=(_STALE,))
OFF: Final = Goals(taints=_OFF)
"""Where all that no room names stays (``Mandate.FINISH``), what is to be removed has to be named."""


def marks_of(known: Known, view: NodeView | None, standing: NodeCondition | None) -> Goals:
    """Return what a node is to have. ``standing`` is our condition as it is there.

    A calm node without it is to have nothing, which is what a room says by naming no goals.
    """
    if known is Known.PRESSURED and view is not None:
        return Goals(taints=_SET, conditions=(_condition(view),))
    if known is Known.CALM:
        return NO_GOALS if standing is None else CALM
    if standing is None:
        return UNDECIDED
    return SILENT if known is Known.SILENT else Goals(taints=_LEFT, conditions=(standing,))


def condition_on(
    member: Member, *, pool_uid: str, rights: Rights, written: tuple[NodeCondition, ...]
) -> NodeCondition | None:
    """Return our condition as it is on the node; None where there is none, or it is not known to be ours.

    Ours it is by a record that is believed, or because this process has ``written`` it: a kubelet can write
    any condition of its node.
    """
    standing = next((each for each in member.node.conditions if each.type == PRESSURE_CONDITION), None)
    if standing is None:
        return None
    record = member.record
    is_recorded = (
        isinstance(record, Record)
        and record.pool_uid == pool_uid
        and PRESSURE_CONDITION in rights.believed(record).conditions
    )
    is_ours = is_recorded or any(each.type == PRESSURE_CONDITION for each in written)
    return standing if is_ours else None


def taken_back(ours: Iterable[Member]) -> dict[str, Goals]:
    """Return what to want where the spec cannot be acted on: nothing, of the nodes that have any of it."""
    return {
        member.node.uid: OFF
        for member in ours
        if PRESSURE_TAINT in member.taints
        or any(each.type == PRESSURE_CONDITION for each in member.node.conditions)
    }


def _condition(view: NodeView) -> NodeCondition:
    return NodeCondition(PRESSURE_CONDITION, "True", _reason(view), all_numbers(view))


def _reason(view: NodeView) -> str:
    if view.guard is not None:
        return "UnattributedMemory"
    axis = worst_axis(view)
    if axis.axis is Axis.COMMIT:
        return "CommitExhaustionImminent"
    is_estimate = axis.reading is not None and axis.reading.is_estimate
    return "LowAvailableMemory" if is_estimate else "PhysicalThrashing"
