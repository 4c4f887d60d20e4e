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
from testbed.options import Options
from testbed.waiting import wait_until
from testbed.winsim.memory import parse_size

GUARD_SECONDS = 60.0
"""Against waiting for ever; every outcome here comes within a few seconds."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """A control plane that takes silence for death after six seconds, not fifty; Leases live four."""
    options = Options(lease_duration_seconds=4, node_monitor_grace_seconds=6)
    directory = tmp_path_factory.mktemp("life")
    with Testbed.up(directory=directory, windows=2, linux=1, options=options) as running:
        yield running


@pytest.fixture
def joined(own: Testbed) -> Iterator[tuple[str, ...]]:
    """Three Windows nodes for one test, Ready."""
    names = own.fleet.join(3)
    own.fleet.wait_ready(names)
    yield names
    own.fleet.leave([node.name for node in own.fleet.status() if node.name in names])


def get(testbed: Testbed, name: str) -> dict[str, Any]:
    node: dict[str, Any] = json.loads(testbed.kubectl("get", "node", name, "-o", "json").stdout)
    return node


def existing(testbed: Testbed) -> set[str]:
    return set(testbed.kubectl("get", "nodes", "-o", "name").stdout.split())


def test_machines_join_with_labels_and_taints_and_leave_with_their_nodes(own: Testbed) -> None:
    first = own.fleet.join(2, labels={"agentpool": "blue"}, taints=["os=windows:NoSchedule"])
    linux = own.fleet.join(1, os="linux")
    own.fleet.wait_ready([*first, *linux])
    nodes = [get(own, name) for name in first]
    assert [node["metadata"]["labels"]["agentpool"] for node in nodes] == ["blue", "blue"]
    assert all("os" in taints(node) for node in nodes)
    assert get(own, linux[0])["status"]["nodeInfo"]["operatingSystem"] == "linux"
    addresses = [node.address for node in own.fleet.status()]
    assert len(addresses) == len(set(addresses))

    assert own.fleet.leave([*first, *linux]) == tuple(sorted([*first, *linux]))
    assert not existing(own) & {f"node/{name}" for name in (*first, *linux)}
    # A name is not given out twice, but may be asked for.
    later = own.fleet.join(1)
    assert not set(later) & set(first)
    again = own.fleet.join(names=[first[0]])
    own.fleet.wait_ready(again)
    assert get(own, first[0])["metadata"]["uid"] != nodes[0]["metadata"]["uid"]
    own.fleet.leave([*later, *again])


def test_machines_that_leave_while_they_register_leave_no_node(own: Testbed) -> None:
    names = own.fleet.join(20)
    own.fleet.leave(names)
    assert not existing(own) & {f"node/{name}" for name in names}


def test_a_stopped_kubelet_says_nothing_and_its_node_becomes_unknown(
    own: Testbed, joined: tuple[str, ...]
) -> None:
    name, *others = joined
    before = get(own, name)
    own.fleet.stop(name)
    stopped = datetime.now(UTC)
    wait_until(
        lambda: condition(get(own, name), "Ready")["status"] == "Unknown",
        what="the controller manager to miss the node",
        timeout_seconds=GUARD_SECONDS,
    )
    own.settle_audit()
    assert own.audit.requests(user=f"system:node:{name}", since=stopped) == []
    assert condition(get(own, name), "Ready")["reason"] == "NodeStatusUnknown"
    assert [condition(get(own, other), "Ready")["status"] for other in others] == ["True", "True"]

    own.fleet.start(name)
    own.fleet.wait_ready([name])
    after = get(own, name)
    assert condition(after, "Ready")["reason"] == "KubeletReady"
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


def test_a_kubelet_reports_that_it_is_not_ready_and_goes_on_with_its_lease(
    own: Testbed, joined: tuple[str, ...]
) -> None:
    name = joined[0]
    own.fleet.set_ready(name, ready=False, reason="DiskBroken", message="the disk is broken")
    told = datetime.now(UTC)
    wait_until(
        lambda: "node.kubernetes.io/not-ready" in taints(get(own, name)),
        what="the controller manager to taint the node",
        timeout_seconds=GUARD_SECONDS,
    )
    ready = condition(get(own, name), "Ready")
    assert (ready["status"], ready["reason"], ready["message"]) == (
        "False",
        "DiskBroken",
        "the disk is broken",
    )
    wait_until(
        lambda: len(own.audit.writes(user=f"system:node:{name}", since=told, resource="leases")) >= 2,
        what="two renewals of its Lease",
        timeout_seconds=GUARD_SECONDS,
    )
    own.fleet.set_ready("all", ready=True)
    own.fleet.wait_ready([name])
    assert condition(get(own, name), "Ready")["reason"] == "KubeletReady"


def test_a_replaced_machine_has_the_name_of_the_old_one_and_nothing_else(
    own: Testbed, joined: tuple[str, ...]
) -> None:
    name = joined[1]
    before = get(own, name)
    own.kubectl("label", "node", name, "mine=1")
    assert own.fleet.replace([name]) == (name,)
    own.fleet.wait_ready([name])
    after = get(own, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert "mine" not in after["metadata"]["labels"]
    old, new = before["status"]["nodeInfo"], after["status"]["nodeInfo"]
    assert new["systemUUID"] != old["systemUUID"]
    assert new["kernelVersion"] == old["kernelVersion"]
    view = next(node for node in own.fleet.status() if node.name == name)
    assert (view.uid, view.generation) == (after["metadata"]["uid"], 1)


def held_back(node: dict[str, Any]) -> str:
    capacity, allocatable = (parse_size(node["status"][of]["memory"]) for of in ("capacity", "allocatable"))
    return f"{capacity - allocatable}Ki"


def test_machines_differ_in_memory_and_a_kubelet_holds_back_what_it_is_told(own: Testbed) -> None:
    names = own.fleet.join(2, memory="32Gi", reserved_memory="4194305Ki")
    own.fleet.wait_ready(names)
    first = get(own, names[0])
    assert (first["status"]["capacity"]["memory"], held_back(first)) == ("32Gi", "4194305Ki")

    assert own.fleet.restart(names[0], reserved_memory="1Gi") == (names[0],)
    own.fleet.wait_ready(names)
    restarted = get(own, names[0])
    assert (restarted["metadata"]["uid"], restarted["status"]["capacity"]["memory"]) == (
        first["metadata"]["uid"],
        "32Gi",
    )
    assert (held_back(restarted), held_back(get(own, names[1]))) == ("1048576Ki", "4194305Ki")

    own.fleet.replace(names[0], memory="8Gi")
    own.fleet.wait_ready(names)
    replaced = get(own, names[0])
    assert replaced["metadata"]["uid"] != first["metadata"]["uid"]
    assert (replaced["status"]["capacity"]["memory"], held_back(replaced)) == ("8Gi", "1048576Ki")
    own.fleet.leave(names)


def seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_a_machine_that_joins_can_take_its_time_to_become_ready(own: Testbed) -> None:
    (name,) = own.fleet.join(1, ready_after=3.0)
    wait_until(
        lambda: f"node/{name}" in existing(own), what="the node to register", timeout_seconds=GUARD_SECONDS
    )
    young = get(own, name)
    assert condition(young, "Ready")["status"] == "False"
    assert "NetworkPluginNotReady" in condition(young, "Ready")["message"]
    assert "node.kubernetes.io/not-ready" in taints(young)
    own.fleet.wait_ready([name])
    grown = get(own, name)
    ready_since = seconds(condition(grown, "Ready")["lastTransitionTime"])
    # Both are cut to whole seconds.
    assert ready_since - seconds(grown["metadata"]["creationTimestamp"]) >= 2
    wait_until(
        lambda: "node.kubernetes.io/not-ready" not in taints(get(own, name)),
        what="the controller manager to take the taint off",
        timeout_seconds=GUARD_SECONDS,
    )
    own.fleet.leave([name])


def test_a_machine_that_joins_can_stay_not_ready_until_it_is_told(own: Testbed) -> None:
    (name,) = own.fleet.join(1, ready=False)
    wait_until(
        lambda: f"node/{name}" in existing(own), what="the node to register", timeout_seconds=GUARD_SECONDS
    )
    assert condition(get(own, name), "Ready")["reason"] == "KubeletNotReady"
    own.fleet.set_ready(name, ready=True)
    own.fleet.wait_ready([name])
    assert condition(get(own, name), "Ready")["status"] == "True"
    own.fleet.leave([name])


def test_the_next_process_goes_on_with_the_machines_that_there_were(
    own: Testbed, joined: tuple[str, ...]
) -> None:
    left, stopped, sick = joined
    own.fleet.leave(left)
    own.fleet.stop(stopped)
    own.fleet.set_ready(sick, ready=False)
    before = {node.name: node for node in own.fleet.status()}
    winsim = own.component("winsim")
    winsim.kill(signal.SIGKILL)
    winsim.start()
    healthy = [name for name, node in before.items() if name not in joined]

    def is_back() -> bool:
        try:
            own.fleet.wait_ready(healthy)
        except TestbedError:
            return False
        return True

    wait_until(is_back, what="the healthy nodes to be back", timeout_seconds=GUARD_SECONDS)
    after = {node.name: node for node in own.fleet.status()}
    assert after.keys() == before.keys()
    assert not after[stopped].running
    assert after[sick].reason == "KubeletNotReady"
    assert {name: node.uid for name, node in after.items()} == {
        name: node.uid for name, node in before.items()
    }


def test_what_cannot_be_done_is_said_and_nothing_is_done(own: Testbed) -> None:
    before = own.fleet.status()
    with pytest.raises(TestbedError, match="1000 nodes are asked for, and there are"):
        own.fleet.stop(1000)
    with pytest.raises(TestbedError, match="there is no node nobody in this fleet"):
        own.fleet.leave(["nobody", before[0].name])
    with pytest.raises(TestbedError, match="there is no node nobody in this fleet"):
        own.fleet.wait_ready(["nobody"])
    with pytest.raises(TestbedError, match=r"there is a machine .* already"):
        own.fleet.join(names=[before[0].name])
    with pytest.raises(TestbedError, match=r"set_ready\.reason: 'no reason'"):
        own.fleet.set_ready("all", ready=False, reason="no reason")
    with pytest.raises(TestbedError, match="there is no verb 'explode'; there are: join, leave,"):
        own.fleet.act("explode", {})
    assert own.fleet.status() == before


def test_a_scenario_file_is_played_by_a_person(
    own: Testbed, joined: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, c = joined
    file = own.directory / "scenario.yaml"
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
    place = ["--dir", str(own.directory)]
    assert main(["scenario", *place, str(file)]) == 0
    nodes = {node.name: node for node in own.fleet.status()}
    assert [nodes[name].running for name in joined] == [True, False, True]
    assert [nodes[name].reason for name in joined] == ["Moody", "", "Moody"]
    said = capsys.readouterr().err
    assert f"step 2 set_ready (sick): 2 nodes: {a}, {c}, over 0.5 s" in said

    assert main(["fleet", *place, "set-ready", a, c, "--ready", "true"]) == 0
    assert main(["fleet", *place, "start", "all"]) == 0
    own.fleet.wait_ready(joined)
    assert main(["fleet", *place, "status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {node["name"] for node in shown if node["ready"]} >= set(joined)
