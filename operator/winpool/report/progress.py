"""How far the nodes of a pool are from what its spec asks, and who has to do something about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import Reason
from winpool.api.v1alpha1 import Mode
from winpool.report.tally import count_nodes, enumerate_names
from winpool.report.view import IDLE_MODES, Told, worst
from winpool.rooms import Stage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from winpool.report.tally import Tally
    from winpool.report.view import View

NO_NODES: Final = "no Windows node has the labels that nodeSelector asks for"

_TO_BE_DONE: Final = (Stage.WRITING, Stage.WAITING, Stage.HELD, Stage.TIMED_OUT, Stage.VALIDATING)
"""The stages on the way to the labels and taints of the spec."""

_FOR_OTHERS: Final = (Stage.DUE, Stage.UNKNOWN)
"""The stages of nodes that carry all that they are to carry: the operator does nothing about them."""

_FOR_A_PERSON: Final = (Stage.HELD, Stage.TIMED_OUT)
"""The stages that end only once a person has acted."""

_STATUSES: Final = {Stage.UNKNOWN: "Unknown"}


def nodes_up_to_date(view: View) -> Told:
    """Say whether every node is as the spec asks, and if not, the worst that is in the way."""
    return worst(_standing(view))


def _standing(view: View) -> Iterator[Told]:
    """Yield all that is true of the nodes, as NodesUpToDate says it."""
    tally = view.tally
    if tally.outstanding and view.pool.deleting:
        yield Told("False", Reason.RELEASING_NODES, "the pool is being deleted: see Deleting")
    if view.refusal:
        yield Told("False", Reason.SPEC_REJECTED, "the spec was not accepted: see Accepted")
    if tally.nodes == 0:
        none = none_of_ours(tally)
        yield replace(none, status="False") if view.is_owning_none else none
    behind = tuple(_behind(view))
    yield from behind
    if behind and view.missing_permission:
        yield Told("False", Reason.MISSING_PERMISSION, "a permission is missing: see Accepted")
    # Only where the mode is why: what waits for others would wait in mode Active too.
    if behind and view.mode in IDLE_MODES:
        would = f"with mode Active {worst(behind).message}"
        yield Told("False", IDLE_MODES[view.mode], f"{idle_message(view)}; {would}")
    yield from _told_at(tally, _FOR_OTHERS)
    yield Told(
        "True",
        Reason.UP_TO_DATE,
        f"{count_nodes(tally.nodes)} with the labels, taints and Windows of the spec",
    )


def idle_message(view: View) -> str:
    """Say that the mode keeps the operator from writing."""
    return f"mode is {view.mode}, so the operator writes nothing"


def _behind(view: View) -> Iterator[Told]:
    """Yield why nodes do not carry what the spec asks for."""
    if view.refused:
        yield Told("False", Reason.WRITE_REFUSED, refused_message(view.refused))
    if view.blind and (view.blind.of_all or not view.goes_on_with):
        yield Told("False", Reason.POD_LIST_FAILING, view.blind.message)
    yield from _told_at(view.tally, _TO_BE_DONE)


def _told_at(tally: Tally, stages: Iterable[Stage]) -> Iterator[Told]:
    """Yield what is to be said of the nodes at each of ``stages``; the rooms speak in their order."""
    for stage in stages:
        for each in tally.at(stage):
            said = each.said.format(nodes=count_nodes(len(each.nodes)))
            yield Told(_STATUSES.get(stage, "False"), each.reason, f"{said}: {enumerate_names(each.nodes)}")


def refused_message(refused: Sequence[str]) -> str:
    """Name the nodes that the API server does not let be changed."""
    return (
        f"the API server does not let {count_nodes(len(refused))} be changed, see issues: "
        f"{enumerate_names(refused)}"
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
        return overlap(tally)
    return Told("True", Reason.NO_NODES_SELECTED, NO_NODES)


def overlap(tally: Tally) -> Told:
    """Say that other pools own the nodes that the pool selects."""
    return Told(
        "True",
        Reason.POOL_OVERLAP,
        f"nodeSelector takes {count_nodes(tally.foreign)} of other pools, and the pool owns none; change the "
        "selectors of the pools so that they exclude each other",
    )


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
            return Told("True", Reason.WRITE_REFUSED, refused_message(tally.refused))
    elif not view.accepted:
        reason = view.refusal.reason if view.refusal else Reason.MISSING_PERMISSION
        return Told("True", reason, "the spec cannot be acted on: see Accepted")
    elif view.is_owning_none:
        return replace(none_of_ours(tally), status="True")
    elif view.mode is Mode.ACTIVE and not view.is_at_work:
        if view.is_stuck:
            return Told("True", Reason.WRITE_REFUSED, refused_message(tally.refused))
        if told := tuple(_told_at(tally, _FOR_A_PERSON)):
            return replace(worst(told), status="True")
        if view.blind and view.is_overdue:
            return Told("True", Reason.POD_LIST_FAILING, view.blind.message)
    return Told("False", Reason.NOT_STALLED, "nothing keeps the operator from going on")
