"""Nodes that do not work, as the API server shows them: by the scenarios in ``demo/broken-nodes``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from cluster.kubelets import ask_kubelet
from cluster.simulated import condition
from harness.documents import ROOT
from testbed.cli import main
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.options import Options
from testbed.waiting import wait_until

GUARD_SECONDS: Final = 60.0
"""Against waiting for ever; every outcome here comes within a few seconds."""
SCENARIOS: Final = ROOT / "demo" / "broken-nodes"
CNI, PAUSE, IMAGE, DNS, DOUBLED, DOUBLE = (f"win-w0{number}" for number in range(1, 7))
READER: Final = "reader"
MISMATCH: Final = "The container operating system does not match the host operating system."

Object = dict[str, Any]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Seven nodes on which pods run, of which five have been broken, each by its scenario."""
    directory = tmp_path_factory.mktemp("broken")
    options = Options(kubelet_endpoints=True)
    with Testbed.up(directory=directory, windows=7, linux=0, options=options) as testbed:
        testbed.kubectl("create", "serviceaccount", READER)
        binding = ("clusterrolebinding", READER, "--clusterrole=cluster-admin")
        testbed.kubectl("create", *binding, f"--serviceaccount=default:{READER}")
        testbed.kubectl("apply", "-f", str(SCENARIOS / "workload.yaml"))
        testbed.kubectl("rollout", "status", "daemonset", "shop", "--timeout=60s")
        for name in ("cni", "pause-image", "pod-image", "cluster-dns", "pod-cidr"):
            assert main(["scenario", "--dir", str(directory), str(SCENARIOS / f"{name}.yaml")]) == 0
        yield testbed


def get(testbed: Testbed, *what: str) -> Object:
    found: Object = json.loads(testbed.kubectl("get", *what, "-o", "json").stdout)
    return found


def pods_on(testbed: Testbed, node: str) -> list[Object]:
    return list(get(testbed, "pods", "-l", "app=shop", f"--field-selector=spec.nodeName={node}")["items"])


def pod_on(testbed: Testbed, node: str) -> Object:
    (pod,) = pods_on(testbed, node)
    return pod


def state(pod: Object) -> Object:
    return dict(pod["status"]["containerStatuses"][0]["state"])


def messages(testbed: Testbed, pod: Object, reason: str) -> list[str]:
    chosen = f"--field-selector=involvedObject.uid={pod['metadata']['uid']},reason={reason}"
    return [each["message"] for each in get(testbed, "events", chosen)["items"]]


def await_message(testbed: Testbed, pod: Object, reason: str) -> str:
    wait_until(
        lambda: messages(testbed, pod, reason) != [],
        what=f"an Event {reason}",
        timeout_seconds=GUARD_SECONDS,
        explain=lambda: f": {json.dumps(pod['status'])}",
    )
    return messages(testbed, pod, reason)[0]


def create(testbed: Testbed, name: str, *, annotation: str, value: str) -> Object:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": {annotation: value}},
        "spec": {
            "nodeName": "win-w07",
            "containers": [{"name": "app", "image": "registry.example.com/team/app:1.2"}],
        },
    }
    testbed.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    return get(testbed, "pod", name)


def test_a_node_whose_cni_is_not_initialized_is_not_ready(fleet: Testbed) -> None:
    wait_until(
        lambda: condition(get(fleet, "node", CNI), "Ready")["status"] == "False",
        what="the node not to be Ready",
        timeout_seconds=GUARD_SECONDS,
    )
    assert condition(get(fleet, "node", CNI), "Ready")["message"] == (
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
        "message:Network plugin returns error: cni plugin not initialized"
    )


