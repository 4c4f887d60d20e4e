"""What is read for ``plan`` and ``why``, in which order, and what is said where a right is missing.

Answers are written down: nothing here is about what the API server does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from harness.builders import a_body
from winpool.cli.reasons import NoSuchPoolError
from winpool.cli.upgrade_reader import read_with
from winpool.cli.upgrade_world import Cluster
from winpool.kube.errors import ApiError, Forbidden, Gone
from winpool.kube.lists import LIST_ATTEMPTS
from winpool.kube.request import Request
from winpool.model.pool import Pool

Object = dict[str, Any]

UPGRADED: Object = {
    "nodeSelector": {"matchLabels": {"agentpool": "red"}},
    "os": {"version": "2022"},
    "upgrade": {},
}
LINUX = {"kubernetes.io/os": "linux"}
RED = {"kubernetes.io/os": "windows", "agentpool": "red"}


def listed(kind: str, *items: Object, version: str = "v1") -> Object:
    return {
        "apiVersion": version,
        "kind": f"{kind}List",
        "metadata": {"resourceVersion": "9"},
        "items": items,
    }


def a_node(name: str, **labels: str) -> Object:
    metadata = {"name": name, "uid": f"uid-of-{name}", "resourceVersion": "1", "labels": labels or RED}
    return {"metadata": metadata, "spec": {}, "status": {"nodeInfo": {"kernelVersion": "10.0.20348.4052"}}}


def a_pod(name: str, node: str) -> Object:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-of-{name}"},
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running"},
    }


@dataclass
class Server:
    """Answers by the path of a request; a list of answers is used up, and its last one stays."""

    pools: Sequence[Object] = ()
    nodes: Sequence[Object] = ()
    pods: Sequence[Object | ApiError] = (listed("Pod"),)
    budgets: Object | ApiError = field(
        default_factory=lambda: listed("PodDisruptionBudget", version="policy/v1")
    )
    asked: list[str] = field(default_factory=list)

    async def ask(self, request: Request) -> bytes:
        path, _, query = request.path.partition("?")
        self.asked.append(f"{request.verb} {request.resource}")
        answer: Object | ApiError
        match path.rpartition("/")[2]:
            case "windowsnodepools":
                answer = listed("WindowsNodePool", *self.pools, version="winpool.dev/v1alpha1")
            case "nodes":
                one = [each for each in self.nodes if query.endswith(f"%3D{each['metadata']['name']}")]
                windows = [
                    each for each in self.nodes if each["metadata"]["labels"]["kubernetes.io/os"] == "windows"
                ]
                answer = listed("Node", *(one if "fieldSelector" in query else windows))
            case "version":
                answer = {"gitVersion": "v1.36.3"}
            case "pods":
                answer, *rest = self.pods
                self.pods = rest or self.pods
            case _:
                answer = self.budgets
        if isinstance(answer, ApiError):
            raise answer
        return json.dumps(answer).encode()


def all_of(cluster: Cluster) -> Sequence[Pool]:
    return cluster.pools


def read(server: Server, **more: Any) -> Cluster:
    return asyncio.run(read_with(server.ask, more.pop("plans", all_of), **more))


def upgraded(name: str = "win") -> Object:
    return a_body(name) | {"spec": UPGRADED}


def test_pools_and_nodes_are_read_once_and_are_in_the_order_of_their_names() -> None:
    server = Server(pools=[a_body("b"), a_body("a")], nodes=[a_node("w2"), a_node("w1")])
    cluster = read(server)
    assert [each.name for each in cluster.pools] == ["a", "b"]
    assert [each.name for each in cluster.nodes] == ["w1", "w2"]
    assert cluster.version == "v1.36.3"
    assert server.asked == ["list windowsnodepools", "list nodes", "get version"]


def test_pods_and_budgets_are_read_where_a_pool_has_an_upgrade_block() -> None:
    server = Server(
        pools=[upgraded()], nodes=[a_node("w1")], pods=[listed("Pod", a_pod("web", "w1"), a_pod("x", "l1"))]
    )
    cluster = read(server)
    assert server.asked[-2:] == ["list poddisruptionbudgets", "list pods"]
    workloads = cluster.surveys["uid-of-win"].workloads
    assert workloads is not None
    assert workloads["w1"].moving_pods == 1
    assert workloads["w1"].budgets_known
    assert cluster.surveys["uid-of-win"].finished <= cluster.now
    assert (cluster.pods_problem, cluster.forbidden) == ("", False)


def test_only_pools_that_are_planned_have_their_pods_read() -> None:
    server = Server(pools=[upgraded(), a_body("other")], nodes=[a_node("w1")])
    read(server, plans=lambda cluster: cluster.pools[:1])
    assert "list pods" not in server.asked


def test_a_plan_of_nothing_that_exists_ends_the_reading() -> None:
    def none(_: Cluster) -> Sequence[Pool]:
        raise NoSuchPoolError("x")

    server = Server(pools=[upgraded()])
    with pytest.raises(NoSuchPoolError):
        read(server, plans=none)
    assert "list pods" not in server.asked


def test_without_the_right_to_list_pods_what_runs_is_unknown_and_the_reason_is_noted() -> None:
    refused = Forbidden("list pods: jane may not", status=403)
    cluster = read(Server(pools=[upgraded()], nodes=[a_node("w1")], pods=[refused]))
    assert cluster.surveys == {}
    assert "jane may not" in cluster.pods_problem
    assert cluster.forbidden


def test_without_the_right_to_list_budgets_only_these_are_unknown() -> None:
    refused = Forbidden("list poddisruptionbudgets: jane may not", status=403)
    cluster = read(Server(pools=[upgraded()], nodes=[a_node("w1")], budgets=refused))
    workloads = cluster.surveys["uid-of-win"].workloads
    assert workloads is not None
    assert not workloads["w1"].budgets_known
    assert "jane may not" in cluster.pods_problem


def test_a_list_of_pods_that_expires_is_begun_again_a_few_times() -> None:
    gone = Gone("list pods: too old", status=410)
    assert read(Server(pools=[upgraded()], nodes=[a_node("w1")], pods=[gone, listed("Pod")])).surveys
    server = Server(pools=[upgraded()], nodes=[a_node("w1")], pods=[gone])
    assert read(server).pods_problem
    assert server.asked.count("list pods") == LIST_ATTEMPTS


def test_a_node_that_is_no_windows_node_is_read_by_its_name() -> None:
    server = Server(nodes=[a_node("w1"), a_node("l1", **LINUX)])
    stranger = read(server, node="l1").stranger
    assert stranger is not None
    assert stranger.name == "l1"
    assert read(server, node="x").stranger is None
    assert read(server, node="w1").stranger is None


def test_nodes_that_cannot_be_read_are_named() -> None:
    broken = a_node("w2")
    broken["status"] = 7
    cluster = read(Server(nodes=[a_node("w1"), broken]))
    assert [each.name for each in cluster.nodes] == ["w1"]
    (said,) = cluster.unread
    assert said.startswith("node w2: ")
