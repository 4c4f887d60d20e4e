"""What goes wrong while machines are upgraded, and an actor that upgrades them, on the API server."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import pytest

from cluster.simulated import condition, simulated
from testbed.actuator import Actuator
from testbed.api import Api, ApiError
from testbed.cluster import Testbed
from testbed.waiting import wait_until
from testbed.winsim.control import FleetControl
from testbed.winsim.entries import Outage

Object = dict[str, Any]

GUARD_SECONDS = 120.0
"""Against waiting for ever; every outcome here comes within a few seconds."""
QUICK = Outage(down=1.0, ready_after=1.0)
PODS = "/api/v1/namespaces/default/pods"
DETACH_SECONDS = 3.0
OLD, NEW = "10.0.20348.1607", "10.0.20348.4171"


@dataclass(frozen=True)
class Ground:
    """Machines of their own on which minutes of pulls are seconds, and volumes are detached late."""

    api: Api
    fleet: FleetControl

    def join(self, count: int = 1, *, labels: dict[str, str] | None = None) -> tuple[str, ...]:
        names = self.fleet.join(count, release="2022", revision=1607, labels=labels)
        self.fleet.wait_ready(names)
        return names

    def node(self, name: str) -> Object:
        return self.api.get(f"/api/v1/nodes/{name}")

    def info(self, name: str) -> tuple[str, str]:
        found = self.node(name)["status"]["nodeInfo"]
        return found["bootID"], found["kernelVersion"]

    def pod(self, name: str) -> Object:
        return self.api.get(f"{PODS}/{name}")

    def run(
        self,
        node: str,
        name: str,
        *,
        annotations: dict[str, str] | None = None,
        ready: bool = True,
        **spec: Any,
    ) -> str:
        """Run a pod on a node, and return its name; where it is to be ``ready``, once it is."""
        full = f"{name}-{node}"
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": full, "namespace": "default", "annotations": annotations or {}},
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 1,
                "tolerations": [{"operator": "Exists"}],
                "containers": [{"name": "app", "image": "registry.example.com/team/app:1.2"}],
                **spec,
            },
        }
        self.api.create(PODS, pod)
        if ready:
            self.await_ready(full)
        return full

    def await_ready(self, pod: str) -> None:
        until(lambda: is_true(self.pod(pod), "Ready"), f"pod {pod} to be Ready")

    def is_there(self, path: str) -> bool:
        try:
            self.api.get(path)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True

    def annotate(self, path: str, **annotations: str | None) -> None:
        """Change annotations whose keys are ``winsim/`` and a name with ``_`` for ``-``."""
        keys = {f"winsim/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.api.merge(path, {"metadata": {"annotations": keys}})


def until(true: Callable[[], bool], what: str) -> None:
    wait_until(true, what=what, timeout_seconds=GUARD_SECONDS)


def is_true(thing: Object, kind: str) -> bool:
    found = thing["status"].get("conditions", [])
    return any((each["type"], each["status"]) == (kind, "True") for each in found)


@pytest.fixture(scope="module")
def ground(hasty: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    directory = tmp_path_factory.mktemp("upgrades")
    socket = directory / "fleet.sock"
    extra = ("--control-socket", str(socket), "--time-scale=10", f"--detach-seconds={DETACH_SECONDS}")
    with simulated(hasty, directory, *extra, windows=1):
        fleet = FleetControl(socket)
        yield Ground(hasty.api(), fleet)
        fleet.leave("all")


@pytest.mark.nightly
def test_an_update_can_fail_and_a_machine_can_stay_away_until_somebody_starts_it(ground: Ground) -> None:
    failing, lost = ground.join(2)
    ground.fleet.set_updates(failing, result="fail")
    ground.fleet.set_updates(lost, result="never_return")
    ground.fleet.patch([failing, lost], revision=4171, outage=QUICK)
    until(lambda: ground.info(failing) == ("2", OLD), "the old Windows to be back")
    ground.fleet.wait_ready([failing])
    until(
        lambda: condition(ground.node(lost), "Ready")["status"] == "Unknown",
        "the controller manager to miss the other node",
    )
    assert ground.info(lost) == ("1", OLD)

    ground.fleet.start(lost)
    ground.fleet.set_updates([failing, lost], result="succeed")
    until(lambda: ground.info(lost) == ("2", OLD), "the lost machine to be back")
    ground.fleet.patch(failing, revision=4171, outage=QUICK)
    until(lambda: ground.info(failing) == ("3", NEW), "the update to succeed")


@pytest.mark.nightly
def test_a_large_image_takes_its_time_and_is_pulled_again_after_it_failed(ground: Ground) -> None:
    (node,) = ground.join()
    began = time.monotonic()
    annotations = {"winsim/image-size": "160Mi", "winsim/pull-failures": "2"}  # 20 s, on the time scale 2
    pod = ground.run(node, "large", annotations=annotations, ready=False)
    seen: list[str] = []

    def is_ready() -> bool:
        found = ground.pod(pod)
        for each in found["status"].get("containerStatuses", []):
            reason = each["state"].get("waiting", {}).get("reason", "runs")
            if seen[-1:] != [reason]:
                seen.append(reason)
        return is_true(found, "Ready")

    until(is_ready, "the image to be pulled")
    assert seen[:3] == ["ContainerCreating", "ErrImagePull", "ImagePullBackOff"]
    assert seen[-2:] == ["ImagePullBackOff", "runs"]
    # Two reports that a pull failed of 1 s each, one longer pause of 1 s, and the pull.
    assert time.monotonic() - began >= 5


def test_a_pod_hangs_in_terminating_until_it_is_released_or_its_machine_starts_again(ground: Ground) -> None:
    (node,) = ground.join()
    stuck = {"winsim/stuck-terminating": "true"}
    released, restarted = (ground.run(node, name, annotations=stuck) for name in ("released", "restarted"))
    deaf = ground.run(node, "deaf", annotations={"winsim/stop-seconds": "3600"})
    for pod in (released, restarted, deaf):
        ground.api.delete(f"{PODS}/{pod}")
    until(lambda: not ground.is_there(f"{PODS}/{deaf}"), "a grace to pass")
    for pod in (released, restarted):
        found = ground.pod(pod)
        assert found["metadata"]["deletionGracePeriodSeconds"] == 1
        assert is_true(found, "Ready")

    ground.annotate(f"{PODS}/{released}", stuck_terminating=None)
    until(lambda: not ground.is_there(f"{PODS}/{released}"), "the released pod to go")
    assert ground.is_there(f"{PODS}/{restarted}")
    ground.fleet.reboot(node, outage=QUICK)
    until(lambda: not ground.is_there(f"{PODS}/{restarted}"), "the machine to take the other pod along")


def create_volume(api: Api, name: str) -> None:
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {"namespace": "default", "name": name},
            "csi": {"driver": "disk.csi.example.com", "volumeHandle": name},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "volumeName": name,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    api.create("/api/v1/persistentvolumes", volume)
    api.create(claims, claim)
    until(lambda: api.get(f"{claims}/{name}")["status"]["phase"] == "Bound", "the claim to be bound")


def test_a_volume_is_detached_a_while_after_its_pod_has_gone(ground: Ground) -> None:
    (node,) = ground.join()
    path = "/apis/storage.k8s.io/v1/volumeattachments"

    def attachments() -> list[Object]:
        return [each for each in ground.api.get(path)["items"] if each["spec"]["nodeName"] == node]

    def attached() -> list[str]:
        return [each["name"] for each in ground.node(node)["status"].get("volumesAttached", [])]

    create_volume(ground.api, f"disk-{node}")
    claim = {"name": "disk", "persistentVolumeClaim": {"claimName": f"disk-{node}"}}
    pod = ground.run(node, "writer", volumes=[claim])
    until(lambda: len(attached()) == 1, "the volume to be attached")
    [attachment] = attachments()
    assert attachment["status"]["attached"]

    ground.api.delete(f"{PODS}/{pod}")
    until(lambda: not ground.is_there(f"{PODS}/{pod}"), "the pod to go")
    until(lambda: "deletionTimestamp" in attachments()[0]["metadata"], "the volume to be on its way")
    deleted = time.monotonic()
    # The controller manager takes it off this list before it deletes the attachment: the list proves nothing.
    until(lambda: not attached(), "the node not to list it")
    assert attachments()
    until(lambda: not attachments(), "the volume to be detached")
    # The time of the deletion has whole seconds.
    assert time.monotonic() - deleted >= DETACH_SECONDS - 1.5


def test_a_volume_is_detached_sooner_where_its_attachment_says_so(ground: Ground) -> None:
    (node,) = ground.join()
    path = f"/apis/storage.k8s.io/v1/volumeattachments/by-hand-{node}"
    source = {"persistentVolumeName": "none"}
    ground.api.create(
        path.rpartition("/")[0],
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": f"by-hand-{node}", "annotations": {"winsim/detach-seconds": "3600"}},
            "spec": {"attacher": "disk.csi.example.com", "nodeName": node, "source": source},
        },
    )
    until(lambda: ground.api.get(path).get("status", {}).get("attached", False), "the volume to be attached")
    ground.api.delete(path)
    until(lambda: "deletionTimestamp" in ground.api.get(path)["metadata"], "it to be on its way")
    ground.annotate(path, detach_seconds="0")
    until(lambda: not ground.is_there(path), "it to be detached")


@pytest.mark.nightly
def test_pods_get_a_network_a_while_after_their_node_is_ready(ground: Ground) -> None:
    (node,) = ground.join()
    pod, host = ground.run(node, "pod"), ground.run(node, "host", hostNetwork=True)
    ground.fleet.reboot(node, outage=Outage(down=1.0, ready_after=1.0, network_after=4.0))
    until(lambda: ground.info(node)[0] == "2", "the machine to be back")
    ground.fleet.wait_ready([node])
    until(
        lambda: ground.pod(host)["status"]["containerStatuses"][0]["restartCount"] == 1,
        "the pod in the host's network to be started again",
    )
    ground.await_ready(host)
    assert is_true(ground.node(node), "Ready")
    waiting = ground.pod(pod)
    assert not is_true(waiting, "Ready")
    assert not is_true(waiting, "PodReadyToStartContainers")
    [event] = ground.api.get("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={pod}")[
        "items"
    ]
    assert event["reason"] == "FailedCreatePodSandBox"
    ground.await_ready(pod)
    assert is_true(ground.pod(pod), "PodReadyToStartContainers")


def test_a_node_that_its_vendor_makes_anew_has_lost_its_cordon_and_its_annotations(ground: Ground) -> None:
    (node,) = ground.join()
    before = ground.node(node)
    ground.api.merge(
        f"/api/v1/nodes/{node}",
        {"metadata": {"annotations": {"example.com/a": "b"}}, "spec": {"unschedulable": True}},
    )
    ground.fleet.reimage(node, release="2022", revision=4171, outage=QUICK)
    ground.fleet.wait_ready([node])
    after = ground.node(node)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert "unschedulable" not in after["spec"]
    assert "example.com/a" not in after["metadata"]["annotations"]


@pytest.mark.nightly
def test_a_vendor_can_bring_the_new_machine_before_the_old_one_leaves(hasty: Testbed) -> None:
    ground = Ground(hasty.api(), hasty.fleet)
    (old,) = ground.join(labels={"agentpool": "blue"})
    known = {node.name for node in ground.fleet.status()}
    zone = ground.node(old)["metadata"]["labels"]["topology.kubernetes.io/zone"]
    assert ground.fleet.surge(old, release="2022", revision=4171, ready_after=4.0) == (old,)
    [new] = {node.name for node in ground.fleet.status()} - known
    until(lambda: ground.is_there(f"/api/v1/nodes/{new}"), "the new node to register")
    assert is_true(ground.node(old), "Ready")
    # It is remembered by the next process.
    hasty.component("winsim").kill()
    hasty.component("winsim").start()
    until(lambda: not ground.is_there(f"/api/v1/nodes/{old}"), "the old node to leave")
    node = ground.node(new)
    assert is_true(node, "Ready")
    assert ground.info(new) == ("1", NEW)
    labels = node["metadata"]["labels"]
    assert (labels["agentpool"], labels["topology.kubernetes.io/zone"]) == ("blue", zone)
    ground.fleet.leave(new)


def test_a_hotpatch_shows_only_after_a_start_of_the_kubelet(ground: Ground) -> None:
    (node,) = ground.join()
    ground.fleet.hotpatch(node, revision=4171)
    # Two new reports of its status.
    ground.fleet.set_ready(node, ready=False)
    until(lambda: not is_true(ground.node(node), "Ready"), "the node to be NotReady")
    ground.fleet.set_ready(node, ready=True)
    ground.fleet.wait_ready([node])
    assert ground.info(node) == ("1", OLD)
    ground.fleet.restart(node)
    until(lambda: ground.info(node) == ("1", NEW), "the revision to show")


def hand_over(ground: Ground, node: str, *, claim: str) -> None:
    """Do what winpool does to a node that is the actor's."""
    target = json.dumps({"claim": claim, "target": {"version": "2022", "revision": 4171}, "since": "…"})
    ground.api.merge(
        f"/api/v1/nodes/{node}",
        {
            "metadata": {
                "labels": {"winpool.dev/upgrade-state": "Upgrading"},
                "annotations": {"winpool.dev/upgrade": target},
            }
        },
    )


