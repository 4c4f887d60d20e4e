"""The kubelet endpoints of simulated nodes: who may read what, and what each fault does."""

from __future__ import annotations

import ssl
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from cluster.kubelets import GUARD_SECONDS, Kubelets, kubelets
from cluster.simulated import condition
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.waiting import wait_until
from testbed.winsim.endpoint.faults import FaultKind

STATS = "nodes/stats"
COMMIT = "windows-global-commit-memory"
SHORT_SECONDS = 0.5
"""How long a client waits for a node that does not answer, in tests of such nodes."""


@pytest.fixture(scope="module")
def served(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubelets]:
    with kubelets(testbed, tmp_path_factory.mktemp("kubelets")) as found:
        yield found


@pytest.fixture(scope="module")
def token(served: Kubelets) -> Iterator[str]:
    """A token of a ServiceAccount that may read the stats of nodes and nothing else."""
    with served.account(STATS) as found:
        yield found


@pytest.fixture
def broken(served: Kubelets) -> Iterator[str]:
    """The name of a node that is healed after the test."""
    yield "w01"
    served.fleet.set_endpoint_fault([served.name_of("w01")], fault="none")
    served.fleet.set_endpoint_fault([served.name_of("w01")], fault="none", endpoint="exporter")


def commit_container(summary: dict[str, Any]) -> dict[str, Any]:
    (found,) = (each for each in summary["node"]["systemContainers"] if each["name"] == COMMIT)
    return dict(found["memory"])


def read_time(summary: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(summary["node"]["memory"]["time"])


def test_an_account_with_nodes_stats_reads_the_summary_of_each_node_by_the_ca(
    served: Kubelets, token: str
) -> None:
    for name in ("w01", "w02"):
        answer = served.ask(name, token=token)
        assert answer.status == 200
        summary = answer.parsed
        assert summary["node"]["nodeName"] == served.name_of(name)
        memory, commit = summary["node"]["memory"], commit_container(summary)
        assert memory["usageBytes"] == commit["usageBytes"] > 0
        assert memory["rssBytes"] == memory["pageFaults"] == 0
        assert abs((datetime.now(UTC) - read_time(summary)).total_seconds()) < GUARD_SECONDS
    assert served["w01"][0] != served["w02"][0]
    assert served["w01"][1] == served["w02"][1] == served.fleet.summary().kubelet_port
    assert served["l01"][1] == 10250


def test_the_times_of_a_well_node_advance(served: Kubelets, token: str) -> None:
    first = read_time(served.ask("w01", token=token).parsed)
    wait_until(
        lambda: read_time(served.ask("w01", token=token).parsed) > first,
        what="another reading of the counters",
        timeout_seconds=GUARD_SECONDS,
    )


def test_who_has_no_good_token_is_nobody_and_who_has_no_right_is_forbidden(served: Kubelets) -> None:
    for shown in (None, "not.a.token"):
        answer = served.ask("w01", token=shown)
        assert (answer.status, answer.body) == (401, b"Unauthorized")
    with served.account() as powerless:
        answer = served.ask("w01", token=powerless)
        assert answer.status == 403
        assert answer.body.startswith(b"Forbidden (user=system:serviceaccount:default:reader-")
        assert b"verb=get, resource=nodes, subresource(s)=[stats])" in answer.body


def test_each_path_needs_its_own_right(served: Kubelets, token: str) -> None:
    with served.account("nodes/metrics") as metrics, served.account("nodes/configz") as configz:
        # Fine-grained rights came with 1.33; before, all of these need nodes/proxy.
        fine = 200 if minor(served.testbed) >= 33 else 403
        wanted = {
            ("/stats/summary", token): 200,
            ("/stats/summary", metrics): 403,
            ("/metrics/resource", metrics): 200,
            ("/metrics/resource", token): 403,
            ("/configz", configz): fine,
            ("/configz", token): 403,
            ("/configz", metrics): 403,
            ("/exec/default/shop/app", token): 403,
        }
        found = {ask: served.ask("w02", ask[0], token=ask[1]).status for ask in wanted}
        assert found == wanted
        text = served.ask("w02", "/metrics/resource", token=metrics).body.decode()
        assert "node_memory_working_set_bytes" in text
    with served.account("nodes/proxy") as proxy:
        config = served.ask("w02", "/configz", token=proxy).parsed["kubeletconfig"]
        assert config["evictionHard"]["memory.available"] == "500Mi"
        assert config["systemReserved"] == {"memory": "2Gi"}


def minor(testbed: Testbed) -> int:
    (node, *_) = testbed.api().get("/api/v1/nodes")["items"]
    return int(node["status"]["nodeInfo"]["kubeletVersion"].split(".")[1])


def test_a_kubelet_asks_the_api_server_as_its_node_and_remembers_the_answer(served: Kubelets) -> None:
    since = datetime.now(UTC)
    with served.account(STATS) as fresh:
        assert [served.ask("w01", token=fresh).status for _ in range(3)] == [200] * 3
        served.testbed.settle_audit()
        asked = [
            (each.verb, each.resource)
            for each in served.testbed.audit.requests(
                user=f"system:node:{served.name_of('w01')}", since=since
            )
            if each.resource in ("tokenreviews", "subjectaccessreviews")
        ]
        assert asked == [("create", "tokenreviews"), ("create", "subjectaccessreviews")]


def a_pod(name: str, *, node: str, workload: str | None = None, stop_seconds: int = 0) -> dict[str, Any]:
    annotations = {"winsim/stop-seconds": str(stop_seconds)}
    if workload is not None:
        annotations["winsim/memory"] = workload
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 3,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "app", "image": "registry.example/shop:1"}],
        },
    }


