"""The Node that a simulated kubelet registers and keeps, compared with what real kubelets write."""

from __future__ import annotations

from dataclasses import replace as replace_machine
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from testbed.winsim.addresses import assign_addresses
from testbed.winsim.conditions import HEALTHY, STARTING, Health, conditions
from testbed.winsim.machines import Machine, build_fleet, node_names
from testbed.winsim.nodestatus import binary_quantity, has_changed, initial_node, reported, reregistered
from testbed.winsim.objects import Condition, Node, Taint
from testbed.winsim.patches import status_patch

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
LATER = NOW + timedelta(seconds=10)
NAMES = node_names("win", windows=2, linux=1)
WINDOWS, _, LINUX = build_fleet("win", windows=2, linux=1, addresses=assign_addresses(NAMES, seed="s"))
FOREIGN = Condition("WindowsMemoryPressure", "False", None, "2026-11-21T07:00:00Z", "Calm", "")


def registered(machine: Machine = WINDOWS) -> Node:
    return initial_node(machine, health=STARTING, now=NOW)


def ready(machine: Machine = WINDOWS) -> Node:
    return reported(machine, seen=registered(machine), health=HEALTHY, now=NOW)


def with_conditions(node: Node, *changed: Condition) -> Node:
    return replace(node, status=replace(node.status, conditions=changed))


def test_a_windows_node_registers_with_what_a_windows_kubelet_knows() -> None:
    node: dict[str, Any] = msgspec.to_builtins(registered())
    assert (node["apiVersion"], node["kind"]) == ("v1", "Node")
    labels = node["metadata"]["labels"]
    assert labels["kubernetes.io/os"] == labels["beta.kubernetes.io/os"] == "windows"
    assert labels["node.kubernetes.io/windows-build"] == "10.0.20348"
    assert labels["kubernetes.io/hostname"] == "win-w01"
    info = node["status"]["nodeInfo"]
    assert info["osImage"] == "Windows Server 2022 Datacenter"
    assert info["kernelVersion"] == "10.0.20348.4052"
    assert info["operatingSystem"] == "windows"
    assert info["bootID"] == "1"
    assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 10250}}
    assert list(node["status"]["addresses"]) == [
        {"type": "InternalIP", "address": WINDOWS.address},
        {"type": "Hostname", "address": "win-w01"},
    ]
    # The not-ready taint is the API server's to add, not the kubelet's.
    assert "taints" not in node["spec"]


@pytest.mark.parametrize(
    ("kubelet", "fields"),
    [
        ("v1.37.1", {"runtimeHandlers", "features", "declaredFeatures"}),
        ("v1.36.3", {"runtimeHandlers", "features", "declaredFeatures"}),
        ("v1.35.4", {"runtimeHandlers", "features"}),
        ("v1.33.12", {"runtimeHandlers", "features"}),
        ("v1.32.2", {"runtimeHandlers"}),
        ("v1.24.7-eks-fb459a0", set()),
    ],
)
def test_a_kubelet_reports_what_its_minor_knows(kubelet: str, fields: set[str]) -> None:
    node = registered(replace_machine(WINDOWS, kubelet_version=kubelet))
    assert {"runtimeHandlers", "features", "declaredFeatures"} & msgspec.to_builtins(
        node.status
    ).keys() == fields


def test_a_linux_node_has_no_windows_build() -> None:
    node = registered(LINUX)
    assert node.metadata.labels["kubernetes.io/os"] == "linux"
    assert "node.kubernetes.io/windows-build" not in node.metadata.labels


def test_allocatable_shows_the_reservation() -> None:
    status = registered().status
    held_back = [int(each["memory"].removesuffix("Ki")) for each in (status.capacity, status.allocatable)]
    assert held_back[0] - held_back[1] == (2048 + 500) * 1024


def test_labels_and_taints_of_the_command_line_are_registered() -> None:
    machine = build_fleet(
        "win",
        windows=1,
        linux=0,
        addresses={"win-w01": "127.1.0.1"},
        labels={"agentpool": "win22", "topology.kubernetes.io/zone": "z9"},
        taints=(Taint("os", "NoSchedule", "windows"),),
    )[0]
    node = registered(machine)
    assert node.metadata.labels["agentpool"] == "win22"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "z9"
    assert node.spec.taints == (Taint("os", "NoSchedule", "windows"),)


def test_a_node_object_is_as_large_as_a_real_one() -> None:
    # managedFields, added by the API server, are another 1.5 to 2 kB.
    assert 5_000 < len(msgspec.json.encode(ready())) < 6_500


def test_a_node_starts_not_ready_and_becomes_ready_by_one_condition() -> None:
    before = registered()
    after = reported(WINDOWS, seen=before, health=HEALTHY, now=LATER)
    assert (before.ready, after.ready) == (False, True)
    assert status_patch(before, after)["status"]["conditions"][-1] == {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "kubelet is posting ready status",
        "lastHeartbeatTime": "2026-11-21T08:00:10Z",
        "lastTransitionTime": "2026-11-21T08:00:10Z",
    }


