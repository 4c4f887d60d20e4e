"""The conditions, each a function of what was seen. Meanings: ``api/conditions.py``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import ConditionType, Reason
from winpool.api.v1alpha1 import Condition, Mode
from winpool.report.os_support import os_supported
from winpool.report.tally import count_nodes, enumerate_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date, datetime

    from winpool.report.finding import Finding
    from winpool.report.os_support import Group
    from winpool.report.tally import Tally
    from winpool.snapshot import Pool

MAX_UNAVAILABLE: Final = 1
"""Nodes that may be missing before the pool counts as unavailable, where the spec says nothing of it."""

NO_NODES: Final = "no Windows node has the labels that nodeSelector asks for"

_HELD: Final = {Mode.PAUSED: Reason.PAUSED, Mode.DRY_RUN: Reason.DRY_RUN}
"""The modes in which nothing is written, and what Ready says of them."""


@dataclass(frozen=True, slots=True)
class View:
    """What the conditions of a pool are computed from.

    ``refusal`` says why the spec cannot be acted on, ``missing_permission`` which rule is missing;
    both are empty where all is well. ``groups`` are the pool's nodes as the support matrix judges them,
    ``judged`` is what it has against them.
    """

    pool: Pool
    tally: Tally
    refusal: str
    missing_permission: str
    groups: Sequence[Group]
    judged: Sequence[Finding]

    @property
    def accepted(self) -> bool:
        """Whether the operator may act on this spec."""
        return not self.refusal and not self.missing_permission

    @property
    def is_stuck(self) -> bool:
        """Whether all that is left to be written are nodes that the API server does not let us write."""
        return bool(self.tally.outstanding) and self.tally.outstanding == self.tally.refused

    @property
    def mode(self) -> Mode:
        """The mode of the spec; a spec that cannot be read is not acted on, as if paused."""
        return self.pool.spec.mode if self.pool.spec else Mode.PAUSED


@dataclass(frozen=True, slots=True)
class _Finding:
    status: str
    reason: Reason
    message: str


def conditions(view: View, *, now: datetime) -> tuple[Condition, ...]:
    """Return all conditions; a transition time moves only when the status of its condition does."""
    findings = {
        ConditionType.READY: _ready(view),
        ConditionType.ACCEPTED: _accepted(view),
        ConditionType.AVAILABLE: _available(view.tally),
        ConditionType.NODES_UP_TO_DATE: _nodes_up_to_date(view),
        ConditionType.OS_SUPPORTED: _os_supported(view, today=now.date()),
        ConditionType.RECONCILING: _reconciling(view),
        ConditionType.PAUSED: _paused(view),
        ConditionType.DELETING: _deleting(view),
    }
    return tuple(_condition(view.pool, type_, found, now=now) for type_, found in findings.items())


def _condition(pool: Pool, type_: ConditionType, found: _Finding, *, now: datetime) -> Condition:
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


def _ready(view: View) -> _Finding:
    tally, available = view.tally, _available(view.tally)
    if view.pool.deleting:
        return _Finding("False", Reason.DELETING, "the pool is being deleted")
    if not view.accepted:
        refused = _accepted(view)
        return _Finding("False", refused.reason, refused.message)
    if tally.nodes == 0 and tally.unknown:
        return replace(available, status="False")
    if tally.nodes == 0 and tally.foreign:
        return _Finding(
            "False",
            Reason.POOL_OVERLAP,
            f"nodeSelector takes {count_nodes(tally.foreign)}, and other pools have them; "
            "make the selectors of the pools exclude each other",
        )
    if available.status == "False":
        return available
    progress = _nodes_up_to_date(view)
    if progress.reason is Reason.WRITE_REFUSED:
        return progress
    return _Finding("True", _HELD.get(view.mode, progress.reason), progress.message)


def _accepted(view: View) -> _Finding:
    if view.refusal:
        return _Finding("False", Reason.SPEC_REJECTED, view.refusal)
    if view.missing_permission:
        return _Finding("False", Reason.MISSING_PERMISSION, view.missing_permission)
    return _Finding("True", Reason.ACCEPTED, "the spec can be acted on")


def _available(tally: Tally) -> _Finding:
    if tally.nodes == 0:
        return _none_of_ours(tally)
    said = f"{tally.available} of {count_nodes(tally.nodes)} Ready and not cordoned"
    if tally.available >= tally.nodes - MAX_UNAVAILABLE:
        return _Finding("True", Reason.NODES_AVAILABLE, said)
    return _Finding("False", Reason.TOO_FEW_NODES_READY, f"{said}; at most {MAX_UNAVAILABLE} may be missing")


def _nodes_up_to_date(view: View) -> _Finding:
    tally = view.tally
    if view.refusal:
        return _Finding("False", Reason.SPEC_REJECTED, "the spec was not accepted: see Accepted")
    due = f"{count_nodes(len(tally.outstanding))} to be written: {enumerate_names(tally.outstanding)}"
    if tally.outstanding and view.pool.deleting:
        return _Finding("False", Reason.RELEASING_NODES, "the pool is being deleted: see Deleting")
    if tally.outstanding and view.mode in _HELD:
        reason = _HELD[view.mode]
        return _Finding(
            "False", reason, f"mode is {view.mode}, so nothing is written; with mode Active {due}"
        )
    if view.is_stuck:
        return _Finding("False", Reason.WRITE_REFUSED, _refused(tally))
    if tally.outstanding:
        return _Finding("False", Reason.ROLLOUT_IN_PROGRESS, due)
    if tally.nodes == 0:
        return _none_of_ours(tally)
    return _Finding(
        "True", Reason.UP_TO_DATE, f"{count_nodes(tally.nodes)} with the labels and taints of the spec"
    )


def _refused(tally: Tally) -> str:
    return (
        f"the API server does not let {count_nodes(len(tally.refused))} be changed, see issues: "
        f"{enumerate_names(tally.refused)}"
    )


def _none_of_ours(tally: Tally) -> _Finding:
    if tally.unknown:
        return _Finding(
            "Unknown",
            Reason.OWNER_UNKNOWN,
            f"{count_nodes(tally.unknown)} that nodeSelector takes carry the record of a pool that is not "
            "known; if there is none, they are taken over once two lists of all pools have shown it",
        )
    if tally.foreign:
        return _Finding(
            "True", Reason.POOL_OVERLAP, "all nodes that nodeSelector takes belong to other pools"
        )
    return _Finding("True", Reason.NO_NODES_SELECTED, NO_NODES)


def _os_supported(view: View, *, today: date) -> _Finding:
    if view.pool.deleting:
        return _Finding("Unknown", Reason.RELEASING_NODES, "the pool is being deleted: see Deleting")
    if view.refusal:
        return _Finding("Unknown", Reason.SPEC_REJECTED, "the spec was not accepted: see Accepted")
    if not view.groups:
        return _none_of_ours(view.tally)
    return _Finding(*os_supported(view.groups, view.judged, today=today))


def _reconciling(view: View) -> _Finding:
    outstanding = len(view.tally.outstanding)
    if view.pool.deleting:
        return _Finding("True", Reason.RELEASING_NODES, f"{count_nodes(outstanding)} to be released")
    if view.accepted and view.mode is Mode.ACTIVE and outstanding and not view.is_stuck:
        return _Finding("True", Reason.ROLLOUT_IN_PROGRESS, f"{count_nodes(outstanding)} to be written")
    return _Finding("False", Reason.SETTLED, "nothing is to be done, or may be done now")


def _paused(view: View) -> _Finding:
    if view.pool.spec and view.mode is Mode.PAUSED:
        return _Finding(
            "True", Reason.PAUSED_BY_SPEC, "mode is Paused: nothing is written to nodes until it is changed"
        )
    return _Finding("False", Reason.NOT_PAUSED, "mode is not Paused")


def _deleting(view: View) -> _Finding:
    if view.pool.deleting:
        outstanding = view.tally.outstanding
        if not outstanding:
            return _Finding("True", Reason.RELEASING_NODES, "all nodes that are known are released")
        names = f": {enumerate_names(outstanding)}"
        refused = f"; {_refused(view.tally)}" if view.tally.refused else ""
        return _Finding(
            "True",
            Reason.RELEASING_NODES,
            f"{count_nodes(len(outstanding))} not released yet{names}{refused}",
        )
    return _Finding("False", Reason.NOT_DELETING, "nobody has asked for deletion")