def test_pods_get_no_sandbox_from_a_pause_image_for_another_build_until_it_is_the_usual_one(
    fleet: Testbed,
) -> None:
    pod = pod_on(fleet, PAUSE)
    message = await_message(fleet, pod, "FailedCreatePodSandBox")
    assert MISMATCH in message
    assert state(pod_on(fleet, PAUSE)) == {"waiting": {"reason": "ContainerCreating"}}
    listed = [name for each in get(fleet, "node", PAUSE)["status"]["images"] for name in each["names"]]
    assert [name for name in listed if "/pause:" in name] == ["registry.k8s.io/pause:3.5"]

    fleet.fleet.restart(PAUSE, pause_image="usual")
    wait_until(
        lambda: "running" in state(pod_on(fleet, PAUSE)),
        what="the pod to run",
        timeout_seconds=GUARD_SECONDS,
    )
    fleet.fleet.restart(PAUSE, pause_image="registry.k8s.io/pause:3.5")
    assert "running" in state(pod_on(fleet, PAUSE))
    fleet.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=true")
    wait_until(
        lambda: pods_on(fleet, PAUSE) != [],
        what="the next pod of the DaemonSet",
        timeout_seconds=GUARD_SECONDS,
    )
    pod = pod_on(fleet, PAUSE)
    assert "no match for platform in manifest" in await_message(fleet, pod, "FailedCreatePodSandBox")


def test_windows_does_not_start_an_image_for_another_build(fleet: Testbed) -> None:
    wait_until(
        lambda: "RunContainerError" in state(pod_on(fleet, IMAGE)).get("waiting", {}).values(),
        what="the container not to start",
        timeout_seconds=GUARD_SECONDS,
        explain=lambda: f": {json.dumps(pod_on(fleet, IMAGE)['status'])}",
    )
    pod = pod_on(fleet, IMAGE)
    assert pod["status"]["phase"] == "Running"
    assert MISMATCH in state(pod)["waiting"]["message"]
    assert pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 128
    fleet.kubectl("annotate", "pod", pod["metadata"]["name"], "winsim/image-build-")
    wait_until(
        lambda: "running" in state(pod_on(fleet, IMAGE)),
        what="the container to run",
        timeout_seconds=GUARD_SECONDS,
    )


def test_a_kubelet_shows_which_dns_service_it_gives_to_pods(fleet: Testbed) -> None:
    service = get(fleet, "service", "-n", "kube-system", "kube-dns")["spec"]["clusterIP"]
    assert (dns_of(fleet, DNS), dns_of(fleet, DOUBLE)) == (["10.0.0.10"], [service])
    fleet.fleet.restart(DNS, cluster_dns="none")
    assert dns_of(fleet, DNS) is None


def dns_of(testbed: Testbed, name: str) -> Any:
    node = get(testbed, "node", name)["status"]
    token = testbed.kubectl("create", "token", READER).stdout.strip()
    port = node["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    answer = ask_kubelet(testbed, node["addresses"][0]["address"], port, "/configz", token=token)
    return answer.parsed["kubeletconfig"].get("clusterDNS")


def test_nodes_have_one_range_of_pod_addresses_or_a_small_one_for_good(fleet: Testbed) -> None:
    nodes = [get(fleet, "node", name) for name in (DOUBLED, DOUBLE)]
    assert [node["spec"]["podCIDRs"] for node in nodes] == [["10.244.6.0/24"]] * 2
    noted = [node["metadata"]["annotations"]["flannel.alpha.coreos.com/public-ip"] for node in nodes]
    assert noted == [node["status"]["addresses"][0]["address"] for node in nodes]
    assert "podCIDR" not in get(fleet, "node", CNI)["spec"]
    fleet.fleet.assign_pod_cidr("win-w07", pod_cidr="10.244.7.0/26")
    found = get(fleet, "node", "win-w07")
    assert (found["spec"]["podCIDR"], found["status"]["capacity"]["pods"]) == ("10.244.7.0/26", "110")
    with pytest.raises(TestbedError, match=r"assign_pod_cidr: win-w05 has 10\.244\.6\.0/24"):
        fleet.fleet.assign_pod_cidr(DOUBLED, pod_cidr="10.244.5.0/24")


def test_a_token_volume_whose_owner_cannot_be_changed_is_not_mounted(fleet: Testbed) -> None:
    pod = create(fleet, "owned", annotation="winsim/chown-fails", value="true")
    (volume,) = (each["name"] for each in pod["spec"]["volumes"])
    message = await_message(fleet, pod, "FailedMount")
    assert message.startswith(f'MountVolume.SetUp failed for volume "{volume}" : chown c:\\')
    assert message.endswith(": not supported by windows")
    assert state(get(fleet, "pod", "owned")) == {"waiting": {"reason": "ContainerCreating"}}