def done(ground: Ground, node: str) -> str | None:
    annotations: dict[str, str] = ground.node(node)["metadata"]["annotations"]
    return annotations.get("winpool.dev/upgrade-done")


def test_an_actor_upgrades_a_node_that_is_handed_over_cordoned_and_drained_once(ground: Ground) -> None:
    node, other = ground.join(2)
    actor = Actuator(api=ground.api, fleet=ground.fleet, outage=QUICK)
    pod = ground.run(node, "last")
    assert actor.look() == {}
    hand_over(ground, node, claim="c1")
    assert actor.look() == {node: "not cordoned"}
    ground.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    assert actor.look() == {node: f"not drained: default/{pod}"}
    ground.api.delete(f"{PODS}/{pod}")
    until(lambda: not ground.is_there(f"{PODS}/{pod}"), "the node to be drained")
    assert actor.look() == {node: "patch"}
    assert Actuator(api=ground.api, fleet=ground.fleet, outage=QUICK).look() == {}
    until(lambda: ground.info(node) == ("2", NEW), "the machine to be upgraded")
    ground.fleet.wait_ready([node])
    # The boot ID proves it: nothing is to be acknowledged.
    assert actor.look() == {}
    assert (ground.info(node), done(ground, node)) == (("2", NEW), None)
    assert ground.info(other) == ("1", OLD)
    ground.fleet.leave([node, other])


