"""A kubelet that takes the token it is shown can read stats and configz of nodes, and nothing else (P3)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster.forging import as_kubelet
from cluster.kubelets import BEYOND, Answer, ask_kubelet
from cluster.memory_pods import SOFT, steady
from cluster.memory_scene import Scene
from cluster.memory_world import (
    EVERY_SECONDS,
    HEALTHY,
    LONG_SECONDS,
    PATIENCE_SECONDS,
    READER_USER,
    Ground,
    ground,
)
from cluster.reader import ACCOUNT, token_of
from cluster.token_thief import as_others, beyond_nobody, enrol, listening, special_rights, tried, worth
from harness.identity import Caller
from harness.nodes import annotations_of
from harness.waiting import eventually
from testbed.kubectl import KubectlError
from winpool.api.keys import MEMORY_ANNOTATION
from winpool.kube.tokens import LIFE_SECONDS
from winpool.kubelet.samples import CONFIGZ_PATH, SUMMARY_PATH

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]
"""Guards in the tests end before: each waits for some minutes at most, one after the other."""

Object = dict[str, Any]

NOBODYS: Final = "127.77.77.77"
"""An address of no simulated node: a fleet has a block of its own, and this one is asked for by name."""
WORTH: Final = {("get", "nodes/stats"), ("get", "nodes/configz")}
"""Verbs and resources."""


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with ground(tmp_path_factory.mktemp("token"), seeing=3) as made:
        yield made


def test_the_token_that_a_kubelet_is_shown_reads_stats_and_configz_of_nodes_and_nothing_else(
    stage: Ground,
) -> None:
    scene = Scene(stage, key="thief", nodes=list(stage.fleets)[:1])
    uid = scene.pods.run("innocent", scene.node, steady("1Gi"))
    scene.pool("Evict")
    world, testbed = scene.world, scene.world.testbed
    name = f"thief-{world.suffix}"
    with (
        listening(testbed, world.directory, address=NOBODYS, name="elsewhere") as (elsewhere, other_port),
        listening(
            testbed, world.directory, address=NOBODYS, name=name, location=f"https://{NOBODYS}:{other_port}/"
        ) as (heard, port),
    ):
        enrol(world, name, labels={"example.com/scene": "thief"}, address=NOBODYS, port=port)
        eventually(
            lambda: len(heard.tokens) >= 3, what="three polls", seconds=PATIENCE_SECONDS, every=EVERY_SECONDS
        )
        assert {each.partition("?")[0] for each in heard.paths} <= {"/stats/summary", "/configz"}
        assert elsewhere.paths == [], "a redirect was followed"
        token = heard.tokens[-1]

    claims = claims_of(token)
    assert claims["sub"] == READER_USER
    assert claims["exp"] - claims["iat"] == LIFE_SECONDS
    assert claims["kubernetes.io"].keys() == {"namespace", "serviceaccount"}, "bound to the account alone"
    assert {claims_of(shown)["sub"] for shown in heard.tokens} == {READER_USER}
    assert worth(testbed, token) == WORTH
    assert beyond_nobody(testbed, token) == set()
    assert special_rights(testbed, token) == set()
    assert as_others(testbed, token) == {}
    pod = scene.pods.of("innocent")[0]["metadata"]["name"]
    assert tried(testbed, token, node=scene.node, pod=pod) == {}
    assert uid in scene.pods.staying()

    victim = list(stage.fleets)[1]
    minor = int(scene.read(victim)["status"]["nodeInfo"]["kubeletVersion"].split(".")[1])
    wanted = {SUMMARY_PATH: 200, CONFIGZ_PATH: 200 if minor >= 33 else 403, **dict.fromkeys(BEYOND, 403)}
    assert {path: ask(scene, victim, path, token).status for path in wanted} == wanted
    scene.close()


def claims_of(token: str) -> Object:
    """Return what a token says of itself."""
    found: Object = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "==="))
    return found


def ask(scene: Scene, node: str, path: str, token: str) -> Answer:
    """Ask the kubelet of a simulated node."""
    status = scene.read(node)["status"]
    addresses = {each["type"]: each["address"] for each in status["addresses"]}
    port = status["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    return ask_kubelet(scene.world.testbed, addresses["InternalIP"], port, path, token=token)


def test_a_node_that_gives_the_address_of_the_api_server_as_its_own_is_not_asked(stage: Ground) -> None:
    scene = Scene(stage, key="mirror", nodes=list(stage.fleets)[2:])
    world = scene.world
    host, _, port = world.testbed.server.removeprefix("https://").partition(":")
    since = world.now()
    name = f"mirror-{world.suffix}"
    enrol(world, name, labels={"example.com/scene": "mirror"}, address=host, port=int(port))
    scene.pool("Evict")
    scene.await_members()
    eventually(lambda: scene.issues(about=name), what="the node is told of", seconds=LONG_SECONDS, every=1)
    assert scene.ground.asked_by(READER_USER, since=since) == []
    paths = {each.uri.partition("?")[0] for each in scene.ground.asked(since=since)}
    assert not paths & {"/stats/summary", "/configz"}
    scene.close()


def test_a_node_without_an_address_is_told_of_and_its_neighbours_are_watched(stage: Ground) -> None:
    scene = Scene(stage, key="nowhere", nodes=list(stage.fleets)[1:2])
    name = f"nowhere-{scene.world.suffix}"
    enrol(scene.world, name, labels={"example.com/scene": "nowhere"}, address=None, port=10250)
    hog = scene.pods.run("hog", scene.node, SOFT)
    scene.pool("Evict", eviction={"maxPressuredNodes": "100%"})
    eventually(lambda: scene.issues(about=name), what="the node is told of", seconds=LONG_SECONDS, every=1)
    scene.await_evicted(hog)
    scene.close()


def test_a_kubelet_cannot_write_intents_and_such_that_stand_there_evict_nobody(stage: Ground) -> None:
    """Those that stood there before the guard came are as good as forged: here an admin puts them there."""
    victim, innocent = list(stage.fleets)[:2]
    scene = Scene(stage, key="forged", nodes=[victim, innocent])
    scene.pool("Evict", eviction={"periodSeconds": 3600, "maxPressuredNodes": "100%"})
    scene.await_members()
    spared = scene.pods.run("innocent", innocent, steady("1Gi"))
    hog = scene.pods.run("hog", victim, SOFT)
    scene.await_evicted(hog)
    real = annotations_of(scene.read(victim))[MEMORY_ANNOTATION]
    forged = real.replace(hog, spared)
    assert forged != real
    patch = json.dumps({"metadata": {"annotations": {MEMORY_ANNOTATION: forged}}})
    with pytest.raises(KubectlError, match="winpool"):
        as_kubelet(scene.world.testbed, innocent, "patch", "node", innocent, "--type=merge", "-p", patch)
    scene.world.kubectl("patch", "node", innocent, "--type=merge", "-p", patch)
    scene.spares(spared)
    # The taint may keep new pods away for as long as the intent could be carried out, and nothing else
    # follows.
    assert scene.signal(innocent)[0] == ""
    scene.await_unmarked(innocent)
    scene.spares(spared)
    scene.close()


def test_a_token_dies_with_its_account_and_polls_go_on_with_one_of_the_next_account(stage: Ground) -> None:
    scene = Scene(stage, key="revoked", nodes=list(stage.fleets)[:1])
    testbed = scene.world.testbed
    scene.pool("Observe")
    await_healthy(scene)
    token = token_of(testbed)
    assert ask(scene, scene.node, SUMMARY_PATH, token).status == 200
    testbed.kubectl("delete", "-f", ACCOUNT)
    try:
        with Caller.bearer(testbed, token) as thief:
            # The API server remembers a token for ten seconds.
            eventually(lambda: thief.status("GET", "/api/v1") == 401, what="it is worth nothing", every=1)
        eventually(
            lambda: ask(scene, scene.node, SUMMARY_PATH, token).status == 401,
            what="kubelets refuse it, who remember it for two minutes",
            seconds=LONG_SECONDS,
            every=5,
        )
        eventually(
            lambda: "does not exist" in scene.condition("Accepted").get("message", ""),
            what="the missing account is told",
            seconds=LONG_SECONDS,
            every=EVERY_SECONDS,
        )
        assert scene.condition("Accepted")["reason"] == "MissingPermission"
        eventually(
            lambda: scene.condition(HEALTHY)["status"] == "Unknown",
            what="no samples",
            seconds=LONG_SECONDS,
            every=EVERY_SECONDS,
        )
    finally:
        testbed.kubectl("apply", "-f", ACCOUNT)
    eventually(
        lambda: scene.condition("Accepted")["status"] == "True",
        what="nothing is missing",
        seconds=LONG_SECONDS,
        every=EVERY_SECONDS,
    )
    await_healthy(scene)
    with Caller.bearer(testbed, token) as thief:
        assert thief.status("GET", "/api/v1") == 401, "the old one stays worth nothing"
    scene.close()


def await_healthy(scene: Scene) -> None:
    """Return when the memory of all nodes is known and well."""
    eventually(
        lambda: scene.condition(HEALTHY).get("status") == "True",
        what="healthy memory",
        seconds=LONG_SECONDS,
        every=EVERY_SECONDS,
    )
