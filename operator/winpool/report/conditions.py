"""The conditions, each a function of what was seen. Meanings: ``api/condition_table.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import SEE_READY, ConditionType, Reason
from winpool.api.v1alpha1 import Condition, Mode
from winpool.report.os_support import os_supported
from winpool.report.progress import nodes_up_to_date, none_of_ours, reconciling, refused_message, stalled
from winpool.report.state import ready
from winpool.report.tally import count_nodes, enumerate_names
from winpool.report.view import Told

if TYPE_CHECKING:
    from datetime import date, datetime

    from winpool.objects.pool import Pool
    from winpool.report.tally import Tally
    from winpool.report.view import View

MAX_UNAVAILABLE: Final = 1
"""Nodes that may be missing before the pool counts as unavailable, where the spec says nothing of it."""

_IN_FULL: Final = (ConditionType.READY, ConditionType.ACCEPTED)
"""The conditions that others refer to: what they say they say in full."""


def conditions(view: View, *, now: datetime) -> tuple[Condition, ...]:
    """Return all conditions; a transition time moves only when the status of its condition does."""
    available, supported = _available(view.tally), _os_supported(view, today=now.date())
    findings = {
        ConditionType.READY: ready(view, available=available, supported=supported),
        ConditionType.ACCEPTED: _accepted(view),
        ConditionType.AVAILABLE: available,
        ConditionType.NODES_UP_TO_DATE: nodes_up_to_date(view),
        ConditionType.OS_SUPPORTED: supported,
        ConditionType.RECONCILING: reconciling(view),
        ConditionType.STALLED: stalled(view),
        ConditionType.PAUSED: _paused(view),
        ConditionType.DELETING: _deleting(view),
    }
    said = findings[ConditionType.READY].message
    return tuple(
        _condition(view.pool, type_, _once(type_, found, tally=view.tally, said=said), now=now)
        for type_, found in findings.items()
    )


def _once(type_: ConditionType, found: Told, *, tally: Tally, said: str) -> Told:
    """Refer to Ready for what it has ``said``: a person reads all conditions at once."""
    if type_ in _IN_FULL or found.message != said:
        return found
    return replace(found, message=f"{_in_short(type_, tally)}: {SEE_READY}")


def _in_short(type_: ConditionType, tally: Tally) -> str:
    if type_ is ConditionType.STALLED:
        return "Someone has to act"
    if not tally.nodes:
        return f"{type_} is about nodes, and the pool has none"
    nodes = count_nodes(tally.nodes)
    match type_:
        case ConditionType.NODES_UP_TO_DATE:
            return f"{tally.up_to_date} of {nodes} up to date"
        case ConditionType.AVAILABLE:
            return f"{tally.available} of {nodes} available"
        case _:
            return f"{type_} has the same cause as Ready"


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
    return Told("True", Reason.ACCEPTED, "the spec can be acted on")


def _available(tally: Tally) -> Told:
    if tally.nodes == 0:
        return none_of_ours(tally)
    said = f"{tally.available} of {count_nodes(tally.nodes)} Ready and not cordoned"
    if tally.available >= tally.nodes - MAX_UNAVAILABLE:
        return Told("True", Reason.NODES_AVAILABLE, said)
    return Told("False", Reason.TOO_FEW_NODES_READY, f"{said}; at most {MAX_UNAVAILABLE} may be missing")


def _os_supported(view: View, *, today: date) -> Told:
    if view.pool.deleting:
        return Told("Unknown", Reason.RELEASING_NODES, "the pool is being deleted: see Deleting")
    if view.refusal:
        return Told("Unknown", Reason.SPEC_REJECTED, "the spec was not accepted: see Accepted")
    if not view.groups:
        return none_of_ours(view.tally)
    return Told(*os_supported(view.groups, view.judged, today=today))


def _paused(view: View) -> Told:
    if view.pool.spec and view.mode is Mode.PAUSED:
        return Told(
            "True", Reason.PAUSED_BY_SPEC, "mode is Paused: nothing is written to nodes until it is changed"
        )
    return Told("False", Reason.NOT_PAUSED, "mode is not Paused")


def _deleting(view: View) -> Told:
    if view.pool.deleting:
        outstanding = view.tally.outstanding
        if not outstanding:
            return Told("True", Reason.RELEASING_NODES, "all nodes that are known are released")
        names = f": {enumerate_names(outstanding)}"
        refused = f"; {refused_message(view.refused)}" if view.refused else ""
        return Told(
            "True",
            Reason.RELEASING_NODES,
            f"{count_nodes(len(outstanding))} not released yet{names}{refused}",
        )
    return Told("False", Reason.NOT_DELETING, "nobody has asked for deletion")
