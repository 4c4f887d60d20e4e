"""How far the nodes of a pool are from what its spec asks, and who has to do something about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.v1alpha1 import Mode
from winpool.report.tally import count_nodes, enumerate_names
from winpool.report.view import IDLE_MODES, Told

if TYPE_CHECKING:
    from winpool.report.tally import Tally
    from winpool.report.view import View

NO_NODES: Final = "no Windows node has the labels that nodeSelector asks for"


def nodes_up_to_date(view: View) -> Told:
    """Say whether every node is as the spec asks, and if not, what is in the way."""
    tally = view.tally
    if view.refusal:
        return Told("False", Reason.SPEC_REJECTED, "the spec was not accepted: see Accepted")
    if tally.outstanding and view.pool.deleting:
        return Told("False", Reason.RELEASING_NODES, "the pool is being deleted: see Deleting")
    behind = _behind(view)
    if behind and view.missing_permission:
        return Told("False", Reason.MISSING_PERMISSION, "a permission is missing: see Accepted")
    if behind and view.mode in IDLE_MODES:
        reason = IDLE_MODES[view.mode]
        return Told(
            "False", reason, f"mode is {view.mode}, so nothing is written; with mode Active {behind.message}"
        )
    if behind:
        return behind
    if tally.nodes == 0:
        return none_of_ours(tally)
    return Told(
        "True", Reason.UP_TO_DATE, f"{count_nodes(tally.nodes)} with the labels and taints of the spec"
    )


def _behind(view: View) -> Told | None:
    """Say why nodes are not as the spec asks, what the operator is at before what needs a person."""
    tally = view.tally
    if view.is_stuck:
        return Told("False", Reason.WRITE_REFUSED, refused_message(tally))
    if view.blind and (view.blind.of_all or not view.goes_on_with):
        return Told("False", Reason.POD_LIST_FAILING, view.blind.message)
    if tally.outstanding:
        due = f"{count_nodes(len(tally.outstanding))} to be written: {enumerate_names(tally.outstanding)}"
        return Told("False", Reason.ROLLOUT_IN_PROGRESS, due)
    if tally.waiting:
        return Told(
            "False",
            Reason.ROLLOUT_IN_PROGRESS,
            f"{count_nodes(len(tally.waiting))} to be written once all pods have been looked at: "
            f"{enumerate_names(tally.waiting)}",
        )
    if tally.held:
        return Told("False", Reason.TAINTS_HELD, _held(tally))
    if tally.timed_out:
        return Told("False", Reason.VALIDATION_TIMED_OUT, _timed_out(tally))
    if tally.validating:
        return Told(
            "False",
            Reason.VALIDATING_NODES,
            f"{count_nodes(len(tally.validating))} with startup taints until they have passed validation: "
            f"{enumerate_names(tally.validating)}",
        )
    return None


def _held(tally: Tally) -> str:
    return (
        f"a NoExecute taint is held back from {count_nodes(len(tally.held))}, since pods there do not "
        f"tolerate it and would be deleted, see issues: {enumerate_names(tally.held)}"
    )


def _timed_out(tally: Tally) -> str:
    return (
        f"validation not passed in time by {count_nodes(len(tally.timed_out))}, see issues: "
        f"{enumerate_names(tally.timed_out)}"
    )


def refused_message(tally: Tally) -> str:
    """Name the nodes that the API server does not let be changed."""
    return (
        f"the API server does not let {count_nodes(len(tally.refused))} be changed, see issues: "
        f"{enumerate_names(tally.refused)}"
    )


def none_of_ours(tally: Tally) -> Told:
    """Say why the pool has no nodes."""
    if tally.unknown:
        return Told(
            "Unknown",
            Reason.OWNER_UNKNOWN,
            f"{count_nodes(tally.unknown)} that nodeSelector takes carry the record of a pool that is not "
            "known; if there is none, they are taken over once two lists of all pools have shown it",
        )
    if tally.foreign:
        return Told("True", Reason.POOL_OVERLAP, "all nodes that nodeSelector takes belong to other pools")
    return Told("True", Reason.NO_NODES_SELECTED, NO_NODES)


def reconciling(view: View) -> Told:
    """Say whether the operator itself is at work, and will go on by itself."""
    tally = view.tally
    if view.pool.deleting:
        return Told("True", Reason.RELEASING_NODES, f"{count_nodes(len(tally.outstanding))} to be released")
    if not view.is_at_work:
        return Told("False", Reason.SETTLED, "nothing is to be done, or may be done now")
    if view.blind and not view.goes_on_with:
        return Told("True", Reason.POD_LIST_FAILING, f"{view.blind.message}; it is tried again")
    if tally.validating and not tally.outstanding and not tally.waiting:
        return Told("True", Reason.VALIDATING_NODES, f"{count_nodes(len(tally.validating))} being validated")
    unwritten = {*tally.outstanding, *tally.waiting}
    return Told("True", Reason.ROLLOUT_IN_PROGRESS, f"{count_nodes(len(unwritten))} to be written")


def stalled(view: View) -> Told:
    """Say whether a person has to do something before the operator can go on."""
    tally = view.tally
    if view.pool.deleting:
        if view.is_stuck:
            return Told("True", Reason.WRITE_REFUSED, refused_message(tally))
    elif not view.accepted:
        reason = view.refusal.reason if view.refusal else Reason.MISSING_PERMISSION
        return Told("True", reason, "the spec cannot be acted on: see Accepted")
    elif view.mode is Mode.ACTIVE and not view.is_at_work:
        if view.is_stuck:
            return Told("True", Reason.WRITE_REFUSED, refused_message(tally))
        if tally.held:
            return Told("True", Reason.TAINTS_HELD, _held(tally))
        if tally.timed_out:
            return Told("True", Reason.VALIDATION_TIMED_OUT, _timed_out(tally))
        if view.blind and view.is_overdue:
            return Told("True", Reason.POD_LIST_FAILING, view.blind.message)
    return Told("False", Reason.NOT_STALLED, "nothing keeps the operator from going on")
