"""How far the nodes of a pool are from what its spec asks, and who has to do something about it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from winpool.api.conditions import ConditionType, Reason, see_condition
from winpool.api.issues import IssueReason
from winpool.api.v1alpha1 import Mode
from winpool.report.tally import count_nodes, counted_nodes
from winpool.report.view import IDLE_MODES, Told, worst
from winpool.rooms import Stage

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from winpool.report.tally import Tally
    from winpool.report.view import View

NO_NODES: Final = "No Windows node has the labels that nodeSelector asks for."

SEE_ACCEPTED: Final = see_condition(ConditionType.ACCEPTED)
_SEE_DELETING: Final = see_condition(ConditionType.DELETING)

_TO_BE_DONE: Final = (Stage.WRITING, Stage.WAITING, Stage.HELD, Stage.TIMED_OUT, Stage.VALIDATING)
"""The stages on the way to the labels and taints of the spec."""

_FOR_OTHERS: Final = (Stage.ON_HOLD, Stage.DUE, Stage.UNKNOWN)
"""The stages of nodes that the operator does nothing about: someone holds them, or they have all that it
sets."""

_FOR_A_PERSON: Final = (Stage.HELD, Stage.TIMED_OUT)
"""The stages that end only once a person has acted."""

_SEE_POD_LIST: Final = f"See the issue {IssueReason.POD_LIST_FAILING}."

_STATUSES: Final = {Stage.UNKNOWN: "Unknown"}


def nodes_up_to_date(view: View) -> Told:
    """Say whether every node is as the spec asks, and if not, the worst that is in the way."""
    return worst(_standing(view))


def _standing(view: View) -> Iterator[Told]:
    """Yield all that is true of the nodes, as NodesUpToDate says it."""
    tally = view.tally
    if tally.outstanding and view.pool.deleting:
        yield Told("False", Reason.RELEASING_NODES, f"The nodes leave the pool. {_SEE_DELETING}")
    if view.refusal:
        said = f"The operator compares nodes only with an accepted spec. {SEE_ACCEPTED}"
        yield Told("False", Reason.SPEC_REJECTED, said)
    if tally.unknown:
        yield owner_unknown(tally)
    if tally.nodes == 0:
        none = none_of_ours(tally)
        yield replace(none, status="False") if none.reason is Reason.POOL_OVERLAP else none
    behind = tuple(_behind(view))
    yield from behind
    if behind and view.missing_permission:
        yield Told(
            "False",
            Reason.MISSING_PERMISSION,
            f"The operator needs a permission to write to nodes. {SEE_ACCEPTED}",
        )
    # Only where the mode is why: what waits for others would wait in mode Active too.
    if behind and view.mode in IDLE_MODES:
        yield Told("False", IDLE_MODES[view.mode], f"{idle_message(view)} {worst(behind).message}")
    yield from _told_at(tally, _FOR_OTHERS)
    yield Told(
        "True",
        Reason.UP_TO_DATE,
        f"Labels, taints and Windows are as the spec asks on {count_nodes(tally.nodes)}.",
    )


def idle_message(view: View) -> str:
    """Say that the mode keeps the operator from writing."""
    return f"spec.mode is {view.mode}, so the operator writes to no node."


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
            said = each.said.format(nodes=counted_nodes(each.nodes))
            yield Told(_STATUSES.get(stage, "False"), each.reason, said)


def refused_message(refused: Sequence[str]) -> str:
    """Name the nodes that the API server does not let be changed."""
    said = f"The API server refuses to change {counted_nodes(refused)}."
    return f"{said} See the issue {IssueReason.WRITE_REFUSED}."


def none_of_ours(tally: Tally) -> Told:
    """Say why the pool has no nodes: the worst that is true."""
    if tally.foreign:
        return overlap(tally)
    if tally.unknown:
        return owner_unknown(tally)
    return Told("True", Reason.NO_NODES_SELECTED, NO_NODES)


def owner_unknown(tally: Tally) -> Told:
    """Say that the owner of nodes that the pool selects is not known."""
    return Told(
        "Unknown",
        Reason.OWNER_UNKNOWN,
        f"nodeSelector selects {count_nodes(tally.unknown)} with the ownership record of a pool that the "
        f"operator does not know. See the issue {IssueReason.OWNER_UNKNOWN}.",
    )


def overlap(tally: Tally) -> Told:
    """Say that other pools own the nodes that the pool selects."""
    return Told(
        "True",
        Reason.POOL_OVERLAP,
        f"nodeSelector selects {count_nodes(tally.foreign)} of other pools, and the pool owns none. Change "
        "the selectors of the pools so that they exclude each other.",
    )


def reconciling(view: View) -> Told:
    """Say whether the operator itself is at work, and will go on by itself."""
    tally = view.tally
    if view.pool.deleting:
        return Told("True", Reason.RELEASING_NODES, _still("release", tally.outstanding))
    if not view.is_at_work:
        return Told("False", Reason.SETTLED, "The operator has nothing to do, or may not do it now.")
    if view.blind and not view.goes_on_with:
        return Told(
            "True", Reason.POD_LIST_FAILING, f"The operator tries again to list pods. {_SEE_POD_LIST}"
        )
    unwritten = {*tally.outstanding, *tally.awaiting_conditions, *tally.names_at(Stage.WAITING)}
    if not unwritten and (validating := tally.names_at(Stage.VALIDATING)):
        reason = tally.at(Stage.VALIDATING)[0].reason
        return Told("True", reason, f"The operator validates {count_nodes(len(validating))}.")
    return Told("True", Reason.ROLLOUT_IN_PROGRESS, _still("write to", unwritten))


def _still(what: str, nodes: Collection[str]) -> str:
    return f"The operator still has to {what} {count_nodes(len(nodes))}."


def stalled(view: View) -> Told:
    """Say whether a person has to do something before the operator can go on."""
    tally = view.tally
    if view.pool.deleting:
        if view.is_stuck:
            said = f"The operator cannot release the last nodes. {_SEE_DELETING}"
            return Told("True", Reason.WRITE_REFUSED, said)
    elif not view.accepted:
        reason = view.refusal.reason if view.refusal else Reason.MISSING_PERMISSION
        return Told("True", reason, f"A person has to correct the spec or the permissions. {SEE_ACCEPTED}")
    elif view.is_owning_none:
        return replace(none_of_ours(tally), status="True")
    elif view.mode is Mode.ACTIVE and not view.is_at_work:
        if view.is_stuck:
            return Told("True", Reason.WRITE_REFUSED, refused_message(tally.refused))
        if told := tuple(_told_at(tally, _FOR_A_PERSON)):
            return replace(worst(told), status="True")
        if view.blind and view.is_overdue:
            return Told("True", Reason.POD_LIST_FAILING, view.blind.message)
        if tally.ownerless and not tally.undecided:
            return replace(owner_unknown(tally), status="True")
    return Told("False", Reason.NOT_STALLED, "Nothing keeps the operator from continuing.")
