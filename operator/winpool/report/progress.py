"""How far the nodes of a pool are from what its spec asks, and who has to do something about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.v1alpha1 import Mode
from winpool.report.tally import count_nodes, enumerate_names
from winpool.report.view import IDLE_MODES, Told
from winpool.rooms import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable

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


_PRECEDENCE: Final = (Stage.WRITING, Stage.WAITING, Stage.HELD, Stage.TIMED_OUT, Stage.VALIDATING)
"""Which stage is told where nodes are at several: what is to be written before what needs a person, and that
before what comes by itself."""

_FOR_A_PERSON: Final = (Stage.HELD, Stage.TIMED_OUT)
"""The stages that end only once a person has seen to it."""


def _behind(view: View) -> Told | None:
    """Say why nodes are not as the spec asks, what the operator is at before what needs a person."""
    tally = view.tally
    if view.is_stuck:
        return Told("False", Reason.WRITE_REFUSED, refused_message(tally))
    if view.blind and (view.blind.of_all or not view.goes_on_with):
        return Told("False", Reason.POD_LIST_FAILING, view.blind.message)
    return _first_at(tally, _PRECEDENCE, status="False")


def _first_at(tally: Tally, stages: Iterable[Stage], *, status: str) -> Told | None:
    """Tell of the nodes at the first of ``stages`` that any node is at; of several rooms the first speaks."""
    for stage in stages:
        for each in tally.at(stage):
            said = each.said.format(nodes=count_nodes(len(each.nodes)))
            return Told(status, each.reason, f"{said}: {enumerate_names(each.nodes)}")
    return None


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
    unwritten = {*tally.outstanding, *tally.names_at(Stage.WAITING)}
    if not unwritten and (validating := tally.names_at(Stage.VALIDATING)):
        reason = tally.at(Stage.VALIDATING)[0].reason
        return Told("True", reason, f"{count_nodes(len(validating))} being validated")
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
        if told := _first_at(tally, _FOR_A_PERSON, status="True"):
            return told
        if view.blind and view.is_overdue:
            return Told("True", Reason.POD_LIST_FAILING, view.blind.message)
    return Told("False", Reason.NOT_STALLED, "nothing keeps the operator from going on")
