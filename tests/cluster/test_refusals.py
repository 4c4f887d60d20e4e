"""The API server lets some node not be written: people hear why, the others go on, and it is tried again."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest

from cluster.denying import WHY, denying
from harness.faulty import through_proxy
from harness.nodes import labels_of
from harness.operator import USER
from harness.waiting import eventually, holds
from harness.world import World
from testbed.faults import answer, on
from winpool.controllers.writes import PATCHES_IN_FLIGHT

Object = dict[str, Any]

LABEL: Final = "example.com/team"
SPEC: Final[Object] = {"labels": {LABEL: "payments"}}
AT_ONCE_SECONDS: Final = 3.0
"""For the first repair: a promise of a second, and the rest for kubectl and a busy machine."""
GUARDING: Final = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
WATCHED: Final = [("watch", resource) for resource in ("nodes", "windowsnodepools", *GUARDING)]
"""What an operator asks for as soon as there is an API server again."""
GROUPS: Final = {
    "customresourcedefinitions": "apiextensions.k8s.io",
    "leases": "coordination.k8s.io",
    "validatingadmissionpolicies": "admissionregistration.k8s.io",
    "validatingadmissionpolicybindings": "admissionregistration.k8s.io",
    "windowsnodepools": "winpool.dev",
}
"""The API group of each resource that is not of the core."""
ASKED_AT_A_START: Final = [
    *WATCHED,
    ("list", "nodes"),
    ("list", "windowsnodepools"),
    ("list", "pods"),
    ("patch", "nodes"),
]


@pytest.mark.nightly
def test_a_policy_that_denies_one_node_is_said_in_status_and_event_and_nobody_waits_for_us(
    world: World,
) -> None:
    denied, *others = world.fleet(windows=3)
    start = world.now()
    with denying(world, denied):
        pool = world.apply(world.pool(**SPEC))
        world.operator.start()
        eventually(lambda: world.condition(pool, "Ready").get("reason") == "WriteRefused", what="refused")
        status = world.status(pool)
        assert (status["nodes"], status["upToDateNodes"]) == (3, 2)
        assert {labels_of(world.node(name)).get(LABEL) for name in others} == {"payments"}
        [issue] = status["issues"]
        assert (issue["nodes"], issue["nodeCount"], issue["reason"]) == ([denied], 1, "WriteRefused")
        assert status["issueCount"] == 1
        assert WHY in issue["message"]
        assert denied not in issue["message"]
        assert world.condition(pool, "Ready")["status"] == "False"
        assert world.condition(pool, "NodesUpToDate")["status"] == "False"
        assert world.condition(pool, "Reconciling")["status"] == "False"
        eventually(
            lambda: [each.name for each in world.node_patches(since=start)].count(denied) > 1,
            what="it is tried again",
        )
        told = eventually(lambda: world.own_events(kind="Node", name=denied), what="the event of the node")
        assert [each["reason"] for each in told] == ["WriteRefused"], "said once, not at each try"
        assert WHY in told[0]["message"]
    world.wait_up_to_date(pool, nodes=3)
    assert world.status(pool)["issues"] == []


@pytest.mark.nightly
def test_nodes_that_one_policy_denies_are_one_issue_and_none_is_named_in_its_message(world: World) -> None:
    *denied, other = sorted(world.fleet(windows=6))
    with denying(world, *denied):
        pool = world.apply(world.pool(**SPEC))
        world.operator.start()
        eventually(lambda: world.condition(pool, "Ready").get("reason") == "WriteRefused", what="refused")
        status = world.status(pool)
        [issue] = status["issues"]
        assert (issue["reason"], issue["nodeCount"], issue["nodes"]) == ("WriteRefused", 5, denied[:3])
        assert status["issueCount"] == 1
        assert WHY in issue["message"]
        assert not [name for name in denied if name in issue["message"]]
        assert labels_of(world.node(other)).get(LABEL) == "payments"
        world.operator.kill()
        world.operator.start()
        since = issue["since"]
        holds(lambda: [each["since"] for each in world.status(pool)["issues"]] == [since], seconds=4)
    world.wait_up_to_date(pool, nodes=6)
    assert (world.status(pool)["issues"], world.status(pool)["issueCount"]) == ([], 0)


def test_a_deletion_that_a_policy_does_not_allow_says_so_and_ends_when_it_is_allowed(world: World) -> None:
    denied, other = world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    with denying(world, denied):
        world.delete(pool, wait=False)
        eventually(lambda: denied in world.condition(pool, "Deleting").get("message", ""), what="it is named")
        eventually(
            lambda: "See the issue WriteRefused." in world.condition(pool, "Deleting")["message"],
            what="and why",
        )
        eventually(lambda: LABEL not in labels_of(world.node(other)), what="the other is released")
        assert pool in world.pools()
    eventually(lambda: pool not in world.pools(), what="the pool is gone")
    assert LABEL not in labels_of(world.node(denied))


@pytest.mark.nightly
def test_a_webhook_that_fails_for_one_node_does_not_stop_the_others_nor_later_repairs(world: World) -> None:
    failing, *others = world.fleet(windows=3)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        with proxy.add(on("patch", "nodes", name=failing), answer(500)):
            world.operator.start()
            eventually(
                lambda: world.condition(pool, "Ready").get("reason") == "WriteRefused",
                what="the failure is said",
            )
            assert world.status(pool)["upToDateNodes"] == 2
            for name in others:
                world.kubectl("label", "node", name, f"{LABEL}-")
            eventually(
                lambda: all(LABEL in labels_of(world.node(name)) for name in others),
                what="the others are repaired",
                seconds=AT_ONCE_SECONDS,
            )
        world.wait_up_to_date(pool, nodes=3)


@pytest.mark.nightly
def test_more_failing_nodes_than_fit_in_flight_do_not_keep_a_healthy_one_from_its_turn(world: World) -> None:
    *failing, healthy = world.fleet(windows=PATCHES_IN_FLIGHT + 2)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        with proxy.add(on("patch", "nodes", where=lambda each: each.name in failing), answer(500)):
            world.operator.start()
            eventually(lambda: LABEL in labels_of(world.node(healthy)), what="the healthy one is written")
        world.wait_up_to_date(pool, nodes=PATCHES_IN_FLIGHT + 2)


@pytest.mark.nightly
@pytest.mark.parametrize(("status", "accepted"), [(403, "MissingPermission"), (500, "Accepted")])
def test_a_deletion_whose_last_question_is_not_answered_says_what_is_in_the_way(
    world: World, status: int, accepted: str
) -> None:
    """Nothing is left on the nodes that are known; whether that is all is what only the API server knows."""
    world.fleet(windows=1)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=1)
        with proxy.add(on("list", "nodes", path="winpool.dev%2Fpool%3D"), answer(status)):
            world.delete(pool, wait=False)
            eventually(lambda: world.condition(pool, "Deleting").get("status") == "True", what="it says so")
            eventually(lambda: world.condition(pool, "Accepted")["reason"] == accepted, what="and why")
            assert pool in world.pools()
        eventually(lambda: pool not in world.pools(), what="the pool is gone")


@pytest.mark.nightly
def test_an_api_server_that_has_not_read_its_roles_yet_is_no_missing_permission(world: World) -> None:
    world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    with through_proxy(world) as proxy:
        world.operator.start()
        world.wait_up_to_date(pool, nodes=2)
        with world.watch_pool(pool) as pools:
            proxy.refuse_connections()
            rules = {
                asked: proxy.add(on(*asked), answer(403, message=without_roles(*asked)), first=2)
                for asked in ASKED_AT_A_START
            }
            proxy.accept_connections()
            eventually(lambda: all(rules[asked].hits for asked in WATCHED), what="all are refused")
            eventually(world.operator.ready, what="ready again")
            world.apply(world.pool(labels={LABEL: "platform"}))
            world.wait_up_to_date(pool, nodes=2)
            pools.catch_up([world.get("wnp", pool)])
    lines = [line for line in world.operator.log_lines() if line["level"] in ("WARNING", "ERROR")]
    assert lines, "that there was no API server is told"
    assert not [line for line in lines if re.search(r"may not|forbidden|not in force", str(line["message"]))]
    told = {each["reason"] for state in pools.states[pool] for each in state["status"]["conditions"]}
    assert "MissingPermission" not in told


def without_roles(verb: str, resource: str) -> str:
    """Return what an API server says of a request before it has read its roles and bindings."""
    return (
        f'{resource} is forbidden: User "{USER}" cannot {verb} resource "{resource}" in API group'
        f' "{GROUPS.get(resource, "")}" at the cluster scope: RBAC:'
        ' [clusterrole.rbac.authorization.k8s.io "winpool" not found]'
    )
