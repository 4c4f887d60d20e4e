"""What a simulated kubelet says about memory: with the gaps and zeros of a real one on Windows."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from testbed.winsim.endpoint.scene import Scene
from testbed.winsim.endpoint.summary import summary
from unit.winsim.endpoint.scenes import GIB, NOW, a_machine, a_pod_reading, a_reading, a_scene, a_tenant

READ = "2027-01-15T08:00:00Z"


def sent(scene: Scene, *, only_cpu_and_memory: bool = False) -> dict[str, Any]:
    body = msgspec.json.encode(summary(scene, only_cpu_and_memory=only_cpu_and_memory))
    return dict(json.loads(body))


def system_container(answer: dict[str, Any], name: str) -> dict[str, Any] | None:
    return next((each for each in answer["node"]["systemContainers"] if each["name"] == name), None)


def test_available_is_ram_less_private_working_sets_and_usage_is_the_commit_of_the_machine() -> None:
    memory = sent(a_scene())["node"]["memory"]
    assert memory == {
        "time": READ,
        "availableBytes": 7 * GIB,
        "usageBytes": 18 * GIB,
        "workingSetBytes": 9 * GIB,
        "rssBytes": 0,
        "pageFaults": 0,
        "majorPageFaults": 0,
    }


@pytest.mark.parametrize("only_cpu_and_memory", [False, True])
def test_the_commit_container_has_what_is_left_and_what_is_used_and_nothing_else(
    only_cpu_and_memory: bool,
) -> None:
    answer = sent(a_scene(), only_cpu_and_memory=only_cpu_and_memory)
    assert system_container(answer, "windows-global-commit-memory") == {
        "name": "windows-global-commit-memory",
        "startTime": READ,
        "memory": {"time": READ, "availableBytes": 6 * GIB, "usageBytes": 18 * GIB},
    }


@pytest.mark.parametrize(("kubelet", "there"), [("v1.30.9", False), ("v1.31.0", True), ("v1.37.1", True)])
def test_kubelets_before_1_31_have_no_commit_container(kubelet: str, there: bool) -> None:
    answer = sent(a_scene(machine=a_machine(kubelet=kubelet)))
    assert (system_container(answer, "windows-global-commit-memory") is not None) is there


def test_a_pod_has_its_working_set_and_zeros_that_mean_nothing() -> None:
    (pod,) = sent(a_scene())["pods"]
    assert pod["podRef"] == {"name": "shop", "namespace": "web", "uid": "uid-shop"}
    assert pod["memory"] == {
        "time": READ,
        "availableBytes": 0,
        "usageBytes": 0,
        "workingSetBytes": 2 * GIB + 1,
        "rssBytes": 0,
        "pageFaults": 0,
        "majorPageFaults": 0,
    }
    assert [container["memory"] for container in pod["containers"]] == [
        {"time": READ, "workingSetBytes": GIB + 1},
        {"time": READ, "workingSetBytes": GIB},
    ]


def test_with_stats_from_the_cri_a_pod_tells_its_commit() -> None:
    (pod,) = sent(a_scene(stats_from_cri=True))["pods"]
    assert pod["memory"] == {"time": READ, "usageBytes": 3 * GIB, "workingSetBytes": 2 * GIB + 1}
    (light,) = sent(a_scene(stats_from_cri=True), only_cpu_and_memory=True)["pods"]
    assert light["memory"]["usageBytes"] == 3 * GIB
    assert all("usageBytes" not in container["memory"] for container in light["containers"])


def test_host_processes_read_zero_with_a_fresh_time_and_are_missing_from_the_cri() -> None:
    tenants = {"uid-shop": a_tenant(host_process=True)}
    (pod,) = sent(a_scene(tenants=tenants))["pods"]
    assert (pod["memory"]["workingSetBytes"], pod["cpu"]["usageNanoCores"]) == (0, 0)
    assert pod["memory"]["time"] == READ
    assert sent(a_scene(tenants=tenants, stats_from_cri=True))["pods"] == []


def test_the_pods_container_leaves_out_sums_of_zero() -> None:
    container = system_container(sent(a_scene()), "pods")
    assert container is not None
    assert container["memory"] == {"time": READ, "workingSetBytes": 2 * GIB + 1}


def test_without_pods_the_pods_container_has_times_of_null() -> None:
    container = system_container(sent(a_scene(tenants={}, reading=a_reading())), "pods")
    assert container == {"name": "pods", "startTime": READ, "cpu": {"time": None}, "memory": {"time": None}}


def test_frozen_counters_keep_their_time_while_the_commit_container_goes_on() -> None:
    later = a_reading(time=NOW + 60, commit_total_bytes=20 * GIB)
    answer = sent(a_scene(now=NOW + 60, current=later, counters=a_reading()))
    assert answer["node"]["memory"]["time"] == READ
    assert answer["node"]["memory"]["usageBytes"] == 18 * GIB
    commit = system_container(answer, "windows-global-commit-memory")
    assert commit is not None
    assert commit["memory"] == {
        "time": "2027-01-15T08:01:00Z",
        "availableBytes": 4 * GIB,
        "usageBytes": 20 * GIB,
    }


def test_a_clock_that_is_behind_is_behind_in_every_time_of_the_node() -> None:
    answer = sent(a_scene().behind(3600))
    times = [answer["node"]["memory"]["time"], answer["node"]["cpu"]["time"], answer["node"]["fs"]["time"]]
    times += [each["startTime"] for each in answer["node"]["systemContainers"]]
    times += [pod["memory"]["time"] for pod in answer["pods"]]
    assert set(times) == {"2027-01-15T07:00:00Z"}


def test_the_node_starts_with_the_machine_and_its_cpu_total_with_the_kubelet() -> None:
    scene = a_scene()
    assert sent(scene)["node"]["startTime"] == "2027-01-15T06:00:00Z"
    light = sent(scene, only_cpu_and_memory=True)["node"]
    assert light["startTime"] == "2027-01-15T07:00:00Z"
    assert light["cpu"]["usageCoreNanoSeconds"] == light["cpu"]["usageNanoCores"] * 3600


def test_only_cpu_and_memory_is_nothing_else() -> None:
    answer = sent(a_scene(), only_cpu_and_memory=True)
    assert not {"network", "fs", "runtime"} & answer["node"].keys()
    (pod,) = answer["pods"]
    assert not {"network", "ephemeral-storage"} & pod.keys()
    assert all(not {"rootfs", "logs", "swap"} & container.keys() for container in pod["containers"])


def test_commit_may_be_more_than_ram_and_never_leaves_less_than_nothing() -> None:
    full = a_reading(private_working_set_bytes=17 * GIB, commit_total_bytes=25 * GIB)
    answer = sent(a_scene(reading=full))
    commit = system_container(answer, "windows-global-commit-memory")
    assert commit is not None
    assert (answer["node"]["memory"]["availableBytes"], commit["memory"]["availableBytes"]) == (0, 0)


def test_a_summary_of_fifteen_pods_is_as_large_as_real_ones() -> None:
    names = [f"shop-{number}" for number in range(15)]
    reading = a_reading(pods=tuple(a_pod_reading(name) for name in names))
    body = msgspec.json.encode(
        summary(a_scene(reading=reading, tenants={f"uid-{name}": a_tenant(name) for name in names}))
    )
    assert 12_000 < len(body) < 40_000
