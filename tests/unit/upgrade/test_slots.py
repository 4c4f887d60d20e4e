"""Which nodes have the slots of a pool, while machines are upgraded, vanish, or do nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

import pytest
from msgspec.structs import replace

from harness.builders import NOON, edited, unreadable, with_status
from harness.upgrade_feature import TARGET, passed, settled_node, upgrade_pool, wishes
from harness.upgrade_world import UpgradeWorld, permits
from winpool.api.crd import SLOTS
from winpool.api.issues import NORMAL, IssueReason
from winpool.api.keys import HOLD_ANNOTATION
from winpool.api.status import MAX_SLOTS, Slot, SlotState
from winpool.decide import decide
from winpool.features.upgrade.slots import Line, held_slots, secured, slots_of
from winpool.model.node import NodeVersions

NAMES: Final = tuple(f"w{place}" for place in range(1, 7))
MINUTE: Final = timedelta(minutes=1)
SECOND: Final = timedelta(seconds=1)
PATCHED: Final = NodeVersions(kernel=f"10.0.20348.{TARGET}", kubelet="v1.36.3", runtime="containerd://2.3.0")
REJOIN: Final = timedelta(minutes=30)
FAR: Final = datetime(2099, 1, 1, tzinfo=UTC)


def a_world(upgrade: Mapping[str, Any] | None = None, *, names: tuple[str, ...] = NAMES) -> UpgradeWorld:
    """Return a world whose nodes are due, and whose slots were given a moment ago."""
    world = UpgradeWorld(
        upgrade_pool(upgrade), {name: replace(settled_node(name), boot_id="1") for name in names}
    )
    world.list_pods()
    world.pass_time(15 * MINUTE)
    return world


def edit(world: UpgradeWorld, upgrade: Mapping[str, Any] | None = None, **pool: Any) -> None:
    spec = upgrade_pool(upgrade, **pool).spec
    assert spec is not None
    world.edit(edited(world.pool, spec))


def permitted(world: UpgradeWorld) -> list[str]:
    """Return which nodes have the label."""
    return [name for name in sorted(world.nodes) if world.state(name) == "Required"]


def slots(world: UpgradeWorld) -> dict[str, str]:
    """Return what the status says of the slots, without those that count for nothing."""
    return {each.node: each.state for each in world.pool.status.slots if each.state != SlotState.UNUSED}


def slot(world: UpgradeWorld, name: str) -> Slot:
    return next(each for each in world.pool.status.slots if each.node == name)


def issues(world: UpgradeWorld) -> dict[str, tuple[str, ...]]:
    return {each.reason: each.nodes for each in world.pool.status.issues}


def patch(world: UpgradeWorld, name: str) -> None:
    """Do what a patch tool does: cordon, restart, and make the node schedulable again."""
    world.turn(name, unschedulable=True)
    world.settle()
    world.turn(name, versions=PATCHED, boot_id="2")
    world.settle()
    world.turn(name, unschedulable=False)
    world.settle()


def test_as_many_nodes_are_permitted_as_may_be_unavailable_in_the_order_of_the_plan() -> None:
    assert permitted(a_world()) == ["w1"]
    assert permitted(a_world({"maxUnavailable": 2})) == ["w1", "w2"]
    world = UpgradeWorld(
        upgrade_pool({"canary": {"nodeSelector": {"matchLabels": {"first": "yes"}}}}),
        {name: settled_node(name, labels={"first": "yes"} if name == "w4" else {}) for name in NAMES},
    )
    world.start_over(16 * MINUTE)
    assert permitted(world) == ["w4"]


def test_a_node_is_permitted_only_once_its_slot_is_in_the_status() -> None:
    world = UpgradeWorld(upgrade_pool(), {name: settled_node(name) for name in NAMES})
    seen: list[tuple[str, bool]] = []
    world.watchers.append(
        lambda now, change, _: (
            seen.append((change.node.name, change.node.name in slots(now))) if permits(change) else None
        )
    )
    world.start_over(16 * MINUTE)
    assert seen == [("w1", True)]


def test_nodes_are_upgraded_one_after_the_other() -> None:
    world = a_world()
    for name in NAMES:
        assert permitted(world) == [name]
        patch(world, name)
        assert world.state(name) == "UpToDate"
    assert slots(world) == {}


@pytest.mark.parametrize(
    "change", [{"unschedulable": True}, {"ready": "False"}, {"ready": "Unknown"}, {"deleting": True}]
)
def test_a_node_that_has_begun_keeps_label_and_slot(change: dict[str, Any]) -> None:
    world = a_world()
    world.turn("w1", **change)
    world.pass_time(300 * MINUTE)
    assert (permitted(world), slots(world)) == (["w1"], {"w1": "Begun"})
    assert IssueReason.GATE_CLOSED not in issues(world)


def test_the_slot_is_kept_until_the_node_is_available_though_it_is_up_to_date() -> None:
    world = a_world()
    world.turn("w1", unschedulable=True, versions=PATCHED)
    world.pass_time(120 * MINUTE)
    assert (world.state("w1"), slots(world)) == ("UpToDate", {"w1": "Begun"})
    assert permitted(world) == []
    world.turn("w1", unschedulable=False)
    world.pass_time(MINUTE)
    assert permitted(world) == ["w2"]


def test_a_machine_that_restarted_and_is_due_again_has_its_whole_time_again() -> None:
    world = a_world()
    world.pass_time(25 * MINUTE)
    world.turn("w1", boot_id="2")
    world.pass_time(29 * MINUTE)
    assert permitted(world) == ["w1"]
    world.pass_time(3 * MINUTE)
    assert permitted(world) == ["w2"]


def test_a_node_that_is_available_again_and_still_due_counts_as_unused() -> None:
    world = a_world()
    world.turn("w1", unschedulable=True)
    world.pass_time(60 * MINUTE)
    world.turn("w1", unschedulable=False)
    world.pass_time(29 * MINUTE)
    assert (permitted(world), slots(world)) == (["w1"], {"w1": "Reserved"})
    world.pass_time(3 * MINUTE)
    assert permitted(world) == ["w2"]


def test_a_node_that_is_gone_keeps_its_slot_for_the_time_that_a_machine_may_take() -> None:
    world = a_world()
    del world.nodes["w1"]
    world.pass_time(REJOIN - SECOND)
    assert (permitted(world), slots(world)) == ([], {"w1": "Gone"})
    world.pass_time(2 * SECOND)
    assert permitted(world) == ["w2"]


@pytest.mark.parametrize("is_new", [True, False], ids=["another machine", "the same machine"])
def test_a_machine_of_the_same_name_takes_over_the_slot(*, is_new: bool) -> None:
    world = a_world()
    old = world.nodes.pop("w1")
    world.pass_time(20 * MINUTE)
    world.join("w1", ready="False", versions=PATCHED)
    if not is_new:
        world.turn("w1", uid=old.uid)
    world.pass_time(60 * MINUTE)
    assert (permitted(world), slots(world)) == ([], {"w1": "Begun"})
    world.turn("w1", ready="True")
    world.pass_time(MINUTE)
    assert permitted(world) == ["w2"]


def test_a_new_machine_may_get_the_labels_of_the_pool_a_while_after_it_has_joined() -> None:
    world = a_world()
    labels = world.nodes.pop("w1").labels
    world.pass_time(5 * MINUTE)
    world.join("w1", ready="False", versions=PATCHED, labels={"kubernetes.io/os": "windows"})
    world.pass_time(5 * MINUTE)
    assert (permitted(world), slots(world)) == ([], {"w1": "Gone"})
    world.turn("w1", labels=labels)
    world.pass_time(MINUTE)
    assert (permitted(world), slots(world)) == ([], {"w1": "Begun"})


def test_a_machine_of_the_same_name_that_is_due_gets_its_turn_again() -> None:
    world = a_world()
    world.join("w1")
    world.list_pods()
    world.pass_time(MINUTE)
    assert (permitted(world), slots(world)) == (["w1"], {"w1": "Reserved"})
    assert slot(world, "w1").uid == world.nodes["w1"].uid


def test_a_node_that_leaves_the_pool_has_no_slot() -> None:
    world = a_world()
    world.write("w1", labels={"agentpool": "blue"})
    world.pass_time(MINUTE)
    assert (permitted(world), slots(world)) == (["w2"], {"w2": "Reserved"})


# What others use of the budget


def test_a_node_that_becomes_unavailable_takes_the_last_unused_slot() -> None:
    world = a_world({"maxUnavailable": 2})
    world.turn("w5", unschedulable=True)
    world.settle()
    assert permitted(world) == ["w1"]
    world.turn("w5", unschedulable=False)
    world.pass_time(2 * MINUTE)
    assert permitted(world) == ["w1", "w2"]


def test_a_node_that_has_begun_is_not_withdrawn_for_another() -> None:
    world = a_world()
    world.turn("w1", unschedulable=True)
    world.settle()
    world.turn("w5", ready="False")
    world.pass_time(MINUTE)
    assert (permitted(world), slots(world)) == (["w1"], {"w1": "Begun"})


def test_a_lower_budget_withdraws_the_last_unused_slots() -> None:
    world = a_world({"maxUnavailable": 4})
    world.turn("w4", unschedulable=True)
    world.settle()
    edit(world, {"maxUnavailable": 2})
    world.list_pods()
    world.pass_time(2 * MINUTE)
    assert permitted(world) == ["w1", "w4"]


def test_a_withdrawn_slot_goes_to_no_other_node_for_a_minute_and_back_to_one_that_has_begun() -> None:
    world = a_world()
    world.pass_time(31 * MINUTE - 30 * SECOND)
    assert (permitted(world), slots(world)) == ([], {"w1": "Withdrawn"})
    world.turn("w1", unschedulable=True)
    world.pass_time(MINUTE)
    assert (permitted(world), slots(world)) == (["w1"], {"w1": "Begun"})


# What no one uses


def turns(
    world: UpgradeWorld, span: timedelta, happens: Callable[[UpgradeWorld], None] = UpgradeWorld.settle
) -> list[tuple[str, datetime]]:
    """Return which nodes get the permission from what ``happens`` until that time is over, and when."""
    before = len(world.writes)
    happens(world)
    world.list_pods()
    world.pass_time(span)
    return [(change.node.name, at) for at, change in world.writes[before:] if permits(change)]


@pytest.mark.slow
def test_a_permission_that_no_one_uses_passes_on_and_then_stays() -> None:
    world = a_world()
    given = [("w1", world.now), *turns(world, timedelta(hours=5))]
    assert [name for name, _ in given] == [*NAMES]
    pauses = {later - earlier for (_, earlier), (_, later) in pairwise(given[1:])}
    assert all(timedelta(minutes=31) <= each < timedelta(minutes=31, seconds=3) for each in pauses)
    assert permitted(world) == ["w6"]
    assert issues(world)[IssueReason.PERMISSION_UNUSED] == ("w6",)
    assert IssueReason.PERMISSION_UNUSED in NORMAL
    writes = len(world.writes), world.status_writes
    world.pass_time(timedelta(days=3))
    assert (len(world.writes), world.status_writes) == writes, "a converged pool is silent"
    world.restart()
    world.list_pods()
    world.pass_time(timedelta(days=1))
    assert len(world.writes) == writes[0], "a restart begins no new round"


def test_the_only_node_that_is_due_keeps_its_permission() -> None:
    world = a_world(names=("w1",))
    assert turns(world, timedelta(hours=5)) == []
    assert permitted(world) == ["w1"]
    assert issues(world)[IssueReason.PERMISSION_UNUSED] == ("w1",)


def test_only_as_many_pass_on_as_others_wait() -> None:
    world = a_world({"maxUnavailable": 4})
    assert [name for name, _ in turns(world, timedelta(hours=5))] == ["w5", "w6"]
    assert permitted(world) == ["w3", "w4", "w5", "w6"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happens", "next_ones"),
    [
        (lambda world: edit(world, {"soakSeconds": 5}), [*NAMES[:5]]),
        (lambda world: patch(world, "w6"), [*NAMES[:5]]),
        (lambda world: world.join("w7"), ["w7"]),
        (lambda world: world.write("w6", annotations={HOLD_ANNOTATION: ""}), [*NAMES[:5]]),
        (lambda world: edit(world, {"pauseRequests": [{"owner": "sre"}]}), []),
    ],
    ids=["the spec", "the node that has it", "another node", "a hold", "a pause"],
)
def test_a_change_begins_a_new_round(happens: Any, next_ones: list[str]) -> None:
    world = a_world()
    world.pass_time(timedelta(hours=5))
    assert [name for name, _ in turns(world, timedelta(hours=5), happens)] == next_ones


def test_as_many_nodes_as_the_status_can_remember_are_a_round() -> None:
    nodes = {name: settled_node(name) for name in (f"w{place:03}" for place in range(MAX_SLOTS + 9))}
    found: tuple[Slot, ...] = ()
    had: list[str] = []
    for minutes in range(0, 3000, 5):
        now = NOON + minutes * MINUTE
        line = Line(nodes=nodes, due=nodes, waiting=nodes, unclear=(), allowed=1, now=now)
        found = slots_of(found, held_slots(found, nodes, others=(), rejoin_seconds=60, now=now), line).slots
        had += [name for name in secured(found) if name not in had]
    assert had == list(nodes)[:MAX_SLOTS]
    assert len(found) == MAX_SLOTS
    assert [each.node for each in found if each.state == SlotState.RESERVED] == had[-1:]


# Status, spec and mode


@pytest.mark.parametrize("begun", [True, False])
def test_slots_that_someone_removes_are_made_again_from_the_labels(*, begun: bool) -> None:
    world = a_world({"maxUnavailable": 2})
    if begun:
        world.turn("w2", unschedulable=True)
        world.settle()
    before, writes = slots(world), len(world.writes)
    status = world.pool.status.model_copy(update={"slots": ()})
    world.pool = with_status(world.pool, status)
    world.pass_time(MINUTE)
    assert slots(world) == before
    assert permitted(world) == ["w1", "w2"]
    assert len(world.writes) == writes, "and no permission is withdrawn meanwhile"


def test_a_label_that_is_withdrawn_counts_until_it_is_gone_also_without_a_slot() -> None:
    world = a_world({"maxUnavailable": 2}, names=("w5", "w6"))
    world.join("w1")
    world.list_pods()
    world.settle()
    world.turn("w6", versions=PATCHED)
    world.pool = with_status(world.pool, world.pool.status.model_copy(update={"slots": ()}))
    before: list[list[str]] = []
    world.watchers.append(lambda now, change, _: before.append(permitted(now)) if permits(change) else None)
    world.settle()
    assert before == [["w5"]]
    assert permitted(world) == ["w1", "w5"]


def test_of_labels_without_a_slot_as_many_stay_as_the_budget_permits() -> None:
    """So it is after an upgrade of winpool from a version without slots."""
    world = UpgradeWorld(upgrade_pool(), {name: settled_node(name, state="Required") for name in NAMES})
    world.turn("w3", unschedulable=True)
    world.start_over(16 * MINUTE)
    assert (permitted(world), slots(world)) == (["w3"], {"w3": "Begun"})


STOPS: Final = {
    "a pause": lambda world: edit(world, {"pauseRequests": [{"owner": "sre"}], "maxUnavailable": 2}),
    "Paused": lambda world: edit(world, {"maxUnavailable": 2}, mode="Paused"),
    "DryRun": lambda world: edit(world, {"maxUnavailable": 2}, mode="DryRun"),
    "a window that closes": lambda world: edit(
        world,
        {
            "maxUnavailable": 2,
            "maintenanceExclusions": [{"start": "2026-11-01T00:00:00Z", "end": "2026-12-01T00:00:00Z"}],
        },
    ),
    "a release that no one knows": lambda world: edit(
        world, {"maxUnavailable": 2}, os={"version": "2042", "targetRevision": TARGET}
    ),
}


@pytest.mark.parametrize("stop", STOPS.values(), ids=list(STOPS))
def test_what_stops_a_pool_ends_unused_slots_and_no_others(stop: Any) -> None:
    world = a_world({"maxUnavailable": 2})
    world.turn("w2", unschedulable=True)
    world.settle()
    stop(world)
    world.settle()
    assert permitted(world) == []
    world.list_pods()
    world.pass_time(2 * MINUTE)
    assert slots(world) == {"w2": "Begun"}
    edit(world, {"maxUnavailable": 2})
    world.list_pods()
    world.pass_time(20 * MINUTE)
    assert permitted(world) == ["w1", "w2"]


def test_a_hold_ends_the_slot_of_its_node() -> None:
    world = a_world()
    world.write("w1", annotations={HOLD_ANNOTATION: ""})
    world.settle()
    assert permitted(world) == []
    world.pass_time(MINUTE + SECOND)
    assert (permitted(world), slots(world)) == (["w2"], {"w2": "Reserved"})


def test_slots_stay_while_the_spec_cannot_be_read() -> None:
    world = a_world()
    spec, before = world.pool.spec, world.pool.status.slots
    assert spec is not None
    world.edit(unreadable(world.pool))
    world.pass_time(60 * MINUTE)
    assert permitted(world) == []
    assert world.pool.status.slots == before


def test_there_are_no_slots_without_the_block_and_after_the_pool_was_deleted() -> None:
    world = a_world()
    spec = world.pool.spec
    assert spec is not None
    world.edit(edited(world.pool, spec.model_copy(update={"upgrade": None})))
    world.settle()
    assert world.pool.status.slots == ()
    world = a_world()
    world.delete()
    world.settle()
    assert world.pool.status.slots == ()


def test_a_flapping_gate_gives_a_permission_once_a_minute() -> None:
    world = a_world()
    given = 0
    for _ in range(20):
        world.turn("w1", versions=replace(world.nodes["w1"].versions, kubelet="v1.37.0"))
        given += sum(name == "w1" for name, _ in turns(world, SECOND))
        world.turn("w1", versions=replace(world.nodes["w1"].versions, kubelet="v1.36.3"))
        given += sum(name == "w1" for name, _ in turns(world, 5 * SECOND))
    assert given <= 2


@pytest.mark.parametrize(
    "forged",
    [
        Slot(node="ghost", uid="1", state="Gone", since=FAR, deadline=FAR),
        Slot(node="ghost", uid="1", state="Draining", since=FAR),
        Slot(node="w1", uid="1", state="gibberish", since=FAR),
        Slot(node="w1", uid="1", state="Withdrawn", since=FAR, deadline=FAR),
        Slot(node="w1", uid="uid-of-w1", state="Reserved", since=FAR, deadline=FAR, boot_id="\n"),
        Slot(node="w1", uid="uid-of-w1", state="Reserved", since=FAR),
    ],
    ids=lambda each: f"{each.node} {each.state}",
)
def test_what_someone_writes_into_the_slots_ends(forged: Slot) -> None:
    world = a_world()
    status = world.pool.status.model_copy(update={"slots": (forged,)})
    world.pool = with_status(world.pool, status)
    world.pass_time(32 * MINUTE)
    assert list(slots(world).values()) == ["Reserved"]
    assert permitted(world) == [*slots(world)]
    writes = len(world.writes), world.status_writes
    world.pass_time(20 * MINUTE)
    assert (len(world.writes), world.status_writes) == writes


def test_an_older_crd_permits_no_node_and_does_not_stop_the_pool() -> None:
    snapshot = a_world().snapshot()
    lacking = replace(snapshot, lacking_fields=(SLOTS,))
    result = passed(lacking)
    assert result.overview is not None
    assert [each.name for each in result.overview.stops] == ["CRDOutdated"]
    assert set(wishes(lacking).values()) == {"Gated"}
    [told] = [each for each in decide(lacking).status.issues if each.reason == IssueReason.CRD_OUTDATED]
    assert "The operator permits no upgrade until then." in told.message
    begun = replace(lacking, nodes=(replace(lacking.nodes[0], unschedulable=True), *lacking.nodes[1:]))
    assert not decide(begun).writes.status_first
