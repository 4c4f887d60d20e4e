"""Makes the condition UpgradeAllowed: whether a node that is due may be upgraded now, and what opens that.

Programs that upgrade nodes wait for it. So it says the same as long as nothing changes: no ages, no time that
is left, only times of the clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from winpool.api.conditions import ConditionType, Reason
from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.api.status import ControlPlaneSeen, Slot
from winpool.api.text import enumerate_names, written_moment
from winpool.api.upgrade import Gate
from winpool.features.feature import FeatureResult
from winpool.features.upgrade.gates.table import POOL_GATES
from winpool.features.upgrade.records import (
    CAPPED,
    MOST_UNHEALTHY,
    NodeUpgrade,
    Stand,
    UpgradeOverview,
    UpgradeResult,
)
from winpool.status.assessment import count_nodes, counted_nodes
from winpool.status.view import (
    SEE_ACCEPTED,
    ConditionValue,
    RolloutProgress,
    View,
    false,
    none_of_ours,
    true,
    unknown,
)

LONGEST_MESSAGE: Final = 3800
"""Characters of a message: the API keeps 4096 of it, and the last sentence names what is left out."""

LONGEST_CAUSE: Final = 400
"""Characters that one gate may use of it. Some of its words are a person's: a reason of a pause, for one."""

MOST_CAUSES: Final = 3
"""Causes of one gate that is judged node by node: nodes can have one each, and other gates need feature."""

OF_GATES: Final = {each.gate: Reason(each.gate) for each in POOL_GATES}
"""The gates that are judged once for the pool, and the reason where one is the first that is closed."""

OF_STOPS: Final = {
    "NotAccepted": Reason.SPEC_REJECTED,
    "MissingPermission": Reason.MISSING_PERMISSION,
    "PausedBySpec": Reason.PAUSED_BY_SPEC,
    "DryRun": Reason.DRY_RUN,
    "PauseRequested": Reason.PAUSE_REQUESTED,
}
"""What else stops the pool as a whole. It comes before the gates."""


def upgrades_of(results: Iterable[FeatureResult]) -> UpgradeOverview | None:
    """Return what the feature of upgrades has found; None without ``spec.upgrade``."""
    return next((each.overview for each in results if isinstance(each, UpgradeResult)), None)


def control_plane_of(view: View) -> ControlPlaneSeen | None:
    """Return since when the version of the control plane is what it is; None without ``spec.upgrade``.

    It stays while the spec cannot be read: an edit that goes wrong restarts no clock (P8).
    """
    if view.upgrades is not None:
        return view.upgrades.control_plane
    return view.pool.status.control_plane if view.pool.spec is None else None


def slots_in(view: View, results: Iterable[FeatureResult]) -> tuple[Slot, ...]:
    """Return the slots of the pool. They stay while the spec cannot be read, and no node is permitted."""
    if view.upgrades is not None:
        return view.upgrades.slots
    if view.pool.spec is None:
        return () if view.pool.deleting else view.pool.status.slots
    return next((each.slots for each in results if isinstance(each, UpgradeResult)), ())


def upgrade_allowed(view: View) -> ConditionValue | None:
    """Return what UpgradeAllowed says; None where the spec does not ask for it."""
    spec = view.pool.spec
    if spec is None:
        standing = view.pool.status.condition(ConditionType.UPGRADE_ALLOWED)
        return _not_accepted() if standing else None
    if spec.upgrade is None:
        return None
    if view.pool.deleting:
        said = "The operator judges no gates for a pool that is being deleted."
        return unknown(Reason.RELEASING_NODES, said)
    if view.refusal:
        return _not_accepted()
    if view.upgrades is None:
        return None
    if not view.tally.nodes:
        return none_of_ours(view.tally)
    if view.missing_permission and view.upgrades.due:
        said = f"The operator permits no upgrade while it lacks a permission. {SEE_ACCEPTED}"
        return false(Reason.MISSING_PERMISSION, said)
    if view.rollout.is_ours and view.upgrades.due:
        return _of_rollout(view.upgrades, view.rollout)
    found = _of(view.upgrades)
    return found._replace(message=f"{view.rollout.said} {found.message}".lstrip())


def _of_rollout(overview: UpgradeOverview, rollout: RolloutProgress) -> ConditionValue:
    """Say which nodes the operator upgrades, and why no other one begins."""
    waiting = [each.node.name for each in overview.due if each.node.name not in rollout.states]
    said = rollout.said
    if not waiting:
        return true(Reason.UPGRADE_ALLOWED, _message(f"{said} No other node is due.", overview))
    are = "is" if len(waiting) == 1 else "are"
    head = f"{said} {counted_nodes(waiting)} {are} due for an upgrade".lstrip()
    may_follow = [each.node.name for each in overview.open_nodes if each.node.name not in rollout.states]
    if not (rollout.states or may_follow):
        return false(_reason(overview), _message(f"{head}, and none may begin now.", overview))
    if not overview.is_open:
        return false(_reason(overview), _message(f"{head}, and no other may begin now.", overview))
    if len(rollout.unhealthy) >= MOST_UNHEALTHY:
        return false(Reason.POOL_HEALTH, _message(f"{head}. {rollout.why_no_more}", overview))
    if may_follow:
        wait = "waits for its turn" if len(may_follow) == 1 else "wait for their turn"
        why = rollout.why_no_more or ("" if rollout.next_nodes else _NOT_NOW)
        head = f"{head}. {enumerate_names(may_follow)} {wait}. {why}".rstrip()
        return true(Reason.UPGRADE_ALLOWED, _message(head, overview))
    return true(Reason.UPGRADE_ALLOWED, _message(f"{head}.", overview))


