"""What is read for ``plan`` and ``why``, in which order, and what is said where a right is missing.

Answers are written down: nothing here is about what the API server does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.builders import a_body
from winpool.cli.kubectl import LIST_ATTEMPTS, Kubectl, KubectlError, NoSuchPoolError
from winpool.cli.reader import RENEWALS_SECONDS
from winpool.cli.upgrades import Cluster, read_cluster, with_pods_of
from winpool.model.pool import NO_ROOM, Pool

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


def a_pod(name: str, node: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-of-{name}"},
        "spec": {"nodeName": node, "containers": [], **spec},
        "status": {"phase": "Running"},
    }


def a_lease(holder: str = "op-1_ab12", *, seconds_ago: float = 1.0) -> Object:
    renewed = (datetime.now(UTC) - timedelta(seconds=seconds_ago)).isoformat()
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}}


class Server(Kubectl):
    """Answers by the path of a request; a list of answers is used up, and its last one stays."""

    def __init__(
        self,
        *,
        pools: Sequence[Object] = (),
        nodes: Sequence[Object] = (),
        pods: Sequence[Object | KubectlError] = (listed("Pod"),),
        budgets: Object | KubectlError | None = None,
        runtime_classes: Object | KubectlError | None = None,
        leases: Sequence[Object | KubectlError] = (),
    ) -> None:
        super().__init__()
        self._leases = leases or (a_lease(),)
        self.asked: list[str] = []
        self._pools, self._nodes, self._pods = pools, nodes, pods
        self._budgets = budgets or listed("PodDisruptionBudget", version="policy/v1")
        self._runtime_classes = runtime_classes or listed("RuntimeClass", version="node.k8s.io/v1")

    def get(self, path: str, **query: str) -> bytes:
        kind = path.partition("?")[0].rpartition("/")[2]
        self.asked.append(kind)
        answer: Object | KubectlError
        match kind:
            case "windowsnodepools":
                answer = listed("WindowsNodePool", *self._pools, version="winpool.dev/v1alpha1")
            case "nodes":
                name = query.get("fieldSelector", "").removeprefix("metadata.name=")
                found = [
                    each
                    for each in self._nodes
                    if each["metadata"]["name"] == name
                    or (not name and each["metadata"]["labels"]["kubernetes.io/os"] == "windows")
                ]
                answer = listed("Node", *found)
            case "version":
                answer = {"gitVersion": "v1.36.3"}
            case "winpool":
                answer, *later = self._leases
                self._leases = later or self._leases
            case "pods":
                answer, *rest = self._pods
                self._pods = rest or self._pods
            case "runtimeclasses":
                answer = self._runtime_classes
            case _:
                answer = self._budgets
        if isinstance(answer, KubectlError):
            raise answer
        return json.dumps(answer).encode()


def all_of(cluster: Cluster) -> Sequence[Pool]:
    return cluster.pools


def read(server: Server, **more: Any) -> Cluster:
    with server:
        return read_cluster(server, more.pop("plans", all_of), **more)


def upgraded(name: str = "win") -> Object:
    return a_body(name) | {"spec": UPGRADED}


def test_pools_and_nodes_are_read_once_and_are_in_the_order_of_their_names() -> None:
    server = Server(pools=[a_body("b"), a_body("a")], nodes=[a_node("w2"), a_node("w1")])
    cluster = read(server)
    assert [each.name for each in cluster.pools] == ["a", "b"]
    assert [each.name for each in cluster.nodes] == ["w1", "w2"]
    assert cluster.version == "v1.36.3"
    assert sorted(server.asked) == ["nodes", "version", "windowsnodepools", "winpool"]
    assert cluster.leader_problem == ""
    assert server.asked[0] == "windowsnodepools", "the first call runs alone"


@pytest.mark.parametrize(
    ("leases", "said", "pauses"),
    [
        (lambda: [a_lease()], "", 0),
        (lambda: [a_lease(seconds_ago=7200), a_lease(seconds_ago=7198)], "", 1),  # the clock here is wrong
        (lambda: [a_lease(seconds_ago=-7200), a_lease(seconds_ago=-7198)], "", 1),
        (lambda: [a_lease(seconds_ago=7200)], "No operator leads: op-1_ab12 does not renew its Lease", 1),
        (lambda: [a_lease(seconds_ago=-7200)], "No operator leads: op-1_ab12 does not renew its Lease", 1),
        (lambda: [{"spec": {"holderIdentity": "op-1"}}], "(last renewal: not readable)", 1),
        (lambda: [a_lease("")], "No operator leads: no one holds the Lease winpool-system/winpool.", 0),
        (lambda: [a_lease(seconds_ago=7200), a_lease("")], "No operator leads: no one holds", 1),
        (lambda: [{"spec": 3}], "No operator leads: no one holds", 0),
        (
            lambda: [KubectlError("Error from server (NotFound): no")],
            "Whether the operator runs is not known: no operator has created",
            0,
        ),
        (
            lambda: [KubectlError("Error from server (Forbidden): no")],
            "Whether the operator runs is not known: ",
            0,
        ),
    ],
)
def test_who_leads_is_known_by_renewals_and_not_by_the_clock_here(
    monkeypatch: pytest.MonkeyPatch,
    leases: Callable[[], Sequence[Object | KubectlError]],
    said: str,
    pauses: int,
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("winpool.cli.reader.time.sleep", slept.append)
    found = read(Server(leases=leases())).leader_problem
    assert said in found
    assert bool(found) is bool(said)
    assert slept == [RENEWALS_SECONDS] * pauses


def test_pods_budgets_and_runtime_classes_are_read_where_a_pool_has_an_upgrade_block() -> None:
    server = Server(
        pools=[upgraded()], nodes=[a_node("w1")], pods=[listed("Pod", a_pod("web", "w1"), a_pod("x", "l1"))]
    )
    cluster = read(server)
    assert server.asked[-3:] == ["poddisruptionbudgets", "pods", "runtimeclasses"]
    workloads = cluster.surveys["uid-of-win"].workloads
    assert workloads is not None
    assert workloads["w1"].moving_pods == 1
    assert workloads["w1"].budgets_known
    assert cluster.surveys["uid-of-win"].finished <= cluster.now
    assert (cluster.pods_problem, cluster.forbidden) == ("", False)


def test_the_pods_of_one_node_are_read_where_its_validation_waits_for_them() -> None:
    startup = {"startupTaints": [{"key": "example.com/wait", "effect": "NoSchedule"}]}
    spec = {key: each for key, each in UPGRADED.items() if key != "upgrade"} | startup
    pods = [listed("Pod", a_pod("web", "w1"))]
    server = Server(pools=[a_body("win") | {"spec": spec}], nodes=[a_node("w1"), a_node("w2")], pods=pods)
    cluster = read(server)
    assert "pods" not in server.asked
    (pool,), node = cluster.pools, cluster.nodes[0]
    with server:
        found = with_pods_of(server, cluster, node, pool=pool)
    assert server.asked[-1] == "pods"
    survey = found.surveys[pool.uid]
    assert (survey.saw(node), survey.saw(cluster.nodes[1])) == (True, False)
    assert survey.busy == {"w1"}


def test_without_the_right_to_list_them_the_reason_is_noted() -> None:
    refused = KubectlError("Error from server (Forbidden): jane cannot list pods")
    server = Server(pools=[a_body("win")], nodes=[a_node("w1")], pods=[refused])
    cluster = read(server)
    with server:
        found = with_pods_of(server, cluster, cluster.nodes[0], pool=cluster.pools[0])
    assert (found.surveys, "jane cannot list pods" in found.pods_problem) == ({}, True)


def test_a_spec_that_the_operator_does_not_read_for_want_of_room_is_refused_here_too() -> None:
    pools = []
    for generation in (1, 2):
        said = {"type": "Accepted", "status": "False", "observedGeneration": 1, "message": NO_ROOM}
        body = a_body(f"pool-{generation}", generation=generation) | {"spec": UPGRADED}
        pools.append(body | {"status": {"conditions": [said]}})
    found = read(Server(pools=pools)).pools
    assert [(each.spec is None, each.refusal) for each in found] == [(True, NO_ROOM), (False, "")]


def test_only_pools_that_are_planned_have_their_pods_read() -> None:
    server = Server(pools=[upgraded(), a_body("other")], nodes=[a_node("w1")])
    read(server, plans=lambda cluster: cluster.pools[:1])
    assert "pods" not in server.asked


def test_a_plan_of_nothing_that_exists_ends_the_reading() -> None:
    def none(_: Cluster) -> Sequence[Pool]:
        raise NoSuchPoolError("x")

    server = Server(pools=[upgraded()])
    with pytest.raises(NoSuchPoolError):
        read(server, plans=none)
    assert "pods" not in server.asked


def test_without_the_right_to_list_pods_what_runs_is_unknown_and_the_reason_is_noted() -> None:
    refused = KubectlError("Error from server (Forbidden): jane may not")
    cluster = read(Server(pools=[upgraded()], nodes=[a_node("w1")], pods=[refused]))
    assert cluster.surveys == {}
    assert "jane may not" in cluster.pods_problem
    assert cluster.forbidden


def test_without_the_right_to_list_budgets_only_these_are_unknown() -> None:
    refused = KubectlError("Error from server (Forbidden): jane may not")
    cluster = read(Server(pools=[upgraded()], nodes=[a_node("w1")], budgets=refused))
    workloads = cluster.surveys["uid-of-win"].workloads
    assert workloads is not None
    assert not workloads["w1"].budgets_known
    assert "jane may not" in cluster.pods_problem


def test_without_the_right_to_list_runtime_classes_that_is_said_where_a_pod_has_one() -> None:
    refused = KubectlError("Error from server (Forbidden): jane may not")
    for spec, is_known in (({}, True), ({"runtimeClassName": "windows"}, False)):
        server = Server(
            pools=[upgraded()],
            nodes=[a_node("w1")],
            pods=[listed("Pod", a_pod("web", "w1", **spec))],
            runtime_classes=refused,
        )
        cluster = read(server)
        workloads = cluster.surveys["uid-of-win"].workloads
        assert workloads is not None
        assert workloads["w1"].runtime_classes_known is is_known
        assert ("jane may not" in cluster.pods_problem) is not is_known


def test_pods_are_judged_by_their_runtime_classes() -> None:
    server = Server(
        pools=[upgraded()],
        nodes=[a_node("w1")],
        pods=[
            listed("Pod", a_pod("a", "w1", runtimeClassName="new"), a_pod("b", "w1", runtimeClassName="old"))
        ],
        runtime_classes=listed(
            "RuntimeClass",
            {"metadata": {"name": "new"}, "scheduling": {"nodeSelector": {"disk": "ssd"}}},
            version="node.k8s.io/v1",
        ),
    )
    workloads = read(server).surveys["uid-of-win"].workloads
    assert workloads is not None
    assert workloads["w1"].missing_runtime_classes == ("old",)
    assert {shape.selector for shape, _ in workloads["w1"].moving} == {(), (("disk", "ssd"),)}


def test_a_list_of_pods_that_expires_is_begun_again_a_few_times() -> None:
    gone = KubectlError("Error from server (Expired): too old")
    assert read(Server(pools=[upgraded()], nodes=[a_node("w1")], pods=[gone, listed("Pod")])).surveys
    server = Server(pools=[upgraded()], nodes=[a_node("w1")], pods=[gone])
    assert read(server).pods_problem
    assert server.asked.count("pods") == LIST_ATTEMPTS


def test_a_node_that_is_no_windows_node_is_read_by_its_name() -> None:
    nodes = [a_node("w1"), a_node("l1", **LINUX)]

    def stranger(name: str) -> str | None:
        found = read(Server(nodes=nodes), node=name).stranger
        return None if found is None else found.name

    assert [stranger(name) for name in ("l1", "x", "w1")] == ["l1", None, None]


def test_nodes_that_cannot_be_read_are_named() -> None:
    broken = a_node("w2")
    broken["status"] = 7
    cluster = read(Server(nodes=[a_node("w1"), broken]))
    assert [each.name for each in cluster.nodes] == ["w1"]
    (said,) = cluster.unread
    assert said.startswith("node w2: ")
