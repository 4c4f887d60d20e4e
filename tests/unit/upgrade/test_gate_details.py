"""Where the line is in gates that count, and what their messages say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from harness.builders import NOON, with_nodes, with_pods
from harness.gate_scenes import REPLACE, blocked, declares, large, restless, row
from harness.upgrade_feature import (
    HOUR,
    W2019,
    due_node,
    gates_of,
    overview_of,
    passed,
    settled_node,
    settled_nodes,
    upgrade_pool,
    upgrade_snapshot,
)
from winpool.api.keys import UPGRADE_ANNOTATION
from winpool.api.upgrade import Gate, UpgradeState
from winpool.features.upgrade.claims import Claim, Done, Limits, Machine, Target, text_of
from winpool.features.upgrade.gates.pool import max_unavailable
from winpool.features.upgrade.records import GateFinding, Stand
from winpool.model.node import Node
from winpool.model.pods import Block, BlockedBy, Workload

MINUTE = timedelta(minutes=1)
NEWER = {"version": "2025"}


def gate(
    name: Gate, *, nodes: Iterable[Node] | None = None, upgrade: Mapping[str, Any] | None = None, **seen: Any
) -> GateFinding:
    """Return a gate for w1."""
    more = {key: seen.pop(key) for key in ("os", "more") if key in seen}
    listed = settled_nodes() if nodes is None else nodes
    return gates_of(upgrade_snapshot(upgrade_pool(upgrade, **more), listed, **seen))[name]


# SupportMatrix, EndOfSupport, RevisionFloor


def test_a_warned_release_is_open_and_says_why() -> None:
    found = gate(Gate.SUPPORT_MATRIX, more=row("2022", verdict="Warn", reason="try it first"))
    assert found.stand is Stand.OPEN
    assert found.message.endswith("says Warn to Windows Server 2022 on Kubernetes 1.36: try it first.")


def test_support_lasts_through_its_last_day() -> None:
    more = row("2022", endOfSupport="2026-11-01")
    late = NOON.replace(hour=23, minute=59)
    assert gate(Gate.END_OF_SUPPORT, more=more, now=late).stand is Stand.OPEN
    assert gate(Gate.END_OF_SUPPORT, more=more, now=late + MINUTE).stand is Stand.CLOSED


def test_without_a_target_the_least_revision_is_said() -> None:
    found = gate(
        Gate.REVISION_FLOOR, os={"version": "2022", "minRevision": 681}, nodes=[settled_node(kernel=W2019)]
    )
    assert (found.stand, found.message) == (
        Stand.OPEN,
        "Install at least revision 681, the lowest that the pool allows.",
    )


def test_a_target_that_is_known_to_be_bad_is_warned_of() -> None:
    found = gate(
        Gate.REVISION_FLOOR,
        os={"version": "2022", "targetRevision": 2600},
        nodes=[settled_node(kernel="10.0.20348.2000")],
    )
    assert found.stand is Stand.OPEN
    assert found.message.startswith("Revisions 2582 to 2761 of build 20348 break container networking")


# VersionSkew


@pytest.mark.parametrize(("method", "stand"), [("InPlace", Stand.CLOSED), ("Replace", Stand.OPEN)])
def test_a_kubelet_that_is_too_old_is_left_behind_by_a_replacement(method: str, stand: Stand) -> None:
    nodes = [settled_node(kubelet="v1.32.0")]
    assert gate(Gate.VERSION_SKEW, nodes=nodes, upgrade={"method": method}).stand is stand


@pytest.mark.parametrize("method", ["InPlace", "Replace"])
def test_a_kubelet_that_is_newer_than_the_control_plane_closes(method: str) -> None:
    nodes = [settled_node(kubelet="v1.37.0")]
    assert gate(Gate.VERSION_SKEW, nodes=nodes, upgrade={"method": method}).stand is Stand.CLOSED


# MaintenanceWindow


def test_the_next_window_is_said_as_a_time() -> None:
    window = {"schedule": "0 22 * * 6", "durationSeconds": 3600, "timeZone": "Europe/Berlin"}
    found = gate(Gate.MAINTENANCE_WINDOW, upgrade={"maintenanceWindows": [window]})
    assert (found.message, found.opens) == (
        "No maintenance window is open.",
        "Wait until 2026-11-07T21:00:00Z, or change spec.upgrade.maintenanceWindows and "
        "spec.upgrade.maintenanceExclusions.",
    )
    assert found.changes_at == NOON.replace(day=7, hour=21)


def test_an_exclusion_is_said_with_its_end_and_reason() -> None:
    exclusion = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-03T00:00:00Z", "reason": "year\nend"}
    found = gate(Gate.MAINTENANCE_WINDOW, upgrade={"maintenanceExclusions": [exclusion]})
    assert found.message == (
        "An entry of spec.upgrade.maintenanceExclusions permits no upgrade until 2026-11-03T00:00:00Z: year "
        "end."
    )
    assert found.changes_at == NOON.replace(day=3, hour=0)


def test_of_several_exclusions_the_last_to_end_is_said() -> None:
    exclusions = [
        {"start": "2026-11-01T00:00:00Z", "end": end, "reason": end[:10]}
        for end in ("2026-11-02T00:00:00Z", "2026-11-04T00:00:00Z", "2026-11-03T00:00:00Z")
    ]
    found = gate(Gate.MAINTENANCE_WINDOW, upgrade={"maintenanceExclusions": exclusions})
    assert "2026-11-04" in found.message


def test_windows_that_never_open_are_said_to() -> None:
    forever = {"start": "2000-01-01T00:00:00Z", "end": "2999-01-01T00:00:00Z"}
    found = gate(Gate.MAINTENANCE_WINDOW, upgrade={"maintenanceExclusions": [forever]})
    assert found.stand is Stand.CLOSED
    assert "no window opens in the next 50 years" in found.opens
    assert found.changes_at is None


def test_a_window_that_is_always_open_is_open() -> None:
    window = {"schedule": "* * * * *", "durationSeconds": 3600}
    assert gate(Gate.MAINTENANCE_WINDOW, upgrade={"maintenanceWindows": [window]}).stand is Stand.OPEN


# PoolHealth


@pytest.mark.parametrize(
    ("nodes", "changed", "stand"),
    [
        (4, 3, Stand.OPEN),
        (4, 4, Stand.CLOSED),
        (19, 3, Stand.OPEN),
        (19, 4, Stand.CLOSED),
        (20, 4, Stand.OPEN),
        (20, 5, Stand.CLOSED),
        (100, 20, Stand.OPEN),
        (100, 21, Stand.CLOSED),
    ],
)
def test_a_storm_is_more_than_three_nodes_and_a_fifth(nodes: int, changed: int, stand: Stand) -> None:
    assert gate(Gate.POOL_HEALTH, nodes=restless(changed, minutes=9.9, of=nodes)).stand is stand


@pytest.mark.parametrize(("minutes", "stand"), [(9.9, Stand.CLOSED), (10, Stand.OPEN), (-60, Stand.CLOSED)])
def test_a_storm_lasts_ten_minutes(minutes: float, stand: Stand) -> None:
    """A time in the future is that of a clock that is wrong; it counts as a change."""
    assert gate(Gate.POOL_HEALTH, nodes=restless(4, minutes=minutes, of=5)).stand is stand


@pytest.mark.parametrize(
    ("age", "stand"), [(14, Stand.OPEN), (15, Stand.CLOSED), (None, Stand.CLOSED)], ids=str
)
def test_nodes_that_join_are_no_storm(age: int | None, stand: Stand) -> None:
    nodes = [
        replace(node, created=None if age is None else NOON - (age + 1) * MINUTE)
        for node in restless(5, minutes=1, of=5)
    ]
    assert gate(Gate.POOL_HEALTH, nodes=nodes).stand is stand


def upgrading(node: Node, state: UpgradeState | None, done: float = 0) -> Node:
    """Return the node in that state of its upgrade; None: it was done so many minutes ago."""
    target, limits = Target("2022"), Limits(*[1] * 8)
    found: Claim | Done = Done(target, NOON - done * MINUTE)
    if state is not None:
        found = Claim("c", target, state, NOON, Machine.of(node), limits)
    return replace(node, annotations={**node.annotations, UPGRADE_ANNOTATION: text_of(found)})


@pytest.mark.parametrize(
    ("state", "done", "stand"),
    [
        (UpgradeState.DRAINING, 0, Stand.CLOSED),
        (UpgradeState.UPGRADING, 0, Stand.OPEN),
        (UpgradeState.REJOINING, 0, Stand.OPEN),
        (UpgradeState.VALIDATING, 0, Stand.OPEN),
        (UpgradeState.SOAKING, 0, Stand.OPEN),
        (None, 4, Stand.OPEN),
        (None, 5, Stand.OPEN),
        (None, 6, Stand.CLOSED),
    ],
)
def test_what_an_upgrade_does_to_ready_is_no_storm(
    state: UpgradeState | None, done: float, stand: Stand
) -> None:
    """From the hand-over until it is done; afterwards a node counts as any other."""
    nodes = [upgrading(each, state, done) for each in restless(5, minutes=5, of=5)]
    assert gate(Gate.POOL_HEALTH, nodes=nodes).stand is stand


def test_changes_that_are_not_known_may_be_part_of_a_storm_until_the_others_are_over() -> None:
    nodes = [replace(node, ready_since=None) for node in settled_nodes(2)]
    nodes += [
        replace(node, name=f"x{node.name}", uid=f"x{node.uid}") for node in restless(2, minutes=4, of=2)
    ]
    found = gate(Gate.POOL_HEALTH, nodes=nodes)
    assert (found.stand, found.changes_at) == (Stand.UNKNOWN, NOON + 6 * MINUTE)
    assert gate(Gate.POOL_HEALTH, nodes=nodes, now=NOON + 6 * MINUTE).stand is Stand.OPEN


@pytest.mark.parametrize("state", ["Failed", "Quarantined", "DrainBlocked"])
@pytest.mark.parametrize(("allowed", "stand"), [(0, Stand.CLOSED), (1, Stand.OPEN)])
def test_nodes_of_a_rollout_that_failed_or_are_blocked_count(state: str, allowed: int, stand: Stand) -> None:
    nodes = [*settled_nodes(2), settled_node("w3", state=state)]
    field = "maxBlockedNodes" if state == "DrainBlocked" else "maxFailedNodes"
    found = gate(Gate.POOL_HEALTH, nodes=nodes, upgrade={field: allowed})
    assert found.stand is stand
    assert stand is Stand.OPEN or field in found.message


# Budget


@pytest.mark.parametrize(
    ("asked", "nodes", "allowed"),
    [
        (0, 10, 0),
        (1, 10, 1),
        (5000, 10, 5000),
        ("0%", 10, 0),
        ("1%", 10, 1),
        ("10%", 10, 1),
        ("19%", 10, 1),
        ("20%", 10, 2),
        ("100%", 10, 10),
        ("50%", 0, 1),
        ("101%", 10, None),
        ("few", 10, None),
        ("-1%", 10, None),
        (-1, 10, None),
        ("", 10, None),
        ("\u0661%", 10, None),
    ],
)
def test_a_percentage_rounds_down_to_one_at_least(asked: int | str, nodes: int, allowed: int | None) -> None:
    assert max_unavailable(asked, nodes=nodes) == allowed


@pytest.mark.parametrize(
    "change",
    [{"ready": "False"}, {"ready": "Unknown"}, {"unschedulable": True}, {"deleting": True}],
    ids=lambda change: next(iter(change)),
)
def test_any_node_that_is_unavailable_takes_of_the_budget(change: dict[str, Any]) -> None:
    """Also one that is due itself, and one that a person has cordoned."""
    nodes = settled_nodes(3)
    nodes[0] = replace(nodes[0], **change)
    assert gate(Gate.BUDGET, nodes=nodes).stand is Stand.CLOSED
    assert gate(Gate.BUDGET, nodes=nodes, upgrade={"maxUnavailable": 2}).stand is Stand.OPEN


# Capacity, Images


def test_what_the_pods_need_is_kept_with_the_node() -> None:
    full = upgrade_snapshot(upgrade_pool(), settled_nodes(2), workloads={"w1": large(2), "w2": large(2)})
    fit = due_node(full).fit
    assert fit is not None
    assert fit.unfit == 2
    assert due_node(upgrade_snapshot(upgrade_pool(), settled_nodes(), looked=None)).fit is None


def test_nodes_of_other_pools_may_take_the_pods() -> None:
    """What runs there is not known to this pool, so that no misfit is certain."""
    alone = settled_node("w1")
    other = replace(settled_node("other"), labels={**alone.labels, "agentpool": "blue"})
    pool = upgrade_pool()
    snapshot = upgrade_snapshot(pool, [alone], workloads={"w1": large()})
    assert gates_of(snapshot)[Gate.CAPACITY].stand is Stand.CLOSED
    beside = with_nodes(snapshot, *snapshot.nodes, other)
    assert gates_of(beside)[Gate.CAPACITY].stand is Stand.UNKNOWN


@pytest.mark.parametrize(
    ("workload", "stand"),
    [
        (declares("10.0.20348"), Stand.OPEN),
        (declares("10.0.26100"), Stand.OPEN),
        (declares("10.0.17763"), Stand.CLOSED),
        (declares("10.0.30000"), Stand.CLOSED),
        (declares("10.0.26100", is_bound=True), Stand.OPEN),
        (declares("10.0.20348", is_bound=True), Stand.CLOSED),
        (declares("gibberish"), Stand.UNKNOWN),
        (declares("gibberish", is_bound=True), Stand.UNKNOWN),
        (Workload(undeclared=1), Stand.UNKNOWN),
        (Workload(is_complete=False), Stand.UNKNOWN),
        (Workload(), Stand.OPEN),
    ],
)
def test_images_are_judged_by_what_pods_declare(workload: Workload, stand: Stand) -> None:
    """A pod that is bound to its build is not scheduled to the target, although its image runs there."""
    found = gate(Gate.IMAGES, os=NEWER, upgrade=REPLACE, workloads={"w1": workload})
    assert found.stand is stand
    in_place = gate(Gate.IMAGES, workloads={"w1": workload})
    assert in_place.stand is Stand.OPEN, "it keeps the release"


@pytest.mark.parametrize(
    ("workload", "name", "stand"),
    [
        (
            Workload(missing_runtime_classes=("old",), runtime_classes_known=False),
            Gate.CAPACITY,
            Stand.CLOSED,
        ),
        (Workload(missing_runtime_classes=("old",)), Gate.IMAGES, Stand.OPEN),
        (Workload(runtime_classes_known=False), Gate.CAPACITY, Stand.UNKNOWN),
        (Workload(runtime_classes_known=False), Gate.IMAGES, Stand.UNKNOWN),
        # What pods have was added when they were created, and closes as ever.
        (replace(large(5), runtime_classes_known=False), Gate.CAPACITY, Stand.CLOSED),
        (replace(declares("10.0.17763"), runtime_classes_known=False), Gate.IMAGES, Stand.CLOSED),
    ],
)
def test_a_runtime_class_that_does_not_exist_closes_and_one_that_is_not_known_is_unknown(
    workload: Workload, name: Gate, stand: Stand
) -> None:
    nodes = settled_nodes(2)
    assert gate(name, nodes=nodes, os=NEWER, upgrade=REPLACE, workloads={"w1": workload}).stand is stand


def test_runtime_classes_are_named_and_a_missing_right_to_list_them_is_said() -> None:
    missing = gate(Gate.CAPACITY, workloads={"w1": Workload(missing_runtime_classes=("a", "b"))})
    assert "a RuntimeClass that does not exist (a, b)" in missing.message
    snapshot = upgrade_snapshot(
        upgrade_pool(REPLACE, os=NEWER),
        settled_nodes(),
        workloads={"w1": Workload(runtime_classes_known=False)},
    )
    assert "Wait for the next list" in gates_of(snapshot)[Gate.CAPACITY].opens
    forbidden = with_pods(snapshot, runtime_classes_forbidden="Allow the operator to list RuntimeClasses.")
    for name in (Gate.CAPACITY, Gate.IMAGES):
        assert gates_of(forbidden)[name].opens == "Allow the operator to list RuntimeClasses."


def test_a_build_of_any_length_is_cut() -> None:
    """The API server permits 256 KiB of annotations on a pod."""
    found = gate(Gate.IMAGES, os=NEWER, upgrade=REPLACE, workloads={"w1": declares("9" * 200_000)})
    assert len(found.message) < 300


# PodDisruptionBudgets


@pytest.mark.parametrize(
    ("workload", "stand", "says"),
    [
        (blocked(BlockedBy.NONE_ALLOWED), Stand.CLOSED, "allows no disruption now"),
        (blocked(BlockedBy.SEVERAL_BUDGETS), Stand.CLOSED, "Two PodDisruptionBudgets"),
        (blocked(BlockedBy.UNREADABLE), Stand.UNKNOWN, "too many PodDisruptionBudgets"),
        (Workload(blocked=1), Stand.UNKNOWN, "too many PodDisruptionBudgets"),
        (
            Workload(
                blocks=(Block("a/b", BlockedBy.NONE_ALLOWED), Block("a/c", BlockedBy.SEVERAL_BUDGETS)),
                blocked=2,
            ),
            Stand.CLOSED,
            "Two PodDisruptionBudgets",
        ),
        (Workload(budgets_known=False), Stand.UNKNOWN, "could not be listed"),
        (Workload(is_complete=False), Stand.UNKNOWN, "cannot be read"),
        (Workload(), Stand.OPEN, "allow to evict each pod"),
    ],
)
def test_budgets_are_judged_by_what_blocks_an_eviction(workload: Workload, stand: Stand, says: str) -> None:
    found = gate(Gate.DISRUPTION_BUDGETS, workloads={"w1": workload})
    assert found.stand is stand
    assert says in found.message


def test_a_missing_right_to_list_budgets_is_said() -> None:
    snapshot = upgrade_snapshot(
        upgrade_pool(), settled_nodes(), workloads={"w1": Workload(budgets_known=False)}
    )
    forbidden = with_pods(snapshot, budgets_forbidden="Allow the operator to list PodDisruptionBudgets.")
    assert gates_of(forbidden)[Gate.DISRUPTION_BUDGETS].opens == (
        "Allow the operator to list PodDisruptionBudgets."
    )


# All together


def test_each_obstacle_that_goes_opens_just_its_gate() -> None:
    """Two PDBs, a window, a young control plane and no budget, one after the other."""
    window = {"maintenanceWindows": [{"schedule": "0 22 * * *", "durationSeconds": 3600}]}
    steps: list[tuple[dict[str, Any], dict[str, Any]]] = [
        (
            {**window, "maxUnavailable": 0},
            {"settled": MINUTE, "workloads": {"w1": blocked(BlockedBy.NONE_ALLOWED)}},
        ),
        ({**window, "maxUnavailable": 0}, {"settled": MINUTE}),
        ({**window, "maxUnavailable": 0}, {"settled": HOUR}),
        ({"maxUnavailable": 0}, {"settled": HOUR}),
        ({}, {"settled": HOUR}),
    ]
    closed = [
        {
            name
            for name, found in gates_of(
                upgrade_snapshot(upgrade_pool(upgrade), settled_nodes(1), **seen)
            ).items()
            if not found.permits
        }
        for upgrade, seen in steps
    ]
    assert closed == [
        {"ControlPlane", "MaintenanceWindow", "Budget", "PodDisruptionBudgets"},
        {"ControlPlane", "MaintenanceWindow", "Budget"},
        {"MaintenanceWindow", "Budget"},
        {"Budget"},
        set(),
    ]


def test_an_empty_pool_has_gates_and_nothing_due() -> None:
    overview = overview_of(upgrade_snapshot(upgrade_pool(), []))
    assert overview.is_open
    assert (overview.due, overview.permitted) == ((), ())
    assert not passed(upgrade_snapshot(upgrade_pool(), [])).needs_all_pods
