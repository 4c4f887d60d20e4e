"""What templates of workloads leave open: from pods as the API server sends them to the survey of a pool."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.builders import NOON, a_node, a_pool, a_taint
from harness.every import every
from harness.pods import a_question
from winpool.features.audit.workloads import PodOS, workload_of
from winpool.features.contract.taints import question_of
from winpool.kube.pods import PodAsListed, decode_pod_page
from winpool.model import pod_templates
from winpool.model.pods import Pod
from winpool.model.survey import CountedPods, PoolQuestion, Survey, taint_key
from winpool.model.surveyor import Surveyor

Object = dict[str, Any]

GIB = 1024**3
OPEN: Mapping[str, frozenset[tuple[str, str, str]]] = {"w1": frozenset()}
TAINT = {"key": "os", "value": "windows", "effect": "NoSchedule"}
TAINTED = {"w1": frozenset({taint_key(a_taint("os=windows:NoSchedule"))})}


def a_pod_object(
    name: str = "web-7d9c5b8f6-x2x4z",
    *,
    namespace: str = "shop",
    node: str = "linux-1",
    owner: tuple[str, str] | None = ("ReplicaSet", "web-7d9c5b8f6"),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    limits: Iterable[str | None] = ("64Mi",),
    status: Object | None = None,
    **spec: Any,
) -> Object:
    """Return a pod of a Deployment that selects no OS, with a container for each of ``limits``."""
    containers = [
        {
            "name": f"c{number}",
            "image": "nginx:1.29",
            "resources": {} if limit is None else {"limits": {"memory": limit}},
        }
        for number, limit in enumerate(limits)
    ]
    owners = [{"kind": owner[0], "name": owner[1], "controller": True}] if owner else []
    hashed = {"pod-template-hash": "7d9c5b8f6"} if owner and owner[0] == "ReplicaSet" else {}
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "labels": {**hashed, **(labels or {})},
            "annotations": annotations or {},
            "ownerReferences": owners,
        },
        "spec": {"nodeName": node, "containers": containers, **spec},
        "status": {"phase": "Running", **(status or {})},
    }


def pods_of(*items: Object) -> tuple[Pod, ...]:
    page = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": [*items]}
    found = decode_pod_page(json.dumps(page).encode(), with_templates=True)
    assert not found.unreadable
    return found.pods


def a_pool_question(*, nodes: Iterable[str] = ("w1",), **changes: Any) -> PoolQuestion:
    return a_question(nodes=nodes, **{"bars": OPEN, "labels": {"w1": {"agentpool": "win"}}, **changes})


def surveyed(question: PoolQuestion, pods: Iterable[Pod], *, exempt: Iterable[str] = ()) -> Survey:
    surveyor = Surveyor([question], is_exempt={*exempt}.__contains__)
    for pod in pods:
        surveyor.see(pod)
    return surveyor.finish(started=NOON, finished=NOON)[question.pool_uid]


def unselected(*items: Object, **changes: Any) -> CountedPods:
    return surveyed(a_pool_question(**changes), pods_of(*items)).unselected


def in_every(count: int, item: Object) -> list[Object]:
    return [{**item, "metadata": {**item["metadata"], "name": f"pod-{number}"}} for number in range(count)]


def test_pods_that_select_no_os_count_wherever_they_run_by_their_deployment() -> None:
    found = unselected(*in_every(3, a_pod_object()), *in_every(2, a_pod_object(node="w1")))
    assert found == CountedPods((("Deployment shop/web", 5),), 5)


def in_a_term(key: str, operator: str, *values: str) -> Object:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": [*values]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


SELECTED = [
    {"os": {"name": "linux"}},
    {"os": {"name": "windows"}},
    {"nodeSelector": {"kubernetes.io/os": "linux"}},
    {"nodeSelector": {"beta.kubernetes.io/os": "linux"}},
    {"nodeSelector": {"node.kubernetes.io/windows-build": "10.0.20348"}},
    {"securityContext": {"windowsOptions": {"runAsUserName": "ContainerUser"}}},
    {"annotations": {"winpool.dev/windows-build": "10.0.20348"}},
    {"annotations": {"experimental.windows.kubernetes.io/isolation-type": "hyperv"}},
    {"nodeSelector": {"kubernetes.azure.com/os-sku": "Windows2022"}},
    in_a_term("kubernetes.azure.com/os-sku", "In", "Windows2022"),
    {"containers": [{"name": "c", "image": "mcr.microsoft.com/windows/NanoServer:LTSC2022"}]},
    {"containers": [{"name": "c", "securityContext": {"windowsOptions": {"hostProcess": False}}}]},
    in_a_term("kubernetes.io/os", "NotIn", "windows"),
]


@every("changes", SELECTED, ids=str)
def test_any_evidence_of_an_os_is_enough(changes: Object) -> None:
    assert unselected(a_pod_object(**changes)) == CountedPods()


PIECES = [
    *SELECTED,
    {"nodeSelector": {"disk": "ssd"}},
    {"nodeSelector": {"kubernetes.io/os": "plan9"}},
    in_a_term("kubernetes.io/os", "In", "linux"),
    in_a_term("kubernetes.io/os", "In", "linux", "windows"),
    in_a_term("kubernetes.io/arch", "In", "amd64"),
    {"securityContext": {"runAsUser": 1000}},
    {"containers": [{"name": "c", "image": "acme/windows-of-opportunity"}]},
    {"initContainers": [{"name": "i", "image": "acme/app:windowsservercore-1.2"}]},
    {"ephemeralContainers": [{"name": "e", "image": "acme/ltsc2022x"}]},
    {"annotations": {"winpool.dev/windows-builds": "10.0.20348"}},
]


@given(st.lists(st.sampled_from(PIECES), max_size=3))
def test_what_is_evidence_is_what_the_audit_says(pieces: list[Object]) -> None:
    """Although the operator reads most pods in less depth."""
    item = a_pod_object(**{key: value for piece in pieces for key, value in piece.items()})
    workload = workload_of({"kind": "Pod", **item})
    assert workload is not None
    [pod] = pods_of(item)
    assert isinstance(pod.template, PodAsListed)
    assert pod.template._has_os() is (workload.os is not PodOS.UNKNOWN)


@every(
    ("changes", "count"),
    [
        ({}, 1),
        ({"status": {"phase": "Failed"}}, 0),
        ({"owner": ("Node", "linux-1"), "name": "static-linux-1"}, 0),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, 0),
    ],
    ids=str,
)
def test_only_pods_that_the_scheduler_places_count(changes: Object, count: int) -> None:
    assert unselected(a_pod_object(**changes)).count == count


def test_a_taint_that_is_not_tolerated_keeps_pods_off() -> None:
    tolerant = a_pod_object(owner=("DaemonSet", "agent"), tolerations=[{"operator": "Exists"}])
    own = a_pod_object(owner=("StatefulSet", "db"), tolerations=[TAINT])
    found = unselected(a_pod_object(), tolerant, own, bars=TAINTED)
    assert found.worst == (("DaemonSet shop/agent", 1), ("StatefulSet shop/db", 1))
    half = {"w1": TAINTED["w1"], "w2": frozenset[tuple[str, str, str]]()}
    assert unselected(a_pod_object(), nodes=("w1", "w2"), bars=half).count == 1, "one node is enough"
    assert unselected(a_pod_object(), nodes=(), bars={}).count == 0, "without nodes nothing lands"


@every(
    ("changes", "count"),
    [
        ({"nodeSelector": {"agentpool": "win"}}, 1),
        ({"nodeSelector": {"agentpool": "linux"}}, 0),
        ({"nodeSelector": {"disk": "ssd"}}, 0),
        # Affinity to more than labels: it is not known where they land, so nothing is said.
        (in_a_term("a", "Exists"), 0),
        (in_a_term("agentpool", "In", "win"), 1),
        ({"affinity": {"podAntiAffinity": {}}}, 1),
        ({"nodeSelector": 7}, 0),
        ({"containers": 7}, 1),
    ],
    ids=str,
)
def test_pods_that_select_other_nodes_do_not_land(changes: Object, count: int) -> None:
    assert unselected(a_pod_object(**changes)).count == count


@every(
    ("owner", "name", "labels", "title"),
    [
        (("ReplicaSet", "web-7d9c5b8f6"), "web-1", {}, "Deployment shop/web"),
        (("ReplicaSet", "by-hand"), "web-1", {}, "ReplicaSet shop/by-hand"),
        (("Job", "report-29931000"), "report-1", {}, "CronJob shop/report"),
        (("Job", "load-20261129"), "load-1", {}, "Job shop/load-20261129"),
        (("Job", "load"), "load-1", {}, "Job shop/load"),
        (("DaemonSet", "agent"), "agent-1", {}, "DaemonSet shop/agent"),
        (("Game, \n Server", "x" * 300), "game-1", {}, f"Game Server shop/{'x' * 103}"),
        (("Fo\u202e\x1b", "x"), "game-1", {}, r"Fo\u202e\x1b shop/x"),
        (("\u202e" * 300, "x"), "game-1", {}, r"\u202e" * 20),
        (None, "alone", {}, "Pod shop/alone"),
        (("Node", "w1"), "proxy-w1", {}, "Pod shop/proxy"),
    ],
)
def test_a_title_names_what_a_person_edits(
    owner: tuple[str, str] | None, name: str, labels: Mapping[str, str], title: str
) -> None:
    [pod] = pods_of(a_pod_object(name, owner=owner, labels=labels, node="w1"))
    assert pod_templates.title_of(pod) == title


def test_a_new_template_of_the_same_controller_is_judged_anew() -> None:
    """A ReplicaSet has another name then; a DaemonSet and a StatefulSet have not."""
    old = a_pod_object(owner=("DaemonSet", "agent"), labels={"controller-revision-hash": "1"})
    new = a_pod_object(
        owner=("DaemonSet", "agent"),
        labels={"controller-revision-hash": "2"},
        nodeSelector={"kubernetes.io/os": "linux"},
    )
    assert unselected(new, old, new, old).count == 2
    assert unselected(new, new).count == 0


def test_exempt_namespaces_have_no_part_in_it() -> None:
    items = [
        a_pod_object(node="w1", limits=[None]),
        a_pod_object(namespace="vault", node="w1", limits=[None]),
    ]
    found = surveyed(a_pool_question(), pods_of(*items), exempt=["shop"])
    assert found.unselected.worst == (("Deployment vault/web", 1),)
    assert found.unlimited.worst == (("Deployment vault/web", 1),)


def test_containers_without_a_memory_limit_count_on_the_nodes_of_the_pool() -> None:
    init: Object = {"initContainers": [{"name": "i", "image": "a"}]}
    found = surveyed(
        a_pool_question(nodes=("w1", "w2"), bars=TAINTED),
        pods_of(
            *in_every(2, a_pod_object(node="w1", limits=[None, "1Gi"], **init)),
            a_pod_object("db-0", node="w2", owner=("StatefulSet", "db"), limits=["3Gi"]),
            a_pod_object("x", node="linux-1", owner=("StatefulSet", "x"), limits=[None]),
            a_pod_object("ended", node="w1", owner=None, limits=[None], status={"phase": "Failed"}),
            a_pod_object("odd", node="w1", owner=None, limits=["much"]),
            a_pod_object("zero", node="w2", owner=("StatefulSet", "zero"), limits=["0", "-1", "1"]),
        ),
    )
    assert found.unlimited == CountedPods((("Deployment shop/web", 4), ("StatefulSet shop/zero", 2)), 6)
    assert found.memory_limits == {"w1": 2 * GIB, "w2": 3 * GIB + 1}


def test_host_process_containers_and_static_pods_count_since_they_use_the_memory_of_the_node() -> None:
    host_process: Object = {"securityContext": {"windowsOptions": {"hostProcess": True}}, "hostNetwork": True}
    found = surveyed(
        a_pool_question(nodes=("w1", "w2")),
        pods_of(
            a_pod_object("agent-1", node="w1", owner=("DaemonSet", "agent"), limits=[None], **host_process),
            *(
                a_pod_object(f"proxy-{node}", node=node, owner=("Node", node), limits=[None])
                for node in ("w1", "w2")
            ),
        ),
    )
    assert found.unlimited.worst == (("Pod shop/proxy", 2), ("DaemonSet shop/agent", 1))


def test_what_is_told_apart_and_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_templates, "MOST_TEMPLATES", 100)
    items = [
        a_pod_object(f"pod-{number}", node="w1", owner=("StatefulSet", f"db-{number:03}"), limits=[None])
        for number in range(150)
    ]
    found = surveyed(a_pool_question(), pods_of(*items, *items))
    assert (found.unselected.count, found.unlimited.count) == (200, 200)
    assert (found.unselected.is_complete, found.unlimited.is_complete) == (False, False)
    assert len(found.unselected.worst) == len(found.unlimited.worst) == pod_templates.TITLES_KEPT


def test_where_all_places_are_taken_only_templates_of_known_controllers_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pod_templates, "MOST_TEMPLATES", 20)
    read: list[str] = []
    of_pod = PodAsListed.labels_without_os

    def counting(pod: PodAsListed) -> tuple[tuple[str, str], ...] | None:
        read.append(pod.metadata.name)
        return of_pod(pod)

    monkeypatch.setattr(PodAsListed, "labels_without_os", counting)
    again = a_pod_object("pod-new", owner=("StatefulSet", "db-07"), labels={"controller-revision-hash": "2"})
    pods = [a_pod_object(f"pod-{each}", owner=("StatefulSet", f"db-{each:02}")) for each in range(50)]
    found = unselected(*pods, again)
    assert read == [*(f"pod-{each}" for each in range(20)), "pod-new"]
    assert (found.worst[0], found.count, found.is_complete) == (("StatefulSet shop/db-07", 2), 21, False)


def in_turn(*seconds: int) -> list[Object]:
    wait = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    return [{**wait, "tolerationSeconds": each} for each in seconds]


def decoys(count: int, made: Callable[[int], Object] = lambda _: {}) -> list[Object]:
    pods = range(count)
    return [a_pod_object(f"pod-{each}", namespace="aaa", owner=None, **made(each)) for each in pods]


LINUX: Object = {"nodeSelector": {"kubernetes.io/os": "linux"}}
DECOYS = {
    "sets of tolerations": decoys(300, lambda each: {"tolerations": in_turn(each), **LINUX}),
    "ended": decoys(50, lambda _: {"status": {"phase": "Failed"}}),
    "that select": decoys(50, lambda _: LINUX),
    "that land nowhere": decoys(50, lambda _: {"nodeSelector": {"disk": "none"}}),
    "many tolerations": decoys(9, lambda _: {"tolerations": in_turn(*range(400)), **LINUX}),
}


@every("name", DECOYS)
def test_no_namespace_hides_the_pods_of_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_templates, "MOST_TEMPLATES", 40)
    monkeypatch.setattr(pod_templates, "MOST_OF_NAMESPACE", 20)
    monkeypatch.setattr(pod_templates, "MOST_COMPARED", 1000)
    found = unselected(*DECOYS[name], a_pod_object(tolerations=in_turn(300)))
    assert found.worst == (("Deployment shop/web", 1),)


def test_any_number_of_tolerations_that_do_not_matter_hides_no_pod() -> None:
    assert unselected(a_pod_object(tolerations=in_turn(*range(99)))) == unselected(a_pod_object())


TOO_MUCH = {
    "tolerations": decoys(1, lambda _: {"tolerations": in_turn(*range(2000))}),
    "controllers": decoys(21),
    "labels": decoys(11, lambda each: {"nodeSelector": {f"{each}-{key}": "" for key in range(99)}}),
}


@every("name", TOO_MUCH)
def test_a_count_that_leaves_pods_out_is_not_complete(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_templates, "MOST_OF_NAMESPACE", 20)
    monkeypatch.setattr(pod_templates, "MOST_COMPARED", 1000)
    assert unselected(*TOO_MUCH[name][1:]).is_complete
    assert not unselected(*TOO_MUCH[name], a_pod_object()).is_complete


@every(
    ("taints", "bars"),
    [
        ([], set()),
        (["gpu=yes:NoSchedule"], {"gpu"}),
        (["gpu=yes:NoExecute"], {"gpu"}),
        (["gpu=yes:PreferNoSchedule"], set()),
        (["node.kubernetes.io/not-ready:NoExecute", "winpool.dev/memory-pressure:NoSchedule"], set()),
        (["join:NoSchedule"], set()),
    ],
    ids=str,
)
def test_taints_that_come_and_go_keep_no_pods_off_for_good(taints: list[str], bars: set[str]) -> None:
    node = a_node(taints=taints)
    for mode, coming in (("Active", {"os"}), ("Paused", set[str]())):
        startup = {"startupTaints": [{"key": "join", "effect": "NoSchedule"}]}
        pool = a_pool(taints=["os=windows:NoSchedule"], mode=mode, more=startup)
        question = question_of(pool, [node], now=NOON)
        assert question is not None
        assert {key for key, _, _ in question.bars["w1"]} == bars | coming


PODS = st.lists(
    st.builds(
        lambda owner, node, limits, spec: a_pod_object(owner=owner, node=node, limits=limits, **spec),
        owner=st.sampled_from([("ReplicaSet", "a-7d9c5b8f6"), ("StatefulSet", "b"), ("DaemonSet", "c")]),
        node=st.sampled_from(["w1", "w2", "linux-1"]),
        limits=st.just(["1Gi", None]),
        spec=st.just({}),
    ),
    max_size=12,
)


@given(items=PODS, data=st.data())
def test_the_order_of_pods_changes_nothing(items: list[Object], data: st.DataObject) -> None:
    named = [
        {**item, "metadata": {**item["metadata"], "name": f"pod-{number}"}}
        for number, item in enumerate(items)
    ]
    other = data.draw(st.permutations(named))
    question = a_pool_question(nodes=("w1", "w2"))
    one, two = (surveyed(question, pods_of(*each)) for each in (named, other))
    assert (one.unselected, one.unlimited, one.memory_limits) == (
        two.unselected,
        two.unlimited,
        two.memory_limits,
    )
