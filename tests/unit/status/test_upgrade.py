"""UpgradeAllowed: whether a node that is due may be upgraded and why not, the same while nothing changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from msgspec.structs import replace

from harness.builders import MINUTE, NOON, a_node, a_pool, a_snapshot, by_name, unreadable
from harness.conditions import is_listed
from harness.every import every
from harness.sentences import is_told_in_sentences
from harness.upgrade_views import (
    ASKED,
    DRY_RUN,
    HELD,
    NAMES,
    NOTHING_DUE,
    ONE_DUE,
    POOL_GATES,
    UNTIL,
    UPGRADE_WORLDS,
    UPGRADING,
    a_slot,
    an_overview,
    closed,
    decided,
    due,
    overridden,
    overviews,
    reported,
    told,
    upgrading,
)
from harness.writes import settled
from winpool.api.issues import IssueReason
from winpool.api.status import Condition, ControlPlaneSeen, SlotState
from winpool.api.upgrade import Gate, Trigger
from winpool.decide import Decision, decide
from winpool.features.feature import Finding
from winpool.features.upgrade.records import GateFinding, Stand, Stop, UpgradeOverview
from winpool.model.node import NodeMemory
from winpool.model.snapshot import Snapshot
from winpool.status.upgrade import LONGEST_MESSAGE, OF_GATES

DAY: Final = timedelta(days=1)


def allowed(decision: Decision) -> Condition:
    found = decision.status.condition("UpgradeAllowed")
    assert found
    return found


def said_of(overview: UpgradeOverview, **spec: Any) -> tuple[str, str, str]:
    """Return status, reason and message of UpgradeAllowed of a pool of which that is known."""
    found = allowed(decide(upgrading(**spec), told(overview)))
    return found.status, found.reason, found.message


def test_a_pool_without_the_block_has_no_such_condition() -> None:
    decision = decide(a_snapshot(a_pool(), [a_node()]), told(None))
    assert decision.status.condition("UpgradeAllowed") is None
    assert "history" not in decision.status.to_object()


@every(
    ("world", "status", "reason"),
    [
        ("upgrade allowed", "True", "UpgradeAllowed"),
        ("nothing due", "True", "NothingDue"),
        ("unknown whether due", "Unknown", "BuildUnknown"),
        ("upgrade of no nodes", "True", "NoNodesSelected"),
        ("upgrade of others' nodes", "True", "PoolOverlap"),
        ("upgrade of nobody's nodes", "Unknown", "OwnerUnknown"),
        ("upgrade of a deleted pool", "Unknown", "ReleasingNodes"),
        ("upgrade by a rejected spec", "False", "SpecRejected"),
        ("upgrade without a permission", "False", "MissingPermission"),
        ("upgrade paused", "False", "PausedBySpec"),
        ("upgrade in a dry run", "False", "DryRun"),
        ("pause requested", "False", "PauseRequested"),
        ("nodes gated", "False", "NodesGated"),
        *((f"{gate} closed", "False", gate.value) for gate in POOL_GATES),
    ],
)
def test_it_says_whether_an_upgrade_is_allowed_and_the_first_reason_why_not(
    world: str, status: str, reason: str
) -> None:
    found = allowed(decided(world))
    assert (found.status, found.reason) == (status, reason)


def test_all_worlds_are_in_the_table_above() -> None:
    assert len(UPGRADE_WORLDS) == 13 + len(POOL_GATES)
    assert tuple(OF_GATES) == POOL_GATES


def test_it_stands_between_the_support_and_the_memory_of_the_nodes() -> None:
    conditions = decide(upgrading(more={"memoryPressure": {}}), told(ONE_DUE)).status.conditions
    types = [each.type for each in conditions]
    assert types[4:7] == ["OSSupported", "UpgradeAllowed", "MemoryHealthy"]


def test_it_names_the_nodes_that_may_be_upgraded_and_says_what_keeps_the_others() -> None:
    images = closed(
        Gate.IMAGES,
        "Pods declare a build that does not run on the target.",
        "Rebuild their images for Windows Server 2022.",
    )
    overview = an_overview(due("w0"), due("w1", images), due("w2"), due("w3", images))
    assert said_of(overview) == (
        "True",
        "UpgradeAllowed",
        "Of 4 nodes that are due, 2 may be upgraded now: w0, w2. Images, on 2 nodes (w1, w3): Pods declare a "
        "build that does not run on the target. Rebuild their images for Windows Server 2022.",
    )


def test_one_closed_gate_of_the_pool_keeps_all_nodes() -> None:
    window = closed(
        Gate.MAINTENANCE_WINDOW,
        "No window is open.",
        "Wait until 2026-11-28T21:00:00Z, when the next one opens.",
    )
    assert said_of(an_overview(due("w1"), gates=[window])) == (
        "False",
        "MaintenanceWindow",
        "1 node is due for an upgrade, and none may be upgraded now. MaintenanceWindow: No window is open. "
        "Wait until 2026-11-28T21:00:00Z, when the next one opens.",
    )


def test_every_closed_gate_and_stop_is_listed_with_what_opens_it() -> None:
    gates = [closed(gate) for gate in POOL_GATES]
    overview = an_overview(
        due("w1", closed(Gate.IMAGES), stops=[HELD]), due("w2"), gates=gates, stops=(DRY_RUN, ASKED)
    )
    status, reason, message = said_of(overview)
    assert (status, reason) == ("False", "DryRun")
    names = ("DryRun:", "PauseRequested:", *POOL_GATES, "Held,", "Images,")
    places = [message.index(f" {name}") for name in names]
    assert places == sorted(places)
    causes: list[GateFinding | Stop] = [*gates, DRY_RUN, ASKED, HELD, closed(Gate.IMAGES)]
    for each in causes:
        assert f"{each.message} {each.opens}" in message


def test_it_names_the_nodes_whose_upgrade_has_begun() -> None:
    begun = (a_slot("w3", SlotState.BEGUN), a_slot("w4", SlotState.GONE))
    full = closed(Gate.BUDGET, "1 node is unavailable, as many as may be.", "Wait for it.")
    assert said_of(an_overview(due("w1"), due("w3"), gates=[full], slots=begun)) == (
        "False",
        "Budget",
        "2 nodes are due for an upgrade, and none may be upgraded now. The upgrade has begun on 2 nodes "
        "(w3, w4). Budget: 1 node is unavailable, as many as may be. Wait for it.",
    )
    assert said_of(an_overview(due("w1"), due("w3"), slots=(*begun, a_slot("w1")))) == (
        "True",
        "UpgradeAllowed",
        "Of 2 nodes that are due, 1 may be upgraded now: w1. The upgrade has begun on 2 nodes (w3, w4).",
    )


def test_nodes_that_wait_for_their_turn_wait_for_the_budget() -> None:
    assert said_of(an_overview(due("w1"), due("w3"), slots=[a_slot("w3", SlotState.BEGUN)])) == (
        "False",
        "Budget",
        "2 nodes are due for an upgrade, and none may be upgraded now. The upgrade has begun on 1 node (w3). "
        "1 node (w1) waits for its turn: spec.upgrade.maxUnavailable permits no more at a time.",
    )
    assert said_of(an_overview(due("w1"), due("w2"), due("w3"), slots=[a_slot("w3")])) == (
        "True",
        "UpgradeAllowed",
        "Of 3 nodes that are due, 1 may be upgraded now: w3. 2 nodes (w1, w2) wait for their turn: "
        "spec.upgrade.maxUnavailable permits no more at a time.",
    )


def test_a_slot_without_an_open_gate_permits_nothing() -> None:
    assert said_of(an_overview(due("w1", closed(Gate.IMAGES)), slots=[a_slot("w1")]))[:2] == (
        "False",
        "NodesGated",
    )


def test_of_several_closed_gates_the_first_is_the_reason() -> None:
    gates = [closed(Gate.BUDGET), closed(Gate.END_OF_SUPPORT), closed(Gate.CONTROL_PLANE)]
    assert said_of(an_overview(due("w1"), gates=gates))[1] == "EndOfSupport"


def test_a_gate_of_which_nothing_is_known_closes() -> None:
    unknown = GateFinding(Gate.CONTROL_PLANE, Stand.UNKNOWN, "The version is not known.", "Wait for it.")
    status, reason, message = said_of(an_overview(due("w1"), gates=[unknown]))
    assert (status, reason) == ("False", "ControlPlane")
    assert message.endswith("ControlPlane: The version is not known. Wait for it.")


def test_an_override_is_told_while_it_opens_its_gate() -> None:
    overview = an_overview(due("w1"), gates=[overridden(Gate.SUPPORT_MATRIX)])
    assert said_of(overview) == (
        "True",
        "UpgradeAllowed",
        "Of 1 node that is due, 1 may be upgraded now: w1. Overridden until "
        "2026-12-01T00:00:00Z, SupportMatrix. The check of SupportMatrix fails.",
    )


def test_a_spec_that_is_not_accepted_permits_nothing_also_where_nothing_is_due() -> None:
    snapshot = upgrading(more={"reservedMemory": {"systemReserved": "9Gi"}})
    small = [replace(node, memory=NodeMemory(16 * 2**30, 14 * 2**30)) for node in snapshot.nodes]
    found = allowed(decide(replace(snapshot, nodes=tuple(small)), told(NOTHING_DUE)))
    assert (found.status, found.reason, found.message) == (
        "False",
        "SpecRejected",
        "The operator permits no upgrade by a spec that is not accepted. See the condition Accepted.",
    )


def test_nothing_is_missing_while_nothing_is_due() -> None:
    snapshot, _ = UPGRADE_WORLDS["upgrade without a permission"]
    assert allowed(decide(snapshot(), told(NOTHING_DUE))).reason == "NothingDue"


# Texts that are long, and many


def test_a_long_text_is_cut_and_the_gates_after_it_are_still_named() -> None:
    long = "Word " * 1000 + "ends."
    overview = an_overview(
        *(due(name, closed(Gate.IMAGES, f"{name} {long}"), closed(Gate.CAPACITY, long)) for name in NAMES),
        gates=[closed(gate, long, long) for gate in POOL_GATES],
        stops=tuple(Stop("PauseRequested", f"Team {n} {long}", "Ask them.") for n in range(16)),
    )
    _, _, message = said_of(overview)
    assert len(message) <= 4096
    assert is_told_in_sentences(message)
    for gate in (*POOL_GATES, Gate.IMAGES, Gate.CAPACITY):
        assert gate in message
    assert message.index("There is more: ") <= LONGEST_MESSAGE


def test_a_gate_with_a_cause_for_each_node_leaves_room_for_the_others() -> None:
    nodes = [due(f"w{n:04}", closed(Gate.CAPACITY, f"Pod {n:04} fits nowhere.")) for n in range(2000)]
    overview = an_overview(*nodes, due("x1", closed(Gate.DISRUPTION_BUDGETS)), gates=[closed(Gate.BUDGET)])
    _, _, message = said_of(overview)
    causes = message.split(" Capacity, on ")[1:]
    assert [each.partition(":")[0] for each in causes] == [
        "1 node (w0000)",
        "1 node (w0001)",
        "1 node (w0002)",
        "1997 nodes (w0003, w0004, w0005 and 1994 more)",
    ]
    assert "Other causes. Run kubectl winpool why NODE." in causes[-1]
    assert " PodDisruptionBudgets, on 1 node (x1): " in message


@given(overviews())
def test_whatever_is_found_is_told_in_a_status_of_the_table(overview: UpgradeOverview) -> None:
    status, reason, message = said_of(overview)
    assert is_listed("UpgradeAllowed", status, reason)
    assert len(message) <= 4096
    assert is_told_in_sentences(message)
    assert (status == "True") == (bool(overview.permitted) or not (overview.due or overview.unknown))
    assert (reason == "UpgradeAllowed") == bool(overview.permitted)
    if overview.due and not overview.permitted:
        assert status == "False"
        assert all(gate.gate in message for gate in overview.closed)
        assert all(gate.gate in message for node in overview.due for gate in node.closed)


# Over time


def statuses(overviews: Sequence[UpgradeOverview], *, findings: Sequence[Finding] = ()) -> list[Any]:
    """Return the statuses that a pool has, one for each minute."""
    snapshot, found = upgrading(), []
    for minute, overview in enumerate(overviews):
        snapshot = reported(replace(snapshot, now=NOON + minute * MINUTE), overview, findings=findings)
        found.append(snapshot.pool.status)
    return found


def test_nothing_is_written_while_nothing_changes_however_long() -> None:
    overview = an_overview(
        due("w1", closed(Gate.IMAGES)),
        due("w2"),
        gates=[closed(Gate.MAINTENANCE_WINDOW), overridden(Gate.SUPPORT_MATRIX)],
        in_force=(overridden(Gate.SUPPORT_MATRIX).override,),
    )
    first, *later = statuses([overview] * 60)
    assert all(each == first for each in later)
    snapshot = reported(upgrading(), overview)
    for days in (1, 30, 365):
        again = replace(snapshot, now=NOON + days * DAY)
        assert reported(again, overview).pool.status.to_object() == snapshot.pool.status.to_object()
        assert decide(again, told(overview)).pool_events == ()


def test_each_change_is_one_write() -> None:
    window = [closed(Gate.MAINTENANCE_WINDOW)]
    story = [NOTHING_DUE, an_overview(due("w1"), gates=window), ONE_DUE, an_overview(due("w1"), due("w2"))]
    found = statuses([each for overview in story for each in (overview, overview, overview)])
    changes = [number for number in range(1, len(found)) if found[number] != found[number - 1]]
    assert changes == [3, 6, 9]


@given(overviews())
def test_a_status_that_is_reported_again_is_the_same(overview: UpgradeOverview) -> None:
    once = reported(upgrading(), overview)
    later = replace(once, now=NOON + DAY)
    decision = decide(later, told(overview))
    assert decision.status == once.pool.status
    assert decision.pool_events == ()


def test_the_transition_time_moves_with_the_status_and_not_with_the_gate_that_is_closed() -> None:
    story = [
        an_overview(due("w1"), gates=[closed(Gate.BUDGET)]),
        an_overview(due("w1"), gates=[closed(Gate.POOL_HEALTH)]),
        ONE_DUE,
    ]
    times = [each.condition("UpgradeAllowed").last_transition_time - NOON for each in statuses(story)]
    assert times == [timedelta(), timedelta(), 2 * MINUTE]


def test_since_when_the_control_plane_has_its_version_is_in_the_status_and_stays() -> None:
    seen = ControlPlaneSeen(version="v1.36.3", since=NOON - DAY)
    before = reported(upgrading(), replace(ONE_DUE, control_plane=seen))
    assert before.pool.status.control_plane == seen
    assert reported(before, replace(ONE_DUE, control_plane=seen)).pool.status == before.pool.status
    assert decide(before, told(ONE_DUE)).status.control_plane is None
    broken = replace(before, pool=unreadable(before.pool))
    assert decide(broken, told(None)).status.control_plane == seen, "an edit restarts no clock"
    bare = replace(before, pool=replace(before.pool, spec=a_pool().spec))
    assert decide(bare, told(None)).status.control_plane is None


# What it leaves as it is


def test_a_node_that_is_due_for_other_reasons_than_windows_is_up_to_date() -> None:
    """A request asks for a restart, and says nothing of the Windows that runs there."""
    triggers = (Trigger.REQUEST, Trigger.RESERVED_MEMORY, Trigger.KUBELET_SKEW)
    decision = decide(upgrading(), told(an_overview(due("w1", triggers=triggers))))
    for kind in ("Ready", "NodesUpToDate"):
        found = decision.status.condition(kind)
        assert found
        assert (found.status, found.reason) == ("True", "UpToDate")
    assert decision.status.up_to_date_nodes == len(NAMES)


@pytest.mark.parametrize("more", [{}, UPGRADING], ids=["without upgrade", "with upgrade"])
def test_nodes_that_are_due_for_windows_wait_for_an_actor(more: dict[str, Any]) -> None:
    pool = a_pool(more={"os": {"version": "2022", "targetRevision": 5000}, **more})
    overview = an_overview(*map(due, NAMES)) if more else None
    pool, nodes = settled(pool, by_name(*map(a_node, NAMES)), features=told(overview))
    status = decide(a_snapshot(pool, nodes), told(overview)).status
    ready, up_to_date = status.condition("Ready"), status.condition("NodesUpToDate")
    assert ready
    assert up_to_date
    assert (ready.status, ready.reason) == ("True", "UpgradeDue")
    assert (up_to_date.status, up_to_date.reason) == ("False", "WaitingForActor")
    reconciling = status.condition("Reconciling")
    assert reconciling
    assert reconciling.status == "False"


@every(
    ("asked", "sick", "available"),
    [
        (1, 1, "True"),
        (1, 2, "False"),
        (3, 3, "True"),
        (3, 4, "False"),
        (100, 5, "True"),
        (100, 6, "False"),
        ("50%", 3, "True"),
        ("50%", 4, "False"),
        ("40%", 2, "True"),
        ("40%", 3, "False"),
        ("1%", 1, "True"),
        ("0%", 1, "True"),
        (0, 1, "True"),
        (0, 2, "False"),
    ],
)
def test_as_many_nodes_may_be_missing_as_the_budget_says(asked: int | str, sick: int, available: str) -> None:
    nodes = [a_node(name, ready="False" if number < sick else "True") for number, name in enumerate(NAMES)]
    pool, listed = settled(
        a_pool(more={"upgrade": {"maxUnavailable": asked}}), by_name(*nodes), features=told(NOTHING_DUE)
    )
    found = decide(a_snapshot(pool, listed), told(NOTHING_DUE)).status.condition("Available")
    assert found
    assert found.status == available


def test_issues_of_upgrades_do_not_hide_what_is_worse() -> None:
    order = list(IssueReason)
    for worse in (IssueReason.WRITE_REFUSED, IssueReason.BUILD_UNSUPPORTED, IssueReason.MEMORY_UNKNOWN):
        assert order.index(worse) < order.index(IssueReason.GATE_CLOSED)


def at(snapshot: Snapshot, minutes: int) -> Snapshot:
    return replace(snapshot, now=NOON + minutes * MINUTE)


def test_an_override_that_is_told_names_its_end_and_not_how_long_it_lasts() -> None:
    overview = an_overview(due("w1"), gates=[overridden(Gate.POOL_HEALTH, UNTIL)])
    first = allowed(decide(at(upgrading(), 0), told(overview)))
    assert allowed(decide(at(upgrading(), 90), told(overview))).message == first.message
