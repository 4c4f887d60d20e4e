"""Pods that cannot be listed: what the status says of nodes that wait for a look at them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from harness.builders import MINUTE, NOON, a_node, a_pool, a_snapshot, a_survey, with_pods, with_status
from harness.writes import acted, retainted, settled
from winpool.api.conditions import ConditionType, referred_by
from winpool.api.spec import read_status
from winpool.api.status import Condition
from winpool.decide import Decision, decide
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.model.survey import PodListProblem
from winpool.status.pods import FAILING_SECONDS

HARSH = "os=windows:NoExecute"
STARTUP = {"startupTaints": [{"key": "example.com/starting", "effect": "NoSchedule"}]}
DOWN = "list pods: 503 the server is out of order"
HOUR = timedelta(hours=1)


def stale(*, since: datetime | None = None, now: datetime = NOON + HOUR, problem: str = DOWN) -> Snapshot:
    """A NoExecute taint was taken off; the last look at all pods is an hour old, and no new one comes."""
    pool = a_pool(taints=[HARSH])
    pool, nodes = settled(pool, {"w1": a_node("w1"), "w2": a_node("w2")})
    survey = a_survey(pool, nodes.values())
    drifted = {"w1": given_up(pool, retainted(nodes["w1"])), "w2": nodes["w2"]}
    snapshot = a_snapshot(pool, drifted, survey=survey, looks=(), pods_problem=problem, now=now)
    return reported_since(snapshot, since)


def given_up(pool: Pool, node: Node) -> Node:
    """Return the node without a claim to the taint that is gone: that is written at once."""
    late = a_snapshot(pool, [node], survey=None, pods_problem=DOWN, now=NOON + HOUR)
    return acted(decide(late), {node.name: node})[node.name]


def joining(*, since: datetime | None = None, now: datetime = NOON + HOUR, problem: str = DOWN) -> Snapshot:
    """A node carries startup taints, has long been Ready, and was never seen with its pods."""
    young = replace(a_node("w1"), created=NOON, ready_since=NOON)
    pool, nodes = settled(a_pool(more=STARTUP), {"w1": young})
    survey = a_survey(pool, nodes.values(), now=NOON - MINUTE)
    return reported_since(a_snapshot(pool, nodes, survey=survey, pods_problem=problem, now=now), since)


def reported_since(snapshot: Snapshot, since: datetime | None) -> Snapshot:
    """Return the snapshot with a status that was written at ``since``, of the same world."""
    if since is None:
        return snapshot
    earlier = decide(replace(snapshot, now=since)).status
    return replace(snapshot, pool=with_status(snapshot.pool, earlier))


def conditions(decision: Decision) -> dict[str, Condition]:
    return {each.type: each for each in decision.status.conditions}


def told(decision: Decision) -> dict[str, tuple[str, str]]:
    kinds = ("Ready", "NodesUpToDate", "Reconciling", "Stalled")
    found = conditions(decision)
    return {kind: (found[kind].status, found[kind].reason) for kind in kinds}


FAILING = "PodListFailing"
WAITERS = pytest.mark.parametrize("world", [stale, joining])


@WAITERS
def test_nodes_that_wait_for_pods_that_cannot_be_listed_are_told_with_the_reason(world: object) -> None:
    assert callable(world)
    found = decide(world())
    assert told(found) == {
        "Ready": ("True", FAILING),
        "NodesUpToDate": ("False", FAILING),
        "Reconciling": ("True", FAILING),
        "Stalled": ("False", "NotStalled"),
    }
    for kind in ("Ready", "Reconciling"):
        assert conditions(found)[kind].message.endswith("See the issue PodListFailing.")
    assert "w1" in conditions(found)["Ready"].message
    [issue] = [each for each in found.status.issues if each.reason == FAILING]
    assert (issue.nodes, issue.node_count, DOWN in issue.message) == (("w1",), 1, True)


@WAITERS
def test_after_five_minutes_a_person_has_to_see_to_it(world: object) -> None:
    assert callable(world)
    now = NOON + HOUR
    begun = now - timedelta(seconds=FAILING_SECONDS)
    early = decide(world(since=begun + timedelta(seconds=1)))
    assert told(early)["Stalled"] == ("False", "NotStalled")
    assert early.look_again == now + timedelta(seconds=1)
    found = decide(world(since=begun))
    assert told(found) == {
        "Ready": ("True", FAILING),
        "NodesUpToDate": ("False", FAILING),
        "Reconciling": ("False", "Settled"),
        "Stalled": ("True", FAILING),
    }
    assert "cannot list the pods of the cluster" in conditions(found)["Ready"].message
    assert referred_by(conditions(found)["Stalled"].message) is ConditionType.READY


@WAITERS
def test_once_pods_are_listed_again_nothing_of_it_is_left(world: object) -> None:
    assert callable(world)
    found = decide(world(problem="", since=NOON))
    assert FAILING not in {reason for _, reason in told(found).values()}
    assert FAILING not in {each.reason for each in found.status.issues}


def test_the_time_is_counted_on_whichever_node_waits() -> None:
    """It stands in the status: neither a restart nor another node that waits begins it anew (P8)."""
    began = NOON + HOUR - timedelta(seconds=FAILING_SECONDS)
    standing = stale(since=began)
    nodes = tuple(
        given_up(standing.pool, retainted(node)) if node.name == "w2" else _whole(node, standing)
        for node in standing.nodes
    )
    found = decide(replace(standing, nodes=nodes))
    [issue] = [each for each in found.status.issues if each.reason == FAILING]
    assert (issue.nodes, issue.since) == (("w2",), began)
    assert told(found)["Stalled"] == ("True", FAILING)


def test_the_time_goes_on_where_pods_cannot_be_listed_for_another_reason_by_now() -> None:
    began = NOON + HOUR - timedelta(seconds=FAILING_SECONDS)
    found = decide(with_pods(stale(since=began), problem="list pods: 504 too slow"))
    [issue] = [each for each in found.status.issues if each.reason == FAILING]
    assert ("504" in issue.message, issue.since) == (True, began)
    assert told(found)["Stalled"] == ("True", FAILING)


def test_the_time_goes_on_from_a_status_of_an_earlier_version() -> None:
    """It named one node, whose name the CRD has pruned by now, and said it in other words."""
    began = NOON + HOUR - timedelta(seconds=FAILING_SECONDS)
    world = stale()
    old = {"reason": FAILING, "since": began.isoformat(), "message": "1 node (w1) …", "fix": "…"}
    status = read_status({"status": {"observedGeneration": world.pool.generation, "issues": [old]}})
    found = decide(replace(world, pool=with_status(world.pool, status)))
    assert told(found)["Stalled"] == ("True", FAILING)
    [issue] = [each for each in found.status.issues if each.reason == FAILING]
    assert (issue.since, issue.nodes) == (began, ("w1",))


def test_after_a_restart_what_was_told_stays_until_pods_are_listed() -> None:
    began = NOON + 10 * MINUTE
    standing = stale(since=began)
    found = decide(with_pods(standing, survey=None, problem=""))
    assert found.keeps_status
    failing = decide(with_pods(standing, survey=None))
    [issue] = [each for each in failing.status.issues if each.reason == FAILING]
    assert issue.since == began


def test_nodes_that_can_be_written_all_the_same_keep_the_operator_at_work() -> None:
    pool = a_pool(taints=[HARSH], labels={"team": "a"})
    pool, nodes = settled(pool, {"w1": a_node("w1")})
    survey = a_survey(pool, nodes.values())
    other = a_node("w2")
    late = a_snapshot(
        pool,
        [given_up(pool, retainted(nodes["w1"])), other],
        survey=survey,
        looks=(),
        pods_problem=DOWN,
        now=NOON + HOUR,
    )
    found = decide(reported_since(late, NOON))
    assert [patch.node.name for patch in found.writes.patches] == ["w2"]
    assert told(found)["NodesUpToDate"] == ("False", FAILING)
    assert told(found)["Reconciling"] == ("True", "RolloutInProgress")
    assert told(found)["Stalled"] == ("False", "NotStalled")


def test_pools_that_wait_for_no_pods_do_not_mind() -> None:
    pool, nodes = settled(a_pool(taints=[HARSH]), {"w1": a_node("w1")})
    found = decide(a_snapshot(pool, nodes, pods_problem=DOWN, now=NOON + HOUR))
    assert told(found)["Ready"] == ("True", "UpToDate")
    assert found.status.issues == ()


HUGE = "list pods of node w1: an answer of more than 8388608 bytes"


def unlisted(*, since: datetime | None = None) -> Snapshot:
    """A NoExecute taint was taken off, and the pods of that node alone cannot be listed."""
    standing = stale(problem="")
    world = with_pods(standing, pod_list_problems={"uid-of-w1": PodListProblem(HUGE, lasts=True)})
    return reported_since(world, since)


def test_a_node_whose_own_pods_cannot_be_listed_is_told_by_name_and_nothing_of_all_pods() -> None:
    found = decide(unlisted())
    [issue] = [each for each in found.status.issues if each.reason == FAILING]
    assert issue.nodes == ("w1",)
    message = conditions(found)["Ready"].message
    assert "1 node (w1)" in message
    assert message.endswith("See the issue PodListFailing.")
    assert "w1" not in issue.message, "another node may wait for the same tomorrow"
    assert "list pods of node NODE: an answer of more than 8388608 bytes" in issue.message
    for told_of in (message, issue.message):
        assert "cannot list their pods" in told_of
        assert "all pods" not in told_of
    assert told(found)["Stalled"] == ("False", "NotStalled")
    assert found.needs_pods


def test_once_it_has_waited_for_five_minutes_and_nothing_else_is_left_the_pool_is_stalled() -> None:
    begun = NOON + HOUR - timedelta(seconds=FAILING_SECONDS)
    found = decide(unlisted(since=begun))
    assert told(found)["Stalled"] == ("True", FAILING)
    assert "cannot list their pods" in conditions(found)["Ready"].message


def test_other_nodes_that_are_gone_on_with_speak_for_the_pool() -> None:
    world = unlisted(since=NOON)
    other = given_up(world.pool, retainted(next(node for node in world.nodes if node.name == "w2")))
    found = decide(replace(world, nodes=(world.nodes[0], other)))
    assert told(found) == {
        "Ready": ("True", "RolloutInProgress"),
        "NodesUpToDate": ("False", "RolloutInProgress"),
        "Reconciling": ("True", "RolloutInProgress"),
        "Stalled": ("False", "NotStalled"),
    }
    assert [each.nodes for each in found.status.issues if each.reason == FAILING] == [("w1",)]


def test_nothing_is_said_of_it_while_a_look_at_all_pods_serves() -> None:
    world = unlisted()
    fresh = a_survey(world.pool, world.nodes, now=world.now)
    found = decide(with_pods(world, survey=fresh))
    assert [patch.node.name for patch in found.writes.patches] == ["w1"]
    assert FAILING not in {each.reason for each in found.status.issues}


def _whole(node: Node, snapshot: Snapshot) -> Node:
    pool: Pool = snapshot.pool
    return settled(pool, {node.name: retainted(node)}, survey=a_survey(pool, [node]))[1][node.name]
