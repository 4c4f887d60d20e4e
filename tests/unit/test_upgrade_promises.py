"""The promises of the design, for pools with ``spec.upgrade``: written from its text, not from the code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from harness.builders import GUARDED, NOON, edited, unreadable
from harness.upgrade_feature import (
    BEHIND,
    DAY,
    HOUR,
    TARGET,
    W2019,
    W2022,
    W2025,
    settled_node,
    upgrade_pool,
)
from harness.upgrade_world import UpgradeWorld, permits, unavailable
from harness.views import CALM, a_view, all_of
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    HOLD_ANNOTATION,
    POOL_LABEL,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.spec import Mode
from winpool.api.text import written_moment
from winpool.model.node import Node, NodePatch, NodeVersions
from winpool.model.pods import Block, BlockedBy, Workload
from winpool.model.pool import Pool
from winpool.model.pressure import Guard, Level
from winpool.model.snapshot import Snapshot
from winpool.ownership.leftovers import release_stray

NAMES: Final = ("w1", "w2", "w3")
PATCHED: Final = f"10.0.20348.{TARGET}"
MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
PERMITTED: Final = "Required"
THEIRS: Final = "please, the disk is odd"
STUCK: Final = Workload(blocks=(Block("a/b", BlockedBy.NONE_ALLOWED, ("budget",)),), blocked=1)


def pool_of(upgrade: Mapping[str, Any] | None = None, **pool: Any) -> Pool:
    """Return a pool with a slot for each node, unless ``upgrade`` says more."""
    return upgrade_pool({"maxUnavailable": "100%", **(upgrade or {})}, **pool)


def a_world(upgrade: Mapping[str, Any] | None = None, **pool: Any) -> UpgradeWorld:
    """Return a settled world whose three nodes are due, and may be upgraded, unless ``upgrade`` says more."""
    world = UpgradeWorld(pool_of(upgrade, **pool), {name: settled_node(name) for name in NAMES})
    world.list_pods()
    world.pass_time(20 * MINUTE)
    return world


def states(world: UpgradeWorld) -> list[str | None]:
    return [world.state(name) for name in sorted(world.nodes)]


def edit(world: UpgradeWorld, upgrade: Mapping[str, Any] | None = None, **pool: Any) -> None:
    spec = pool_of(upgrade, **pool).spec
    assert spec is not None
    world.edit(edited(world.pool, spec))


def remove_upgrade(world: UpgradeWorld) -> None:
    spec = world.pool.spec
    assert spec is not None
    world.edit(edited(world.pool, spec.model_copy(update={"upgrade": None})))


def allowed(world: UpgradeWorld) -> str:
    found = world.condition()
    assert found is not None
    return found.status


# What stops a pool or a node, in the words of the design


@dataclass(frozen=True, slots=True)
class Stopper:
    """Something that takes the permission away, and what gives it back."""

    name: str
    begin: Callable[[UpgradeWorld], None]
    end: Callable[[UpgradeWorld], None]


def _mode(mode: str) -> Stopper:
    return Stopper(mode, lambda world: edit(world, mode=mode), edit)


def _field(name: str, **fields: Any) -> Stopper:
    return Stopper(name, lambda world: edit(world, fields), edit)


def _each(world: UpgradeWorld, **changes: Any) -> None:
    for name in tuple(world.nodes):
        world.write(name, **changes)


def _turn_each(world: UpgradeWorld, **changes: Any) -> None:
    for name in tuple(world.nodes):
        world.turn(name, **changes)


def _not_ready(world: UpgradeWorld) -> None:
    edit(world, {"maxUnavailable": 1})
    world.turn("w3", ready="False", ready_since=world.now, versions=NodeVersions(PATCHED))


def _ready_again(world: UpgradeWorld) -> None:
    edit(world)
    world.turn("w3", ready="True", ready_since=world.now, versions=world.nodes["w1"].versions)


def _no_pods(world: UpgradeWorld) -> None:
    world.can_list = False
    world.pass_time(30 * MINUTE)


def _no_version(world: UpgradeWorld) -> None:
    world.can_read = False
    world.pass_time(30 * MINUTE)


def _readable(world: UpgradeWorld) -> None:
    world.can_list = world.can_read = True


def _workloads(world: UpgradeWorld, *, workload: Workload | None) -> None:
    world.workloads = {} if workload is None else dict.fromkeys(world.nodes, workload)
    world.list_pods()


def _upgraded(world: UpgradeWorld, version: str) -> None:
    world.version = version


NOT_YET: Final = {"start": "2026-10-01T00:00:00Z", "end": "2027-10-01T00:00:00Z"}
TOO_NEW: Final = {"osVersion": "2022", "kubernetesVersions": {"max": "1.35"}}
ENDED: Final = {"osVersion": "2022", "endOfSupport": "2026-10-01"}
STOPPERS: Final = (
    _mode("Paused"),
    _mode("DryRun"),
    _field("a pause request", pauseRequests=[{"owner": "sre", "reason": "incident"}]),
    _field("an exclusion", maintenanceExclusions=[NOT_YET]),
    _field("a closed window", maintenanceWindows=[{"schedule": "0 3 1 1 *", "durationSeconds": 60}]),
    _field("no budget", maxUnavailable=0),
    Stopper(
        "a row of the matrix",
        lambda world: edit(world, more={"supportMatrix": [TOO_NEW]}),
        edit,
    ),
    Stopper(
        "end of support",
        lambda world: edit(world, more={"supportMatrix": [ENDED]}),
        edit,
    ),
    Stopper(
        "a refused spec",
        lambda world: world.edit(unreadable(world.pool)),
        edit,
    ),
    Stopper(
        "a hold",
        lambda world: _each(world, annotations={HOLD_ANNOTATION: ""}),
        lambda world: _each(world, annotations={HOLD_ANNOTATION: None}),
    ),
    Stopper(
        "a node that is not Ready",
        _not_ready,
        _ready_again,
    ),
    Stopper("pods that cannot be listed", _no_pods, _readable),
    Stopper("a version that cannot be read", _no_version, _readable),
    Stopper(
        "another control plane",
        lambda world: _upgraded(world, "v1.36.4"),
        lambda world: world.pass_time(20 * MINUTE),
    ),
    Stopper(
        "PodDisruptionBudgets",
        lambda world: _workloads(world, workload=STUCK),
        lambda world: _workloads(world, workload=None),
    ),
    Stopper(
        "a build that cannot be read",
        lambda world: _turn_each(world, versions=replace(world.nodes["w1"].versions, kernel="")),
        lambda world: _turn_each(world, versions=replace(world.nodes["w1"].versions, kernel=W2022)),
    ),
    Stopper(
        "a newer kubelet",
        lambda world: _turn_each(world, versions=replace(world.nodes["w1"].versions, kubelet="v1.37.0")),
        lambda world: _turn_each(world, versions=replace(world.nodes["w1"].versions, kubelet=world.version)),
    ),
)

every_stopper = pytest.mark.parametrize("stopper", STOPPERS, ids=lambda each: each.name)


@pytest.mark.slow
@every_stopper
def test_p1_what_stops_takes_the_permission_and_its_end_gives_it_back(stopper: Stopper) -> None:
    world = a_world()
    assert states(world) == [PERMITTED] * 3
    assert allowed(world) == "True"
    stopper.begin(world)
    world.pass_time(2 * MINUTE)
    assert PERMITTED not in [world.state(name) for name in ("w1", "w2")]
    if (found := world.condition()) is not None:
        assert found.status != "True"
    stopper.end(world)
    world.start_over()
    assert states(world) == [PERMITTED] * 3
    assert allowed(world) == "True"


@pytest.mark.slow
@every_stopper
def test_p2_what_stops_is_written_once(stopper: Stopper) -> None:
    world = a_world()
    stopper.begin(world)
    world.pass_time(HOUR)  # it may end by itself, and then it is told that no one uses the permissions
    writes, statuses = len(world.writes), world.status_writes
    world.pass_time(6 * HOUR)
    assert (len(world.writes), world.status_writes) == (writes, statuses)


@pytest.mark.slow
@every_stopper
def test_p8_a_restart_under_it_gives_and_writes_nothing(stopper: Stopper) -> None:
    world = a_world()
    stopper.begin(world)
    world.pass_time(40 * MINUTE)
    before = states(world)
    world.writes.clear()
    world.restart()
    world.settle()
    world.pass_time(MINUTE)
    assert (world.writes, states(world)) == ([], before)


@every_stopper
def test_p3_a_deleted_pool_takes_its_label_also_while_it_is_stopped(stopper: Stopper) -> None:
    world = a_world()
    before = {name: settled_node(name) for name in NAMES}
    stopper.begin(world)
    world.pass_time(2 * MINUTE)
    world.delete()
    world.settle()
    assert states(world) == [None] * 3
    for node in world.nodes.values():
        assert (APPLIED_ANNOTATION in node.annotations, POOL_LABEL in node.labels) == (False, False)
        assert node.labels == before[node.name].labels
    assert world.pool.finalizers == ()


@pytest.mark.slow
def test_p2_a_converged_pool_writes_nothing_for_a_day() -> None:
    world = a_world()
    world.pass_time(HOUR)  # until it is told that no one uses the permissions
    world.writes.clear()
    world.status_writes = 0
    world.pass_time(DAY)
    assert (world.writes, world.status_writes) == ([], 0)


def test_p2_a_converged_pool_has_no_more_lists_of_pods_than_there_are_anyway() -> None:
    world = a_world()
    world.lists = 0
    world.pass_time(2 * HOUR)
    assert world.lists == 12


def test_p2_labels_stay_where_pods_are_listed_rarely() -> None:
    world = a_world()
    world.pod_pass = 2 * HOUR
    world.writes.clear()
    world.pass_time(6 * HOUR)
    assert (world.writes, states(world)) == ([], [PERMITTED] * 3)


@pytest.mark.slow
def test_p6_in_a_rollout_node_by_node_one_node_at_a_time_is_permitted() -> None:
    names = [f"w{number:02}" for number in range(24)]
    world = UpgradeWorld(upgrade_pool(), {name: settled_node(name) for name in names})
    world.list_pods()
    world.pass_time(20 * MINUTE)
    for name in names:
        assert world.state(name) == PERMITTED
        world.write(name, unschedulable=True)
        world.pass_time(MINUTE + SECOND)
        rest = [each for each in names if each > name]
        assert [world.state(each) for each in (name, *rest)] == [PERMITTED, *["Gated"] * len(rest)]
        world.turn(name, versions=replace(world.nodes[name].versions, kernel=PATCHED))
        world.write(name, unschedulable=False)
        world.pass_time(MINUTE + SECOND)
        assert [world.state(each) for each in rest[:1]] == [PERMITTED] * len(rest[:1])
        assert [world.state(each) for each in (name, *rest[1:])] == ["UpToDate", *["Gated"] * len(rest[1:])]


@pytest.mark.slow
def test_p2_a_gate_that_flaps_gives_each_permission_once_a_minute_and_takes_it_back_at_once() -> None:
    world = a_world({"maxUnavailable": 1})
    world.turn("w3", versions=replace(world.nodes["w3"].versions, kernel=PATCHED))
    world.settle()
    world.writes.clear()
    for number in range(120):
        world.turn("w3", ready=("False", "True")[number % 2], ready_since=world.now - HOUR)
        world.pass_time(5 * SECOND)
        is_open = world.nodes["w3"].ready == "True"
        assert is_open or world.state("w1") == "Gated"
    given = [at for at, patch in world.writes if patch.node.name == "w1" and permits(patch)]
    assert 5 <= len(given) <= 10
    assert min(after - before for before, after in pairwise(given)) >= MINUTE
    assert len([patch for _, patch in world.writes if patch.node.name == "w1"]) <= 2 * len(given) + 1


def test_p1_time_alone_opens_and_closes_a_window_within_a_minute() -> None:
    world = a_world({"maintenanceWindows": [{"schedule": "0 22 * * *", "durationSeconds": 3600}]})
    assert states(world) == ["Gated"] * 3
    opens = NOON + timedelta(hours=10)
    world.pass_time(opens - SECOND - world.now)
    assert states(world) == ["Gated"] * 3
    world.pass_time(MINUTE + 2 * SECOND)
    assert states(world) == [PERMITTED] * 3
    world.pass_time(opens + HOUR - SECOND - world.now)
    assert states(world) == [PERMITTED] * 3
    world.pass_time(MINUTE + 2 * SECOND)
    assert states(world) == ["Gated"] * 3


def test_p1_time_alone_ends_an_override() -> None:
    until = NOON + 2 * HOUR
    world = a_world(
        {
            "maintenanceExclusions": [NOT_YET],
            "overrides": [{"gate": "MaintenanceWindow", "until": written_moment(until), "reason": "a fix"}],
        }
    )
    assert states(world) == [PERMITTED] * 3
    world.pass_time(until + MINUTE + SECOND - world.now)
    assert states(world) == ["Gated"] * 3


def test_p1_time_alone_ends_a_hold() -> None:
    world = a_world()
    world.write("w1", annotations={HOLD_ANNOTATION: written_moment(world.now + HOUR)})
    world.pass_time(2 * MINUTE)
    assert states(world) == ["Gated", PERMITTED, PERMITTED]
    world.pass_time(HOUR)
    assert states(world) == [PERMITTED] * 3


@pytest.mark.parametrize("forged", ["Required", "UpToDate", "Claimed", "", None])
def test_p1_what_others_write_into_the_label_is_put_right(forged: str | None) -> None:
    world = a_world({"maintenanceExclusions": [NOT_YET]})
    world.write("w1", labels={UPGRADE_STATE_LABEL: forged})
    world.pass_time(2 * MINUTE)
    assert states(world) == ["Gated"] * 3


@pytest.mark.parametrize("how", ["Paused", "DryRun", "hold", "refused"])
def test_p1_a_node_that_leaves_a_stopped_pool_does_not_keep_its_permission(how: str) -> None:
    world = a_world()
    held = {HOLD_ANNOTATION: ""} if how == "hold" else {}
    world.write("w1", labels={"agentpool": "blue"}, annotations=held)
    if how == "refused":
        edit(world, more={"supportMatrix": [{"osVersion": "2022", "minRevision": 1, "build": "10.0.99999"}]})
    elif how != "hold":
        edit(world, mode=how)
    world.writes.clear()
    world.pass_time(5 * MINUTE)
    assert world.state("w1") == "Gated"
    [patch] = [patch for _, patch in world.writes if patch.node.name == "w1"]
    assert patch.labels == {UPGRADE_STATE_LABEL: "Gated"}
    assert (patch.annotations, patch.taints, patch.unschedulable) == ({}, None, None)


@pytest.mark.parametrize("mode", ["Paused", "DryRun"])
def test_p3_a_forged_permission_does_not_stand_under_a_pause(mode: str) -> None:
    world = a_world(mode=mode)
    world.write("w1", labels={UPGRADE_STATE_LABEL: PERMITTED})
    world.pass_time(2 * MINUTE)
    assert world.state("w1") != PERMITTED


# P4


def test_p4_no_permission_before_the_version_is_known_for_15_minutes() -> None:
    world = UpgradeWorld(pool_of(), {name: settled_node(name) for name in NAMES})
    world.list_pods()
    world.pass_time(15 * MINUTE - SECOND)
    assert states(world) == ["Gated"] * 3
    world.pass_time(MINUTE + 2 * SECOND)
    assert states(world) == [PERMITTED] * 3


def test_p4_no_permission_without_a_list_of_pods() -> None:
    world = UpgradeWorld(pool_of(), {name: settled_node(name) for name in NAMES}, can_list=False)
    world.pass_time(2 * HOUR)
    assert PERMITTED not in states(world)
    assert allowed(world) != "True"


def test_p4_a_list_of_another_machine_of_that_name_permits_nothing() -> None:
    world = a_world()
    world.can_list = False
    world.join("w1")
    world.pass_time(5 * MINUTE)
    assert world.state("w1") != PERMITTED


def test_p4_a_list_from_before_an_edit_permits_nothing() -> None:
    world = a_world({"maintenanceExclusions": [NOT_YET]})
    world.can_list = False
    edit(world)
    world.pass_time(5 * MINUTE)
    assert PERMITTED not in states(world)


def test_p4_an_unreadable_build_alone_is_never_due() -> None:
    world = UpgradeWorld(upgrade_pool(), {"w1": settled_node("w1", kernel="")})
    world.start_over()
    assert world.state("w1") not in (PERMITTED, "UpToDate")


def test_p4_a_revision_that_is_not_known_is_neither_due_nor_done() -> None:
    world = UpgradeWorld(upgrade_pool(), {"w1": settled_node("w1", kernel="10.0.20348")})
    world.start_over()
    assert world.state("w1") not in (PERMITTED, "UpToDate")


# P6


def test_p6_no_node_is_permitted_while_the_budget_is_used_up() -> None:
    world = UpgradeWorld(upgrade_pool(), {name: settled_node(name) for name in NAMES})
    world.write("w2", unschedulable=True)
    world.start_over(20 * MINUTE)
    assert states(world) == ["Gated"] * 3


def test_p6_the_node_in_work_keeps_its_permission_and_no_other_gets_or_keeps_one() -> None:
    world = a_world({"maxUnavailable": 1})
    assert states(world) == [PERMITTED, "Gated", "Gated"]
    world.write("w1", unschedulable=True)
    world.pass_time(2 * MINUTE)
    assert states(world) == [PERMITTED, "Gated", "Gated"]
    world.write("w2", unschedulable=True)
    world.pass_time(2 * MINUTE)
    assert states(world) == [PERMITTED, "Gated", "Gated"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cordoned", "not Ready", "unknown", "deleting"])
@pytest.mark.parametrize(("budget", "number"), [(1, 1), (2, 2), ("50%", 1), ("99%", 2), ("1%", 1)])
def test_p6_every_kind_of_unavailable_node_counts(how: str, budget: int | str, number: int) -> None:
    world = UpgradeWorld(upgrade_pool({"maxUnavailable": budget}), {n: settled_node(n) for n in NAMES})
    kinds: dict[str, dict[str, Any]] = {
        "cordoned": {"unschedulable": True},
        "not Ready": {"ready": "False"},
        "unknown": {"ready": "Unknown"},
        "deleting": {"deleting": True},
    }
    turned = kinds[how]
    for name in NAMES[: number - 1]:
        world.turn(name, **turned)
    world.start_over(16 * MINUTE)
    assert states(world)[number - 1 :] == [PERMITTED, *["Gated"] * (3 - number)]
    world.turn("w3", **turned)
    world.pass_time(2 * MINUTE)
    assert states(world)[number - 1 :] == ["Gated"] * (4 - number)


# P3


OUTSIDE: Final = a_view(Level.HARD, guard=Guard.OUTSIDE_SHARE)
ASKING: Final = {"memoryPressure": {"mode": "Signal", "onUnattributed": "RequestUpgrade"}}


def asked(world: UpgradeWorld) -> str | None:
    return world.nodes["w1"].annotations.get(UPGRADE_REQUESTED_ANNOTATION)


def test_p3_our_request_goes_with_the_pool_and_the_request_of_a_person_stays() -> None:
    for text in (None, THEIRS):
        world = UpgradeWorld(
            upgrade_pool(os={"version": "2022"}, more=ASKING), {n: settled_node(n) for n in NAMES}
        )
        if text is not None:
            world.write("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: text})
        world.memory = replace(all_of(NAMES, CALM), told={"uid-of-w1": OUTSIDE})
        world.start_over()
        assert asked(world) is not None
        assert (asked(world) == THEIRS) == (text is not None)
        assert states(world) == [PERMITTED, "UpToDate", "UpToDate"]
        world.delete()
        world.settle()
        assert asked(world) == text
        assert states(world) == [None] * 3


def test_p3_the_request_of_a_person_is_due_and_outlasts_the_permission() -> None:
    world = a_world(os={"version": "2022"})
    assert states(world) == ["UpToDate"] * 3
    world.write("w1", annotations={UPGRADE_REQUESTED_ANNOTATION: ""})
    world.pass_time(2 * MINUTE)
    assert states(world) == [PERMITTED, "UpToDate", "UpToDate"]
    remove_upgrade(world)
    world.settle()
    assert (asked(world), states(world)) == ("", [None] * 3)


def test_p3_a_node_that_leaves_the_pool_loses_the_label() -> None:
    world = a_world()
    world.write("w1", labels={"agentpool": "blue"})
    world.settle()
    assert states(world) == [None, PERMITTED, PERMITTED]


def test_p3_the_label_is_taken_off_a_stray() -> None:
    world = a_world()
    stray = replace(world.nodes["w1"], labels={**world.nodes["w1"].labels, "kubernetes.io/os": "linux"})
    patch = release_stray(stray, is_let_go=lambda _: True, rights=GUARDED, now=world.now).patch
    assert patch is not None
    assert patch.labels[UPGRADE_STATE_LABEL] is None


# P8


def test_p8_a_restart_changes_no_label_and_no_condition() -> None:
    world = a_world()
    world.writes.clear()
    before = world.condition()
    world.status_writes = 0
    for _ in range(5):
        world.restart()
        world.settle()
        assert states(world) == [PERMITTED] * 3
        world.pass_time(MINUTE)
    assert (world.writes, world.status_writes, world.condition()) == ([], 0, before)


def test_p8_a_restart_does_not_restart_the_15_minutes() -> None:
    world = UpgradeWorld(pool_of(), {name: settled_node(name) for name in NAMES})
    world.list_pods()
    world.pass_time(10 * MINUTE)
    world.restart()
    world.list_pods()
    world.pass_time(4 * MINUTE)
    assert states(world) == ["Gated"] * 3
    world.pass_time(3 * MINUTE)
    assert states(world) == [PERMITTED] * 3


def test_p8_a_version_that_changed_while_no_operator_ran_waits_15_minutes() -> None:
    world = a_world()
    world.version = "v1.36.4"
    world.restart()
    world.list_pods()
    world.pass_time(14 * MINUTE)
    assert states(world) == ["Gated"] * 3
    assert allowed(world) == "False"
    world.pass_time(3 * MINUTE)
    assert states(world) == [PERMITTED] * 3


# P9


def test_p9_the_condition_names_the_generation_that_it_judged() -> None:
    world = a_world()
    for upgrade in ({}, {"maxUnavailable": 2}, {"pauseRequests": [{"owner": "sre", "reason": "x"}]}):
        edit(world, upgrade)
        world.list_pods()
        world.pass_time(20 * MINUTE)
        found = world.condition()
        assert found is not None
        assert found.observed_generation == world.pool.generation
        assert found.status == ("False" if upgrade.get("pauseRequests") else "True")


def test_p9_an_edit_that_closes_the_gate_takes_the_claim_before_any_pods_are_listed() -> None:
    world = a_world()
    world.can_list = False
    world.restart()
    edit(world, {"pauseRequests": [{"owner": "sre", "reason": "x"}]})
    world.settle()
    assert allowed(world) == "False"
    assert states(world) == ["Gated"] * 3


def test_p9_a_true_condition_is_never_older_than_the_spec_after_a_restart() -> None:
    world = a_world()
    world.restart()
    edit(world, {"maxUnavailable": 2})
    world.settle()
    found = world.condition()
    assert found is not None
    assert not (found.status == "True" and found.observed_generation < world.pool.generation)


def test_p9_without_the_block_there_is_no_condition() -> None:
    world = a_world()
    remove_upgrade(world)
    world.settle()
    assert world.condition() is None
    assert states(world) == [None] * 3


# P1, P2, P4, P6, P9 after any sequence


UPGRADES: Final[tuple[Mapping[str, Any] | None, ...]] = (
    None,
    {},
    {},
    {"maxUnavailable": 2},
    {"maxUnavailable": 0},
    {"maxUnavailable": "50%"},
    {"method": "Replace"},
    {"triggers": ["Request"]},
    {"pauseRequests": [{"owner": "sre", "reason": "incident"}]},
    {"maintenanceWindows": [{"schedule": "0 */2 * * *", "durationSeconds": 3600}]},
    {"maintenanceExclusions": [NOT_YET]},
    {
        "maintenanceExclusions": [NOT_YET],
        "overrides": [{"gate": "MaintenanceWindow", "until": "2026-11-01T13:00:00Z", "reason": "a fix"}],
    },
)
OSES: Final = (BEHIND, BEHIND, {"version": "2022"}, {"version": "2025"})
MORES: Final[tuple[Mapping[str, Any], ...]] = ({}, {}, {"supportMatrix": [TOO_NEW]})
KERNELS: Final = (W2022, PATCHED, W2019, W2025, "10.0.20348", "")
FORGED: Final = ("Required", "Gated", "UpToDate", "Claimed", None)
HOLDS: Final = ("", "2026-11-01T13:00:00Z", "2026-10-01T00:00:00Z", None, None)
SPANS: Final = (SECOND, 45 * SECOND, 5 * MINUTE, 20 * MINUTE, HOUR)


class Upgrades(RuleBasedStateMachine):
    """Anything happens to a pool and its nodes, in any order; then the faults end."""

    def __init__(self) -> None:
        super().__init__()
        self.world = UpgradeWorld(upgrade_pool(), {})
        self.world.watchers.append(watch)
        self.last: dict[str, datetime] = {}

    names = st.sampled_from(NAMES)

    @initialize(kernels=st.tuples(*[st.sampled_from(KERNELS)] * 3))
    def begin(self, kernels: tuple[str, ...]) -> None:
        for name, kernel in zip(NAMES, kernels, strict=True):
            self.world.nodes[name] = settled_node(name, kernel=kernel)
        self.world.list_pods()
        self.world.pass_time(20 * MINUTE)

    @rule(
        upgrade=st.sampled_from(UPGRADES),
        os=st.sampled_from(OSES),
        more=st.sampled_from(MORES),
        mode=st.sampled_from(("Active", "Active", "Active", "Paused", "DryRun")),
    )
    def edit(self, upgrade: Mapping[str, Any] | None, os: Any, more: Any, mode: str) -> None:
        edit(self.world, upgrade, os=os, more=more, mode=mode)
        if upgrade is None:
            remove_upgrade(self.world)
        self.world.settle()

    @rule()
    def refuse(self) -> None:
        self.world.edit(unreadable(self.world.pool))
        self.world.settle()

    @rule(name=names, kernel=st.sampled_from(KERNELS), reimages=st.booleans())
    def change_machine(self, name: str, kernel: str, reimages: bool) -> None:
        versions = replace(settled_node(name).versions, kernel=kernel)
        if reimages:
            self.world.join(name, versions=versions)
        else:
            self.world.turn(name, versions=versions)
        self.world.settle()

    @rule(name=names, ready=st.sampled_from(("True", "False", "Unknown")))
    def change_ready(self, name: str, ready: str) -> None:
        if self.world.nodes[name].ready != ready:
            self.world.turn(name, ready=ready, ready_since=self.world.now)
        self.world.settle()

    @rule(name=names, cordons=st.booleans())
    def cordon(self, name: str, cordons: bool) -> None:
        self.world.write(name, unschedulable=cordons)
        self.world.settle()

    @rule(name=names, value=st.sampled_from(HOLDS))
    def hold(self, name: str, value: str | None) -> None:
        self.world.write(name, annotations={HOLD_ANNOTATION: value})
        self.world.settle()

    @rule(name=names, text=st.sampled_from(("", THEIRS, None)))
    def request(self, name: str, text: str | None) -> None:
        self.world.write(name, annotations={UPGRADE_REQUESTED_ANNOTATION: text})
        self.world.settle()

    @rule(name=names, value=st.sampled_from(FORGED))
    def forge(self, name: str, value: str | None) -> None:
        self.world.write(name, labels={UPGRADE_STATE_LABEL: value})
        self.world.settle()

    @rule(name=names, joins=st.booleans())
    def select(self, name: str, joins: bool) -> None:
        self.world.write(name, labels={"agentpool": "red" if joins else "blue"})
        self.world.settle()

    @rule(name=names, is_stuck=st.booleans())
    def block(self, name: str, is_stuck: bool) -> None:
        self.world.workloads = {**self.world.workloads, name: STUCK if is_stuck else Workload()}
        self.world.list_pods()
        self.world.settle()

    @rule(can_list=st.booleans(), can_read=st.booleans())
    def lose_sight(self, can_list: bool, can_read: bool) -> None:
        self.world.can_list, self.world.can_read = can_list, can_read

    @rule(version=st.sampled_from(("v1.36.3", "v1.36.4")))
    def upgrade_control_plane(self, version: str) -> None:
        self.world.version = version

    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.world.settle()

    @rule(span=st.sampled_from(SPANS))
    def wait(self, span: timedelta) -> None:
        self.world.pass_time(span)

    @invariant()
    def the_condition_claims_no_other_generation(self) -> None:
        found = self.world.condition()
        assert found is None or found.observed_generation <= self.world.pool.generation
        if found is not None and found.status == "True":
            assert found.observed_generation == self.world.pool.generation

    def teardown(self) -> None:
        world = self.world
        if not world.nodes:
            return
        world.start_over(HOUR)
        if world.now.minute < 5:  # a window has just opened or closed
            world.pass_time(10 * MINUTE)
        for node in world.nodes.values():
            may_be = expected(world, node)
            assert world.state(node.name) in may_be, (node, may_be, world.condition())
        writes, statuses = len(world.writes), world.status_writes
        world.pass_time((54 - world.now.minute) * MINUTE if world.now.minute < 54 else timedelta())
        assert (len(world.writes), world.status_writes) == (writes, statuses)
        ours = [each.name for each in world.nodes.values() if APPLIED_ANNOTATION in each.annotations]
        world.delete()
        world.settle()
        assert [world.state(name) for name in ours] == [None] * len(ours)
        requests = {n.name: n.annotations.get(UPGRADE_REQUESTED_ANNOTATION) for n in world.nodes.values()}
        assert set(requests.values()) <= {"", THEIRS, None}
        assert world.pool.finalizers == ()


def watch(world: UpgradeWorld, patch: NodePatch, snapshot: Snapshot) -> None:
    """Judge each write of the label at the moment of the write, by what is known then."""
    spec, node = world.pool.spec, patch.node
    if UPGRADE_STATE_LABEL not in patch.labels or world.pool.deleting:
        return
    value = patch.labels[UPGRADE_STATE_LABEL]
    is_stopped = spec is None or spec.mode is not Mode.ACTIVE or held(world, node)
    if is_stopped:
        assert patch.labels == {UPGRADE_STATE_LABEL: "Gated"}
        assert world.state(node.name) == PERMITTED
        assert (patch.annotations, patch.taints, patch.unschedulable) == ({}, None, None)
    if value != PERMITTED:
        return
    assert spec is not None
    assert spec.upgrade is not None
    assert not is_stopped
    assert not spec.upgrade.pause_requests
    survey = snapshot.pods.survey
    assert survey is not None
    assert survey.saw(node)
    assert survey.generation == world.pool.generation
    assert world.now - survey.started <= 15 * MINUTE
    assert snapshot.support.control_plane == world.version or not world.can_read
    assert unavailable(members(world)) < budget(world)
    if UPGRADE_REQUESTED_ANNOTATION not in node.annotations:
        assert node.versions.kernel.count(".") == 3


def held(world: UpgradeWorld, node: Node) -> bool:
    """Whether a person holds it: empty, or a time that has not come."""
    value = node.annotations.get(HOLD_ANNOTATION)
    return value is not None and (value == "" or datetime.fromisoformat(value) > world.now)


def members(world: UpgradeWorld) -> dict[str, Node]:
    return {name: node for name, node in world.nodes.items() if node.labels["agentpool"] == "red"}


def budget(world: UpgradeWorld) -> int:
    assert world.pool.spec is not None
    assert world.pool.spec.upgrade is not None
    most = world.pool.spec.upgrade.max_unavailable
    if isinstance(most, int):
        return most
    return max(1, len(members(world)) * int(most[:-1]) // 100)


def due_of(node: Node, spec: Any) -> bool | None:
    """Whether it is due, by section 1 of the issue; None where that is not known."""
    triggers = spec.upgrade.triggers
    if "Request" in triggers and UPGRADE_REQUESTED_ANNOTATION in node.annotations:
        return True
    if triggers == ("Request",):
        return False
    build, _, revision = node.versions.kernel.rpartition(".")
    release = {"10.0.17763": "2019", "10.0.20348": "2022", "10.0.26100": "2025"}.get(build)
    if not release:
        release = {"10.0.20348": "2022"}.get(node.versions.kernel)
        if release is None:
            return None
        revision = ""
    if release != spec.os.version:
        return True
    if spec.os.target_revision is None:
        return False
    return int(revision) < spec.os.target_revision if revision else None


def expected(world: UpgradeWorld, node: Node) -> set[str | None]:
    """Return what the label of a node may be once everything is known, by the text of the issue."""
    spec = world.pool.spec
    is_asked_for = spec is not None and node.name in members(world)
    if not is_asked_for and APPLIED_ANNOTATION not in node.annotations:
        return {world.state(node.name)}  # what others wrote on a node that no pool is known to have
    if spec is None or spec.mode is not Mode.ACTIVE or held(world, node):
        return {world.state(node.name)} - {PERMITTED}
    if spec.upgrade is None or node.name not in members(world):
        return {None}
    is_due = due_of(node, spec)
    if is_due is None:
        return {world.state(node.name)} - {PERMITTED}
    if not is_due:
        return {"UpToDate"}
    upgrade = spec.upgrade
    release = {"10.0.17763": "2019", "10.0.20348": "2022", "10.0.26100": "2025"}.get(
        node.versions.kernel[:10]
    )
    is_closed = (
        bool(upgrade.pause_requests)
        or any(each.os_version == spec.os.version for each in spec.support_matrix)
        or (upgrade.method == "InPlace" and release != spec.os.version)
        or (world.workloads.get(node.name) is STUCK)
        or (bool(upgrade.maintenance_windows) and world.now.hour % 2 == 1)
        or (bool(upgrade.maintenance_exclusions) and not any(o.until > world.now for o in upgrade.overrides))
    )
    if is_closed:
        return {"Gated"}
    gone = unavailable(members(world))
    if gone >= budget(world):
        is_gone = unavailable({node.name: node}) == 1
        return {"Gated", PERMITTED} if is_gone and gone - 1 < budget(world) else {"Gated"}
    return {PERMITTED}


TestUpgrades = pytest.mark.slow(Upgrades.TestCase)
TestUpgrades.settings = settings(
    # An example costs a tenth of a second. What fails is short enough to be read as it is found.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    stateful_step_count=20,
)