def test_an_actor_acknowledges_what_nothing_on_the_node_proves(ground: Ground) -> None:
    (node,) = ground.join()
    ground.fleet.set_updates(node, result="fail")
    actor = Actuator(api=ground.api, fleet=ground.fleet, method="hotpatch")
    hand_over(ground, node, claim="c2")
    ground.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    assert actor.look() == {node: "hotpatch"}
    ground.fleet.wait_ready([node])
    assert actor.look() == {node: "done"}
    assert (ground.info(node), done(ground, node)) == (("1", OLD), "c2")
    assert actor.look() == {}
    # Another claim is another upgrade.
    ground.fleet.set_updates(node, result="succeed")
    hand_over(ground, node, claim="c3")
    assert actor.look() == {node: "hotpatch"}
    until(lambda: ground.info(node) == ("1", NEW), "the revision to show")
    ground.fleet.wait_ready([node])
    assert (actor.look(), done(ground, node)) == ({}, "c2")


@pytest.mark.parametrize("method", ["reimage", "replace", "surge"])
def test_an_actor_has_other_ways_to_bring_a_machine_to_its_target(ground: Ground, method: Any) -> None:
    (node,) = ground.join()
    known = {each.name: each.uid for each in ground.fleet.status()}
    hand_over(ground, node, claim="c4")
    ground.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    actor = Actuator(api=ground.api, fleet=ground.fleet, method=method, outage=QUICK)
    assert actor.look() == {node: method}
    if method == "surge":
        until(lambda: not ground.is_there(f"/api/v1/nodes/{node}"), "the old node to leave")
    else:
        ground.fleet.wait_ready([node])
        assert ground.info(node)[1] == NEW
    new = {each.name: each.uid for each in ground.fleet.status()}
    assert (node in new, new.get(node) == known[node]) == {
        "reimage": (True, True),
        "replace": (True, False),
        "surge": (False, False),
    }[method]
    assert actor.look() == {}


@pytest.mark.nightly
def test_a_person_starts_the_actor_and_reads_why_it_waits(hasty: Testbed) -> None:
    names = hasty.fleet.join(1)
    hasty.fleet.wait_ready(names)
    ground = Ground(hasty.api(), hasty.fleet)
    hand_over(ground, names[0], claim="c5")
    command = [sys.executable, "-m", "testbed", "actuator", "--dir", str(hasty.directory), "--down", "1m"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as actor:
        assert actor.stderr is not None
        assert actor.stderr.readline().endswith(f"{names[0]}: not cordoned\n")
        actor.send_signal(signal.SIGINT)
        assert actor.wait(GUARD_SECONDS) == 130
    hasty.fleet.leave(names)
