"""What the tests of memory pressure take for granted about simulated nodes. No operator runs here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cluster.evictions import Evictions
from cluster.kubelets import ask_kubelet
from cluster.memory_pods import BRIM, HARD, LEAK, NAMESPACE, SOFT, STORM, WARNING, growing, steady
from cluster.memory_scene import Scene
from cluster.memory_world import Ground, machines
from cluster.simulated import condition
from cluster.token_thief import enrol, listening, tried, worth
from harness.identity import Caller
from harness.operator import USER
from harness.waiting import eventually
from harness.world import World

GIB = 1 << 30
THIEF = "127.77.77.78"
NODES = 8


@pytest.fixture
def stage(world: World) -> Iterator[Ground]:
    """Nodes that serve their endpoints, in the control plane that all tests share."""
    with machines(world, seeing=NODES) as found:
        yield found


@pytest.fixture
def scene(stage: Ground) -> Iterator[Scene]:
    found = Scene(stage, key="premises", nodes=list(stage.fleets))
    yield found
    found.pods.close()


def committed(scene: Scene, node: str) -> float:
    """Return the part of what can be committed that is."""
    return scene.exported("windows_memory_committed_bytes", node) / scene.exported(
        "windows_memory_commit_limit", node
    )


def used(scene: Scene, node: str) -> float:
    """Return the bytes that are committed."""
    return scene.exported("windows_memory_committed_bytes", node)


def left(scene: Scene, node: str) -> float:
    """Return the GiB that can still be committed."""
    limit = scene.exported("windows_memory_commit_limit", node)
    return (limit - scene.exported("windows_memory_committed_bytes", node)) / GIB


@pytest.mark.nightly
def test_workloads_bring_machines_as_near_to_the_end_as_their_names_say(scene: Scene) -> None:
    warned, soft, hard, brim, leaking, storming, losing, both = scene.nodes
    scene.pods.run("warning", warned, WARNING)
    scene.pods.run("soft", soft, SOFT)
    scene.pods.run("hard", hard, HARD)
    scene.pods.run("brim", brim, BRIM)
    scene.pods.run("leak", leaking, LEAK)
    scene.pods.run("storm", storming, STORM)
    scene.pods.run("decoy", losing, steady("5Gi"))
    scene.fleet.lose_memory([losing], growth_per_minute="60Gi", into="Processes")
    for name in ("one", "two"):
        scene.pods.run(name, both, growing("10700Mi"))

    eventually(lambda: 0.82 < committed(scene, warned) < 0.88, what="84 %")
    eventually(lambda: 0.915 < committed(scene, soft) < 0.94 and left(scene, soft) > 1.5, what="Soft")
    eventually(lambda: 0.6 < left(scene, hard) < 0.95, what="Hard, not yet the kubelet's line")
    eventually(lambda: 0.1 < left(scene, brim) < 0.45, what="beyond the kubelet's line")
    eventually(lambda: 0.915 < committed(scene, both) < 0.94, what="two that are too much together")
    eventually(lambda: committed(scene, leaking) > 0.91 and left(scene, leaking) > 1.5, what="the leak's end")
    eventually(lambda: committed(scene, losing) > 0.97, what="Windows has lost the rest")
    for node in (soft, hard, brim, leaking, both):
        assert scene.exported("windows_memory_available_bytes", node) > 10 * GIB
        assert scene.fleet.truth(node).allocations_denied == 0
    began, steadily = {node: used(scene, node) for node in (soft, hard, brim, both)}, used(scene, warned)
    eventually(
        lambda: all(used(scene, node) > least for node, least in began.items()), what="growth", seconds=10
    )
    assert used(scene, warned) == steadily
    eventually(lambda: scene.fleet.truth(storming).seconds_thrashing > 0, what="thrashing")
    assert committed(scene, storming) < 0.75
    assert scene.exported("windows_memory_available_bytes", storming) < GIB
    before = scene.exported("windows_memory_swap_page_reads_total", storming)
    eventually(
        lambda: scene.exported("windows_memory_swap_page_reads_total", storming) - before > 3000,
        what="page reads of a storm",
        seconds=10,
    )


@pytest.mark.nightly
def test_an_armed_kubelet_evicts_and_presses_and_one_that_is_disarmed_presses_no_more(scene: Scene) -> None:
    node = scene.node

    def pressure() -> str:
        return str(condition(scene.read(), "MemoryPressure")["status"])

    scene.fleet.restart([node], eviction_hard="500Mi")
    scene.fleet.wait_ready([node])
    scene.pods.run("brim", node, BRIM)
    eventually(lambda: pressure() == "True", what="MemoryPressure")
    eventually(
        lambda: "Failed" in {each["status"].get("phase") for each in scene.pods.of("brim")}, what="evicted"
    )
    scene.pods.run("second", node, SOFT, tolerant=True)
    eventually(lambda: 0.915 < committed(scene, node) < 0.94, what="Soft, while the kubelet presses")
    assert pressure() == "True"
    scene.fleet.restart([node], eviction_hard="none")
    eventually(lambda: pressure() == "False", what="no MemoryPressure")


def test_a_witness_of_evictions_reads_what_they_name_and_can_refuse_them(stage: Ground, scene: Scene) -> None:
    uid = scene.pods.run("victim", scene.node, SOFT, stop_seconds=20)
    [pod] = scene.pods.of("victim")
    name = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction"
    asked = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    with Caller.named(scene.world.testbed, USER, "system:masters") as operator:
        with Evictions(scene.world.testbed, admit=lambda _: False) as strict:
            status, _ = operator.ask("POST", path, asked)
            assert (status, strict.admitted, len(strict.seen)) == (400, [], 1) or status == 403
        assert uid in scene.pods.staying()
        status, _ = operator.ask("POST", path, asked)
        assert status == 201
    first, second = stage.evictions.of(scene.node)
    assert first.uid == second.uid == first.pod_uid == uid
    assert (first.node, first.grace, first.intents, first.ending) == (scene.node, None, "", frozenset())
    assert uid not in scene.pods.staying()


def test_a_budget_is_met_by_an_eviction(scene: Scene) -> None:
    uid = scene.pods.run("protected", scene.node, steady("1Gi"))
    scene.pods.protect("protected")
    [pod] = scene.pods.of("protected")
    name = pod["metadata"]["name"]
    asked = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        "deleteOptions": {"preconditions": {"uid": uid}},
    }
    with Caller.named(scene.world.testbed, USER, "system:masters") as operator:
        status, answer = operator.ask("POST", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}/eviction", asked)
    assert (status, answer["details"]["causes"][0]["reason"]) == (429, "DisruptionBudget")


@pytest.mark.nightly
def test_pods_of_each_untouchable_kind_run_on_a_simulated_node_and_fill_it(scene: Scene) -> None:
    kinds = scene.pods.untouchable(scene.read())
    eventually(lambda: 0.915 < committed(scene, scene.node) < 0.94, what="Soft")
    assert {*kinds.values()} == {*scene.pods.staying()}
    agent, host, static = (scene.pods.of(kind)[0] for kind in ("agent", "host", "static"))
    assert agent["metadata"]["ownerReferences"][0]["kind"] == "DaemonSet"
    assert static["metadata"]["ownerReferences"][0]["kind"] == "Node"
    assert host["spec"]["securityContext"]["windowsOptions"]["hostProcess"] is True
    assert scene.pods.of("critical")[0]["spec"]["priority"] >= 2_000_000_000


def test_a_thief_hears_the_token_that_it_is_shown_at_the_address_of_its_node(
    world: World, stage: Ground
) -> None:
    name = f"thief-{world.suffix}"
    with listening(
        world.testbed, world.directory, address=THIEF, name=name, location="https://192.0.2.1/"
    ) as (heard, port):
        enrol(world, name, labels={}, address=THIEF, port=port)
        status = world.node(name)["status"]
        assert status["addresses"] == [{"type": "InternalIP", "address": THIEF}]
        assert status["nodeInfo"] == world.node(next(iter(stage.fleets)))["status"]["nodeInfo"]
        answer = ask_kubelet(world.testbed, THIEF, port, "/stats/summary", token="shown")
    assert (answer.status, answer.location) == (302, "https://192.0.2.1/")
    assert (heard.paths, heard.tokens) == (["/stats/summary"], ["shown"])


def test_what_a_token_is_worth_is_found_out_and_what_it_can_do_is_not_refused(scene: Scene) -> None:
    testbed, name = scene.world.testbed, f"reader-{scene.world.suffix}"
    scene.pods.run("innocent", scene.node, steady("1Gi"))
    pod = scene.pods.of("innocent")[0]["metadata"]["name"]
    testbed.kubectl("create", "serviceaccount", name)
    rights = ("nodes/stats", "nodes/configz", "pods/eviction")
    verbs = ("--verb=get", "--verb=create")
    testbed.kubectl("create", "clusterrole", name, *verbs, f"--resource={','.join(rights)}")
    bound = (f"--clusterrole={name}", f"--serviceaccount=default:{name}")
    testbed.kubectl("create", "clusterrolebinding", name, *bound)
    try:
        token = testbed.kubectl("create", "token", name).stdout.strip()
        wanted = {(verb, what) for verb in ("get", "create") for what in rights}
        eventually(lambda: worth(testbed, token) == wanted, what="the rights of the token")
        assert [*tried(testbed, token, node=scene.node, pod=pod).values()] == [201]
    finally:
        for kind in ("clusterrolebinding", "clusterrole", "serviceaccount"):
            testbed.kubectl("delete", kind, name)
