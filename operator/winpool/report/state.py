"""The condition Ready, whose reason is STATE: the worst that is true of a pool (``api.states``)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.api.states import STATES
from winpool.api.v1alpha1 import OnMismatch
from winpool.report.progress import idle_message, nodes_up_to_date, none_of_ours, overlap
from winpool.report.view import IDLE_MODES, STATE_OF, Told, worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.report.tally import Tally
    from winpool.report.view import View

_READY: Final = {each.reason: each.status for each in STATES}


def ready(view: View, *, available: Told, supported: Told) -> Told:
    """Return Ready; ``available`` and ``supported`` are what Available and OSSupported say."""
    told = worst(_true_of(view, available, supported))
    reason = STATE_OF.get(told.reason, told.reason)
    return Told(_READY[reason], reason, told.message)


def _true_of(view: View, available: Told, supported: Told) -> Iterator[Told]:
    """Yield all that is true of the pool. The table of states has the order, and the status of Ready."""
    if view.pool.deleting:
        yield Told("False", Reason.DELETING, "the pool is being deleted")
    if view.refusal:
        yield Told("False", Reason.SPEC_REJECTED, _refusal_message(view))
    if view.missing_permission:
        yield Told("False", Reason.MISSING_PERMISSION, view.missing_permission)
    if view.tally.nodes == 0:
        yield from _without_nodes(view.tally)
    if available.reason is Reason.TOO_FEW_NODES_READY:
        yield available
    nodes = nodes_up_to_date(view)
    yield nodes
    if view.pool.spec and (idle := IDLE_MODES.get(view.mode)) is not None:
        yield replace(nodes, reason=idle, message=f"{idle_message(view)}; {nodes.message}")
    if supported.status == "False" or supported.reason is Reason.BUILD_UNKNOWN:
        yield supported
    if IssueReason.PODS_UNREADABLE in view.found:
        yield Told("True", Reason.PODS_UNREADABLE, "pods on some nodes cannot be read, see issues")
    if _is_tainted_for_memory(view):
        yield Told(
            "True",
            Reason.MEMORY_MISMATCH,
            "some nodes do not reserve the memory that reservedMemory declares and carry a taint for it, "
            "see issues",
        )


def _without_nodes(tally: Tally) -> Iterator[Told]:
    """Yield why the pool owns no node: of some it may be known, and of others not."""
    yield none_of_ours(tally)
    if tally.foreign:
        yield overlap(tally)


def _refusal_message(view: View) -> str:
    """Return why the spec is not accepted, with the reason of Accepted where that is another one."""
    refusal = view.refusal
    if refusal.reason is Reason.SPEC_REJECTED:
        return refusal.message
    return f"{refusal.reason}: {refusal.message}"


def _is_tainted_for_memory(view: View) -> bool:
    memory = view.pool.spec.reserved_memory if view.pool.spec else None
    return (
        memory is not None
        and memory.on_mismatch is OnMismatch.TAINT
        and IssueReason.RESERVED_MEMORY_MISMATCH in view.found
    )
