"""Machines that are started again, get updates and another Windows, as the API server sees them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.simulated import condition
from testbed.cli import main
from testbed.cluster import Testbed
from testbed.waiting import wait_until
from testbed.winsim.entries import Outage

GUARD_SECONDS = 180.0
"""Against waiting for ever; every outcome here comes within a few seconds."""
BUILD = "node.kubernetes.io/windows-build"
QUICK = Outage(down=1.0, ready_after=1.0)


@pytest.fixture
def joined(hasty: Testbed) -> Iterator[tuple[str, ...]]:
    """Three Windows nodes at one revision for one test, Ready."""
    names = hasty.fleet.join(3, release="2022", revision=1607)
    hasty.fleet.wait_ready(names)
    yield names
    hasty.fleet.leave([node.name for node in hasty.fleet.status() if node.name in names])


def get(testbed: Testbed, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(testbed.kubectl("get", kind, name, "-o", "json").stdout)
    return found


def info(node: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = node["status"]["nodeInfo"]
    return found


def await_boot(testbed: Testbed, name: str, boot_id: str) -> dict[str, Any]:
    """Return the node once it reports this boot ID and is Ready."""
    wait_until(
        lambda: (
            info(node := get(testbed, "node", name))["bootID"] == boot_id
            and condition(node, "Ready")["status"] == "True"
        ),
        what=f"{name} to be Ready after a start",
        timeout_seconds=GUARD_SECONDS,
    )
    return get(testbed, "node", name)


def run(testbed: Testbed, node: str, name: str, *, policy: str = "Always", annotations: Any = None) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations or {}},
        "spec": {
            "nodeName": node,
            "restartPolicy": policy,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "app", "image": "registry.example.com/team/app:1.2"}],
        },
    }
    testbed.kubectl("apply", "-f", "-", stdin=json.dumps(pod))


def await_phase(testbed: Testbed, name: str, phase: str) -> dict[str, Any]:
    wait_until(
        lambda: get(testbed, "pod", name)["status"].get("phase") == phase,
        what=f"pod {name} to be {phase}",
        timeout_seconds=GUARD_SECONDS,
    )
    return get(testbed, "pod", name)


@pytest.mark.nightly
def test_after_a_reboot_the_same_node_has_another_boot_id_and_its_pods_start_again(
    hasty: Testbed, joined: tuple[str, ...]
) -> None:
    name, other, _ = joined
    pods = (f"stays-{name}", f"ends-{name}")
    run(hasty, name, pods[0])
    run(hasty, name, pods[1], policy="Never")
    first = await_phase(hasty, pods[0], "Running")
    await_phase(hasty, pods[1], "Running")
    before = get(hasty, "node", name)
    assert info(before)["bootID"] == "1"

    assert hasty.fleet.reboot(name, outage=QUICK) == (name,)
    after = await_boot(hasty, name, "2")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert {**info(after), "bootID": "1"} == info(before)
    assert info(get(hasty, "node", other))["bootID"] == "1"
    since = condition(before, "Ready")["lastTransitionTime"]

    def is_ready_anew() -> bool:
        ready = condition(get(hasty, "node", name), "Ready")
        return (ready["status"], ready["lastTransitionTime"] > since) == ("True", True)

    wait_until(
        is_ready_anew,
        what="the node to be Ready after it was NotReady",
        timeout_seconds=GUARD_SECONDS,
    )

    wait_until(
        lambda: (
            condition(get(hasty, "pod", pods[0]), "Ready")["status"] == "True"
            and get(hasty, "pod", pods[0])["status"]["containerStatuses"][0]["restartCount"] == 1
        ),
        what="the pod to be Ready again",
        timeout_seconds=GUARD_SECONDS,
    )
    again = get(hasty, "pod", pods[0])
    assert again["metadata"]["uid"] == first["metadata"]["uid"]
    assert again["status"]["podIPs"] == [{"ip": again["status"]["podIP"]}]
    assert again["status"]["podIP"] != first["status"]["podIP"]
    (container,) = again["status"]["containerStatuses"]
    assert container["lastState"]["terminated"]["exitCode"] == 255
    assert await_phase(hasty, pods[1], "Failed")["status"]["containerStatuses"][0]["restartCount"] == 0
    hasty.kubectl("delete", "pod", "--grace-period=0", "--force", *pods)


@pytest.mark.nightly
def test_an_update_and_another_windows_show_in_the_version_that_a_node_reports(
    hasty: Testbed, joined: tuple[str, ...], tmp_path: Path
) -> None:
    patched, kept, renewed = joined
    before = {name: get(hasty, "node", name) for name in joined}
    hasty.kubectl("label", "node", *joined, "mine=1")
    # One by the command line, one by a scenario file, one by the method: they are the same verbs.
    options = ["--down", "1s", "--ready-after", "1s", "--dir", str(hasty.directory)]
    assert main(["fleet", *options[-2:], "patch", patched, "--revision", "4171", *options[:-2]]) == 0
    scenario = tmp_path / "surprise.yaml"
    step = f"{{nodes: {kept}, release: 2025, revision: 4652, keep_node: true, down: 1s, ready_after: 1s}}"
    scenario.write_text(f"steps:\n  - at: 0s\n    reimage: {step}\n")
    assert main(["scenario", str(scenario), *options[-2:]]) == 0
    hasty.fleet.reimage(renewed, release="2025", revision=4652, outage=QUICK)
    hasty.fleet.wait_ready(joined)

    def kernels() -> list[str]:
        return [info(get(hasty, "node", name))["kernelVersion"] for name in joined]

    wait_until(
        lambda: kernels() == ["10.0.20348.4171", "10.0.26100.4652", "10.0.26100.4652"],
        what="all three to report their new Windows",
        timeout_seconds=GUARD_SECONDS,
    )
    after = {name: get(hasty, "node", name) for name in joined}
    same = [before[name]["metadata"]["uid"] == after[name]["metadata"]["uid"] for name in joined]
    assert same == [True, True, False]
    assert ["mine" in node["metadata"]["labels"] for node in after.values()] == [True, True, False]
    assert [node["metadata"]["labels"][BUILD] for node in after.values()] == [
        "10.0.20348",
        "10.0.26100",
        "10.0.26100",
    ]
    # Windows counts its starts; a new system begins at the first, so the boot ID may be what it was.
    assert [info(node)["bootID"] for node in after.values()] == ["2", "1", "1"]
    assert info(after[kept])["osImage"] == "Windows Server 2025 Datacenter"


@pytest.mark.nightly
def test_a_machine_that_is_down_comes_back_although_its_simulation_was_killed(
    hasty: Testbed, joined: tuple[str, ...]
) -> None:
    name = joined[0]
    hasty.fleet.reboot(name, outage=Outage(down=4.0, ready_after=1.0))
    hasty.component("winsim").kill()
    hasty.component("winsim").start()
    after = await_boot(hasty, name, "2")
    assert info(after)["kernelVersion"] == "10.0.20348.1607"
    hasty.fleet.wait_ready(joined)


def test_the_pods_of_a_job_end_after_the_time_they_say(hasty: Testbed, joined: tuple[str, ...]) -> None:
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"job-{joined[0]}", "namespace": "default"},
        "spec": {
            "completions": 2,
            "template": {
                "metadata": {"annotations": {"winsim/run-seconds": "1"}},
                "spec": {
                    "restartPolicy": "Never",
                    "nodeName": joined[0],
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "app", "image": "registry.example.com/team/job:1"}],
                },
            },
        },
    }
    hasty.kubectl("create", "-f", "-", stdin=json.dumps(job))

    def is_complete() -> bool:
        told = get(hasty, "job", f"job-{joined[0]}")["status"].get("conditions", [])
        return ("Complete", "True") in [(each["type"], each["status"]) for each in told]

    # The controller may count the pods before it says that the Job is done.
    wait_until(is_complete, what="the Job to be done", timeout_seconds=GUARD_SECONDS)
    done = get(hasty, "job", f"job-{joined[0]}")["status"]
    assert (done.get("succeeded"), done.get("failed", 0)) == (2, 0)
    hasty.kubectl("delete", "job", f"job-{joined[0]}")
