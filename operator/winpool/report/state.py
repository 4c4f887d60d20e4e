"""The condition Ready, whose reason is STATE: the worst that is true of a pool (``api.states``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.conditions import ConditionType, Reason, see_condition
from winpool.api.issues import IssueReason
from winpool.api.states import STATES
from winpool.api.v1alpha1 import OnMismatch
from winpool.report.progress import SEE_ACCEPTED, idle_message, nodes_up_to_date
from winpool.report.view import IDLE_MODES, STATE_OF, Told, worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.report.view import View

_SEE_MEMORY: Final = see_condition(ConditionType.MEMORY_HEALTHY)
_READY: Final = {each.reason: each.status for each in STATES}


def ready(view: View, *, available: Told, supported: Told, memory: Told | None) -> Told:
    """Return Ready; the others are what Available, OSSupported and MemoryHealthy say, None where absent."""
    told = worst((*_true_of(view, available, supported), *_memory(memory)))
    reason = STATE_OF.get(told.reason, told.reason)
    return Told(_READY[reason], reason, told.message)


def _memory(memory: Told | None) -> Iterator[Told]:
    """Say that nodes are under memory pressure. Unknown is no STATE: in a large pool some node is late."""
    if memory is not None and memory.status == "False":
        yield Told("True", memory.reason, f"Nodes are under memory pressure. {_SEE_MEMORY}")


def _true_of(view: View, available: Told, supported: Told) -> Iterator[Told]:
    """Yield all that is true of the pool. The table of states has the order, and the status of Ready."""
    if view.pool.deleting:
        yield Told("False", Reason.DELETING, "The pool is being deleted.")
    if view.refusal:
        yield Told("False", Reason.SPEC_REJECTED, _refusal_message(view))
    if view.missing_permission:
        yield Told("False", Reason.MISSING_PERMISSION, f"The operator lacks a permission. {SEE_ACCEPTED}")
    if available.reason is Reason.TOO_FEW_NODES_READY:
        yield available
    nodes = nodes_up_to_date(view)
    yield nodes
    if view.pool.spec and (idle := IDLE_MODES.get(view.mode)) is not None:
        yield Told("True", idle, idle_message(view))
    if supported.status == "False" or supported.reason is Reason.BUILD_UNKNOWN:
        yield supported
    if IssueReason.PODS_UNREADABLE in view.found:
        yield Told(
            "True",
            Reason.PODS_UNREADABLE,
            "The operator cannot read some pods. See the issue PodsUnreadable.",
        )
    if _is_tainted_for_memory(view):
        yield Told(
            "True",
            Reason.MEMORY_MISMATCH,
            "Some nodes do not reserve the memory that spec.reservedMemory declares, and have a taint for "
            "it. See the issue ReservedMemoryMismatch.",
        )


def _refusal_message(view: View) -> str:
    """Refer to Accepted, with its reason where that is another one."""
    reason = view.refusal.reason
    named = "" if reason is Reason.SPEC_REJECTED else f" ({reason})"
    return f"The operator cannot act on the spec{named}. {SEE_ACCEPTED}"


def _is_tainted_for_memory(view: View) -> bool:
    memory = view.pool.spec.reserved_memory if view.pool.spec else None
    return (
        memory is not None
        and memory.on_mismatch is OnMismatch.TAINT
        and IssueReason.RESERVED_MEMORY_MISMATCH in view.found
    )
