"""Pools that go in ways they should not: what people are told, what comes back, and when nodes are free."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from cluster.told import issues
from harness.faulty import through_proxy
from harness.nodes import labels_of, taints_of
from harness.operator import Operator
from harness.waiting import eventually, holds
from harness.world import World
from testbed.faults import answer, on
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL, RELEASE_FINALIZER

Object = dict[str, Any]

SPEC: Final[Object] = {
    "labels": {"example.com/team": "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
GRACE_SECONDS: Final = 5
LIST_SECONDS: Final = 5.0
"""For the lists themselves, which are a second apart at the least, the writes, and a busy machine. A regular
list comes after five minutes, long after the guard of every wait here."""
AT_ONCE_SECONDS: Final = 5.0
THEIRS: Final = "example.com/hold"


SHORT_GRACE: Final = {"WINPOOL_ORPHAN_GRACE_SECONDS": str(GRACE_SECONDS)}


def of_short_grace(world: World) -> Operator:
    """Return an operator with the usual regular lists and a grace of seconds."""
    return Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.directory / "operator.log",
        environment=SHORT_GRACE,
    )


def moment_in(text: str) -> datetime:
    """Return the one moment that a text for people names."""
    [found] = re.findall(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", text)
    return datetime.fromisoformat(found).astimezone(UTC)


def finalizers(world: World, pool: str) -> list[str]:
    return list(world.get("wnp", pool)["metadata"].get("finalizers", []))


def strip(world: World, pool: str) -> None:
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')


def delete_by_force(world: World, pool: str) -> str:
    """Delete the pool and take its finalizer off by hand, as people in a hurry do; return its UID."""
    uid = str(world.get("wnp", pool)["metadata"]["uid"])
    world.delete(pool, wait=False)
    eventually(lambda: strip_if_there(world, pool), what="the pool is gone")
    return uid


def strip_if_there(world: World, pool: str) -> bool:
    if pool in world.pools():
        world.kubectl(
            "patch", "wnp", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}', check=False
        )
    return pool not in world.pools()


def is_clean(node: Object) -> bool:
    return "winpool.dev/" not in json.dumps(node) and "payments" not in json.dumps(labels_of(node))


def lists_of_pools(world: World, *, since: datetime) -> int:
    asked = world.requests(since=since)
    return sum((each.verb, each.resource) == ("list", "windowsnodepools") for each in asked)


# A finalizer that was removed by hand


@pytest.mark.parametrize("mode", ["Active", "Paused"])
def test_a_finalizer_removed_by_hand_comes_back_at_once_while_nodes_carry_our_things(
    world: World, mode: str
) -> None:
    """Or the next deletion would leave them there (P3, P8); no node is written for it."""
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.apply(world.pool(**SPEC, mode=mode))
    eventually(
        lambda: world.status(pool)["observedGeneration"] == world.get("wnp", pool)["metadata"]["generation"],
        what="the mode is seen",
    )
    start = world.now()
    strip(world, pool)
    eventually(
        lambda: finalizers(world, pool) == [RELEASE_FINALIZER], what="it is back", seconds=AT_ONCE_SECONDS
    )
    # The pass that brings it back would go on with the nodes.
    holds(lambda: world.node_patches(since=start) == [], seconds=1)
    world.delete(pool)
    assert all(is_clean(world.node(name)) for name in names)


def test_a_finalizer_removed_while_no_operator_runs_comes_back_with_the_next(world: World) -> None:
    world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    world.operator.kill()
    strip(world, pool)
    assert finalizers(world, pool) == []
    world.operator.start()
    eventually(lambda: finalizers(world, pool) == [RELEASE_FINALIZER], what="it is back")


def test_the_finalizers_of_others_stay_where_they_are(world: World) -> None:
    world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    theirs = json.dumps({"metadata": {"finalizers": [THEIRS]}})
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", theirs)
    eventually(lambda: set(finalizers(world, pool)) == {THEIRS, RELEASE_FINALIZER}, what="it is back")
    eventually(
        lambda: "removed the finalizer" in world.operator.log_text(), what="the log says that it was restored"
    )
    ours = json.dumps({"metadata": {"finalizers": [RELEASE_FINALIZER]}})
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", ours)


# Pools that went while no operator ran


@pytest.mark.nightly
def test_a_pool_deleted_by_force_while_no_operator_ran_is_told_by_one_event_with_nodes_and_time(
    world: World,
) -> None:
    """P4: nothing comes off before the time that the event names."""
    names = world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=3)
    world.operator.kill()
    uid = delete_by_force(world, pool)
    world.operator = of_short_grace(world)
    world.operator.start()
    started = time.monotonic()

    def told() -> list[Object]:
        return [
            each
            for each in world.own_events(kind="WindowsNodePool", name=pool)
            if each["reason"] == "PoolGone"
        ]

    eventually(told, what="the event PoolGone")
    eventually(lambda: all(is_clean(world.node(name)) for name in names), what="the nodes are released")
    assert time.monotonic() - started < GRACE_SECONDS + LIST_SECONDS
    released = world.now()
    (event,) = told()
    assert event["involvedObject"]["uid"] == uid
    assert (event["type"], event["metadata"]["namespace"]) == ("Warning", "default")
    assert "3 nodes" in event["message"]
    assert abs((released - moment_in(event["message"])).total_seconds()) <= LIST_SECONDS
    assert uid in world.operator.log_text()
    assert taints_of(world.node(names[0])) == set()


def test_a_pool_that_is_being_deleted_when_an_operator_starts_says_so(world: World) -> None:
    """Somebody else holds it too, so that there is time to look."""
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()
    held = json.dumps({"metadata": {"finalizers": [RELEASE_FINALIZER, THEIRS]}})
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", held)
    world.delete(pool, wait=False)
    world.operator.start()
    eventually(lambda: world.condition(pool, "Ready").get("reason") == "Deleting", what="Ready says so")
    assert world.condition(pool, "Deleting")["status"] == "True"
    eventually(
        lambda: "NodesReleased" in world.reasons(kind="WindowsNodePool", name=pool),
        what="the event NodesReleased",
    )
    eventually(lambda: finalizers(world, pool) == [THEIRS], what="ours is off")
    assert all(is_clean(world.node(name)) for name in names)
    strip(world, pool)


# Takeover


@pytest.mark.nightly
def test_a_node_of_a_pool_deleted_by_force_is_taken_over_within_the_grace_and_a_list(world: World) -> None:
    """P4: by two lists a grace apart, and by no more lists than those (P2)."""
    names = world.fleet(windows=2)
    first = world.apply(world.pool("first", **SPEC))
    with through_proxy(world, environment=SHORT_GRACE) as proxy:
        world.operator.start()
        world.wait_up_to_date(first, nodes=2)
        second = world.apply(world.pool("second", labels={"example.com/tier": "web"}))
        eventually(lambda: world.condition(second, "Ready").get("reason") == "PoolOverlap", what="an overlap")
        start = world.now()
        # Or the operator would be quick enough to release them, also with the repeat of a refused write.
        with proxy.add(on("patch", "nodes"), answer(503)):
            delete_by_force(world, first)
            gone = time.monotonic()
            (issue,) = eventually(
                lambda: issues(world.status(second), "OwnerUnknown")[:1],
                what="the issue",
                seconds=AT_ONCE_SECONDS,
            )
        world.wait_up_to_date(second, nodes=2, seconds=GRACE_SECONDS + LIST_SECONDS)
        took, taken = time.monotonic() - gone, world.now()
        assert GRACE_SECONDS - 1 <= took <= GRACE_SECONDS + LIST_SECONDS
        assert abs((taken - moment_in(issue["fix"])).total_seconds()) <= LIST_SECONDS
        for name in names:
            node = world.node(name)
            assert labels_of(node)[POOL_LABEL] == second
            assert "example.com/team" not in labels_of(node)
            assert taints_of(node) == set()
        assert issues(world.status(second), "OwnerUnknown") == []
        assert lists_of_pools(world, since=start) <= 3


@pytest.mark.nightly
def test_a_node_whose_owner_stays_unknown_is_asked_about_twice_and_not_again(world: World) -> None:
    """P2: a record that nothing vouches for may stay for ever."""
    (name,) = world.fleet(windows=1)
    record = json.dumps({"v": 1, "pool": "00000000-0000-0000-0000-000000000000", "labels": {}, "taints": []})
    world.kubectl("annotate", "node", name, f"{APPLIED_ANNOTATION}={record}")
    pool = world.apply(world.pool(**SPEC))
    world.operator = of_short_grace(world)
    world.operator.start()
    start = world.now()

    eventually(
        lambda: [
            each
            for each in issues(world.status(pool), "OwnerUnknown")
            if "kubectl annotate node" in each["fix"]
        ],
        what="the issue with the command",
    )
    assert lists_of_pools(world, since=start) <= 3
    settled = world.now()
    time.sleep(3 * GRACE_SECONDS)
    assert lists_of_pools(world, since=settled) == 0
    world.kubectl("annotate", "node", name, f"{APPLIED_ANNOTATION}-")
    world.wait_up_to_date(pool, nodes=1)


# RecordTrust


@pytest.mark.nightly
def test_a_missing_permission_is_an_event_once(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        refusal = (
            'nodes is forbidden: User "winpool" cannot patch resource "nodes" in API group "" '
            "at the cluster scope"
        )
        with proxy.add(on("patch", "nodes"), answer(403, message=refusal)):
            world.apply(world.pool(**{**SPEC, "labels": {"example.com/team": "billing"}}))
            eventually(
                lambda: "MissingPermission" in world.reasons(kind="WindowsNodePool", name=pool),
                what="the event MissingPermission",
            )
            assert world.condition(pool, "Accepted")["reason"] == "MissingPermission"
            (event,) = [
                each
                for each in world.own_events(kind="WindowsNodePool", name=pool)
                if each["reason"] == "MissingPermission"
            ]
            assert 'resources: ["nodes"], verbs: ["patch"]' in event["message"]
        world.wait_up_to_date(pool, nodes=2)
    assert world.reasons(kind="WindowsNodePool", name=pool).count("MissingPermission") == 1
