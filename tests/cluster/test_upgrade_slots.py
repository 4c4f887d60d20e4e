"""Slots: who may upgrade nodes at the same time, by real tools that all ask at once, and what no one uses."""

from __future__ import annotations

from typing import Any, Final

import pytest

from cluster.told import issues
from cluster.upgrade_examples import Command, admin
from cluster.upgrade_ground import STATE_LABEL, ground_in, upgrade
from cluster.upgrade_told import expect_allowed, expect_states, states, told_states, why
from harness.nodes import labels_of
from harness.waiting import eventually, holds
from harness.watcher import Watcher
from harness.world import World

Object = dict[str, Any]

TARGET: Final = 4171
SILENT_SECONDS: Final = 12.0
"""Longer than what no one uses takes to pass on, in the second test."""


def pool_in(world: World, **fields: Any) -> Object:
    return world.pool(os={"version": "2022", "targetRevision": TARGET}, upgrade=upgrade(world, **fields))


@pytest.mark.timeout(600)  # a guard: machines restart one after the other
def test_of_six_patch_tools_at_once_one_begins(world: World) -> None:
    with ground_in(world) as ground:
        nodes = [ground.first, *(ground.join("2022", 1607) for _ in range(5))]
        ground.wait_settled()
        shell, command = admin(world), Command(world)
        pool = world.apply(pool_in(world))

        def all_at_once() -> list[int]:
            """Run the tools of all nodes at the same time; return with what each ended."""
            running = [
                shell.start(
                    "patch-node.sh", *command.of(ground, "patch", node, revision=TARGET), NODE_NAME=node
                )
                for node in nodes
            ]
            for each in running:
                each.communicate(timeout=120)
            return sorted(each.returncode for each in running)

        with world.watch_nodes() as witness:
            world.operator.start()
            expect_allowed(world, pool, "True", "UpgradeAllowed")
            eventually(lambda: list(states(world).values()).count("Required") == 1, what="one permission")
            assert all_at_once() == [3, 3, 3, 3, 3, 4]
            assert command.runs == 1
            [slot] = world.status(pool)["slots"]
            begun = slot["node"]
            waiting = next(name for name in nodes if name != begun)
            code, _, text = why(world, waiting)
            assert code in (1, 3), "without --leader-elect no yes is certain"
            assert code == 1 or begun in text

            def done() -> bool:
                all_at_once()
                return set(states(world).values()) == {"UpToDate"}

            eventually(done, what="all nodes up to date", seconds=400, every=1)
            eventually(lambda: set(all_at_once()) == {0}, what="all nodes schedulable", seconds=60, every=1)
            assert command.runs == len(nodes)
            witness.catch_up(world.nodes().values())
        assert most_unavailable(witness) == 1
        eventually(lambda: "slots" not in world.status(pool), what="no slots are left")
        world.delete(pool)


def most_unavailable(witness: Watcher) -> int:
    """Return how many nodes were cordoned or not Ready at the same time, by an independent watch."""
    changes = sorted(
        (int(each["metadata"]["resourceVersion"]), name, each)
        for name, seen in witness.states.items()
        for each in seen
    )
    missing: set[str] = set()
    most = 0
    for _, name, node in changes:
        ready = {each["type"]: each["status"] for each in node["status"]["conditions"]}["Ready"]
        if node["spec"].get("unschedulable") or ready != "True":
            missing.add(name)
        else:
            missing.discard(name)
        most = max(most, len(missing))
    return most


@pytest.mark.timeout(600)  # a guard: three permissions pass on, a few seconds each
def test_what_no_one_uses_passes_on_once_and_then_the_pool_is_silent(world: World) -> None:
    with ground_in(world, pause_seconds=2.0, use_seconds=6.0) as ground:
        nodes = [ground.first, *(ground.join("2022", 1607) for _ in range(2))]
        ground.wait_settled()
        pool = world.apply(pool_in(world))
        with world.watch_nodes() as witness:
            world.operator.start()
            unused = eventually(
                lambda: issues(world.status(pool), "PermissionUnused"),
                what="the end of the round",
                seconds=120,
            )
            [last] = unused[0]["nodes"]
            expect_states(world, {name: "Required" if name == last else "Gated" for name in nodes})
            version = world.get("wnp", pool)["metadata"]["resourceVersion"]
            start = world.now()
            holds(lambda: world.operator.running, seconds=SILENT_SECONDS, every=1)
            assert world.node_patches(since=start) == []
            assert world.get("wnp", pool)["metadata"]["resourceVersion"] == version

            world.operator.kill()
            world.operator.start()
            eventually(
                lambda: world.operator.metric("winpool_upgrade_slots", pool=pool, state="Reserved") == 1,
                what="the slots after the start",
            )
            holds(lambda: states(world)[last] == "Required", seconds=SILENT_SECONDS, every=0.5)
            witness.catch_up(world.nodes().values())
        said = told_states(witness)
        assert {name: each.count("Required") for name, each in said.items()} == dict.fromkeys(nodes, 1)
        assert labels_of(world.node(last)).get(STATE_LABEL) == "Required"
        world.delete(pool)
