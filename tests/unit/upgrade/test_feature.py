"""What the feature wants of the label, whatever may be done, and when it asks for a pass again."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON, a_pool, a_record, unreadable
from harness.gate_scenes import SCENES, GateScenes, blocked
from harness.upgrade_feature import (
    DAY,
    HOUR,
    due_node,
    overview_of,
    passed,
    settled_node,
    settled_nodes,
    upgrade_pool,
    upgrade_snapshot,
    wishes,
)
from winpool.api.issues import IssueReason
from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.text import written_moment
from winpool.api.upgrade import UpgradeState
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.gates.table import NODE_GATES
from winpool.features.upgrade.records import NO_UPGRADES
from winpool.model.node import Node
from winpool.model.pods import BlockedBy
from winpool.model.pool import Pool
from winpool.ownership.desired import KEEP

SECOND = timedelta(seconds=1)
AS_ASKED = {"version": "2022"}
STOPPED = (AllowedActions.NOTHING, AllowedActions.FINISH)
ALL = {"maxUnavailable": "100%"}
PAUSE = {"pauseRequests": [{"owner": "sre", "reason": "incident 4711"}]}
OWN_GATES = [each for each in SCENES if each.gate in {gate.gate for gate in NODE_GATES}]


def held(name: str = "w1", *, until: str = "", **more: Any) -> Node:
    return settled_node(name, annotations={HOLD_ANNOTATION: until}, **more)


def test_a_pool_without_the_block_wants_no_label() -> None:
    snapshot = upgrade_snapshot(a_pool(), settled_nodes(state="Required"))
    assert passed(snapshot) is NO_UPGRADES


def test_a_pool_that_is_deleted_wants_no_label() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(state="Required"))
    assert passed(snapshot, AllowedActions.RELEASE) == NO_UPGRADES


def test_a_node_that_is_due_may_be_upgraded_where_nothing_is_against_it() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(ALL), settled_nodes())
    assert wishes(snapshot) == dict.fromkeys(("w1", "w2", "w3"), "Required")
    assert overview_of(snapshot).permitted == ("w1", "w2", "w3")


def test_as_many_nodes_may_be_upgraded_as_may_be_unavailable() -> None:
    snapshot = upgrade_snapshot(upgrade_pool({"maxUnavailable": 2}), settled_nodes())
    assert wishes(snapshot) == {"w1": "Required", "w2": "Required", "w3": "Gated"}
    assert overview_of(snapshot).permitted == ("w1", "w2")


def test_a_slot_that_is_not_written_permits_nothing() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(ALL), settled_nodes())
    found = passed(snapshot)
    assert found.overview is not None
    assert {each.node for each in found.overview.slots} == {"w1", "w2", "w3"}
    assert {each.labels[UPGRADE_STATE_LABEL] for each in found.desired.values()} == {"Gated"}


def test_a_node_of_another_pool_is_no_concern() -> None:
    nodes = [settled_node("w1"), settled_node("w2", annotations=a_record("another-pool"))]
    assert wishes(upgrade_snapshot(upgrade_pool(), nodes)) == {"w1": "Required", "w2": ""}


def test_one_node_that_is_blocked_keeps_no_other_from_being_upgraded() -> None:
    nodes = [settled_node("w1", kubelet="v1.37.0"), settled_node("w2")]
    assert wishes(upgrade_snapshot(upgrade_pool(), nodes)) == {"w1": "Gated", "w2": "Required"}


@pytest.mark.parametrize("state", ["Required", "Gated", "UpToDate", "Failed", "gibberish", None])
def test_a_label_that_someone_else_has_set_gives_nothing(state: str | None) -> None:
    """A kubelet may set any label on its own node where no guard is in force."""
    forged = settled_node("w1", state=state)
    closed = upgrade_pool({"maxUnavailable": 0})
    assert wishes(upgrade_snapshot(closed, [forged])) == {"w1": "Gated"}
    assert wishes(upgrade_snapshot(upgrade_pool(os=AS_ASKED), [forged])) == {"w1": "UpToDate"}
    assert wishes(upgrade_snapshot(upgrade_pool(ALL), [settled_node("w2"), forged])).get(
        "w2"
    ) == "Required" or (state == "Failed"), (
        "and takes nothing from others, but that a failed node closes PoolHealth"
    )


# A node that is in work


CORDONED: dict[str, Any] = {"unschedulable": True}


@pytest.mark.parametrize("change", [CORDONED, {"ready": "False"}, {"ready": "Unknown"}, {"deleting": True}])
def test_a_node_keeps_its_permission_while_it_is_upgraded(change: dict[str, Any]) -> None:
    """Its own cordon uses up the budget: for all others, and not in the middle of its upgrade."""
    nodes = [settled_node("w1", state="Required", **change), settled_node("w2", state="Required")]
    snapshot = upgrade_snapshot(upgrade_pool(), nodes)
    assert wishes(snapshot) == {"w1": "Required", "w2": "Gated"}
    assert overview_of(snapshot).permitted == (), "no other node may be begun with"
    assert passed(snapshot).findings == (), "which is as it should be"


@pytest.mark.parametrize("state", ["Gated", "UpToDate", None])
def test_a_node_that_is_unavailable_gets_no_permission_by_that(state: str | None) -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), [settled_node(state=state, **CORDONED), settled_node("w2")])
    assert wishes(snapshot) == {"w1": "Gated", "w2": "Gated"}


@pytest.mark.parametrize(
    ("unavailable", "budget", "wish"),
    [
        (1, 1, "Required"),
        (2, 1, "Required"),
        (2, 2, "Required"),
        (3, 2, "Required"),
        (1, 0, "Gated"),
        (1, "0%", "Gated"),
    ],
)
def test_the_permission_is_kept_unless_the_budget_stops_all_upgrades(
    unavailable: int, budget: int | str, wish: str
) -> None:
    nodes = [settled_node("w1", state="Required", **CORDONED), settled_node("w9")]
    nodes += [settled_node(f"w{place}", **CORDONED) for place in range(2, unavailable + 1)]
    wished = wishes(upgrade_snapshot(upgrade_pool({"maxUnavailable": budget}), nodes))
    assert wished.pop("w1") == wish
    assert set(wished.values()) == ({"Gated", "Required"} if (unavailable, budget) == (1, 2) else {"Gated"})


@pytest.mark.parametrize(
    ("upgrade", "seen"),
    [
        (PAUSE, {}),
        ({}, {"settled": None}),
        ({}, {"workloads": {"w1": blocked(BlockedBy.NONE_ALLOWED)}}),
        ({"maintenanceWindows": [{"schedule": "0 22 * * *", "durationSeconds": 60}]}, {}),
    ],
    ids=["a pause", "an unknown gate", "a gate of the node", "the end of the window"],
)
def test_whatever_else_closes_withdraws_it(upgrade: dict[str, Any], seen: dict[str, Any]) -> None:
    nodes = [settled_node("w1", state="Required", **CORDONED)]
    assert wishes(upgrade_snapshot(upgrade_pool(upgrade), nodes, **seen)) == {"w1": "Gated"}


# Stops


@pytest.mark.parametrize("allowed", STOPPED)
def test_where_nothing_may_be_written_only_a_permission_is_withdrawn(allowed: AllowedActions) -> None:
    nodes = [
        settled_node("w1", state="Required"),
        settled_node("w2", state="Gated"),
        settled_node("w3", state="UpToDate"),
        settled_node("w4"),
        settled_node("w5", state="gibberish"),
    ]
    mode = "Paused" if allowed is AllowedActions.NOTHING else "Active"
    snapshot = upgrade_snapshot(upgrade_pool(mode=mode), nodes)
    assert wishes(snapshot, allowed) == {
        "w1": "Gated",
        "w2": "Gated",
        "w3": "UpToDate",
        "w4": "",
        "w5": KEEP,
    }
    assert {each.state for each in overview_of(snapshot, allowed).due} == {UpgradeState.GATED}


@pytest.mark.parametrize("allowed", STOPPED)
def test_a_permission_is_withdrawn_also_where_the_spec_cannot_be_read(allowed: AllowedActions) -> None:
    ours = settled_node("w1", state="Required", annotations=a_record("uid-of-pool"))
    snapshot = upgrade_snapshot(unreadable(upgrade_pool()), [ours])
    assert wishes(snapshot, allowed) == {"w1": "Gated"}
    assert passed(snapshot, allowed).overview is None


@pytest.mark.parametrize("allowed", STOPPED)
def test_a_permission_is_withdrawn_also_where_the_block_is_gone(allowed: AllowedActions) -> None:
    snapshot = upgrade_snapshot(a_pool(), [settled_node("w1", state="Required"), settled_node("w2")])
    assert wishes(snapshot, allowed) == {"w1": "Gated", "w2": ""}


def test_a_permission_of_a_held_node_is_withdrawn_also_where_the_block_is_gone() -> None:
    snapshot = upgrade_snapshot(a_pool(), [held(state="Required"), held("w2", state="Gated")])
    assert wishes(snapshot) == {"w1": "Gated", "w2": ""}


@pytest.mark.parametrize(
    ("mode", "name"), [("Paused", "PausedBySpec"), ("DryRun", "DryRun")], ids=["Paused", "DryRun"]
)
def test_the_mode_stops_all_nodes(mode: str, name: str) -> None:
    overview = overview_of(upgrade_snapshot(upgrade_pool(mode=mode), settled_nodes()), AllowedActions.NOTHING)
    assert [each.name for each in overview.stops] == [name]
    assert overview.permitted == ()


def test_a_spec_that_is_not_accepted_stops_all_nodes() -> None:
    overview = overview_of(upgrade_snapshot(upgrade_pool(), settled_nodes()), AllowedActions.FINISH)
    assert [each.name for each in overview.stops] == ["NotAccepted"]
    assert overview.permitted == ()


def test_each_owner_of_a_pause_is_reported_and_all_must_end() -> None:
    requests = [{"owner": "sre", "reason": "incident 4711"}, {"owner": "apps", "reason": "release\nday."}]
    snapshot = upgrade_snapshot(upgrade_pool({"pauseRequests": requests}), settled_nodes(1))
    assert [each.message for each in overview_of(snapshot).stops] == [
        "The owner apps requests in spec.upgrade.pauseRequests that no upgrade begins: release day.",
        "The owner sre requests in spec.upgrade.pauseRequests that no upgrade begins: incident 4711.",
    ]
    assert wishes(snapshot) == {"w1": "Gated"}
    one = upgrade_snapshot(upgrade_pool({"pauseRequests": requests[:1]}), settled_nodes(1))
    assert wishes(one) == {"w1": "Gated"}


def test_a_pause_changes_no_label_of_a_node_that_is_up_to_date() -> None:
    assert wishes(upgrade_snapshot(upgrade_pool(PAUSE, os=AS_ASKED), settled_nodes(1))) == {"w1": "UpToDate"}


@pytest.mark.parametrize("until", ["", "2026-11-01T13:00:00Z", "gibberish"])
def test_a_hold_stops_its_node_and_no_other(until: str) -> None:
    nodes = [held(until=until, state="Required"), settled_node("w2")]
    snapshot = upgrade_snapshot(upgrade_pool(ALL), nodes)
    assert wishes(snapshot) == {"w1": "Gated", "w2": "Required"}
    assert [each.name for each in due_node(snapshot).stops] == ["Held"]


def test_a_hold_that_is_over_stops_nothing() -> None:
    assert wishes(upgrade_snapshot(upgrade_pool(), [held(until="2026-11-01T12:00:00Z")])) == {
        "w1": "Required"
    }


@pytest.mark.parametrize("os", [AS_ASKED, {"version": "2022", "targetRevision": 5000}])
def test_a_held_node_gets_no_label_but_the_withdrawal(os: dict[str, Any]) -> None:
    pool = upgrade_pool(os=os)
    for state, wish in {None: "", "UpToDate": "UpToDate", "Gated": "Gated", "Required": "Gated"}.items():
        assert wishes(upgrade_snapshot(pool, [held(state=state)])) == {"w1": wish}


# When the label may change


@pytest.mark.parametrize("standing", [None, "Gated", "Required", "UpToDate", "gibberish"])
@pytest.mark.parametrize("target", ["open", "closed", "stopped", "up to date"])
def test_the_label_says_what_is_found_whatever_it_said(target: str, standing: str | None) -> None:
    upgrades: dict[str, dict[str, Any]] = {"closed": {"maxUnavailable": 0}, "stopped": PAUSE}
    pool = upgrade_pool(
        upgrades.get(target),
        os=AS_ASKED if target == "up to date" else {"version": "2022", "targetRevision": 5000},
    )
    wish = {"open": "Required", "up to date": "UpToDate"}.get(target, "Gated")
    assert wishes(upgrade_snapshot(pool, [settled_node(state=standing)])) == {"w1": wish}


@pytest.mark.parametrize("scenes", OWN_GATES, ids=lambda scenes: str(scenes.gate))
def test_a_gate_of_the_node_that_closes_takes_back_a_permission_of_a_moment_ago(scenes: GateScenes) -> None:
    snapshot = scenes.closed.snapshot()
    labels = {UPGRADE_STATE_LABEL: "Required"}
    nodes = tuple(replace(node, labels={**node.labels, **labels}) for node in snapshot.nodes)
    assert wishes(replace(snapshot, nodes=nodes))["w1"] == "Gated"


def test_no_node_gets_a_permission_while_the_operator_lacks_one_itself() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), [settled_node(state="Required")])
    assert wishes(snapshot) == {"w1": "Required"}
    lacking = replace(snapshot, missing_permission="pods/eviction")
    assert wishes(lacking) == {"w1": "Gated"}
    assert [each.name for each in overview_of(lacking).stops] == ["MissingPermission"]


# When time alone may change something


def test_only_gates_of_the_pool_are_checked_again_where_nothing_is_due() -> None:
    """They are counted in the metrics also then. The list of pods and holds of the label matter no more."""
    window = {"maintenanceWindows": [{"schedule": "0 22 * * *", "durationSeconds": 3600}]}
    assert passed(
        upgrade_snapshot(upgrade_pool(window, os=AS_ASKED), settled_nodes())
    ).requeue_at == NOON + timedelta(hours=10)


@pytest.mark.parametrize(
    ("upgrade", "seen", "at"),
    [
        ({}, {}, NOON + timedelta(minutes=12)),
        ({}, {"looked": timedelta(minutes=10)}, NOON + timedelta(minutes=2)),
        ({}, {"looked": timedelta(minutes=12)}, NOON + timedelta(minutes=3)),
        ({}, {"settled": timedelta(minutes=10)}, NOON + timedelta(minutes=5)),
        (
            {"maintenanceWindows": [{"schedule": "0 12 * * *", "durationSeconds": 600}]},
            {},
            NOON + timedelta(minutes=10),
        ),
        (
            {"maintenanceWindows": [{"schedule": "5 12 * * *", "durationSeconds": 600}]},
            {},
            NOON + timedelta(minutes=5),
        ),
        (
            {
                "overrides": [
                    {"gate": "Images", "until": written_moment(NOON + 7 * SECOND), "reason": "x"},
                    {"gate": "Capacity", "until": written_moment(NOON - HOUR), "reason": "x"},
                ]
            },
            {},
            NOON + 7 * SECOND,
        ),
    ],
    ids=[
        "evidence",
        "older evidence",
        "evidence that ends",
        "control plane",
        "window closes",
        "window opens",
        "override ends",
    ],
)
def test_it_is_checked_again_when_time_alone_may_change_it(
    upgrade: dict[str, Any], seen: dict[str, Any], at: Any
) -> None:
    assert passed(upgrade_snapshot(upgrade_pool(upgrade), settled_nodes(), **seen)).requeue_at == at


def test_it_is_checked_again_when_a_hold_ends() -> None:
    node = held(until="2026-11-01T12:01:00Z")
    assert passed(upgrade_snapshot(upgrade_pool(), [node])).requeue_at == NOON + timedelta(minutes=1)


def test_it_is_checked_again_when_a_storm_is_over() -> None:
    """Three nodes may have changed Ready: of five the second is the one whose ten minutes have to pass."""
    nodes = [
        replace(node, ready_since=NOON - timedelta(minutes=place))
        for place, node in enumerate(settled_nodes(5), start=1)
    ]
    snapshot = upgrade_snapshot(upgrade_pool(), nodes)
    at = passed(snapshot).requeue_at
    assert at == NOON + timedelta(minutes=6)
    assert not overview_of(replace(snapshot, now=at - SECOND)).is_open
    assert overview_of(replace(snapshot, now=at)).is_open


def test_far_times_raise_nothing() -> None:
    node = replace(held(until="9999-12-31T23:59:59Z"), ready_since=NOON.replace(year=9999))
    more = {"supportMatrix": [{"osVersion": "2022", "endOfSupport": "9999-12-31"}]}
    snapshot = upgrade_snapshot(upgrade_pool(more=more), [node, *settled_nodes(4, labels={"a": "b"})[1:]])
    assert passed(snapshot).overview is not None


# Lists of pods


@pytest.mark.parametrize(
    ("looked", "needs", "wish"),
    [
        (timedelta(), False, "Required"),
        (timedelta(minutes=12) - SECOND, False, "Required"),
        (timedelta(minutes=12), True, "Required"),
        (timedelta(minutes=15) - SECOND, True, "Required"),
        (timedelta(minutes=15), True, "Gated"),
    ],
)
def test_pods_are_listed_where_nodes_are_due_before_the_list_is_too_old(
    looked: timedelta, wish: str, *, needs: bool
) -> None:
    snapshot = upgrade_snapshot(upgrade_pool(ALL), settled_nodes(), looked=looked)
    assert passed(snapshot).needs_all_pods is needs
    assert not passed(snapshot).awaits_pods
    assert set(wishes(snapshot).values()) == {wish}


@pytest.mark.parametrize("looked", [HOUR, None])
def test_no_list_is_asked_for_where_nothing_is_due(looked: timedelta | None) -> None:
    result = passed(upgrade_snapshot(upgrade_pool(os=AS_ASKED), settled_nodes(), looked=looked))
    assert not result.needs_all_pods
    assert not result.awaits_pods


@pytest.mark.parametrize("more", [{"pods_problem": "timeout"}, {"pods_forbidden": "list pods"}])
def test_pods_that_cannot_be_listed_permit_nothing(more: dict[str, Any]) -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(1, state="Required"), looked=None, **more)
    assert wishes(snapshot) == {"w1": "Gated"}
    assert not passed(snapshot).awaits_pods
    assert [each.reason for each in passed(snapshot).findings] == [IssueReason.NODES_GATED]


@pytest.mark.parametrize("state", ["Required", "Gated", "UpToDate", None])
def test_a_label_stays_until_the_first_list_after_a_start(state: str | None) -> None:
    """A restart of the operator withdraws no permission, and gives none."""
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(1, state=state), looked=None)
    result = passed(snapshot)
    assert wishes(snapshot) == {"w1": state or ""}
    assert result.needs_all_pods
    assert result.awaits_pods
    assert result.findings == ()
    assert overview_of(snapshot).permitted == ()


@pytest.mark.parametrize(
    ("pool", "node"),
    [
        (upgrade_pool({"maxUnavailable": 0}), settled_node(state="Required")),
        (upgrade_pool(PAUSE), settled_node(state="Required")),
        (upgrade_pool(), settled_node(state="Required", kubelet="v1.37.0")),
        (upgrade_pool(), settled_node(state="Required", kubelet="gibberish")),
        (upgrade_pool(), held(state="Required")),
    ],
    ids=["gate of the pool", "stop of the pool", "gate of the node", "unknown", "stop of the node"],
)
def test_what_else_closes_a_gate_withdraws_a_permission_without_the_list(pool: Pool, node: Node) -> None:
    snapshot = upgrade_snapshot(pool, [node], looked=None)
    assert wishes(snapshot) == {"w1": "Gated"}
    assert not passed(snapshot).awaits_pods


def test_a_list_from_the_future_is_no_evidence() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(1), looked=-SECOND)
    assert wishes(snapshot) == {"w1": "Gated"}


def test_a_list_for_another_spec_is_no_evidence() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(1))
    edited = replace(snapshot, pool=replace(snapshot.pool, generation=2))
    assert wishes(edited) == {"w1": "Gated"}
    assert passed(edited).needs_all_pods


def test_a_list_about_another_node_of_that_name_is_no_evidence() -> None:
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(1))
    replaced = replace(snapshot, nodes=(replace(snapshot.nodes[0], uid="another"),))
    assert wishes(replaced) == {"w1": "Gated"}
    assert passed(replaced).needs_all_pods


def test_a_node_without_a_workload_in_the_list_is_unknown_and_asks_for_no_list() -> None:
    """A newer list would say no more, and one would follow the other."""
    snapshot = upgrade_snapshot(upgrade_pool(), settled_nodes(1))
    survey = snapshot.pods.survey
    assert survey is not None
    pods = replace(snapshot.pods, survey=dataclasses.replace(survey, workloads={}))
    assert wishes(replace(snapshot, pods=pods)) == {"w1": "Gated"}
    assert not passed(replace(snapshot, pods=pods)).needs_all_pods


def test_a_request_is_not_removed() -> None:
    """The feature names no key but the label."""
    node = settled_node(annotations={UPGRADE_REQUESTED_ANNOTATION: "x"})
    desired = passed(upgrade_snapshot(upgrade_pool(), [node])).desired[node.uid]
    assert (desired.annotations, desired.taints, desired.conditions, desired.unschedulable) == (
        {},
        {},
        (),
        None,
    )


def test_the_day_after_the_last_day_of_support_is_checked_again() -> None:
    more = {"supportMatrix": [{"osVersion": "2022", "endOfSupport": "2026-11-01"}]}
    late = NOON + timedelta(hours=11, minutes=50)
    snapshot = upgrade_snapshot(upgrade_pool(more=more), settled_nodes(1), now=late)
    at = passed(snapshot).requeue_at
    assert at == NOON + DAY / 2
    assert set(wishes(snapshot).values()) == {"Required"}
    assert set(wishes(upgrade_snapshot(snapshot.pool, snapshot.nodes, now=at)).values()) == {"Gated"}
