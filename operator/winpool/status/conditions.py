"""Makes the conditions of a pool, each a function of what was seen; the reason of Ready is the worst.

The table of what each status and reason means is ``tools/gen/condition_table.py``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date, datetime
from typing import Final

from winpool.api.conditions import STATES, ConditionType, Reason, see_condition
from winpool.api.issues import IssueReason
from winpool.api.spec import Mode, OnMismatch
from winpool.api.status import Condition
from winpool.features.feature import Stage
from winpool.features.memory.overview import Overview
from winpool.features.upgrade.gates.pool import max_unavailable
from winpool.model.pool import Pool
from winpool.model.pressure import Capabilities, Capability
from winpool.status.assessment import Tally, count_nodes, counted_nodes, of_all
from winpool.status.os_support import os_supported
from winpool.status.upgrade import upgrade_allowed
from winpool.status.view import (
    SEE_ACCEPTED,
    STATE_OF,
    ConditionValue,
    View,
    false,
    none_of_ours,
    owner_unknown,
    true,
    unknown,
    worst,
)

_IDLE_MODES: Final = {Mode.PAUSED: Reason.PAUSED, Mode.DRY_RUN: Reason.DRY_RUN}
"""The modes in which nothing is written, and what Ready says of them."""

_SEE_ALLOWED: Final = see_condition(ConditionType.UPGRADE_ALLOWED)
_SEE_DELETING: Final = see_condition(ConditionType.DELETING)


def conditions(view: View, *, now: datetime) -> tuple[Condition, ...]:
    """Return all conditions; a transition time moves only when the status of its condition does."""
    available, supported = _available(view), _os_supported(view, today=now.date())
    up_to_date, memory = worst(_nodes_up_to_date(view)), _memory_healthy(view)
    ready = worst(_true_of(view, available, up_to_date, supported, memory))
    reason = STATE_OF.get(ready.reason, ready.reason)
    values = {
        ConditionType.READY: ready._replace(status=STATES[reason], reason=reason),
        ConditionType.ACCEPTED: _accepted(view),
        ConditionType.AVAILABLE: available,
        ConditionType.NODES_UP_TO_DATE: up_to_date,
        ConditionType.OS_SUPPORTED: supported,
        ConditionType.UPGRADE_ALLOWED: upgrade_allowed(view),
        ConditionType.MEMORY_HEALTHY: memory,
        ConditionType.RECONCILING: _reconciling(view),
        ConditionType.STALLED: _stalled(view),
        ConditionType.PAUSED: _paused(view),
        ConditionType.DELETING: _deleting(view),
    }
    first: dict[str, ConditionType] = {}
    return tuple(
        _condition(view.pool, type_, value, _message(type_, value, view, first), now=now)
        for type_, value in values.items()
        if value is not None
    )


def _message(type_: ConditionType, value: ConditionValue, view: View, first: dict[str, ConditionType]) -> str:
    """Refer to the first condition with the same message: a person reads all conditions at once."""
    has_it = first.setdefault(value.message, type_)
    if has_it is type_:
        return value.message
    # One sentence, or several conditions would end with the same one.
    return f"{_in_short(type_, value.status, view)}: see the condition {has_it}."


_NOTHING_TO: Final = {
    ConditionType.NODES_UP_TO_DATE: "update",
    ConditionType.AVAILABLE: "wait for",
    ConditionType.OS_SUPPORTED: "judge",
    ConditionType.UPGRADE_ALLOWED: "upgrade",
    ConditionType.MEMORY_HEALTHY: "watch",
}


def _in_short(type_: ConditionType, status: str, view: View) -> str:
    tally = view.tally
    if not tally.nodes and (to := _NOTHING_TO.get(type_)):
        return f"There are no nodes to {to}"
    match type_:
        case ConditionType.STALLED:
            return "The operator waits for a person"
        case ConditionType.NODES_UP_TO_DATE:
            return f"{of_all(tally.up_to_date, tally.nodes)} up to date"
        case ConditionType.AVAILABLE:
            return f"{of_all(tally.available, tally.nodes)} available"
        case ConditionType.OS_SUPPORTED if status != "True":
            return f"At least one node is not {'' if status == 'False' else 'known to be '}supported"
        case _:
            return f"{type_} has the same cause"


def _condition(
    pool: Pool, type_: ConditionType, value: ConditionValue, message: str, *, now: datetime
) -> Condition:
    before = pool.status.condition(type_)
    is_same = before is not None and before.status == value.status
    return Condition.model_validate(
        {
            "type": type_,
            "status": value.status,
            "observedGeneration": pool.generation,
            "lastTransitionTime": before.last_transition_time if before and is_same else now,
            "reason": value.reason,
            "message": message,
        }
    )


def _true_of(
    view: View,
    available: ConditionValue,
    up_to_date: ConditionValue,
    supported: ConditionValue,
    memory: ConditionValue | None,
) -> Iterator[ConditionValue]:
    """Yield all that is true of the pool. The table of states has the order, and the status of Ready."""
    if view.pool.deleting:
        yield false(Reason.DELETING, "The pool is being deleted.")
    if reason := view.refusal and view.refusal.reason:
        named = "" if reason is Reason.SPEC_REJECTED else f" ({reason})"
        yield false(Reason.SPEC_REJECTED, f"The operator cannot act on the spec{named}. {SEE_ACCEPTED}")
    if view.missing_permission:
        yield false(Reason.MISSING_PERMISSION, f"The operator lacks a permission. {SEE_ACCEPTED}")
    if available.reason is Reason.TOO_FEW_AVAILABLE:
        yield available
    yield up_to_date
    if view.pool.spec and (idle := _IDLE_MODES.get(view.mode)) is not None:
        yield true(idle, _idle_message(view))
    if supported.status == "False" or supported.reason is Reason.BUILD_UNKNOWN:
        yield supported
    yield from _of_rollout(view)
    if IssueReason.PODS_UNREADABLE in view.found:
        said = "The operator cannot read some pods. See the issue PodsUnreadable."
        yield true(Reason.PODS_UNREADABLE, said)
    declared = view.pool.spec.reserved_memory if view.pool.spec else None
    is_tainting = declared is not None and declared.on_mismatch is OnMismatch.TAINT
    if is_tainting and IssueReason.RESERVED_MEMORY_MISMATCH in view.found:
        yield true(
            Reason.MEMORY_MISMATCH,
            "Some nodes do not reserve the memory that spec.reservedMemory declares, and have a taint for "
            "it. See the issue ReservedMemoryMismatch.",
        )
    # Unknown is no STATE: in a large pool some node is late.
    if memory is not None and memory.status == "False":
        see = see_condition(ConditionType.MEMORY_HEALTHY)
        yield true(memory.reason, f"Nodes are under memory pressure. {see}")


def _of_rollout(view: View) -> Iterator[ConditionValue]:
    yield from view.rollout.stalls
    if view.upgrades_nodes:
        yield true(Reason.UPGRADE_IN_PROGRESS, _upgrading(view))


def _accepted(view: View) -> ConditionValue:
    if view.refusal:
        return false(view.refusal.reason, view.refusal.message)
    if view.missing_permission:
        return false(Reason.MISSING_PERMISSION, view.missing_permission)
    return true(Reason.ACCEPTED, "The operator can act on the spec.")


MAX_UNAVAILABLE: Final = 1
"""Nodes that may always be missing before the pool counts as unavailable. Also where
``upgrade.maxUnavailable`` is 0: that stops upgrades, and is no promise that no machine fails."""

DEFAULT_MAX_UNAVAILABLE: Final = "10%"
"""The same where the spec says nothing of it: of a large pool some nodes are always being repaired."""


def _available(view: View) -> ConditionValue:
    tally = view.tally
    if tally.nodes == 0:
        return none_of_ours(tally)
    allowed = _may_be_missing(view.pool, tally.nodes)
    said = f"{of_all(tally.available, tally.nodes)} Ready and not cordoned."
    # One node that is down is all of a pool that has no other.
    if tally.available >= max(1, tally.nodes - allowed):
        return true(Reason.NODES_AVAILABLE, said)
    return false(Reason.TOO_FEW_AVAILABLE, f"{said} At most {allowed} may be missing.")


def _may_be_missing(pool: Pool, nodes: int) -> int:
    """Return how many ``maxUnavailable`` allows; a percentage rounds down, and one may always be."""
    upgrade = pool.spec.upgrade if pool.spec else None
    asked = upgrade.max_unavailable if upgrade else DEFAULT_MAX_UNAVAILABLE
    return max(MAX_UNAVAILABLE, max_unavailable(asked, nodes=nodes) or 0)


_TO_BE_DONE: Final = (Stage.WRITING, Stage.WAITING, Stage.HELD, Stage.TIMED_OUT, Stage.VALIDATING)
"""The stages on the way to the labels and taints of the spec."""

_FOR_OTHERS: Final = (Stage.ON_HOLD, Stage.DUE, Stage.UNKNOWN)
"""The stages of nodes that the operator does nothing about: someone holds them, or they have all that it
sets."""

_FOR_A_PERSON: Final = (Stage.HELD, Stage.TIMED_OUT)
"""The stages that end only once a person has acted."""


def _nodes_up_to_date(view: View) -> Iterator[ConditionValue]:
    """Yield all that is true of the nodes: NodesUpToDate says the worst of it."""
    tally = view.tally
    if tally.outstanding and view.pool.deleting:
        yield false(Reason.RELEASING_NODES, f"The nodes leave the pool. {_SEE_DELETING}")
    if view.refusal:
        said = f"The operator compares nodes only with an accepted spec. {SEE_ACCEPTED}"
        yield false(Reason.SPEC_REJECTED, said)
    if tally.unknown:
        yield owner_unknown(tally)
    if tally.nodes == 0:
        none = none_of_ours(tally)
        yield none._replace(status="False") if none.reason is Reason.POOL_OVERLAP else none
    behind = tuple(_behind(view))
    yield from behind
    if behind and view.missing_permission:
        said = f"The operator needs a permission to write to nodes. {SEE_ACCEPTED}"
        yield false(Reason.MISSING_PERMISSION, said)
    # Only where the mode is why: what waits for others would wait in mode Active too.
    if behind and view.mode in _IDLE_MODES:
        yield false(_IDLE_MODES[view.mode], f"{_idle_message(view)} {worst(behind).message}")
    for each in _at(tally, _FOR_OTHERS):
        is_ours = each.reason is Reason.WAITING_FOR_ACTOR and view.rollout.is_ours
        yield _by_operator(view) if is_ours else each
    nodes = count_nodes(tally.nodes)
    yield true(Reason.UP_TO_DATE, f"Labels, taints and Windows are as the spec asks on {nodes}.")


def _by_operator(view: View) -> ConditionValue:
    """Say of nodes that run another Windows whether the operator upgrades them now."""
    due = counted_nodes(view.tally.names_at(Stage.DUE))
    said = f"The release or revision of Windows on {due} is not what spec.os asks for."
    if view.upgrades_nodes:
        return false(Reason.UPGRADE_IN_PROGRESS, f"{said} {_SEE_ALLOWED}")
    return false(Reason.UPGRADE_DUE, f"{said} {_SEE_ALLOWED}")


def _upgrading(view: View) -> str:
    in_work = len(view.rollout.states)
    said = f"upgrades {count_nodes(in_work)}" if in_work else "is about to upgrade nodes"
    return f"The operator {said}. {_SEE_ALLOWED}"


def _idle_message(view: View) -> str:
    return f"spec.mode is {view.mode}, so the operator writes to no node."


def _behind(view: View) -> Iterator[ConditionValue]:
    """Yield why nodes do not carry what the spec asks for."""
    if view.refused:
        yield false(Reason.WRITE_REFUSED, _refused_message(view.refused))
    if view.blind and (view.blind.of_all or not view.goes_on_with):
        yield false(Reason.POD_LIST_FAILING, view.blind.message)
    yield from _at(view.tally, _TO_BE_DONE)


def _at(tally: Tally, stages: Iterable[Stage]) -> Iterator[ConditionValue]:
    """Yield what is to be said of the nodes at each of ``stages``; the features speak in their order."""
    for stage in stages:
        status = "Unknown" if stage is Stage.UNKNOWN else "False"
        for each in tally.at(stage):
            yield ConditionValue(status, each.reason, each.said.format(nodes=counted_nodes(each.nodes)))


def _refused_message(refused: Sequence[str]) -> str:
    said = f"The API server refuses to change {counted_nodes(refused)}."
    return f"{said} See the issue {IssueReason.WRITE_REFUSED}."


def _reconciling(view: View) -> ConditionValue:
    """Say whether the operator itself is at work, and will go on by itself."""
    tally = view.tally
    if view.pool.deleting:
        return true(Reason.RELEASING_NODES, _still("release", tally.outstanding))
    if not view.is_at_work:
        return false(Reason.SETTLED, "The operator has nothing to do, or may not do it now.")
    if view.upgrades_nodes:
        return true(Reason.UPGRADE_IN_PROGRESS, _upgrading(view))
    if view.blind and not view.goes_on_with:
        said = f"The operator tries again to list pods. See the issue {IssueReason.POD_LIST_FAILING}."
        return true(Reason.POD_LIST_FAILING, said)
    unwritten = {*tally.outstanding, *tally.awaiting_conditions, *tally.names_at(Stage.WAITING)}
    if not unwritten and (validating := tally.names_at(Stage.VALIDATING)):
        reason = tally.at(Stage.VALIDATING)[0].reason
        return true(reason, f"The operator validates {count_nodes(len(validating))}.")
    return true(Reason.ROLLOUT_IN_PROGRESS, _still("write to", unwritten))


def _still(what: str, nodes: Collection[str]) -> str:
    return f"The operator still has to {what} {count_nodes(len(nodes))}."


def _stalled(view: View) -> ConditionValue:
    """Say whether a person has to do something before the operator can go on."""
    tally = view.tally
    if view.pool.deleting:
        if view.is_stuck:
            said = f"The operator cannot release the last nodes. {_SEE_DELETING}"
            return true(Reason.WRITE_REFUSED, said)
    elif not view.accepted:
        reason = view.refusal.reason if view.refusal else Reason.MISSING_PERMISSION
        return true(reason, f"A person has to correct the spec or the permissions. {SEE_ACCEPTED}")
    elif tally.nodes == 0 and tally.foreign > 0 and tally.undecided == 0:
        return none_of_ours(tally)._replace(status="True")
    elif view.mode is Mode.ACTIVE and (found := tuple(_for_a_person(view))):
        return worst(found)._replace(status="True")
    return false(Reason.NOT_STALLED, "Nothing keeps the operator from continuing.")


def _for_a_person(view: View) -> Iterator[ConditionValue]:
    """Yield what only a person can end: of upgrades all, of other things where nothing else is left."""
    tally = view.tally
    yield from view.rollout.stalls
    if view.is_at_work:
        return
    if view.is_stuck:
        yield true(Reason.WRITE_REFUSED, _refused_message(tally.refused))
    yield from _at(tally, _FOR_A_PERSON)
    if view.blind and view.is_overdue:
        yield true(Reason.POD_LIST_FAILING, view.blind.message)
    if tally.ownerless and not tally.undecided:
        yield owner_unknown(tally)


def _os_supported(view: View, *, today: date) -> ConditionValue:
    if view.pool.deleting:
        said = "The operator judges no nodes of a pool that is being deleted."
        return unknown(Reason.RELEASING_NODES, said)
    if view.refusal:
        said = f"The operator judges nodes only by an accepted spec. {SEE_ACCEPTED}"
        return unknown(Reason.SPEC_REJECTED, said)
    if not view.groups:
        return none_of_ours(view.tally)
    return ConditionValue(*os_supported(view.groups, view.judged, today=today))


def _paused(view: View) -> ConditionValue:
    if view.pool.spec and view.mode is Mode.PAUSED:
        said = "The operator writes to no node until spec.mode is Active again."
        return true(Reason.PAUSED_BY_SPEC, said)
    return false(Reason.NOT_PAUSED, "spec.mode is not Paused.")


def _deleting(view: View) -> ConditionValue:
    if not view.pool.deleting:
        return false(Reason.NOT_DELETING, "No one has deleted the pool.")
    outstanding = view.tally.outstanding
    if not outstanding:
        return true(Reason.RELEASING_NODES, "The operator has released all nodes.")
    refused = f" {_refused_message(view.refused)}" if view.refused else ""
    said = f"Labels or taints of the pool are still on {counted_nodes(outstanding)}."
    return true(Reason.RELEASING_NODES, f"{said}{refused}")


def memory_capabilities(pool: Pool, known: Capabilities | None) -> str:
    """Return what the nodes of ``pool`` can tell; what the status says already, until that is ``known``."""
    if known is None:
        return pool.status.memory_capabilities or ""
    return (
        f"Of {count_nodes(known.nodes)}, these report the commit limit: {_number(known.commit_limit)}, the "
        f"commit of pods: {_number(known.pod_commit)}, paging: {_number(known.paging)}. Kubelets that evict "
        f"pods themselves: {_number(known.kubelet_eviction)}."
    )


def _number(of: Capability) -> str:
    return f"{of.have} (unknown: {of.unknown})" if of.unknown else str(of.have)


def _memory_healthy(view: View) -> ConditionValue | None:
    """Return what MemoryHealthy says; None where the spec does not ask for it."""
    spec, standing = view.pool.spec, view.pool.status.condition(ConditionType.MEMORY_HEALTHY)
    if spec is None:
        said = "The operator cannot read the spec, so it watches no memory."
        return unknown(Reason.SPEC_REJECTED, said) if standing else None
    if spec.memory_pressure is None:
        return None
    if view.memory is None:
        said = "The operator watches no memory for a pool that is being deleted."
        return unknown(Reason.RELEASING_NODES, said)
    if not view.memory.nodes:
        return none_of_ours(view.tally)
    was_healthy = standing is not None and standing.status == "True"
    value = _of_memory(view.memory, view.pressured, was_healthy=was_healthy)
    if view.mode not in _IDLE_MODES or not view.memory.marked:
        return value
    marked = counted_nodes(view.memory.marked)
    stays = f"spec.mode is {view.mode}: taint and condition stay as they are on {marked}."
    return value._replace(message=f"{value.message} {stays}")


def _of_memory(overview: Overview, pressured: int, *, was_healthy: bool) -> ConditionValue:
    silent, undecided = len(overview.silent), len(overview.undecided)
    under = f"{of_all(pressured, overview.nodes)} under memory pressure"
    if overview.is_systemic:
        missing = f", and {silent} {'gives' if silent == 1 else 'give'} no samples" if silent else ""
        return false(
            Reason.SYSTEMIC_PRESSURE,
            f"{under}{missing}. This is more than maxPressuredNodes ({overview.allowed}) allows. See the "
            f"issue {IssueReason.SYSTEMIC_PRESSURE}.",
        )
    if pressured:
        said = f"{under}. See the issue {IssueReason.MEMORY_PRESSURE}."
        return false(Reason.NODES_UNDER_PRESSURE, said)
    if silent:
        said = (
            f"The memory of {count_nodes(silent)} is not known. See the issue {IssueReason.MEMORY_UNKNOWN}."
        )
        return unknown(Reason.SAMPLES_MISSING, said)
    # Nodes join all the time, and a start is no news of a pool that was healthy.
    if undecided > overview.calm and not was_healthy:
        return unknown(Reason.SAMPLES_MISSING, "The operator waits for samples of most nodes.")
    return true(Reason.NO_PRESSURE, "No node is under memory pressure.")