def test_an_unchanged_status_differs_only_in_heartbeats() -> None:
    seen = ready()
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert not has_changed(seen, wanted)
    assert status_patch(seen, wanted) == {
        "status": {
            "$setElementOrder/conditions": [
                {"type": kind} for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
            "conditions": [
                {"type": kind, "lastHeartbeatTime": "2026-11-21T08:00:10Z"}
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
        }
    }


def test_ready_that_others_made_unknown_is_put_right() -> None:
    node = ready()
    lost = replace(node.status.conditions[-1], status="Unknown", reason="NodeStatusUnknown")
    seen = with_conditions(node, *node.status.conditions[:-1], lost)
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert has_changed(seen, wanted)
    condition = wanted.condition("Ready")
    assert condition is not None
    assert (condition.status, condition.last_transition_time) == ("True", "2026-11-21T08:00:10Z")


def test_conditions_of_others_stay_as_they_are_and_where_they_are() -> None:
    node = ready()
    seen = with_conditions(node, FOREIGN, *node.status.conditions)
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert wanted.status.conditions[0] is FOREIGN
    assert not has_changed(seen, wanted)
    assert all(each["type"] != FOREIGN.type for each in status_patch(seen, wanted)["status"]["conditions"])


def test_conditions_that_others_wiped_come_back() -> None:
    seen = with_conditions(ready(), FOREIGN)
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert has_changed(seen, wanted)
    kinds = [each.type for each in wanted.status.conditions]
    assert kinds == [FOREIGN.type, "MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]


def test_the_os_label_comes_back_and_a_label_of_others_stays() -> None:
    node = ready()
    labels = {"kubernetes.io/arch": "amd64", "winpool.dev/pool": "win-2022"}
    seen = replace(node, metadata=replace(node.metadata, labels=labels))
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert has_changed(seen, wanted)
    assert status_patch(seen, wanted)["metadata"] == {"labels": {"kubernetes.io/os": "windows"}}


def test_a_resource_of_others_stays() -> None:
    node = ready()
    capacity = {**node.status.capacity, "example.com/licences": "4"}
    seen = replace(node, status=replace(node.status, capacity=capacity))
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert wanted.status.capacity["example.com/licences"] == "4"
    assert not has_changed(seen, wanted)


def test_a_new_address_replaces_the_old_list() -> None:
    node = ready()
    seen = replace(node, status=replace(node.status, addresses=node.status.addresses[1:]))
    wanted = reported(WINDOWS, seen=seen, health=HEALTHY, now=LATER)
    assert status_patch(seen, wanted)["status"]["addresses"] == [
        {"type": "InternalIP", "address": WINDOWS.address},
        {"type": "Hostname", "address": "win-w01"},
        {"$patch": "replace"},
    ]


def test_registering_again_restores_default_labels_and_nothing_else() -> None:
    node = ready()
    metadata = replace(
        node.metadata,
        labels={"kubernetes.io/os": "linux", "winpool.dev/pool": "win-2022"},
        annotations={"winpool.dev/applied": "{}"},
    )
    machine = build_fleet(
        "win", windows=1, linux=0, addresses={"win-w01": WINDOWS.address}, labels={"agentpool": "win22"}
    )[0]
    again = reregistered(machine, existing=replace(node, metadata=metadata))
    assert again.metadata.labels["kubernetes.io/os"] == "windows"
    assert again.metadata.labels["node.kubernetes.io/windows-build"] == "10.0.20348"
    assert again.metadata.labels["winpool.dev/pool"] == "win-2022"
    assert "agentpool" not in again.metadata.labels
    assert again.metadata.annotations["winpool.dev/applied"] == "{}"
    assert again.spec == node.spec


@pytest.mark.parametrize(
    ("health", "kind", "reason"),
    [
        (Health(memory_pressure=True), "MemoryPressure", "KubeletHasInsufficientMemory"),
        (Health(disk_pressure=True), "DiskPressure", "KubeletHasDiskPressure"),
        (Health(pid_pressure=True), "PIDPressure", "KubeletHasInsufficientPID"),
    ],
)
def test_pressure_is_reported_and_relieved(health: Health, kind: str, reason: str) -> None:
    pressed = {each.type: each for each in conditions((), health=health, now=NOW)}
    assert (pressed[kind].status, pressed[kind].reason) == ("True", reason)
    assert pressed["Ready"].status == "True"
    relieved = {each.type: each for each in conditions((pressed[kind],), health=HEALTHY, now=LATER)}
    assert (relieved[kind].status, relieved[kind].last_transition_time) == ("False", "2026-11-21T08:00:10Z")


texts = st.sampled_from(["", "a", "b"])
any_conditions = st.lists(
    st.builds(
        Condition,
        type=st.sampled_from(["Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "X", "Y"]),
        status=st.sampled_from(["True", "False", "Unknown"]),
        reason=texts,
        message=texts,
    ),
    unique_by=lambda each: each.type,
    max_size=6,
).map(tuple)
any_health = st.builds(
    Health,
    not_ready=texts,
    memory_pressure=st.booleans(),
    disk_pressure=st.booleans(),
    pid_pressure=st.booleans(),
)


@given(seen=any_conditions, health=any_health)
def test_conditions_settle_after_one_report(seen: tuple[Condition, ...], health: Health) -> None:
    once = conditions(seen, health=health, now=NOW)
    assert [each.type for each in once[: len(seen)]] == [each.type for each in seen]
    assert {"MemoryPressure", "DiskPressure", "PIDPressure", "Ready"} <= {each.type for each in once}
    assert [each for each in once if each.type in "XY"] == [each for each in seen if each.type in "XY"]
    assert conditions(once, health=health, now=NOW) == once


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0"), (1000, "1000"), (1024, "1Ki"), (3 << 20, "3Mi"), (1 << 60, "1Ei"), (1025, "1025")],
)
def test_quantities_are_written_as_the_api_server_writes_them(number: int, text: str) -> None:
    assert binary_quantity(number) == text