def test_a_pod_holds_its_memory_until_its_grace_is_over(served: Kubelets, token: str) -> None:
    name, node = f"shop-{uuid.uuid4().hex[:8]}", served.name_of("w02")
    api, pods = served.testbed.api(), "/api/v1/namespaces/default/pods"
    before = commit_container(served.ask("w02", token=token).parsed)["usageBytes"]
    workload = '{"workload": "steady", "commit": "2Gi"}'
    uid = api.create(pods, a_pod(name, node=node, workload=workload, stop_seconds=3))["metadata"]["uid"]

    def listed() -> dict[str, Any] | None:
        found = served.ask("w02", token=token).parsed["pods"]
        return next((each for each in found if each["podRef"]["uid"] == uid), None)

    def committed() -> float:
        used = commit_container(served.ask("w02", token=token).parsed)["usageBytes"]
        return float((used - before) / 2**30)

    wait_until(lambda: committed() >= 1.9, what="the pod's commit", timeout_seconds=GUARD_SECONDS)
    found = listed()
    assert found is not None
    assert found["memory"]["workingSetBytes"] > 2**30
    assert found["memory"]["usageBytes"] == 0
    evicted = datetime.now(UTC)
    api.create(
        f"{pods}/{name}/eviction",
        {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
    )
    wait_until(lambda: committed() < 0.1, what="its memory to be free", timeout_seconds=GUARD_SECONDS)
    assert (datetime.now(UTC) - evicted).total_seconds() >= 2.9
    assert listed() is None


@pytest.mark.nightly
def test_an_armed_kubelet_evicts_where_commit_runs_out_and_an_unarmed_one_lets_allocations_fail(
    served: Kubelets, token: str
) -> None:
    run = uuid.uuid4().hex[:8]
    hog = '{"workload": "hog", "commit": "18Gi", "touchedPercent": 5, "rampSeconds": 5}'
    armed, unarmed = served.name_of("w01"), served.name_of("w02")
    api, pods = served.testbed.api(), "/api/v1/namespaces/default/pods"
    served.fleet.restart([unarmed], eviction_hard="none")
    served.fleet.restart([armed], eviction_hard="500Mi")
    served.fleet.wait_ready([armed, unarmed])
    for name, node in ((f"armed-{run}", armed), (f"unarmed-{run}", unarmed)):
        api.create(pods, a_pod(name, node=node, workload=hog))

    def status(name: str) -> dict[str, Any]:
        return dict(api.get(f"{pods}/{name}-{run}")["status"])

    wait_until(
        lambda: status("armed").get("reason") == "Evicted",
        what="the kubelet to evict the hog",
        timeout_seconds=2 * GUARD_SECONDS,
    )
    assert status("armed")["phase"] == "Failed"
    assert "The node was low on resource: memory. Threshold quantity: 500Mi" in status("armed")["message"]
    wait_until(
        lambda: condition(served.nodes.get("w01"), "MemoryPressure")["status"] == "True",
        what="the node to report MemoryPressure",
        timeout_seconds=GUARD_SECONDS,
    )
    of_pod = f"involvedObject.name=armed-{run}"
    events = "/api/v1/namespaces/default/events"
    wait_until(
        lambda: "Evicted" in {each["reason"] for each in api.get(events, fieldSelector=of_pod)["items"]},
        what="the event of the eviction",
        timeout_seconds=GUARD_SECONDS,
    )
    wait_until(
        lambda: served.fleet.truth(unarmed).allocations_denied > 0,
        what="allocations to be denied",
        timeout_seconds=GUARD_SECONDS,
    )
    assert status("unarmed")["phase"] == "Running"
    assert condition(served.nodes.get("w02"), "MemoryPressure")["status"] == "False"
    for name in ("armed", "unarmed"):
        api.delete(f"{pods}/{name}-{run}")
    served.fleet.replace([armed, unarmed])
    served.fleet.restart([unarmed], eviction_hard="500Mi")
    served.fleet.wait_ready([armed, unarmed])


def test_windows_itself_loses_memory_on_command(served: Kubelets, token: str) -> None:
    node = served.name_of("w02")

    def pool_bytes() -> float:
        lines = served.ask_exporter("w02").body.decode().splitlines()
        (value,) = (
            each.split()[1] for each in lines if each.startswith("windows_memory_pool_nonpaged_bytes ")
        )
        return float(value)

    before = pool_bytes()
    served.fleet.lose_memory([node], growth_per_minute="6Gi")
    wait_until(
        lambda: pool_bytes() - before > 200 * 2**20,
        what="200 MiB of non-paged pool",
        timeout_seconds=GUARD_SECONDS,
    )
    served.fleet.replace([node])
    served.fleet.wait_ready([node])
    assert pool_bytes() < before + 100 * 2**20


# A socket of which the peer is gone before the handshake is left open by ssl.SSLSocket of Python 3.11.
@pytest.mark.filterwarnings("ignore:unclosed <ssl.SSLSocket:ResourceWarning")
def test_a_stopped_kubelet_answers_nobody_and_a_started_one_does(served: Kubelets, token: str) -> None:
    served.fleet.stop([served.name_of("w01")])
    with pytest.raises(OSError, match=r"reset|closed|EOF|refused"):
        served.ask("w01", token=token)
    assert served.ask("w02", token=token).status == 200
    served.fleet.start([served.name_of("w01")])
    served.fleet.wait_ready([served.name_of("w01")])
    assert served.ask("w01", token=token).status == 200


def test_a_restart_changes_what_configz_says(served: Kubelets) -> None:
    node = served.name_of("w01")
    served.fleet.restart([node], eviction_hard="none", kube_reserved="512Mi")
    served.fleet.wait_ready([node])
    with served.account("nodes/proxy") as proxy:
        config = served.ask("w01", "/configz", token=proxy).parsed["kubeletconfig"]
    assert "memory.available" not in config["evictionHard"]
    assert config["kubeReserved"] == {"memory": "512Mi"}
    served.fleet.restart([node], eviction_hard="500Mi", kube_reserved="0Ki")


def test_a_hanging_node_never_answers_and_a_slow_or_trickling_one_late(
    served: Kubelets, token: str, broken: str
) -> None:
    node = [served.name_of(broken)]
    served.fleet.set_endpoint_fault(node, fault="hang")
    with pytest.raises(TimeoutError):
        served.ask(broken, token=token, timeout_seconds=SHORT_SECONDS)
    assert served.ask("w02", token=token).status == 200
    served.fleet.set_endpoint_fault(node, fault="slow", seconds=2 * SHORT_SECONDS)
    with pytest.raises(TimeoutError):
        served.ask(broken, token=token, timeout_seconds=SHORT_SECONDS)
    assert served.ask(broken, token=token).status == 200
    served.fleet.set_endpoint_fault(node, fault="trickle", seconds=2 * SHORT_SECONDS)
    with pytest.raises(TimeoutError):
        served.ask(broken, token=token, timeout_seconds=SHORT_SECONDS)


def test_what_a_broken_node_sends_cannot_be_read(served: Kubelets, token: str, broken: str) -> None:
    node = [served.name_of(broken)]
    unreadable: tuple[FaultKind, ...] = ("garbage", "nan")
    for fault in unreadable:
        served.fleet.set_endpoint_fault(node, fault=fault)
        answer = served.ask(broken, token=token)
        assert answer.status == 200
        with pytest.raises(ValueError, match=r"no number of JSON|codec|Expecting value"):
            _ = answer.parsed
    served.fleet.set_endpoint_fault(node, fault="huge")
    assert len(served.ask(broken, token=token).body) > 8 << 20
    served.fleet.set_endpoint_fault(node, fault="zeros")
    assert commit_container(served.ask(broken, token=token).parsed)["availableBytes"] == 0
    served.fleet.set_endpoint_fault(node, fault="overflow")
    assert commit_container(served.ask(broken, token=token).parsed)["usageBytes"] == 2**63


def test_a_node_refuses_or_sends_elsewhere_whoever_asks(served: Kubelets, token: str, broken: str) -> None:
    node = [served.name_of(broken)]
    refusals: dict[FaultKind, int] = {
        "unauthorized": 401,
        "forbidden": 403,
        "server_error": 500,
        "redirect": 302,
    }
    for fault, status in refusals.items():
        served.fleet.set_endpoint_fault(node, fault=fault)
        assert served.ask(broken, token=token).status == status
    assert served.ask(broken, token=token).location == "https://192.0.2.1/stats/summary"
    served.fleet.set_endpoint_fault(node, fault="none")
    assert served.ask(broken, token=token).status == 200


@pytest.mark.parametrize("fault", ["wrong_certificate", "unknown_authority"])
def test_a_certificate_that_is_not_the_nodes_is_not_believed(
    served: Kubelets, token: str, broken: str, fault: FaultKind
) -> None:
    served.fleet.set_endpoint_fault([served.name_of(broken)], fault=fault)
    with pytest.raises(ssl.SSLCertVerificationError):
        served.ask(broken, token=token)
    assert served.ask("w02", token=token).status == 200


def test_a_node_lies_about_the_time_or_its_name(served: Kubelets, token: str, broken: str) -> None:
    node = [served.name_of(broken)]
    served.fleet.set_endpoint_fault(node, fault="clock_behind", seconds=600)
    behind = (datetime.now(UTC) - read_time(served.ask(broken, token=token).parsed)).total_seconds()
    assert 600 <= behind < 600 + GUARD_SECONDS
    served.fleet.set_endpoint_fault(node, fault="other_node", name=served.name_of("w02"))
    assert served.ask(broken, token=token).parsed["node"]["nodeName"] == served.name_of("w02")
    served.fleet.set_endpoint_fault(node, fault="frozen")
    frozen = served.ask(broken, token=token).body
    first = read_time(served.ask("w02", token=token).parsed)
    wait_until(
        lambda: (read_time(served.ask("w02", token=token).parsed) - first).total_seconds() >= 2,
        what="two seconds on another node",
        timeout_seconds=GUARD_SECONDS,
    )
    assert served.ask(broken, token=token).body == frozen


def test_counters_freeze_while_the_commit_of_the_system_goes_on(
    served: Kubelets, token: str, broken: str
) -> None:
    served.fleet.set_endpoint_fault([served.name_of(broken)], fault="frozen_counters")
    first = served.ask(broken, token=token).parsed

    def commit_time(summary: dict[str, Any]) -> str:
        return str(commit_container(summary)["time"])

    wait_until(
        lambda: commit_time(served.ask(broken, token=token).parsed) > commit_time(first),
        what="a later time of the commit container",
        timeout_seconds=GUARD_SECONDS,
    )
    assert read_time(served.ask(broken, token=token).parsed) == read_time(first)


def test_an_exporter_answers_anybody_over_plain_http_and_breaks_alone(
    served: Kubelets, token: str, broken: str
) -> None:
    text = served.ask_exporter(broken).body.decode()
    assert "windows_memory_commit_limit" in text
    assert "windows_pagefile_limit_bytes{" in text
    served.fleet.set_endpoint_fault([served.name_of(broken)], fault="hang", endpoint="exporter")
    with pytest.raises(TimeoutError):
        served.ask_exporter(broken, timeout_seconds=SHORT_SECONDS)
    assert served.ask(broken, token=token).status == 200
    assert served.ask_exporter("w02").status == 200


def test_what_cannot_be_broken_is_said(served: Kubelets) -> None:
    with pytest.raises(TestbedError, match="an exporter cannot have the fault forbidden"):
        served.fleet.set_endpoint_fault("all", fault="forbidden", endpoint="exporter")
