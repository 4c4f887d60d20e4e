"""What happens to simulated machines in their lives, told over the control socket, seen on the API server."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.simulated import condition, taints
from testbed.cli import main
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.waiting import wait_until
from testbed.winsim.memory import parse_size

GUARD_SECONDS = 180.0
"""Against waiting for ever; every outcome here comes within a few seconds."""


@pytest.fixture
def joined(hasty: Testbed) -> Iterator[tuple[str, ...]]:
    """Three Windows nodes for one test, Ready."""
    names = hasty.fleet.join(3)
    hasty.fleet.wait_ready(names)
    yield names
    hasty.fleet.leave([node.name for node in hasty.fleet.status() if node.name in names])


def get(testbed: Testbed, name: str) -> dict[str, Any]:
    node: dict[str, Any] = json.loads(testbed.kubectl("get", "node", name, "-o", "json").stdout)
    return node


def existing(testbed: Testbed) -> set[str]:
    return set(testbed.kubectl("get", "nodes", "-o", "name").stdout.split())


def test_machines_join_with_labels_and_taints_and_leave_with_their_nodes(hasty: Testbed) -> None:
    first = hasty.fleet.join(2, labels={"agentpool": "blue"}, taints=["os=windows:NoSchedule"])
    linux = hasty.fleet.join(1, os="linux")
    hasty.fleet.wait_ready([*first, *linux])
    nodes = [get(hasty, name) for name in first]
    assert [node["metadata"]["labels"]["agentpool"] for node in nodes] == ["blue", "blue"]
    assert all("os" in taints(node) for node in nodes)
    assert get(hasty, linux[0])["status"]["nodeInfo"]["operatingSystem"] == "linux"
    addresses = [node.address for node in hasty.fleet.status()]
    assert len(addresses) == len(set(addresses))

    assert hasty.fleet.leave([*first, *linux]) == tuple(sorted([*first, *linux]))
    assert not existing(hasty) & {f"node/{name}" for name in (*first, *linux)}
    # A name is not given out twice, but may be asked for.
    later = hasty.fleet.join(1)
    assert not set(later) & set(first)
    again = hasty.fleet.join(names=[first[0]])
    hasty.fleet.wait_ready(again)
    assert get(hasty, first[0])["metadata"]["uid"] != nodes[0]["metadata"]["uid"]
    hasty.fleet.leave([*later, *again])


def test_machines_that_leave_while_they_register_leave_no_node(hasty: Testbed) -> None:
    names = hasty.fleet.join(20)
    hasty.fleet.leave(names)
    assert not existing(hasty) & {f"node/{name}" for name in names}


@pytest.mark.nightly
def test_a_stopped_kubelet_says_nothing_and_its_node_becomes_unknown(
    hasty: Testbed, joined: tuple[str, ...]
) -> None:
    name, *others = joined
    before = get(hasty, name)
    hasty.fleet.stop(name)
    stopped = datetime.now(UTC)
    wait_until(
        lambda: condition(get(hasty, name), "Ready")["status"] == "Unknown",
        what="the controller manager to miss the node",
        timeout_seconds=GUARD_SECONDS,
    )
    hasty.settle_audit()
    assert hasty.audit.requests(user=f"system:node:{name}", since=stopped) == []
    assert condition(get(hasty, name), "Ready")["reason"] == "NodeStatusUnknown"
    assert [condition(get(hasty, other), "Ready")["status"] for other in others] == ["True", "True"]

    hasty.fleet.start(name)
    hasty.fleet.wait_ready([name])
    after = get(hasty, name)
    assert condition(after, "Ready")["reason"] == "KubeletReady"
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_kubelet_reports_that_it_is_not_ready_and_goes_on_with_its_lease(
    hasty: Testbed, joined: tuple[str, ...]
) -> None:
    name = joined[0]
    hasty.fleet.set_ready(name, ready=False, reason="DiskBroken", message="the disk is broken")
    told = datetime.now(UTC)
    wait_until(
        lambda: "node.kubernetes.io/not-ready" in taints(get(hasty, name)),
        what="the controller manager to taint the node",
        timeout_seconds=GUARD_SECONDS,
    )
    ready = condition(get(hasty, name), "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "DiskBroken",
        "the disk is broken",
    )
    wait_until(
        lambda: len(hasty.audit.writes(user=f"system:node:{name}", since=told, resource="leases")) >= 2,
        what="two renewals of its Lease",
        timeout_seconds=GUARD_SECONDS,
    )
    hasty.fleet.set_ready("all", ready=True)
    hasty.fleet.wait_ready([name])
    assert condition(get(hasty, name), "Ready")["reason"] == "KubeletReady"


def test_a_replaced_machine_has_the_name_of_the_old_one_and_nothing_else(
    hasty: Testbed, joined: tuple[str, ...]
) -> None:
    name = joined[1]
    before = get(hasty, name)
    hasty.kubectl("label", "node", name, "mine=1")
    assert hasty.fleet.replace([name]) == (name,)
    hasty.fleet.wait_ready([name])
    after = get(hasty, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert "mine" not in after["metadata"]["labels"]
    old, new = before["status"]["nodeInfo"], after["status"]["nodeInfo"]
    assert new["systemUUID"] != old["systemUUID"]
    assert new["kernelVersion"] == old["kernelVersion"]
    view = next(node for node in hasty.fleet.status() if node.name == name)
    assert (view.uid, view.generation) == (after["metadata"]["uid"], 1)


def held_back(node: dict[str, Any]) -> str:
    capacity, allocatable = (parse_size(node["status"][of]["memory"]) for of in ("capacity", "allocatable"))
    return f"{capacity - allocatable}Ki"


def test_machines_differ_in_memory_and_a_kubelet_holds_back_what_it_is_told(hasty: Testbed) -> None:
    names = hasty.fleet.join(2, memory="32Gi", reserved_memory="4194305Ki")
    hasty.fleet.wait_ready(names)
    first = get(hasty, names[0])
    assert (first["status"]["capacity"]["memory"], held_back(first)) == ("32Gi", "4194305Ki")

    assert hasty.fleet.restart(names[0], reserved_memory="1Gi") == (names[0],)
    hasty.fleet.wait_ready(names)
    restarted = get(hasty, names[0])
    assert (restarted["metadata"]["uid"], restarted["status"]["capacity"]["memory"]) == (
        first["metadata"]["uid"],
        "32Gi",
    )
    assert (held_back(restarted), held_back(get(hasty, names[1]))) == ("1048576Ki", "4194305Ki")

    hasty.fleet.replace(names[0], memory="8Gi")
    hasty.fleet.wait_ready(names)
    replaced = get(hasty, names[0])
    assert replaced["metadata"]["uid"] != first["metadata"]["uid"]
    assert (replaced["status"]["capacity"]["memory"], held_back(replaced)) == ("8Gi", "1048576Ki")
    hasty.fleet.leave(names)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


@pytest.mark.nightly
def test_a_machine_that_joins_can_take_its_time_to_become_ready(hasty: Testbed) -> None:
    (name,) = hasty.fleet.join(1, ready_after=3.0)
    wait_until(
        lambda: f"node/{name}" in existing(hasty),
        what="the node to register",
        timeout_seconds=GUARD_SECONDS,
    )
    young = get(hasty, name)
    assert condition(young, "Ready")["status"] == "False"
    assert "NetworkPluginNotReady" in condition(young, "Ready")["message"]
    assert "node.kubernetes.io/not-ready" in taints(young)
    hasty.fleet.wait_ready([name])
    grown = get(hasty, name)
    ready_since = seconds(condition(grown, "Ready")["lastTransitionTime"])
    # Both are cut to whole seconds.
    assert ready_since - seconds(grown["metadata"]["creationTimestamp"]) >= 2
    wait_until(
        lambda: "node.kubernetes.io/not-ready" not in taints(get(hasty, name)),
        what="the controller manager to take the taint off",
        timeout_seconds=GUARD_SECONDS,
    )
    hasty.fleet.leave([name])


def test_a_machine_that_joins_can_stay_not_ready_until_it_is_told(hasty: Testbed) -> None:
    (name,) = hasty.fleet.join(1, ready=False)
    wait_until(
        lambda: f"node/{name}" in existing(hasty),
        what="the node to register",
        timeout_seconds=GUARD_SECONDS,
    )
    assert condition(get(hasty, name), "Ready")["reason"] == "KubeletNotReady"
    hasty.fleet.set_ready(name, ready=True)
    hasty.fleet.wait_ready([name])
    assert condition(get(hasty, name), "Ready")["status"] == "True"
    hasty.fleet.leave([name])


def test_the_next_process_goes_on_with_the_machines_that_there_were(
    hasty: Testbed, joined: tuple[str, ...]
) -> None:
    left, stopped, sick = joined
    hasty.fleet.leave(left)
    hasty.fleet.stop(stopped)
    hasty.fleet.set_ready(sick, ready=False)
    before = {node.name: node for node in hasty.fleet.status()}
    winsim = hasty.component("winsim")
    winsim.kill(signal.SIGKILL)
    winsim.start()
    healthy = [name for name, node in before.items() if name not in joined]

    def is_back() -> bool:
        try:
            hasty.fleet.wait_ready(healthy)
        except TestbedError:
            return False
        return True

    wait_until(is_back, what="the healthy nodes to be back", timeout_seconds=GUARD_SECONDS)
    after = {node.name: node for node in hasty.fleet.status()}
    assert after.keys() == before.keys()
    assert not after[stopped].running
    assert after[sick].reason == "KubeletNotReady"
    assert {name: node.uid for name, node in after.items()} == {
        name: node.uid for name, node in before.items()
    }


def test_what_cannot_be_done_is_said_and_nothing_is_done(hasty: Testbed) -> None:
    before = hasty.fleet.status()
    with pytest.raises(TestbedError, match="1000 nodes are asked for, and there are"):
        hasty.fleet.stop(1000)
    with pytest.raises(TestbedError, match="there is no node nobody in this fleet"):
        hasty.fleet.leave(["nobody", before[0].name])
    with pytest.raises(TestbedError, match="there is no node nobody in this fleet"):
        hasty.fleet.wait_ready(["nobody"])
    with pytest.raises(TestbedError, match=r"there is a machine .* already"):
        hasty.fleet.join(names=[before[0].name])
    with pytest.raises(TestbedError, match=r"set_ready\.reason: 'no reason'"):
        hasty.fleet.set_ready("all", ready=False, reason="no reason")
    with pytest.raises(TestbedError, match="there is no verb 'explode'; there are: join, leave,"):
        hasty.fleet.act("explode", {})
    assert hasty.fleet.status() == before


def test_a_scenario_file_is_played_by_a_person(
    hasty: Testbed, joined: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = joined
    file = hasty.directory / "scenario.yaml"
    file.write_text(
        f"""
        seed: 3
        steps:
          - at: 200ms
            stop: {{nodes: [{a}, {b}]}}
          - at: 300ms
            spread: 500ms
            name: sick
            set_ready: {{nodes: [{a}, {c}], ready: false, reason: Moody}}
          - at: 1s
            start: {{nodes: {a}}}
        """
    )
    place = ["--dir", str(hasty.directory)]
    assert main(["scenario", *place, str(file)]) == 0
    nodes = {node.name: node for node in hasty.fleet.status()}
    assert [nodes[name].running for name in joined] == [True, False, True]
    assert [nodes[name].reason for name in joined] == ["Moody", "", "Moody"]
    said = capsys.readouterr().err
    assert f"step 2 set_ready (sick): 2 nodes: {a}, {c}, over 0.5 s" in said

    assert main(["fleet", *place, "set-ready", a, c, "--ready", "true"]) == 0
    assert main(["fleet", *place, "start", "all"]) == 0
    hasty.fleet.wait_ready(joined)
    assert main(["fleet", *place, "status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {node["name"] for node in shown if node["ready"]} >= set(joined)
