"""The conditions of a pool, each a function of what was seen; the reason of Ready is the worst.

The condition Ready, whose reason is STATE: the worst that is true of a pool (``api.states``).

The conditions, each a function of what was seen. Meanings: ``api/condition_table.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from typing import Final

from winpool.api.conditions import STATES, ConditionType, Reason, see_condition
from winpool.api.issues import IssueReason
from winpool.api.v1alpha1 import Condition, Mode, OnMismatch
from winpool.model.pool import Pool
from winpool.status.assessment import Tally, count_nodes, counted_nodes
from winpool.status.os_support import os_supported
from winpool.status.upgrade import upgrade_allowed
from winpool.status.view import (
    IDLE_MODES,
    SEE_ACCEPTED,
    STATE_OF,
    Told,
    View,
    idle_message,
    memory_healthy,
    nodes_up_to_date,
    none_of_ours,
    reconciling,
    refused_message,
    stalled,
    worst,
)

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


MAX_UNAVAILABLE: Final = 1
"""Nodes that may be missing before the pool counts as unavailable, where the spec says nothing of it. Also
where ``upgrade.maxUnavailable`` is 0: that stops upgrades, and is no promise that no machine fails."""

_HUNDRED: Final = 100


def conditions(view: View, *, now: datetime) -> tuple[Condition, ...]:
    """Return all conditions; a transition time moves only when the status of its condition does."""
    available, supported = _available(view), _os_supported(view, today=now.date())
    memory, upgrade = memory_healthy(view), upgrade_allowed(view)
    findings = {
        ConditionType.READY: ready(view, available=available, supported=supported, memory=memory),
        ConditionType.ACCEPTED: _accepted(view),
        ConditionType.AVAILABLE: available,
        ConditionType.NODES_UP_TO_DATE: nodes_up_to_date(view),
        ConditionType.OS_SUPPORTED: supported,
        **({ConditionType.UPGRADE_ALLOWED: upgrade} if upgrade else {}),
        **({ConditionType.MEMORY_HEALTHY: memory} if memory else {}),
        ConditionType.RECONCILING: reconciling(view),
        ConditionType.STALLED: stalled(view),
        ConditionType.PAUSED: _paused(view),
        ConditionType.DELETING: _deleting(view),
    }
    said: dict[str, ConditionType] = {}
    return tuple(
        _condition(view.pool, type_, _once(type_, found, tally=view.tally, said=said), now=now)
        for type_, found in findings.items()
    )


def _once(type_: ConditionType, found: Told, *, tally: Tally, said: dict[str, ConditionType]) -> Told:
    """Refer to the first condition that has ``said`` the same: a person reads all conditions at once."""
    first = said.setdefault(found.message, type_)
    if first is type_:
        return found
    # One sentence, or several conditions would end with the same one.
    short, see = _in_short(type_, found.status, tally).removesuffix("."), see_condition(first)
    return replace(found, message=f"{short}: {see[0].lower()}{see[1:]}")


def _in_short(type_: ConditionType, status: str, tally: Tally) -> str:
    match type_:
        case ConditionType.STALLED:
            return "The operator waits for a person."
        case ConditionType.NODES_UP_TO_DATE if tally.nodes:
            return f"{_of_all(tally.up_to_date, tally)} up to date."
        case ConditionType.NODES_UP_TO_DATE:
            return "There are no nodes to update."
        case ConditionType.AVAILABLE if tally.nodes:
            return f"{_of_all(tally.available, tally)} available."
        case ConditionType.AVAILABLE:
            return "There are no nodes to wait for."
        case ConditionType.OS_SUPPORTED if not tally.nodes:
            return "There are no nodes to judge."
        case ConditionType.OS_SUPPORTED if status != "True":
            known = "" if status == "False" else "known to be "
            return f"At least one node is not {known}supported."
        case ConditionType.UPGRADE_ALLOWED if not tally.nodes:
            return "There are no nodes to upgrade."
        case ConditionType.MEMORY_HEALTHY if not tally.nodes:
            return "There are no nodes to watch."
        case _:
            return f"{type_} has the same cause."


def _of_all(number: int, tally: Tally) -> str:
    """Begin a sentence about so many of the pool's nodes."""
    return f"{number} of {count_nodes(tally.nodes)} {'is' if number == 1 else 'are'}"


def _condition(pool: Pool, type_: ConditionType, found: Told, *, now: datetime) -> Condition:
    before = pool.status.condition(type_)
    same = before is not None and before.status == found.status
    return Condition.model_validate(
        {
            "type": type_,
            "status": found.status,
            "observedGeneration": pool.generation,
            "lastTransitionTime": before.last_transition_time if before and same else now,
            "reason": found.reason,
            "message": found.message,
        }
    )


def _accepted(view: View) -> Told:
    if view.refusal:
        return Told("False", view.refusal.reason, view.refusal.message)
    if view.missing_permission:
        return Told("False", Reason.MISSING_PERMISSION, view.missing_permission)
    return Told("True", Reason.ACCEPTED, "The operator can act on the spec.")


def _available(view: View) -> Told:
    tally = view.tally
    if tally.nodes == 0:
        return none_of_ours(tally)
    allowed = _may_be_missing(view.pool, tally.nodes)
    said = f"{_of_all(tally.available, tally)} Ready and not cordoned."
    # One node that is down is all of a pool that has no other.
    if tally.available >= max(1, tally.nodes - allowed):
        return Told("True", Reason.NODES_AVAILABLE, said)
    return Told("False", Reason.TOO_FEW_NODES_READY, f"{said} At most {allowed} may be missing.")


def _may_be_missing(pool: Pool, nodes: int) -> int:
    """Return how many ``maxUnavailable`` allows; a percentage rounds down, and one may always be."""
    upgrade = pool.spec.upgrade if pool.spec else None
    if upgrade is None:
        return MAX_UNAVAILABLE
    asked = upgrade.max_unavailable
    if isinstance(asked, str):
        asked = int(asked.removesuffix("%")) * nodes // _HUNDRED
    return max(MAX_UNAVAILABLE, asked)


def _os_supported(view: View, *, today: date) -> Told:
    if view.pool.deleting:
        return Told(
            "Unknown", Reason.RELEASING_NODES, "The operator judges no nodes of a pool that is being deleted."
        )
    if view.refusal:
        return Told(
            "Unknown",
            Reason.SPEC_REJECTED,
            f"The operator judges nodes only by an accepted spec. {SEE_ACCEPTED}",
        )
    if not view.groups:
        return none_of_ours(view.tally)
    return Told(*os_supported(view.groups, view.judged, today=today))


def _paused(view: View) -> Told:
    if view.pool.spec and view.mode is Mode.PAUSED:
        return Told(
            "True", Reason.PAUSED_BY_SPEC, "The operator writes to no node until spec.mode is Active again."
        )
    return Told("False", Reason.NOT_PAUSED, "spec.mode is not Paused.")


def _deleting(view: View) -> Told:
    if view.pool.deleting:
        outstanding = view.tally.outstanding
        if not outstanding:
            return Told("True", Reason.RELEASING_NODES, "The operator has released all nodes.")
        said = f"Labels or taints of the pool are still on {counted_nodes(outstanding)}."
        refused = f" {refused_message(view.refused)}" if view.refused else ""
        return Told("True", Reason.RELEASING_NODES, f"{said}{refused}")
    return Told("False", Reason.NOT_DELETING, "No one has deleted the pool.")
