"""What somebody takes away or changes by hand is put back, once, and told about."""

from __future__ import annotations

import time
from typing import Any

import pytest

from harness.nodes import annotations_of, carried, labels_of, record_of
from harness.waiting import eventually
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL

SPEC: dict[str, Any] = {
    "labels": {"example.com/team": "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}


def test_what_is_removed_or_changed_by_hand_is_put_back_with_one_patch_and_one_event(world: World) -> None:
    names = world.fleet(windows=6)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=6)
    before = world.carried()
    label_removed, label_changed, pool_label, taint_removed, taint_changed, quiet = names
    start = world.now()
    with world.watch_nodes() as witness:
        world.kubectl("label", "node", label_removed, "example.com/team-")
        world.kubectl("label", "node", label_changed, "example.com/team=mine", "--overwrite")
        world.kubectl("label", "node", pool_label, f"{POOL_LABEL}-")
        world.kubectl("taint", "node", taint_removed, "os=windows:NoSchedule-")
        world.kubectl("taint", "node", taint_changed, "os=mine:NoSchedule", "--overwrite")
        drifted = set(names) - {quiet}
        eventually(
            lambda: {each.name for each in world.node_patches(since=start)} == drifted,
            what="a PATCH of each drifted node",
        )
        eventually(lambda: world.carried() == before, what="all nodes as before")
        witness.catch_up(world.nodes().values())
    assert witness.changes("metadata", "labels")[label_removed] == 2  # off by hand, and on again
    for name in drifted:
        assert wait_for_events(world, name) == ["DriftRepaired"]
    assert world.reasons(kind="Node", name=quiet) == []

    patches = world.node_patches(since=start)
    assert sorted(each.name for each in patches if each.code == 200) == sorted(drifted)
    assert {each.code for each in patches} <= {200, 409}, "409 where the hand was faster"
    assert "DriftRepaired" in world.kubectl("describe", "node", label_removed)


def test_a_lost_ownership_record_is_written_again_with_one_patch(world: World) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    uid = world.get("wnp", pool)["metadata"]["uid"]
    before = world.carried()
    start = world.now()
    world.kubectl("annotate", "node", names[0], f"{APPLIED_ANNOTATION}-")
    eventually(
        lambda: APPLIED_ANNOTATION in annotations_of(world.node(names[0])), what="the record written again"
    )
    node = world.node(names[0])
    assert record_of(node)["pool"] == uid
    assert labels_of(node) == before[names[0]]["labels"]
    assert carried(node)["taints"] == before[names[0]]["taints"]
    world.wait_up_to_date(pool, nodes=2)
    assert world.patched_nodes(since=start) == [names[0]]


@pytest.mark.nightly
def test_a_fight_over_a_label_slows_down_repairs_but_not_the_deletion(world: World) -> None:
    [name] = world.fleet(windows=1)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    start = world.now()
    removals = fight(world, name, seconds=7)
    repairs = [each for each in world.node_patches(since=start) if each.code == 200]
    assert 2 <= len(repairs) <= 3, f"{len(repairs)} repairs after {removals} removals in 7 s"
    assert (repairs[1].received - repairs[0].received).total_seconds() >= 1.5
    # Events of nodes wait for others, so they come seconds after the repairs.
    eventually(
        lambda: "DriftRepaired" in world.reasons(kind="Node", name=name), what="the event DriftRepaired"
    )
    told = [each["reason"] for each in world.own_events(kind="Node", name=name)]
    assert told.count("DriftRepaired") == 1
    assert set(told) <= {"DriftRepaired", "ForeignTaintConflict"}, "of the third repair somebody has to hear"

    world.kubectl("label", "node", name, "example.com/team-", check=False)
    world.kubectl("delete", "wnp", pool, "--timeout=4s")  # the next repair is due in 4 to 8 s
    assert world.carried() == bare


def fight(world: World, node: str, *, seconds: float) -> int:
    """Remove a label of the pool each time it is back; return how often. Repairs are due at 0, 2 and 6 s."""
    removals = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if "example.com/team" in labels_of(world.node(node)):
            world.kubectl("label", "node", node, "example.com/team-")
            removals += 1
    return removals


def wait_for_events(world: World, node: str) -> list[str]:
    return eventually(lambda: world.reasons(kind="Node", name=node), what=f"an event of {node}")