_NOT_NOW: Final = (
    "Under the strategy OnRequest the operator waits for the annotation "
    f"{UPGRADE_REQUESTED_ANNOTATION}, and at nodes whose pods could not be drained it looks again after "
    "some minutes."
)


def _not_accepted() -> ConditionValue:
    said = f"The operator permits no upgrade by a spec that is not accepted. {SEE_ACCEPTED}"
    return false(Reason.SPEC_REJECTED, said)


def _of(overview: UpgradeOverview) -> ConditionValue:
    due, permitted = len(overview.due), overview.permitted
    if not due and overview.unknown:
        return unknown(
            Reason.BUILD_UNKNOWN,
            f"No node is known to be due for an upgrade, and of {count_nodes(len(overview.unknown))} it is "
            f"not known. See the issue {IssueReason.BUILD_UNKNOWN}.",
        )
    if not due:
        return true(Reason.NOTHING_DUE, "No node is due for an upgrade.")
    are = "is" if due == 1 else "are"
    if permitted:
        said = f"Of {count_nodes(due)} that {are} due, {len(permitted)} may be upgraded now"
        head = f"{said}: {enumerate_names(permitted)}."
        return true(Reason.UPGRADE_ALLOWED, _message(f"{head}{_slots(overview)}", overview))
    head = f"{count_nodes(due)} {are} due for an upgrade, and none may be upgraded now."
    return false(_reason(overview), _message(f"{head}{_slots(overview)}", overview))


def _slots(overview: UpgradeOverview) -> str:
    """Say which upgrades have begun, and which nodes wait for their turn."""
    begun = [each.node for each in overview.in_work]
    said = f" The upgrade has begun on {counted_nodes(begun)}." if begun else ""
    has_turn = {*begun, *overview.permitted}
    waiting = [each.node.name for each in overview.open_nodes if each.node.name not in has_turn]
    if not waiting:
        return said
    wait = "waits for its" if len(waiting) == 1 else "wait for their"
    why = CAPPED if overview.is_capped else "spec.upgrade.maxUnavailable permits no more at a time."
    return f"{said} {counted_nodes(waiting)} {wait} turn: {why}"


def _reason(overview: UpgradeOverview) -> Reason:
    for stop in overview.stops:
        return OF_STOPS.get(stop.name, Reason.NODES_GATED)
    for gate in overview.closed:
        return OF_GATES.get(gate.gate, Reason.NODES_GATED)
    return Reason.BUDGET if overview.open_nodes else Reason.NODES_GATED


def _message(head: str, overview: UpgradeOverview) -> str:
    """Return ``head`` with every cause that there is room for, and the names of the others."""
    said = head
    left: list[str] = []
    for name, cause in _causes(overview):
        clipped = cause if len(cause) <= LONGEST_CAUSE else f"{cause[: LONGEST_CAUSE - 1]}…"
        if left or len(said) + len(clipped) > LONGEST_MESSAGE:
            left.append(name)
        else:
            said = f"{said} {clipped}"
    others = list(dict.fromkeys(left))
    return f"{said} There is more: {', '.join(others)}." if others else said


def _causes(overview: UpgradeOverview) -> Iterator[tuple[str, str]]:
    """Yield the name of each gate and stop that is in the way, with what it says."""
    for stop in overview.stops:
        yield stop.name, f"{stop.name}: {stop.message} {stop.opens}".rstrip()
    for gate in overview.closed:
        yield gate.gate, f"{gate.gate}: {gate.message} {gate.opens}".rstrip()
    for gate in overview.gates:
        if gate.override is not None and gate.stand is not Stand.OPEN:
            until = written_moment(gate.override.until)
            yield gate.gate, f"Overridden until {until}, {gate.gate}. {gate.message}"
    for (_, name), causes in sorted(_of_nodes(overview.due).items()):
        ordered = sorted(causes)
        for cause in ordered[:MOST_CAUSES]:
            yield name, f"{name}, on {counted_nodes(sorted(causes[cause]))}: {cause}"
        if more := sorted({node for cause in ordered[MOST_CAUSES:] for node in causes[cause]}):
            yield name, f"{name}, on {counted_nodes(more)}: Other causes. Run kubectl winpool why NODE."


def _of_nodes(due: Iterable[NodeUpgrade]) -> dict[tuple[int, str], dict[str, list[str]]]:
    """Return what keeps nodes and is their own, by place and name, and by its text the nodes.

    Stops come first, then gates in their order.
    """
    found: defaultdict[tuple[int, str], dict[str, list[str]]] = defaultdict(dict)
    for each in due:
        name = each.node.name
        for stop in each.stops:
            found[-1, stop.name].setdefault(f"{stop.message} {stop.opens}", []).append(name)
        for gate in each.closed:
            place = PLACES[gate.gate]
            found[place, gate.gate].setdefault(f"{gate.message} {gate.opens}", []).append(name)
    return found


PLACES: Final = {gate.value: place for place, gate in enumerate(Gate)}
"""The order in which gates are reported."""
