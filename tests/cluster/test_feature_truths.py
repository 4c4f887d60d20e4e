"""What a pool says before anybody has to ask: what stays, what goes, what is near, what would change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

from cluster.forging import commands_in
from cluster.pods import NAMESPACE, Pods, pods_in, tainted
from cluster.told import expect, issues, stood_first
from harness.nodes import annotations_of, labels_of, taints_of
from harness.waiting import eventually, holds
from harness.world import RUN_LABEL, World
from winpool.api.keys import APPLIED_ANNOTATION, POOL_LABEL

Object = dict[str, Any]

TEAM: Final = "example.com/team"
TAINT: Final = "os=windows:NoSchedule"
HARSH: Final = "os=windows:NoExecute"
STARTUP: Final = "example.com/starting=:NoSchedule"
UNREADABLE: Final = "OwnershipRecordUnreadable"
SPEC: Final[Object] = {
    "labels": {TEAM: "payments"},
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    with pods_in(world) as pods:
        yield pods


# A damaged ownership record


def damage(world: World, node: str) -> None:
    """Have a person spoil the record on a node."""
    world.kubectl("annotate", "node", node, f"{APPLIED_ANNOTATION}=spoilt", "--overwrite")


def names_the_keys(status: Object) -> bool:
    return any(
        TEAM in each["message"] and "os:NoSchedule" in each["message"] for each in issues(status, UNREADABLE)
    )


def run(world: World, text: str) -> None:
    """Do what the kubectl commands in a text say."""
    found = commands_in(text)
    assert len(found) == 2, text
    for command in found:
        world.kubectl(*command)


@pytest.mark.nightly
def test_a_damaged_record_is_told_with_its_keys_until_the_fix_was_run(world: World) -> None:
    spoilt, _sound = world.fleet(windows=2)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    damage(world, spoilt)
    eventually(lambda: names_the_keys(world.status(pool)), what="the issue with its keys")
    eventually(lambda: UNREADABLE in world.reasons(kind="Node", name=spoilt), what="the event on the node")
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()
    world.operator.start()
    world.kubectl("label", "node", spoilt, "example.com/other=x")
    world.wait_up_to_date(pool, nodes=2)
    # It stays while the keys do, also after a restart.
    holds(lambda: names_the_keys(world.status(pool)), seconds=2)
    [issue] = issues(world.status(pool), UNREADABLE)

    world.kubectl("label", "node", spoilt, "example.com/other-")
    run(world, issue["fix"])
    eventually(lambda: not issues(world.status(pool), UNREADABLE), what="the issue gone")
    world.wait_up_to_date(pool, nodes=2)
    assert labels_of(world.node(spoilt))[TEAM] == "payments"
    world.delete(pool)
    assert world.carried() == bare


@pytest.mark.nightly
def test_before_a_deletion_the_status_says_what_stays_and_the_event_how_to_remove_it(world: World) -> None:
    spoilt, _sound = world.fleet(windows=2)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()
    damage(world, spoilt)
    world.delete(pool, wait=False)
    with world.watch_pool(pool) as statuses, world.watch_nodes() as nodes:
        world.operator.start()
        eventually(lambda: pool not in world.pools(), what="the pool gone")
        nodes.catch_up(world.nodes().values())
        eventually(
            lambda: any(names_the_keys(each.get("status", {})) for each in statuses.states[pool]),
            what="the issue in the status",
        )
    told = stood_first(statuses, lambda seen: names_the_keys(seen.get("status", {})))
    released = stood_first(
        nodes, lambda node: node["metadata"]["name"] == spoilt and POOL_LABEL not in labels_of(node)
    )
    assert told < released
    left = world.node(spoilt)
    assert (labels_of(left).get(TEAM), TAINT in taints_of(left)) == ("payments", True)
    assert APPLIED_ANNOTATION not in annotations_of(left)
    [event] = eventually(
        lambda: [each for each in world.own_events(kind="Node", name=spoilt) if each["reason"] == UNREADABLE],
        what="the event on the node",
    )
    run(world, event["message"])
    assert world.carried() == bare


# Startup taints


def a_starting_spec(*, timeout: int) -> Object:
    nobody = {"namespace": NAMESPACE, "podSelector": {"matchLabels": {"app": "never-there"}}}
    return {
        "labels": {TEAM: "payments"},
        "startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}],
        "validation": {"readySeconds": 0, "timeoutSeconds": timeout, "requiredPods": [nobody]},
    }


@pytest.mark.nightly
def test_a_newcomer_that_is_older_than_its_timeout_gets_no_startup_taints(world: World) -> None:
    [name] = world.fleet(windows=1)
    created = datetime.fromisoformat(world.node(name)["metadata"]["creationTimestamp"])
    timeout = 5
    eventually(
        lambda: datetime.now(UTC) - created > timedelta(seconds=timeout + 1), what="a node of that age"
    )
    pool = world.apply(world.pool(**a_starting_spec(timeout=timeout)))
    with world.watch_nodes() as witness:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=1)
        witness.catch_up(world.nodes().values())
    assert not any(STARTUP in taints_of(seen) for seen in witness.states[name])
    assert issues(world.status(pool), "ValidationTimedOut") == []


@pytest.mark.nightly
def test_the_time_for_validation_counts_from_the_taint_also_over_a_restart(world: World) -> None:
    """The node is nearly as old as its time when the operator first sees it: it has all of it still."""
    timeout = 20
    [name] = world.fleet(windows=1)
    created = datetime.fromisoformat(world.node(name)["metadata"]["creationTimestamp"])
    time.sleep(max(0.0, timeout / 2 - (datetime.now(UTC) - created).total_seconds()))
    pool = world.apply(world.pool(**a_starting_spec(timeout=timeout)))
    world.operator.start()
    eventually(lambda: tainted(world, STARTUP) == {name}, what="the startup taint")
    [taint] = [each for each in world.node(name)["spec"]["taints"] if each["key"] == "example.com/starting"]
    added = datetime.fromisoformat(taint["timeAdded"])
    assert added - created >= timedelta(seconds=timeout / 2 - 2)
    world.operator.kill()
    world.operator.start()
    status = expect(world, pool, Stalled=("True", "ValidationTimedOut"))
    [issue] = issues(status, "ValidationTimedOut")
    late = datetime.fromisoformat(issue["since"]) - added
    assert timedelta(seconds=timeout) <= late < timedelta(seconds=timeout + 15)


# Pods that a taint deletes


def test_a_taint_that_deletes_pods_warns_before_and_says_afterwards_how_many_there_were(
    world: World, pods: Pods
) -> None:
    first, second = world.fleet(windows=2)
    for name, node in (("a", first), ("b", first), ("c", second)):
        pods.bind(name, node)
    pods.wait_running(count=3)
    start = world.now()
    taint = {"key": "os", "value": "windows", "effect": "NoExecute", "onIntolerantPods": "Delete"}
    pool = world.apply(world.pool(taints=[taint]))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    warning = await_event(world, pool, "DeletingIntolerantPods")
    done = await_event(world, pool, "IntolerantPodsDeleted")
    assert "3 pods on 2 nodes" in warning["message"]
    assert f"{NAMESPACE}/a-{world.suffix}" in warning["message"]
    assert "3 pods" in done["message"]
    assert all(HARSH in each["message"] for each in (warning, done))
    written = min(each.received for each in world.node_patches(since=start))
    assert time_of(warning) <= written <= time_of(done)
    eventually(lambda: pods.uids() == {}, what="the pods gone")
    assert world.reasons(kind="WindowsNodePool", name=pool).count("IntolerantPodsDeleted") == 1


def time_of(event: Object) -> datetime:
    """Return when the operator said it."""
    return datetime.fromisoformat(event["eventTime"])


def await_event(world: World, pool: str, reason: str) -> Object:
    """Return the one event of the pool with that reason, once it is there."""
    [found] = eventually(
        lambda: [e for e in world.own_events(kind="WindowsNodePool", name=pool) if e["reason"] == reason],
        what=f"the event {reason}",
    )
    return dict(found)


# A selector that matches nothing


def test_a_selector_that_matches_no_node_is_true_and_names_what_is_nearest(world: World) -> None:
    world.fleet(windows=1)
    wrong = {"nodeSelector": {"matchLabels": {RUN_LABEL: f"{world.suffix}x"}}}
    pool = world.apply(world.pool(**{**SPEC, **wrong}))
    world.operator.start()
    status = expect(world, pool, Ready=("True", "NoNodesSelected"), NodesUpToDate=("True", "NoNodesSelected"))
    [issue] = issues(status, "NoNodesSelected")
    assert f"{RUN_LABEL}={world.suffix}x" in issue["message"], "what it asks for"
    assert f"{RUN_LABEL}={world.suffix}" in issue["message"].partition("The nearest")[2], "what nodes have"
    await_event(world, pool, "NoNodesSelected")
    world.apply(world.pool(**SPEC))
    world.wait_up_to_date(pool, nodes=1)
    assert issues(world.status(pool), "NoNodesSelected") == []
    assert world.reasons(kind="WindowsNodePool", name=pool).count("NoNodesSelected") == 1


# A dry run


def test_the_steps_of_a_dry_run_say_what_would_change(world: World) -> None:
    [name] = world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=1)
    before = world.carried()
    edit: Object = {
        "labels": {TEAM: "billing", "example.com/tier": "gold"},
        "taints": [{"key": "os", "effect": "NoExecute"}],
    }
    world.apply(world.pool(mode="DryRun", **edit))
    [step] = eventually(lambda: world.status(pool).get("plan", {}).get("steps"), what="the plan")
    assert step["node"] == name
    assert step["changes"] == [
        {"kind": "Taint", "key": "os:NoExecute", "to": ""},
        {"kind": "Taint", "key": "os:NoSchedule", "from": "windows"},
        {"kind": "Label", "key": "example.com/team", "from": "payments", "to": "billing"},
        {"kind": "Label", "key": "example.com/tier", "to": "gold"},
    ]
    assert world.carried() == before
