"""The operator before winpool was installed by one command, and this one: up and down, with a pool in place.

Each version runs out of its image with the rights and policies of its own manifests. ``kubectl apply -k
deploy`` also makes the Deployment, whose Pods the testbed simulates: the replicas that count are containers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from harness.election import wait_leading
from harness.nodes import labels_of, taints_of
from harness.waiting import eventually
from harness.world import World
from image.before import Before
from image.building import Image
from image.conftest import Measured
from image.upgrading import (
    GUARD_SECONDS,
    Standing,
    Upgrading,
    codes_by_node,
    guards_of,
    one_write_more,
    wait_judged,
    wait_told,
)
from testbed.cluster import Testbed

TEAM: Final = "example.com/team"
STARTUP: Final = "example.com/starting"
NO_EXECUTE: Final = "os=windows:NoExecute"
NODES: Final = 12
TOLD: Final = dict.fromkeys(
    ("blockedNodes", "drainingNodes", "failedNodes", "heldNodes", "pressuredNodes"), 0
)
"""Fields of the status that the operator before does not know, as this one tells them of the pool."""
SPEC: Final[dict[str, Any]] = {
    "labels": {TEAM: "payments", "example.com/cost": "42"},
    "taints": [
        {"key": "os", "value": "windows", "effect": "NoSchedule"},
        {"key": "os", "value": "windows", "effect": "NoExecute"},
    ],
    "startupTaints": [{"key": STARTUP, "effect": "NoSchedule"}],
    "validation": {"readySeconds": 2},
}


@pytest.fixture
def upgrading(before: Before, image: Image, tmp_path: Path, directory: Path) -> Iterator[Upgrading]:
    """A cluster of its own with what the version before installs; the test changes that for all of it."""
    manifests = [before.tree / "crds", before.tree / "deploy" / "operator"]
    with Testbed.up(directory=tmp_path / "testbed", apply=manifests) as testbed:
        world = World(testbed, directory=tmp_path)
        mine = Upgrading(world, before=before, image=image, directory=directory)
        try:
            yield mine
        finally:
            mine.close()
            world.close()


def a_pool_of_the_old_operator(upgrading: Upgrading) -> str:
    """Have the old operator bring a pool up to date, among what others have put on its nodes, and end it."""
    world = upgrading.world
    names = world.fleet(
        windows=NODES,
        linux=2,
        labels={"example.com/of-a-person": "yes"},
        taints=["example.com/of-a-person=yes:PreferNoSchedule"],
    )
    world.kubectl("annotate", "node", *names, "example.com/of-a-person=yes")
    old = upgrading.old()
    old.start()
    manifest = world.pool(**SPEC)
    pool = world.apply(manifest)
    world.kubectl("annotate", "wnp", pool, "example.com/of-a-person=yes")
    world.wait_up_to_date(pool, nodes=NODES, seconds=GUARD_SECONDS)
    wait_judged(old, pool, nodes=NODES)
    assert old.stop() == 0
    return pool


def drift(world: World, *names: str) -> None:
    world.kubectl("label", "node", *names, f"{TEAM}-")


def wait_repaired(world: World, *names: str, team: str = "payments") -> None:
    eventually(
        lambda: all(labels_of(world.node(name)).get(TEAM) == team for name in names),
        what=f"{names} repaired",
        seconds=GUARD_SECONDS,
    )


def windows_of(world: World) -> list[str]:
    """Return the nodes that have the taint of the pool."""
    return sorted(name for name, node in world.nodes().items() if NO_EXECUTE in taints_of(node))


def test_an_upgrade_and_a_downgrade_write_each_record_once_and_lose_nothing(
    upgrading: Upgrading, measured: Measured
) -> None:
    world = upgrading.world
    pool = a_pool_of_the_old_operator(upgrading)
    windows = windows_of(world)
    assert len(windows) == NODES
    assert [
        name for name, node in world.nodes().items() for taint in taints_of(node) if STARTUP in taint
    ] == []

    with one_write_more(world, pool, to=windows[0]) as standing:
        upgrading.install_new()
        first, second = upgrading.new_pair()
        wait_judged(first, pool, nodes=NODES)
        standing.check(told=TOLD)
        drift(world, windows[0])
        wait_repaired(world, windows[0])
        assert second.stop() == 0
        assert first.stop() == 0
    measured(
        f"upgrade, {NODES} nodes: {standing.before_drift} PATCHes of nodes, then {standing.after_drift} "
        "for the drift of one"
    )

    with one_write_more(world, pool, to=windows[1]) as standing:
        upgrading.install_old()
        old = upgrading.old()
        old.start()
        wait_judged(old, pool, nodes=NODES)
        standing.check(unreported=TOLD)
        drift(world, windows[1])
        wait_repaired(world, windows[1])
        assert old.stop() == 0
    measured(
        f"downgrade, {NODES} nodes: {standing.before_drift} PATCHes of nodes, then {standing.after_drift} "
        "for the drift of one"
    )


def test_an_operator_without_the_lease_and_one_with_it_do_not_quarrel_over_nodes(
    upgrading: Upgrading, measured: Measured
) -> None:
    world = upgrading.world
    pool = a_pool_of_the_old_operator(upgrading)
    windows = windows_of(world)
    upgrading.install_new()
    old, new = upgrading.old(), upgrading.new()
    old.start()
    wait_judged(old, pool, nodes=NODES, guarded=False)
    standing = Standing(world, pool)
    new.start()
    wait_leading(new, seconds=GUARD_SECONDS)
    wait_judged(new, pool, nodes=NODES)
    wait_told(world, pool, TOLD)
    standing.wait_records()
    assert standing.writes_of_nodes() == dict.fromkeys(windows, 1)
    standing.check_nodes()
    measured(f"old and new at once, nothing changes: {NODES} PATCHes of nodes, for their records")

    drift(world, *windows)
    wait_repaired(world, *windows)
    most, refused = wait_taken(world, windows, since=standing.since, before=1)
    standing.check_nodes()
    measured(f"old and new at once, {NODES} nodes drift: {most} PATCHes, and {refused} refused with 409")

    edited = world.now()
    world.apply(world.pool(**{**SPEC, "labels": {TEAM: "orders"}}))
    world.wait_up_to_date(pool, nodes=NODES, seconds=GUARD_SECONDS)
    most, refused = wait_taken(world, windows, since=edited)
    measured(f"old and new at once, a label is edited: {most} PATCHes, and {refused} refused with 409")

    assert old.stop() == 0
    wait_told(world, pool, TOLD)


def wait_taken(world: World, nodes: Sequence[str], *, since: datetime, before: int = 0) -> tuple[int, int]:
    """Wait until the new operator has the last word on each record; return the PATCHes taken and refused.

    Each names the resourceVersion of the node that it was made for, so of two for the same state one is
    refused, with 409. What the old operator writes names no guard, since its own is not installed: the new
    one writes that record once more, and the old one leaves it so. ``before`` are the PATCHes of each node
    that came for another reason.
    """
    eventually(
        lambda: all(guards_of(world).get(name) for name in nodes),
        what="each record names the guard that is installed",
        seconds=GUARD_SECONDS,
    )
    answers = codes_by_node(world, since=since)
    assert {code for codes in answers.values() for code in codes} <= {200, 409}
    taken = {name: answers[name][200] - before for name in nodes}
    assert set(answers) == set(nodes)
    assert {name: count for name, count in taken.items() if count not in {1, 2}} == {}
    return sum(taken.values()), sum(codes[409] for codes in answers.values())
