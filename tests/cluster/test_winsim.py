"""The simulated nodes on a real control plane: that they are what kubelets make, and no more."""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from ipaddress import IPv4Address
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cluster.simulated import (
    BRING_UP_SECONDS,
    HEARTBEAT_SECONDS,
    Nodes,
    condition,
    names_of,
    simulated,
    taints,
)
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.waiting import wait_until
from testbed.winsim.addresses import machine_network
from testbed.winsim.clock import SystemClock
from testbed.winsim.control import FleetControl
from testbed.winsim.identities import node_identity
from testbed.winsim.wire import STRATEGIC_MERGE, ApiError, Wire, tls_context

OFTEN = ("--lease-duration-seconds=4", "--status-sync-seconds=1")
"""Has kubelets look and speak every second, not every ten, where a test waits for what they do next."""


@pytest.fixture(scope="module")
def pair(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    """Two nodes for the tests that are refused whatever they try on them."""
    with simulated(testbed, tmp_path_factory.mktemp("pair"), windows=2) as nodes:
        yield nodes


def test_twelve_windows_and_two_linux_nodes_are_ready_and_look_real(testbed: Testbed, tmp_path: Path) -> None:
    extra = ("--label", "agentpool=win22", "--taint", "os=windows:NoSchedule")
    with simulated(testbed, tmp_path, *extra, windows=12, linux=2) as nodes:
        assert "14 nodes Ready" in nodes.log.read_text().splitlines()
        wait_until(
            lambda: all(taints(node) == {"os"} for node in nodes.all().values()),
            what="the controller manager to take the not-ready taint off",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        found = nodes.all()
        assert sorted(found) == sorted(names_of(nodes.prefix, windows=12, linux=2))
        assert all(condition(node, "Ready")["status"] == "True" for node in found.values())
        kernels = [node["status"]["nodeInfo"]["kernelVersion"] for node in found.values()]
        assert (kernels.count("10.0.20348.4052"), kernels.count("10.0.20348.1607")) == (6, 6)
        addresses = {node["status"]["addresses"][0]["address"] for node in found.values()}
        assert len(addresses) == 14
        assert all(IPv4Address(address) in machine_network() for address in addresses)
        windows = nodes.get("w01")
        assert windows["metadata"]["labels"]["agentpool"] == "win22"
        assert windows["metadata"]["labels"]["node.kubernetes.io/windows-build"] == "10.0.20348"
        assert windows["status"]["nodeInfo"]["osImage"] == "Windows Server 2022 Datacenter"
        assert 6_500 < len(json.dumps(windows, separators=(",", ":"))) < 8_500


@pytest.mark.nightly
def test_each_node_speaks_for_itself_and_is_silent_but_for_its_lease(
    testbed: Testbed, tmp_path: Path
) -> None:
    started = datetime.now(UTC)
    with simulated(testbed, tmp_path, windows=3, linux=1) as nodes:
        wait_until(lambda: len(nodes.leases()) == 4, what="four Leases", timeout_seconds=HEARTBEAT_SECONDS)
        first = nodes.leases()
        calm = datetime.now(UTC)

        def renewed_twice() -> bool:
            counts = [
                len(testbed.audit.writes(user=f"system:node:{name}", since=calm, resource="leases"))
                for name in first
            ]
            return min(counts) >= 2

        wait_until(renewed_twice, what="two renewals of every Lease", timeout_seconds=HEARTBEAT_SECONDS)
        testbed.settle_audit()
        for name, node in nodes.all().items():
            user = f"system:node:{name}"
            writes = testbed.audit.writes(user=user, since=started, until=calm)
            assert [(each.verb, each.resource, each.subresource, each.code) for each in writes] == [
                ("create", "nodes", "", 201),
                ("patch", "nodes", "status", 200),
                ("create", "leases", "", 201),
            ]
            later = testbed.audit.requests(user=user, since=calm)
            assert {(each.verb, each.resource, each.name, each.code) for each in later} == {
                ("update", "leases", name, 200)
            }
            lease = nodes.leases()[name]
            assert lease["spec"]["renewTime"] > first[name]["spec"]["renewTime"]
            assert lease["spec"]["leaseDurationSeconds"] == 40
            assert lease["metadata"]["ownerReferences"] == [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
            ]


@pytest.mark.parametrize(
    ("target", "subresource", "patch", "sentence"),
    [
        pytest.param(
            "w01",
            "",
            {"metadata": {"labels": {"node-restriction.kubernetes.io/team": "x"}}},
            "is not allowed to modify labels: node-restriction.kubernetes.io/team",
            id="restricted label",
        ),
        pytest.param(
            "w01",
            "/status",
            {"metadata": {"labels": {"example.k8s.io/x": "y"}}},
            "is not allowed to modify labels: example.k8s.io/x",
            id="unknown Kubernetes label, by way of the status",
        ),
        pytest.param(
            "w01",
            "",
            {"spec": {"taints": [{"key": "os", "effect": "NoSchedule"}]}},
            "is not allowed to modify taints",
            id="own taints",
        ),
        pytest.param(
            "w02",
            "/status",
            {"status": {"phase": "Running"}},
            "is not allowed to modify node",
            id="status of another node",
        ),
    ],
)
async def test_a_node_may_not_do_what_node_restriction_forbids(
    testbed: Testbed, pair: Nodes, target: str, subresource: str, patch: dict[str, Any], sentence: str
) -> None:
    certificate, key = testbed.front_proxy
    tls = tls_context(ca=testbed.ca_file, certificate=certificate, key=key)
    async with Wire(testbed.server, tls=tls, clock=SystemClock(), random=Random(1), say=print) as wire:
        with pytest.raises(ApiError, match=sentence) as refused:
            await wire.request(
                "PATCH",
                f"/api/v1/nodes/{pair.prefix}-{target}{subresource}",
                identity=node_identity(f"{pair.prefix}-w01"),
                body=patch,
                content_type=STRATEGIC_MERGE,
            )
    assert refused.value.code == 403


async def test_a_node_may_not_delete_itself(testbed: Testbed, pair: Nodes) -> None:
    certificate, key = testbed.front_proxy
    tls = tls_context(ca=testbed.ca_file, certificate=certificate, key=key)
    name = f"{pair.prefix}-w01"
    async with Wire(testbed.server, tls=tls, clock=SystemClock(), random=Random(1), say=print) as wire:
        with pytest.raises(ApiError, match="cannot delete resource") as refused:
            await wire.request("DELETE", f"/api/v1/nodes/{name}", identity=node_identity(name))
    assert refused.value.code == 403
    assert name in pair.all()


def test_a_kubelet_puts_right_what_is_its_own_and_leaves_the_rest(testbed: Testbed, tmp_path: Path) -> None:
    with simulated(testbed, tmp_path, *OFTEN, windows=1) as nodes:
        name = f"{nodes.prefix}-w01"
        testbed.kubectl(
            "label", "node", name, "kubernetes.io/os-", "node.kubernetes.io/windows-build-", "mine=1"
        )
        # A merge patch of conditions, the classic mistake, wipes all the kubelet's own.
        testbed.kubectl(
            *("patch", "node", name, "--subresource=status", "--type=merge", "--patch"),
            '{"status": {"conditions": [{"type": "Foreign", "status": "True", "reason": "Test"}]}}',
        )

        def is_put_right() -> bool:
            node = nodes.get("w01")
            has_all = len(node["status"]["conditions"]) == 5
            # A report sends what differs from the node that was read just before. One that our patch
            # overtakes leaves a Ready with a time and no status, and the next one completes it.
            is_ready = has_all and condition(node, "Ready")["status"] == "True"
            return "kubernetes.io/os" in node["metadata"]["labels"] and is_ready

        wait_until(
            is_put_right,
            what="the kubelet to put its label and its conditions back",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        node = nodes.get("w01")
        assert condition(node, "Foreign")["reason"] == "Test"
        assert node["metadata"]["labels"]["mine"] == "1"
        # A running kubelet insists on os and arch only; the build comes back when it restarts.
        assert "node.kubernetes.io/windows-build" not in node["metadata"]["labels"]


def test_a_deleted_node_stays_away_until_somebody_makes_it_again(testbed: Testbed, tmp_path: Path) -> None:
    with simulated(testbed, tmp_path, *OFTEN, windows=2) as nodes:
        name = f"{nodes.prefix}-w01"
        testbed.kubectl("delete", "node", name)
        deleted = datetime.now(UTC)
        wait_until(
            lambda: f"{name}: reporting its status: 404" in nodes.log.read_text(),
            what="the kubelet to find its Node gone",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        wait_until(
            lambda: name not in nodes.leases(),
            what="the Lease to follow its Node",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        testbed.settle_audit()
        written = testbed.audit.writes(user=f"system:node:{name}", since=deleted)
        assert {each.verb for each in written if each.resource == "nodes"} <= {"patch"}
        assert sorted(nodes.all()) == [f"{nodes.prefix}-w02"]

        testbed.kubectl(
            "create",
            "-f",
            "-",
            stdin=json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}),
        )
        wait_until(
            lambda: name in nodes.leases() and "conditions" in nodes.get("w01")["status"],
            what="the kubelet to take the new Node for its own",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        assert condition(nodes.get("w01"), "Ready")["status"] == "True"


def test_a_restarted_kubelet_reconciles_its_node(testbed: Testbed, tmp_path: Path) -> None:
    with simulated(testbed, tmp_path, windows=1) as before:
        assert before.end() == 0
        name, prefix = f"{before.prefix}-w01", before.prefix
        old = before.get("w01")
        testbed.kubectl(
            "label", "node", name, "--overwrite", "node.kubernetes.io/windows-build=10.0.17763", "mine=1"
        )
        testbed.kubectl("taint", "node", name, "mine=1:NoSchedule")
        with simulated(testbed, tmp_path, windows=1, prefix=prefix) as after:
            new = after.get("w01")
            assert new["metadata"]["uid"] == old["metadata"]["uid"]
            assert new["metadata"]["labels"] == {**old["metadata"]["labels"], "mine": "1"}
            assert "mine" in taints(new)
            assert new["status"]["addresses"] == old["status"]["addresses"]


def test_nodes_stay_after_the_end_unless_told_otherwise(testbed: Testbed, tmp_path: Path) -> None:
    with simulated(testbed, tmp_path, windows=3) as nodes:
        assert nodes.end() == 0
        assert len(nodes.all()) == 3
    with simulated(testbed, tmp_path, "--delete-on-exit", windows=3, linux=1) as nodes:
        assert len(nodes.all()) == 4
        assert nodes.end() == 0
        assert nodes.all() == {}
        wait_until(lambda: nodes.leases() == {}, what="the Leases to go", timeout_seconds=HEARTBEAT_SECONDS)


def test_a_process_with_a_control_socket_takes_it_away_when_it_ends(testbed: Testbed, tmp_path: Path) -> None:
    path = tmp_path / ("a-directory-whose-name-is-longer-than-a-socket-address-can-be-" * 2) / "s.sock"
    path.parent.mkdir()
    with simulated(testbed, tmp_path, "--control-socket", str(path), windows=1) as nodes:
        fleet = FleetControl(path)
        assert fleet.join(1) == (f"{nodes.prefix}-w02",)
        fleet.wait_ready()
        assert path.stat().st_mode & 0o777 == 0o600
        assert fleet.leave(f"{nodes.prefix}-w02") == (f"{nodes.prefix}-w02",)
        assert nodes.end() == 0, nodes.log.read_text()
        assert not path.exists()
        with pytest.raises(TestbedError, match="no simulated nodes answer at"):
            fleet.summary()


def test_told_to_end_while_nodes_come_up_it_leaves_none(testbed: Testbed, tmp_path: Path) -> None:
    prefix = f"t{uuid.uuid4().hex[:8]}"
    log = tmp_path / "log"
    command = testbed.winsim_command(windows=60, linux=0, extra=["--prefix", prefix, "--delete-on-exit"])
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        nodes = Nodes(testbed, prefix, process, log)
        wait_until(lambda: len(nodes.all()) > 0, what="a first node", timeout_seconds=BRING_UP_SECONDS)
        assert nodes.end() == 0
        assert nodes.all() == {}
