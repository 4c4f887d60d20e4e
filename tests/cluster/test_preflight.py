"""What a pool learns of pods before it writes: who would go, who would not come back, who is misplaced."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster.pods import EVERYTHING, NAMESPACE, Pods, await_passes, pods_in, removals, tainted
from cluster.told import about, expect, issues, stood_first, words
from harness.nodes import taints_of
from harness.waiting import eventually
from harness.world import World

Object = dict[str, Any]

GENTLE: Final = "os=windows:NoSchedule"
HARSH: Final = "os=windows:NoExecute"
FOR_LINUX: Final[Object] = {"os": {"name": "linux"}}
NEVER: Final = {"winsim/start-seconds": "3600"}
"""Annotation of a pod whose containers are being created for an hour."""
UNAUTHORIZED: Final = (
    'failed to pull and unpack image "registry.example.com/team/app:1.2": failed to resolve reference: '
    "pull access denied: 401 Unauthorized"
)
PULLED_IN_VAIN: Final = ("ErrImagePull", "ImagePullBackOff")


@pytest.fixture
def pods(world: World) -> Iterator[Pods]:
    with pods_in(world) as pods:
        yield pods


def a_taint(effect: str, *, value: str = "windows") -> Object:
    return {"key": "os", "value": value, "effect": effect}


@pytest.mark.nightly
def test_agents_that_would_not_come_back_are_named_before_the_taint_is_put(world: World, pods: Pods) -> None:
    names = world.fleet(windows=2)
    bare = world.carried()
    agent = pods.daemon_set("agent")
    patient = pods.daemon_set("patient", tolerations=[EVERYTHING])
    pods.wait_running(count=4)
    kept = pods.uids()
    start = world.now()

    pool = world.apply(world.pool(taints=[a_taint("NoSchedule")]))
    with world.watch_pool(pool) as statuses, world.watch_nodes() as nodes:
        world.operator.start()
        status = world.wait_up_to_date(pool, nodes=2)
        statuses.catch_up([world.get("wnp", pool)])
        nodes.catch_up(world.nodes().values())
    named = stood_first(
        statuses,
        lambda seen: f"{NAMESPACE}/{agent}" in words(issues(seen.get("status", {}), "IntolerantNodeAgents")),
    )
    assert named < stood_first(nodes, lambda node: GENTLE in taints_of(node))
    found = issues(status, "IntolerantNodeAgents")
    assert about(status, "IntolerantNodeAgents") <= set(names)
    assert f"{NAMESPACE}/{agent}" in words(found)
    assert f"{NAMESPACE}/{patient}" not in words(found)
    assert all(each["fix"] for each in found)
    assert tainted(world, GENTLE) == set(names)

    # Another value would be another taint to them: a dry run says so and writes nothing.
    written = world.carried()
    edited = world.now()
    world.apply(world.pool(mode="DryRun", taints=[a_taint("NoSchedule", value="win2025")]))
    [planned] = eventually(lambda: preflight(world, pool), what="the preflight in the plan")
    assert planned["taint"] == "os=win2025:NoSchedule"
    assert planned["daemonSets"] == [f"{NAMESPACE}/{agent}"]
    await_passes(world, count=1)
    assert world.carried() == written
    assert world.node_patches(since=edited) == []
    assert pods.uids() == kept, "such a taint deletes no pod"
    assert removals(world, since=start, of=kept) == []

    world.apply(world.pool(taints=[a_taint("NoSchedule")]))
    assert "plan" not in world.wait_up_to_date(pool, nodes=2)
    pods.delete_daemon_set(agent)
    eventually(lambda: not issues(world.status(pool), "IntolerantNodeAgents"), what="the issue gone")
    world.delete(pool)
    assert world.carried() == bare


def test_an_agent_that_never_had_a_pod_because_of_the_taint_is_named(world: World, pods: Pods) -> None:
    names = world.fleet(windows=2)
    pool = world.apply(world.pool(taints=[a_taint("NoSchedule")]))
    world.operator.start()
    world.wait_up_to_date(pool, nodes=2)
    for_windows = {"name": "windows"}
    agent = pods.daemon_set("agent", os=for_windows)
    pods.daemon_set("patient", tolerations=[EVERYTHING], os=for_windows)
    pods.daemon_set("of-linux", os={"name": "linux"})
    [found] = eventually(lambda: issues(world.status(pool), "IntolerantNodeAgents"), what="the issue")
    assert f"The DaemonSets {NAMESPACE}/{agent} do not tolerate the taint {GENTLE}: " in found["message"]
    assert {*found["nodes"]} == {*names}
    assert pods.of(agent) == {}


@pytest.mark.nightly
def test_a_dry_run_counts_and_names_the_pods_that_a_taint_would_delete(world: World, pods: Pods) -> None:
    first, second, third = world.fleet(windows=3)
    bare = world.carried()
    places = {"a": first, "b": second, "c": first, "d": first}
    doomed = [pods.bind(name, node) for name, node in places.items()]
    pods.bind("agent", third, tolerations=[EVERYTHING])
    pods.wait_running(count=5)
    kept = pods.uids()
    start = world.now()
    pool = world.apply(world.pool(mode="DryRun", taints=[a_taint("NoExecute")]))
    world.operator.start()
    [found] = eventually(lambda: preflight(world, pool), what="the preflight in the plan")
    assert (found["taint"], found["intolerantPods"], found["nodes"]) == (HARSH, 4, 2)
    assert found["pods"] == [f"{NAMESPACE}/{name}" for name in doomed[:3]], "the first three"
    assert found.get("daemonSets", []) == []
    expect(world, pool, Ready=("True", "DryRun"), NodesUpToDate=("False", "DryRun"))

    pods.delete(*doomed[:2])
    eventually(
        lambda: [(each["intolerantPods"], each["nodes"]) for each in preflight(world, pool)] == [(2, 1)],
        what="a later look at the pods in the plan",
    )
    assert world.carried() == bare
    assert world.node_patches(since=start) == []
    assert removals(world, since=start, of=set(kept) - set(doomed[:2])) == []


@pytest.mark.nightly
def test_pods_for_linux_on_windows_nodes_are_counted_and_pods_that_merely_wait_are_not(
    world: World, pods: Pods
) -> None:
    first, second = world.fleet(windows=2)
    [lost, other] = [pods.bind(name, first, **FOR_LINUX) for name in ("lost", "other")]
    pods.bind("slow", second, annotations=NEVER)
    pods.bind("fine", second, os={"name": "windows"})
    pods.bind("homeless", "", nodeSelector={"example.com/none": "none"})
    eventually(
        lambda: (
            [pod["status"].get("phase") for _, pod in sorted(pods.all().items())]
            == ["Running", "Pending", "Failed", "Failed", "Pending"]
        ),
        what="the pods as they are to be judged",
    )
    assert pods.all()[lost]["status"]["reason"] == "PodOSNotSupported"
    pool = world.apply(world.pool())
    world.operator.start()
    eventually(lambda: world.status(pool).get("misplacedPods") == 2, what="two misplaced pods")
    status = world.status(pool)
    assert about(status, "MisplacedPods") == {first}
    assert f"{NAMESPACE}/{lost}" in words(issues(status, "MisplacedPods"))
    eventually(
        lambda: "MisplacedPods" in world.reasons(kind="WindowsNodePool", name=pool),
        what="the event MisplacedPods",
    )
    pods.delete(lost)
    eventually(lambda: world.status(pool)["misplacedPods"] == 1, what="one of them gone")
    pods.delete(other)
    eventually(lambda: world.status(pool)["misplacedPods"] == 0, what="both gone")
    eventually(lambda: not issues(world.status(pool), "MisplacedPods"), what="the issue gone")


def test_an_image_that_has_no_manifest_for_windows_is_evidence_and_one_that_may_not_be_pulled_is_none(
    world: World, pods: Pods
) -> None:
    [name] = world.fleet(windows=1)
    foreign = pods.bind("foreign", name, annotations={"winsim/image-os": "linux"})
    secret = pods.bind("secret", name, annotations=NEVER)
    eventually(lambda: waits_for(pods, secret) == "ContainerCreating", what="a container being created")
    pods.tell_waiting(secret, reason="ErrImagePull", message=UNAUTHORIZED)
    eventually(lambda: waits_for(pods, foreign) in PULLED_IN_VAIN, what="an image pulled in vain")
    assert waits_for(pods, secret) in PULLED_IN_VAIN
    pool = world.apply(world.pool())
    world.operator.start()
    eventually(lambda: world.status(pool).get("misplacedPods") == 1, what="one misplaced pod")
    told = words(issues(world.status(pool), "MisplacedPods"))
    assert f"{NAMESPACE}/{foreign}" in told
    assert secret not in told
    pods.delete(foreign)
    eventually(lambda: world.status(pool)["misplacedPods"] == 0, what="none any more")
    assert waits_for(pods, secret) in PULLED_IN_VAIN


def waits_for(pods: Pods, name: str) -> str:
    """Return the reason for which the container of a pod waits, empty where it does not."""
    statuses = pods.all()[name]["status"].get("containerStatuses", [])
    return str(statuses[0]["state"].get("waiting", {}).get("reason", "")) if statuses else ""


def preflight(world: World, pool: str) -> list[Object]:
    """Return what the plan says of pods, [] where it does not yet."""
    return list(world.status(pool).get("plan", {}).get("preflight", []))
