"""What a pool has ever set is in its status, so that it comes off even where records prove nothing (P3)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from cluster.forging import a_taint, await_told, told
from harness.nodes import labels_of, taints_of
from harness.waiting import eventually
from harness.watcher import Watcher, version_of
from harness.world import World

Object = dict[str, Any]

SPEC: Final[Object] = {
    "labels": {"example.com/team": "payments", "example.com/tier": "gold"},
    "taints": [a_taint("os=windows:NoSchedule"), a_taint("example.com/quiet=yes:PreferNoSchedule")],
}
LESS: Final[Object] = {
    "labels": {"example.com/team": "payments"},
    "taints": [a_taint("os=windows:NoSchedule")],
}
SET: Final = {
    "labels": ["example.com/team", "example.com/tier"],
    "taints": ["example.com/quiet:PreferNoSchedule", "os:NoSchedule"],
}
MOST: Final = 64
"""So many keys the status has room for (design §5)."""
LABELS: Final = 32
"""So many labels a spec may have."""
STARTUP: Final[Object] = {
    "startupTaints": [{"key": "example.com/agents", "effect": "NoSchedule"}],
    "validation": {"readySeconds": 0, "nodeAgents": "None"},
}


def test_keys_are_in_the_status_before_a_node_carries_them(world: World) -> None:
    world.fleet(windows=1)
    pool = world.apply(world.pool(**LESS, **STARTUP))
    with world.watch_nodes() as nodes, world.watch_pool(pool) as pools:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=1)
        world.apply(world.pool(**SPEC))
        world.wait_up_to_date(pool, nodes=1)
        eventually(lambda: world.operator.running and set_keys(world, pool), what="setKeys in the status")
        nodes.catch_up(world.nodes().values())
        pools.catch_up(world.pools().values())
    for key in (*SET["labels"], *SET["taints"], "example.com/agents:NoSchedule"):
        assert key in known_when(nodes, pools, key), key
    assert pools.states[pool][0].get("status", {}).get("setKeys", {}) == {}


def test_the_status_is_written_before_the_first_node(world: World) -> None:
    """By the audit log, which knows of requests that were on their way."""
    world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    start = world.now()
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    assert set_keys(world, pool) == SET
    first_node = min(each.received for each in world.node_patches(since=start))
    statuses = [
        each.completed
        for each in world.writes(since=start)
        if (each.resource, each.subresource, each.code) == ("windowsnodepools", "status", 200)
    ]
    assert min(done for done in statuses if done) <= first_node


def test_without_a_guard_what_was_set_comes_off_at_deletion(unguarded: World) -> None:
    unguarded.fleet(windows=3, labels={"example.com/tier": "silver"})
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**SPEC))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=3)
    unguarded.delete(pool)
    # The label that gave way is one that the kubelet may write itself, so it comes back.
    assert unguarded.carried() == before


def test_without_a_guard_a_key_that_left_the_spec_while_the_operator_was_down_comes_off(
    unguarded: World,
) -> None:
    names = unguarded.fleet(windows=2)
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**SPEC))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    assert set_keys(unguarded, pool) == SET
    unguarded.operator.kill()
    unguarded.apply(unguarded.pool(**LESS))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    for node in unguarded.nodes().values():
        assert "example.com/tier" not in labels_of(node)
        assert taints_of(node) == {"os=windows:NoSchedule"}
    assert not any(told(unguarded, pool, node=name, key="example.com/") for name in names)
    unguarded.delete(pool)
    assert unguarded.carried() == before


def test_without_a_guard_and_without_set_keys_only_the_spec_comes_off_and_the_rest_is_told(
    unguarded: World,
) -> None:
    (name,) = unguarded.fleet(windows=1)
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**SPEC))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=1)
    unguarded.operator.kill()
    unguarded.apply(unguarded.pool(**LESS))
    lose_status(unguarded, pool)
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=1)
    commands = [
        await_told(unguarded, pool, node=name, key=key) for key in ("example.com/tier", "example.com/quiet")
    ]
    node = unguarded.node(name)
    assert labels_of(node)["example.com/tier"] == "gold"
    assert "example.com/quiet=yes:PreferNoSchedule" in taints_of(node)
    assert set_keys(unguarded, pool) == {"labels": ["example.com/team"], "taints": ["os:NoSchedule"]}
    for command in commands:
        unguarded.kubectl(*command)
    unguarded.delete(pool)
    assert unguarded.carried() == before


def test_without_a_guard_and_with_the_status_lost_the_keys_of_the_spec_come_off_at_deletion(
    unguarded: World,
) -> None:
    unguarded.fleet(windows=2)
    before = unguarded.carried()
    pool = unguarded.apply(unguarded.pool(**SPEC))
    unguarded.operator.start()
    unguarded.wait_up_to_date(pool, nodes=2)
    assert set_keys(unguarded, pool) == SET
    unguarded.operator.kill()
    lose_status(unguarded, pool)
    unguarded.delete(pool, wait=False)
    unguarded.operator.start()
    eventually(lambda: pool not in unguarded.pools(), what="the pool gone")
    assert unguarded.carried() == before


@pytest.mark.nightly
def test_a_pool_that_sets_more_keys_over_time_than_its_status_holds_goes_on(unguarded: World) -> None:
    """An editor who goes through three times 32 labels neither stops the pool nor leaves anything behind."""
    unguarded.fleet(windows=1)
    before = unguarded.carried()
    unguarded.operator.start()
    for turn in range(3):
        labels = {f"example.com/turn-{turn}-{number:02d}": "1" for number in range(LABELS)}
        pool = unguarded.apply(unguarded.pool(labels=labels))
        unguarded.wait_up_to_date(pool, nodes=1)
        [node] = unguarded.nodes().values()
        carried = {key for key in labels_of(node) if key.startswith("example.com/turn-")}
        assert carried == set(labels)
        keys = set_keys(unguarded, pool)
        assert set(keys["labels"]) >= set(labels)
        assert len(keys["labels"]) + len(keys.get("taints", [])) <= MOST
    unguarded.delete(pool)
    assert unguarded.carried() == before


# Helpers


def known_when(nodes: Watcher, pools: Watcher, key: str) -> set[str]:
    """Return all that the status said the pool had set when its one node first carried a label or taint."""
    [states], [pool] = nodes.states.values(), pools.states
    first = next(each for each in states if key in keys_on(each))
    found = pools.at(pool, version_of(first)).get("status", {}).get("setKeys", {})
    return {*found.get("labels", []), *found.get("taints", [])}


def keys_on(node: Object) -> set[str]:
    """Return the labels and taints of a node as setKeys names them."""
    return {*labels_of(node), *(f"{each['key']}:{each['effect']}" for each in node["spec"].get("taints", []))}


def set_keys(world: World, pool: str) -> Object:
    """Return what the status says the pool has set, sorted."""
    found = world.status(pool).get("setKeys", {})
    return {kind: sorted(keys) for kind, keys in found.items() if keys}


def lose_status(world: World, pool: str) -> None:
    """Have a cluster admin wipe the status, as a restore from a backup does."""
    patch = json.dumps({"status": None})
    world.kubectl("patch", "wnp", pool, "--subresource=status", "--type=merge", "-p", patch)
    assert "setKeys" not in world.status(pool)
