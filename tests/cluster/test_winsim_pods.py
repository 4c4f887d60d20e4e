"""Pods on simulated nodes: scheduled by the real scheduler, kept as kubelets keep them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from testbed.cluster import Testbed
from testbed.waiting import wait_until

GUARD_SECONDS = 180.0
"""Against waiting for ever; every outcome here comes within a few seconds."""
CONDITIONS = ["ContainersReady", "Initialized", "PodReadyToStartContainers", "PodScheduled", "Ready"]

Object = dict[str, Any]


@pytest.fixture
def label(hasty: Testbed) -> Iterator[str]:
    """A value of the label ``test`` that no other test uses; its pods are taken away afterwards."""
    value = uuid.uuid4().hex[:8]
    yield value
    hasty.fleet.start("all")
    for kind in ("deployment", "daemonset", "pod"):
        hasty.kubectl("delete", kind, "-l", f"test={value}", "--wait=true", "--timeout=50s", "--now")


def template(**spec: Any) -> Object:
    containers = [{"name": "app", "image": "registry.example.com/team/app:1.2"}]
    return {"containers": containers, "terminationGracePeriodSeconds": 30, **spec}


def a_pod(label: str, name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": f"{name}-{label}", "labels": {"test": label}, "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template(**spec)}


def create(testbed: Testbed, *manifests: Object) -> None:
    everything = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
    testbed.kubectl("create", "-f", "-", stdin=json.dumps(everything))


def pods(testbed: Testbed, label: str) -> dict[str, Object]:
    found = json.loads(testbed.kubectl("get", "pods", "-l", f"test={label}", "-o", "json").stdout)["items"]
    return {pod["metadata"]["name"].removesuffix(f"-{label}"): pod for pod in found}


def statuses(pod: Object) -> dict[str, str]:
    return {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}


def is_ready(pod: Object) -> bool:
    return statuses(pod).get("Ready") == "True"


def await_ready(testbed: Testbed, label: str, *, count: int = 1) -> dict[str, Object]:
    wait_until(
        lambda: [is_ready(pod) for pod in pods(testbed, label).values()] == [True] * count,
        what=f"{count} pods to be Ready",
        timeout_seconds=GUARD_SECONDS,
        explain=lambda: f": {json.dumps([pod['status'] for pod in pods(testbed, label).values()])}",
    )
    return pods(testbed, label)


def await_gone(testbed: Testbed, label: str) -> None:
    wait_until(lambda: pods(testbed, label) == {}, what="the pods to go", timeout_seconds=GUARD_SECONDS)


@pytest.mark.nightly
def test_pods_that_the_scheduler_places_become_ready_and_look_real(hasty: Testbed, label: str) -> None:
    labels = {"test": label}
    selector = {"kubernetes.io/os": "windows"}
    create(
        hasty,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": label, "labels": labels},
            "spec": {
                "replicas": 7,
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": template(nodeSelector=selector, os={"name": "windows"}),
                },
            },
        },
    )
    found = await_ready(hasty, label, count=7).values()
    hasty.kubectl("rollout", "status", "deployment", label, "--timeout=30s")
    assert len({pod["status"]["podIP"] for pod in found}) == 7
    addresses = {node.name: node.address for node in hasty.fleet.status()}
    for pod in found:
        status, node = pod["status"], pod["spec"]["nodeName"]
        assert (status["phase"], status["hostIP"]) == ("Running", addresses[node])
        assert [each["type"] for each in sorted(status["conditions"], key=lambda each: each["type"])] == (
            CONDITIONS
        )
        assert set(statuses(pod).values()) == {"True"}
        assert all("lastTransitionTime" in each for each in status["conditions"])
        (container,) = status["containerStatuses"]
        assert container["image"] == "registry.example.com/team/app:1.2"
        assert container["imageID"].startswith("registry.example.com/team/app@sha256:")
        assert container["containerID"].startswith("containerd://")
        assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
        assert "startedAt" in container["state"]["running"]
    assert len({pod["status"]["containerStatuses"][0]["containerID"] for pod in found}) == 7
    assert sum(node.pods for node in hasty.fleet.status() if node.os == "windows") >= 7


def test_a_kubelet_starts_a_pod_as_itself_and_in_two_reports(hasty: Testbed, label: str) -> None:
    node = hasty.fleet.status()[0]
    began = datetime.now(UTC)
    init = [{"name": "prepare", "image": "a"}, {"name": "proxy", "image": "b", "restartPolicy": "Always"}]
    create(
        hasty,
        a_pod(label, "plain", nodeName=node.name, initContainers=init),
        a_pod(label, "host", nodeName=node.name, hostNetwork=True),
    )
    found = await_ready(hasty, label, count=2)
    assert found["host"]["status"]["podIP"] == node.address
    assert found["plain"]["status"]["podIP"] != node.address
    states = {each["name"]: each for each in found["plain"]["status"]["initContainerStatuses"]}
    assert states["prepare"]["state"]["terminated"]["reason"] == "Completed"
    assert states["prepare"]["ready"]
    assert "running" in states["proxy"]["state"]
    hasty.settle_audit()
    written = hasty.audit.writes(user=f"system:node:{node.name}", since=began, resource="pods")
    mine = [each for each in written if each.name == f"plain-{label}"]
    assert [(each.verb, each.subresource, each.code) for each in mine] == [("patch", "status", 200)] * 2


def test_a_pod_stops_in_its_own_time_and_at_the_latest_after_its_grace(hasty: Testbed, label: str) -> None:
    node = hasty.fleet.status()[0].name
    create(
        hasty,
        a_pod(label, "quick", nodeName=node),
        a_pod(label, "slow", nodeName=node, annotations={"winsim/stop-seconds": "3"}),
        a_pod(
            label,
            "deaf",
            nodeName=node,
            annotations={"winsim/stop-seconds": "3600"},
            terminationGracePeriodSeconds=2,
        ),
    )
    await_ready(hasty, label, count=3)
    told = datetime.now(UTC)
    hasty.kubectl("delete", "pod", "-l", f"test={label}", "--wait=false")
    wait_until(
        lambda: "quick" not in pods(hasty, label),
        what="the quick one to go",
        timeout_seconds=GUARD_SECONDS,
    )
    await_gone(hasty, label)
    hasty.settle_audit()
    written = hasty.audit.writes(user=f"system:node:{node}", since=told, resource="pods")
    done = {}
    for name in ("quick", "deaf", "slow"):
        mine = [each for each in written if each.name == f"{name}-{label}"]
        assert [(each.verb, each.subresource, each.code) for each in mine] == [
            ("patch", "status", 200),
            ("delete", "", 200),
        ]
        done[name] = (mine[0].received - told).total_seconds()
    assert 0.3 <= done["quick"] < done["deaf"] < done["slow"]
    assert done["deaf"] >= 2
    assert done["slow"] >= 3


def test_a_pod_with_a_finalizer_ends_and_is_left_to_whoever_holds_it(hasty: Testbed, label: str) -> None:
    node = hasty.fleet.status()[0].name
    manifest = a_pod(label, "held", nodeName=node)
    manifest["metadata"]["finalizers"] = ["example.com/hold"]
    create(hasty, manifest)
    await_ready(hasty, label)
    told = datetime.now(UTC)
    hasty.kubectl("delete", "pod", f"held-{label}", "--wait=false")
    wait_until(
        lambda: pods(hasty, label)["held"]["metadata"].get("deletionGracePeriodSeconds") == 0,
        what="the kubelet to let go",
        timeout_seconds=GUARD_SECONDS,
    )
    pod = pods(hasty, label)["held"]
    assert pod["status"]["phase"] == "Succeeded"
    assert statuses(pod)["Ready"] == "False"
    terminated = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (0, "Completed")
    hasty.kubectl("patch", "pod", f"held-{label}", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await_gone(hasty, label)
    hasty.settle_audit()
    written = hasty.audit.writes(user=f"system:node:{node}", since=told, resource="pods")
    assert [each.verb for each in written if each.name == f"held-{label}"] == ["patch", "delete"]


def test_a_windows_node_refuses_a_pod_for_linux(hasty: Testbed, label: str) -> None:
    by_os = {node.os: node.name for node in hasty.fleet.status()}
    create(
        hasty,
        a_pod(label, "strange", nodeName=by_os["windows"], os={"name": "linux"}),
        a_pod(label, "foreign", nodeName=by_os["linux"], os={"name": "windows"}),
        a_pod(label, "fitting", nodeName=by_os["windows"], os={"name": "windows"}),
    )
    wait_until(
        lambda: (
            sorted(pod["status"]["phase"] for pod in pods(hasty, label).values())
            == ["Failed", "Failed", "Running"]
        ),
        what="two of three pods to be refused",
        timeout_seconds=GUARD_SECONDS,
    )
    found = pods(hasty, label)
    for name in ("strange", "foreign"):
        status = found[name]["status"]
        assert status["phase"] == "Failed"
        assert status["reason"] == "PodOSNotSupported"
        assert status["message"] == (
            "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS"
        )


def test_a_label_for_another_system_is_refused_as_well(hasty: Testbed, label: str) -> None:
    node = next(node.name for node in hasty.fleet.status() if node.os == "windows")
    manifest = a_pod(label, "labelled", nodeName=node)
    manifest["metadata"]["labels"]["kubernetes.io/os"] = "linux"
    create(hasty, manifest)
    wait_until(
        lambda: pods(hasty, label)["labelled"]["status"]["phase"] == "Failed",
        what="the pod to be refused",
        timeout_seconds=GUARD_SECONDS,
    )
    assert pods(hasty, label)["labelled"]["status"]["reason"] == "PodOSSelectorNodeLabelDoesNotMatch"


def waiting(pod: Object) -> Object:
    (container,) = pod["status"].get("containerStatuses", [{}])
    found: Object = container.get("state", {}).get("waiting", {})
    return found


@pytest.mark.nightly
def test_a_pod_whose_image_is_for_linux_stays_pending_on_a_windows_node(hasty: Testbed, label: str) -> None:
    by_os = {node.os: node.name for node in hasty.fleet.status()}
    for_linux = {"winsim/image-os": "linux"}
    create(
        hasty,
        a_pod(label, "lost", nodeName=by_os["windows"], annotations=for_linux),
        a_pod(label, "home", nodeName=by_os["linux"], annotations=for_linux),
    )
    error = (
        "rpc error: code = NotFound desc = failed to pull and unpack image "
        '"registry.example.com/team/app:1.2": no match for platform in manifest: not found'
    )
    wait_until(
        lambda: waiting(pods(hasty, label)["lost"]) == {"reason": "ErrImagePull", "message": error},
        what="the image not to be found",
        timeout_seconds=GUARD_SECONDS,
    )
    wait_until(
        lambda: waiting(pods(hasty, label)["lost"]).get("reason") == "ImagePullBackOff",
        what="the kubelet to back off",
        timeout_seconds=GUARD_SECONDS,
    )
    found = pods(hasty, label)
    assert waiting(found["lost"])["message"] == (
        f'Back-off pulling image "registry.example.com/team/app:1.2": ErrImagePull: {error}'
    )
    assert (found["lost"]["status"]["phase"], found["home"]["status"]["phase"]) == ("Pending", "Running")
    hasty.kubectl("annotate", "pod", f"lost-{label}", "winsim/image-os-")
    await_ready(hasty, label, count=2)


def test_the_pods_of_a_daemon_set_are_not_ready_where_it_is_said(hasty: Testbed, label: str) -> None:
    labels = {"test": label}
    first, *others = (node.name for node in hasty.fleet.status() if node.os == "windows")
    create(
        hasty,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": label, "labels": labels},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": template(nodeSelector={"kubernetes.io/os": "windows"}),
                },
            },
        },
    )
    await_ready(hasty, label, count=3)
    wanted = dict.fromkeys(others, True) | {first: False}

    def ready_on() -> dict[str, bool]:
        return {pod["spec"]["nodeName"]: is_ready(pod) for pod in pods(hasty, label).values()}

    hasty.fleet.set_pods_ready(first, pods=[f"default/{label}"], ready=False)
    wait_until(
        lambda: ready_on() == wanted,
        what="one pod not to be Ready",
        timeout_seconds=GUARD_SECONDS,
    )
    (pod,) = (pod for pod in pods(hasty, label).values() if pod["spec"]["nodeName"] == first)
    (container,) = pod["status"]["containerStatuses"]
    assert (container["ready"], container["started"]) == (False, True)
    assert "running" in container["state"]
    # The next pod of the set there is not Ready either, from its first moment on.
    hasty.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=true")
    wait_until(
        lambda: (
            [each["status"]["phase"] for each in pods(hasty, label).values()] == ["Running"] * 3
            and ready_on() == wanted
        ),
        what="its successor to run and not to be Ready",
        timeout_seconds=GUARD_SECONDS,
    )
    hasty.fleet.set_pods_ready(first, pods=[f"default/{label}"], ready=True)
    await_ready(hasty, label, count=3)


def test_a_pod_that_somebody_else_reports_is_left_alone(hasty: Testbed, label: str) -> None:
    node = hasty.fleet.status()[0].name
    alone = {"winsim/unmanaged": "true"}
    create(
        hasty,
        a_pod(label, "alone", nodeName=node, annotations=alone),
        a_pod(label, "other", nodeName=node),
    )
    wait_until(
        lambda: is_ready(pods(hasty, label)["other"]),
        what="the other pod to be Ready",
        timeout_seconds=GUARD_SECONDS,
    )
    assert "startTime" not in pods(hasty, label)["alone"]["status"]
    hasty.kubectl("annotate", "pod", f"alone-{label}", "winsim/unmanaged-")
    await_ready(hasty, label, count=2)


@pytest.mark.nightly
def test_pods_wait_for_a_kubelet_that_is_away_and_are_ready_again_when_it_is_back(
    hasty: Testbed, label: str
) -> None:
    node = next(node.name for node in hasty.fleet.status() if node.os == "windows")
    tolerations = [{"operator": "Exists"}]
    create(
        hasty,
        a_pod(label, "stays", nodeName=node, tolerations=tolerations),
        a_pod(label, "goes", nodeName=node, tolerations=tolerations),
    )
    before = await_ready(hasty, label, count=2)
    hasty.fleet.stop(node)
    hasty.kubectl("delete", "pod", f"goes-{label}", "--wait=false")
    create(hasty, a_pod(label, "comes", nodeName=node, tolerations=tolerations))
    wait_until(
        lambda: not is_ready(pods(hasty, label)["stays"]),
        what="the controller manager to mark the pod of a silent node",
        timeout_seconds=GUARD_SECONDS,
    )
    meanwhile = pods(hasty, label)
    assert "deletionTimestamp" in meanwhile["goes"]["metadata"]
    assert meanwhile["comes"]["status"]["phase"] == "Pending"

    hasty.fleet.start(node)
    wait_until(
        lambda: "goes" not in pods(hasty, label),
        what="the deleted pod to go",
        timeout_seconds=GUARD_SECONDS,
    )
    after = await_ready(hasty, label, count=2)
    assert after["stays"]["status"]["podIP"] == before["stays"]["status"]["podIP"]
    assert after["comes"]["status"]["podIP"] != before["stays"]["status"]["podIP"]


@pytest.mark.nightly
def test_the_next_process_takes_pods_over_and_touches_none_that_is_well(hasty: Testbed, label: str) -> None:
    nodes = [node.name for node in hasty.fleet.status() if node.os == "windows"]
    create(hasty, *(a_pod(label, f"well{number}", nodeName=nodes[number % 2]) for number in range(4)))
    create(hasty, a_pod(label, "goes", nodeName=nodes[0]))
    before = await_ready(hasty, label, count=5)
    winsim = hasty.component("winsim")
    winsim.kill()
    hasty.kubectl("delete", "pod", f"goes-{label}", "--wait=false")
    create(hasty, a_pod(label, "comes", nodeName=nodes[1]))
    restarted = datetime.now(UTC)
    winsim.start()

    def is_done() -> bool:
        found = pods(hasty, label)
        return "goes" not in found and is_ready(found["comes"])

    wait_until(is_done, what="the next process to go on", timeout_seconds=GUARD_SECONDS)
    after = pods(hasty, label)
    well = [f"well{number}" for number in range(4)]
    for name in well:
        assert after[name]["metadata"]["resourceVersion"] == before[name]["metadata"]["resourceVersion"]
    assert len({pod["status"]["podIP"] for pod in after.values()}) == 5
    hasty.settle_audit()
    kubelets = [each for each in hasty.audit.writes(since=restarted, resource="pods") if "node" in each.user]
    assert {each.name for each in kubelets if label in each.name} == {f"goes-{label}", f"comes-{label}"}


def test_one_list_and_one_watch_stand_for_the_pods_of_all_nodes(hasty: Testbed) -> None:
    def asked(verb: str, resource: str) -> int:
        found = hasty.audit.requests(user="testbed:winsim", verbs={verb}, resource=resource)
        # Those of one node are read once for each time that its pods are told something.
        return sum("spec.nodeName%3D" not in record.uri for record in found)

    hasty.settle_audit()
    # Each process lists its nodes once, however often others of these tests have started a new one.
    assert asked("list", "pods") == asked("list", "nodes") > 0
    assert asked("watch", "pods") == asked("watch", "nodes") > 0
    for node in hasty.fleet.status():
        assert hasty.audit.reads(user=f"system:node:{node.name}", resource="pods") == []
