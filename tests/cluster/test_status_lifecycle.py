"""What a pool says when it goes, when others break what it stands on, and when nodes are late.

Issue 15, §1: "A pool deleted while no operator runs …", "A newcomer older than `timeoutSeconds` …",
"/readyz fails within 15 s of the CRD's disappearance".
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from cluster.forging import commands_in
from cluster.guarding import Guard
from cluster.pods import NAMESPACE, OFTEN, pods_in, tainted
from cluster.told import expect
from cluster.truth import (
    LABELS,
    TEAM,
    annotate,
    assert_issues,
    await_issue,
    events_about,
    expect_state,
    issue,
    let_go_by_force,
)
from harness.nodes import annotations_of, labels_of, taints_of
from harness.operator import Operator
from harness.waiting import eventually, holds
from harness.world import World
from winpool.api.keys import APPLIED_ANNOTATION, CRD_NAME, POOL_LABEL, RELEASE_FINALIZER

Object = dict[str, Any]

ROOT: Final = Path(__file__).parents[2]
OS_TAINT: Final = "os=windows:NoSchedule"
SPEC: Final[Object] = {
    "labels": LABELS,
    "taints": [{"key": "os", "value": "windows", "effect": "NoSchedule"}],
}
AT_ONCE_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 5
LIST_SECONDS: Final = 10.0
"""For one list of all pools and the writes after it, on a busy machine."""
UNREADY_WITHIN_SECONDS: Final = 15.0
KEY: Final = "startup-taint.cluster-autoscaler.kubernetes.io/agents"
STARTUP: Final = f"{KEY}=:NoSchedule"
MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z")


# Pools that go


def test_a_pool_that_was_deleted_while_no_operator_ran_is_told_of_when_one_comes(world: World) -> None:
    """§1: "A pool deleted while no operator runs says so when one comes"."""
    world.fleet(windows=2)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()
    world.delete(pool, wait=False)
    world.operator.start()
    eventually(lambda: pool not in world.pools(), what="the pool gone")
    eventually(
        lambda: {"NodesReleased", "PoolGone"} & set(world.reasons(kind="WindowsNodePool", name=pool)),
        what="an event that says so",
    )
    assert world.carried() == bare


def test_a_pool_that_was_let_go_by_force_while_no_operator_ran_is_told_of_when_one_comes(
    world: World,
) -> None:
    """§1: the same where its finalizer was taken off too, so that there is no object to read any more."""
    world.fleet(windows=2)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    world.operator.kill()
    let_go_by_force(world, pool)
    world.operator = impatient(world, WINPOOL_POOL_RELIST_SECONDS="1", WINPOOL_ORPHAN_GRACE_SECONDS="1")
    world.operator.start()
    eventually(lambda: world.carried() == bare, what="the nodes released")
    eventually(lambda: events_about(world, pool=pool, reason="PoolGone"), what="the event PoolGone")


def test_a_finalizer_that_was_taken_off_by_hand_comes_back_at_once(world: World) -> None:
    """§1: "A finalizer removed by hand comes back at once while nodes carry our things"."""
    world.fleet(windows=2)
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    start = world.now()
    world.kubectl("patch", "wnp", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    eventually(
        lambda: RELEASE_FINALIZER in world.get("wnp", pool)["metadata"].get("finalizers", []),
        what="the finalizer back",
        seconds=AT_ONCE_SECONDS,
    )
    # The pass that brings it back would go on with the nodes.
    holds(lambda: world.node_patches(since=start) == [], seconds=1)


@pytest.mark.nightly
def test_nodes_of_a_pool_let_go_by_force_are_taken_over_within_the_grace_and_one_list(world: World) -> None:
    """§1: "Takeover …: within the grace plus the duration of one list, with an issue that says when"."""
    names = world.fleet(windows=2)
    world.operator.start()
    first = world.apply(world.pool("first", **SPEC))
    world.wait_up_to_date(first, nodes=2)
    world.operator.kill()
    let_go_by_force(world, first)
    second = world.apply(world.pool("second", labels={"example.com/tier": "web"}))
    # All pools are listed as rarely as ever: the second list comes because somebody waits for it.
    world.operator = impatient(world, WINPOOL_ORPHAN_GRACE_SECONDS=str(GRACE_SECONDS))
    started, since = time.monotonic(), datetime.now(UTC)
    world.operator.start()

    def says_when() -> datetime | None:
        found = issue(world.status(second), "OwnerUnknown")
        assert (found["nodeCount"], found["nodes"]) == (2, names)
        moment = MOMENT.search(f"{found['message']} {found['fix']}")
        return datetime.fromisoformat(moment[0]) if moment else None

    due = eventually(says_when, what="an issue that says when", seconds=GRACE_SECONDS + LIST_SECONDS)
    expect_state(world, second, "OwnerUnknown")
    assert due is not None
    assert since <= due + timedelta(seconds=1)
    assert due <= since + timedelta(seconds=GRACE_SECONDS + LIST_SECONDS)
    world.wait_up_to_date(second, nodes=2, seconds=GRACE_SECONDS + LIST_SECONDS)
    took = time.monotonic() - started
    assert GRACE_SECONDS <= took <= GRACE_SECONDS + LIST_SECONDS
    for name in names:
        node = world.node(name)
        assert labels_of(node)[POOL_LABEL] == second
        assert TEAM not in labels_of(node)
        assert taints_of(node) == set()
    assert world.status(second)["issues"] == []


@pytest.mark.nightly
def test_a_damaged_record_says_at_once_what_will_stay_behind_and_how_to_remove_it(world: World) -> None:
    """§1: "at once, and before a deletion, the issue says which keys will stay behind"."""
    broken, whole = names = world.fleet(windows=2)
    bare = world.carried()
    pool = world.apply(world.pool(**SPEC))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    annotate(world, broken, "{not json")
    found = await_issue(world, pool, "OwnershipRecordUnreadable", nodes=1)
    assert found["nodes"] == [broken]
    assert_issues(world.status(pool), names=names)
    said = f"{found['message']} {found['fix']}"
    assert TEAM in said
    assert re.search(r"\bos\b", said), "the taint"
    commands = commands_in(said)
    assert {command[0] for command in commands} == {"label", "taint"}

    # It says so before a deletion, not only for the moment in which the record is written anew.
    world.wait_up_to_date(pool, nodes=2)
    holds(lambda: issue(world.status(pool), "OwnershipRecordUnreadable")["fix"] == found["fix"], seconds=3)
    world.delete(pool)
    assert world.carried()[whole] == bare[whole]
    assert labels_of(world.node(broken))[TEAM] == "payments", "what it said would stay"
    assert OS_TAINT in taints_of(world.node(broken))
    for command in commands:
        world.kubectl(*(broken if word.startswith("<") else word for word in command))
    assert world.carried() == bare


# Nodes that are late


def a_late_spec(**validation: Any) -> Object:
    """Return what a pool asks for whose nodes never pass validation."""
    never = {"namespace": NAMESPACE, "podSelector": {"matchLabels": {"example.com/no": "pod"}}}
    return {
        "labels": LABELS,
        "startupTaints": [{"key": KEY, "effect": "NoSchedule"}],
        "validation": {"readySeconds": 0, "requiredPods": [never], **validation},
    }


def created(world: World, name: str) -> datetime:
    return datetime.fromisoformat(world.node(name)["metadata"]["creationTimestamp"])


def await_age(world: World, name: str, *, seconds: float) -> None:
    """Return when a node is so old by the clock of the API server, which is that of this machine."""
    due = created(world, name) + timedelta(seconds=seconds)
    eventually(lambda: datetime.now(UTC) >= due, what=f"{name} {seconds:g} s old")


@pytest.mark.nightly
def test_a_newcomer_that_is_older_than_the_timeout_gets_no_startup_taints(world: World) -> None:
    """§1: "A newcomer older than `timeoutSeconds` gets no startup taints"."""
    [late] = world.fleet(windows=1)
    await_age(world, late, seconds=8)
    with pods_in(world), world.watch_nodes() as witness:
        pool = world.apply(world.pool(**a_late_spec(timeoutSeconds=6)))
        world.operator.start()
        status = world.wait_up_to_date(pool, nodes=1)
        assert status["issues"] == []
        [fresh] = world.fleet(windows=1)
        eventually(lambda: tainted(world, STARTUP) == {fresh}, what="the startup taint on a node in time")
        witness.catch_up(world.nodes().values())
        assert [seen for seen in witness.states[late] if STARTUP in taints_of(seen)] == []
    assert labels_of(world.node(late))[TEAM] == "payments"


@pytest.mark.nightly
def test_the_time_of_validation_is_counted_from_the_startup_taint(world: World) -> None:
    """§1: "the deadline is the taint's own time + `timeoutSeconds`"."""
    timeout, age = 14, 9
    [name] = world.fleet(windows=1)
    await_age(world, name, seconds=age)
    with pods_in(world):
        begun = datetime.now(UTC)
        pool = world.apply(world.pool(**a_late_spec(timeoutSeconds=timeout)))
        world.operator.start()
        eventually(lambda: tainted(world, STARTUP) == {name}, what="the startup taint")
        seen = datetime.now(UTC)
        expect(world, pool, NodesUpToDate=("False", "ValidatingNodes"))
        world.operator.kill()  # a restart begins nothing anew
        world.operator.start()
        expect(world, pool, Stalled=("True", "ValidationTimedOut"))
        since = datetime.fromisoformat(await_issue(world, pool, "ValidationTimedOut", nodes=1)["since"])
    second = timedelta(seconds=1)  # times of the API are whole seconds
    assert begun + timedelta(seconds=timeout) <= since + second
    assert since <= seen + timedelta(seconds=timeout + LIST_SECONDS)


# What the operator stands on


@pytest.fixture
def alone(guard: Guard, tmp_path: Path) -> Iterator[World]:
    """A world in a control plane of few tests, whose CRD may be taken away; it stands at the end."""
    mine = World(guard.testbed, directory=tmp_path)
    try:
        yield mine
    finally:
        if CRD_NAME not in mine.kubectl("get", "crd", "-o", "name"):
            bring_back(mine)
        mine.close()


def bring_back(world: World) -> None:
    """Create the CRD and return when the API server serves it."""
    world.kubectl("apply", "-k", str(ROOT / "crds"))
    world.kubectl("wait", "--for=condition=Established", f"crd/{CRD_NAME}", "--timeout=30s")


@pytest.mark.nightly
def test_readyz_fails_soon_after_the_crd_has_gone_and_is_well_again_when_it_is_back(alone: World) -> None:
    """§1: "/readyz fails within 15 s of the CRD's disappearance"."""
    [name] = alone.fleet(windows=1)
    alone.operator.start()
    pool = alone.apply(alone.pool(**SPEC))
    alone.wait_up_to_date(pool, nodes=1)
    alone.delete(pool)
    assert alone.operator.ready()
    alone.kubectl("delete", "crd", CRD_NAME, "--timeout=60s")
    eventually(
        lambda: alone.operator.get("/readyz")[0] == 503,
        what="/readyz says no",
        seconds=UNREADY_WITHIN_SECONDS,
    )
    assert alone.operator.get("/healthz")[0] == 200
    assert "crd" in alone.operator.get("/readyz")[1].lower() or CRD_NAME in alone.operator.get("/readyz")[1]
    bring_back(alone)
    eventually(alone.operator.ready, what="ready again")
    pool = alone.apply(alone.pool(**SPEC))
    alone.wait_up_to_date(pool, nodes=1)
    assert APPLIED_ANNOTATION in annotations_of(alone.node(name))


def impatient(world: World, **environment: str) -> Operator:
    """Return an operator with these settings."""
    return Operator(
        kubeconfig=world.testbed.kubeconfig("winpool"),
        log_file=world.operator.log_file,
        environment={**OFTEN, **environment},
    )
