"""What is read of the pods of a node under memory pressure, and of budgets: from whatever comes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tracemalloc
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from harness.builders import a_node
from harness.virtual_time import in_virtual_time
from winpool.features.memory.eviction import EvictionState, Step
from winpool.features.memory.findings import eviction_findings
from winpool.features.memory.victims import Basis, Choice
from winpool.kube.budgets import (
    BUDGETS,
    LARGEST,
    LIST_SECONDS,
    MOST_OF_ALL,
    MOST_OF_NAMESPACE,
    BudgetLister,
)
from winpool.kube.errors import StreamGarbled, Unavailable
from winpool.kube.pods import PodLister, decode_pod_page
from winpool.kube.request import Request
from winpool.model.budgets import (
    MOST_COMPARED,
    MOST_TERMS,
    OF_EACH,
    Budget,
    BudgetHealth,
    BudgetIndex,
    Requirement,
)
from winpool.model.node_pods import KnownEvictions
from winpool.model.pods import BlockedBy, EvictionFacts, Pod

Object = dict[str, Any]
GIB = 2**30


def a_pod_object(**changes: Any) -> Object:
    """Return a pod; ``changes`` are merged into metadata, spec or status."""
    found: Object = {
        "metadata": {
            "namespace": "shop",
            "name": "web-0",
            "uid": "uid-web-0",
            "labels": {"app": "web"},
            "creationTimestamp": "2026-11-01T11:00:00Z",
            "ownerReferences": [
                {"kind": "Node", "name": "no-controller", "uid": "1"},
                {"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": True},
            ],
        },
        "spec": {
            "nodeName": "w1",
            "priority": 7,
            "terminationGracePeriodSeconds": 45,
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
        },
        "status": {"phase": "Running"},
    }
    for part, fields in changes.items():
        found[part] = found[part] | fields
    return found


def a_list(*items: Any, kind: str = "PodList", version: str = "v1", **metadata: Any) -> bytes:
    told = {"kind": kind, "apiVersion": version, "metadata": {"resourceVersion": "9"} | metadata}
    return json.dumps(told | {"items": list(items)}).encode()


def listed(body: bytes) -> tuple[Pod, ...]:
    async def answer(_: Request) -> bytes:
        return body

    return asyncio.run(PodLister(answer).list_node("w1", for_eviction=True)).pods


def read(*items: Any, **metadata: Any) -> tuple[Pod, ...]:
    return listed(a_list(*items, **metadata))


def one(**changes: Any) -> Pod:
    [pod] = read(a_pod_object(**changes))
    return pod


def facts(**changes: Any) -> EvictionFacts:
    found = one(**changes).eviction
    assert found is not None
    return found


TOLERATES: Final = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}


def mounting(*mounts: Object) -> Object:
    return {"name": "main", "volumeMounts": list(mounts)}


SUB_PATHS: Final = [{"subPath": "a"}, {"mountPath": "C:\\x"}, {"subPathExpr": "$(X)"}, {"subPath": ""}]


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"spec": {"volumes": [{"name": "x", "emptyDir": {}}]}}, "is_local", True),
        ({"spec": {"volumes": [{"name": "x", "configMap": {}}]}}, "is_local", False),
        ({"spec": {"containers": [mounting(*SUB_PATHS)]}}, "sub_paths", 2),
        ({"spec": {"containers": [mounting(SUB_PATHS[0])] * 2}}, "sub_paths", 1),
        ({"spec": {"initContainers": [mounting(*SUB_PATHS)]}}, "sub_paths", 2),
        (
            {"metadata": {"deletionTimestamp": "2026-11-01T12:00:00Z"}},
            "ends",
            datetime(2026, 11, 1, 12, tzinfo=UTC),
        ),
        ({"metadata": {"deletionTimestamp": "soon"}}, "ends", None),
        ({"metadata": {"finalizers": ["a/b", "c/d"]}}, "finalizers", ("a/b", "c/d")),
        ({"spec": {"schedulingGroup": {"podGroupName": "train"}}}, "group", "train"),
        ({"spec": {"schedulingGroup": {}}}, "group", ""),
        ({"metadata": {"ownerReferences": [{"kind": "Foo", "uid": "3"}]}}, "controller_uid", ""),
        ({"spec": {"tolerations": [TOLERATES]}}, "tolerates_cordon", True),
        ({"spec": {"tolerations": [{"operator": "Exists"}]}}, "tolerates_cordon", True),
        ({"spec": {"tolerations": [TOLERATES | {"effect": "NoExecute"}]}}, "tolerates_cordon", False),
        ({"spec": {"tolerations": [{"key": "os", "operator": "Exists"}]}}, "tolerates_cordon", False),
    ],
)
def test_what_decides_in_a_drain_is_read(changes: Object, field: str, value: Any) -> None:
    assert getattr(facts(**changes), field) == value


def test_of_the_finalizers_the_first_few_are_kept() -> None:
    found = facts(metadata={"finalizers": [f"{'x' * 1000}/{number}" for number in range(50)]})
    assert [len(each) for each in found.finalizers] == [317] * 3


def requesting(memory: Any, **more: Any) -> Object:
    return {"resources": {"requests": {"memory": memory}}, **more}


def test_a_pod_is_read() -> None:
    assert one() == Pod(
        namespace="shop",
        name="web-0",
        node="w1",
        uid="uid-web-0",
        labels={"app": "web"},
        controller_kind="ReplicaSet",
        controller="web",
        eviction=EvictionFacts(
            priority=7,
            created=datetime(2026, 11, 1, 11, tzinfo=UTC),
            grace_seconds=45,
            requests=GIB,
            controller_uid="2",
        ),
    )


def test_a_bare_pod_is_read_with_the_defaults_of_the_api() -> None:
    [pod] = read({"metadata": {"namespace": "a", "name": "b", "uid": "c"}, "spec": {"nodeName": "w1"}})
    assert pod == Pod("a", "b", "w1", "c", eviction=EvictionFacts(grace_seconds=30))


def test_only_where_it_is_asked_for_is_read_what_decides_on_an_eviction() -> None:
    [pod] = decode_pod_page(a_list(a_pod_object())).pods
    assert pod.eviction is None


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, "is_static", True),
        ({"metadata": {"ownerReferences": [{"kind": "Node", "controller": True}]}}, "is_static", True),
        ({"metadata": {"deletionTimestamp": "2026-11-01T12:00:00Z"}}, "is_terminating", True),
        ({"metadata": {"ownerReferences": []}}, "controller_kind", ""),
        ({"status": {"phase": "Failed"}}, "is_finished", True),
        ({"status": {"phase": "Unknown"}}, "is_finished", False),
    ],
)
def test_what_protects_a_pod_is_read(changes: Object, field: str, value: Any) -> None:
    assert getattr(one(**changes), field) == value


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        ({"metadata": {"creationTimestamp": "soon"}}, "created", None),
        ({"spec": {"terminationGracePeriodSeconds": 0}}, "grace_seconds", 0),
        ({"spec": {"terminationGracePeriodSeconds": -5}}, "grace_seconds", 0),
        ({"spec": {"priority": None}}, "priority", 0),
        ({"spec": {"securityContext": {"windowsOptions": {"hostProcess": True}}}}, "is_host_process", True),
    ],
)
def test_what_decides_on_an_eviction_is_read(changes: Object, field: str, value: Any) -> None:
    assert getattr(facts(**changes), field) == value


@pytest.mark.parametrize("kind", ["containers", "initContainers", "ephemeralContainers"])
def test_a_single_host_process_container_makes_the_pod_one(kind: str) -> None:
    hosted = {"securityContext": {"windowsOptions": {"hostProcess": True}}}
    assert facts(spec={kind: [{"name": "other"}, hosted]}).is_host_process
    assert not facts(spec={kind: [{"securityContext": {"windowsOptions": {}}}]}).is_host_process


@pytest.mark.parametrize(
    ("spec", "gib"),
    [
        ({"containers": [requesting("1Gi"), requesting("2Gi")]}, 3),
        ({"containers": [requesting("1Gi")], "initContainers": [requesting("5Gi")]}, 5),
        (
            {
                "containers": [requesting("1Gi")],
                "initContainers": [requesting("1Gi", restartPolicy="Always")],
            },
            2,
        ),
        ({"containers": [requesting("1Gi")], "resources": {"requests": {"memory": "4Gi"}}}, 4),
        ({"containers": [requesting(GIB)]}, 1),
        ({"containers": [requesting("lots")]}, 0),
        ({"containers": [requesting("-3Gi")]}, 0),
        ({"containers": [{"resources": {"limits": {"memory": "1Gi"}}}]}, 0),
        ({"containers": None}, 0),
    ],
)
def test_requests_are_those_that_the_scheduler_counts(spec: Object, gib: int) -> None:
    assert facts(spec=spec).requests == gib * GIB


def granting(memory: Any, name: str = "main") -> Object:
    return {"name": name, "resources": {"requests": {"memory": memory}}}


@pytest.mark.parametrize(
    ("spec", "status", "gib"),
    [
        ({"containers": [requesting("1Ti", name="main")]}, {"containerStatuses": [granting("2Gi")]}, 2),
        ({"containers": [requesting("1Gi", name="main")]}, {"containerStatuses": [granting("2Gi")]}, 1),
        ({"containers": [requesting("3Gi", name="main")]}, {"containerStatuses": [{"name": "main"}]}, 3),
        ({"containers": [requesting("3Gi", name="main")]}, {"containerStatuses": [granting("lots")]}, 3),
        ({"containers": [requesting("3Gi", name="main")]}, {"containerStatuses": [granting("1Gi", "a")]}, 3),
        (
            {"containers": [], "initContainers": [requesting("9Gi", name="side", restartPolicy="Always")]},
            {"initContainerStatuses": [granting("1Gi", "side")]},
            1,
        ),
        (
            {"containers": [], "resources": {"requests": {"memory": "9Gi"}}},
            {"resources": {"requests": {"memory": "4Gi"}}},
            4,
        ),
    ],
)
def test_what_a_running_pod_wishes_and_its_node_does_not_grant_is_no_request(
    spec: Object, status: Object, gib: int
) -> None:
    """An author may change it in place, and pods within their requests are evicted last."""
    assert facts(spec=spec, status=status).requests == gib * GIB


@pytest.mark.parametrize(
    ("text", "cost"), [("-10", -10), ("+7", 7), ("1e9", 0), ("", 0), ("9" * 5000, 0), ("٣", 0)]
)
def test_the_deletion_cost_is_read_and_no_text_is_an_error(text: str, cost: int) -> None:
    found = facts(metadata={"annotations": {"controller.kubernetes.io/pod-deletion-cost": text}})
    assert found.deletion_cost == cost


@pytest.mark.parametrize(
    ("annotations", "owner", "policy", "asks"),
    [
        ({}, "ReplicaSet", "Always", False),
        ({"karpenter.sh/do-not-disrupt": "true"}, "ReplicaSet", "Always", True),
        ({"karpenter.sh/do-not-disrupt": "false"}, "ReplicaSet", "Always", False),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}, "ReplicaSet", "Always", True),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, "ReplicaSet", "Always", False),
        ({}, "Job", "Never", True),
        ({}, "Job", "OnFailure", False),
        ({}, "ReplicaSet", "Never", False),
    ],
)
def test_which_pods_ask_to_stay(annotations: Object, owner: str, policy: str, asks: bool) -> None:
    owners = [{"kind": owner, "name": "it", "controller": True}]
    metadata = {"annotations": annotations, "ownerReferences": owners}
    assert facts(metadata=metadata, spec={"restartPolicy": policy}).asks_to_stay is asks


@pytest.mark.parametrize(
    "item",
    [
        a_pod_object(spec={"nodeName": "w2"}),
        a_pod_object(metadata={"uid": ""}),
        a_pod_object(metadata={"name": 7}),
        a_pod_object(spec={"containers": "all"}),
        a_pod_object(spec={"volumes": "all"}),
        a_pod_object(spec={"schedulingGroup": "all"}),
        a_pod_object(metadata={"finalizers": "all"}),
        {},
        None,
    ],
)
def test_a_list_with_a_pod_that_cannot_be_read_is_no_list(item: Any) -> None:
    """It could be the pod that is looked for."""
    with pytest.raises(StreamGarbled):
        read(a_pod_object(), item)


def test_half_a_list_is_no_list() -> None:
    with pytest.raises(StreamGarbled, match="half a list"):
        listed(a_list(**{"continue": "more"}))


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"kind":"PodList"}', b"\xff", b"[" * 100_000])
def test_what_is_no_list_is_none(body: bytes) -> None:
    with pytest.raises(StreamGarbled):
        listed(body)
    with pytest.raises(StreamGarbled):
        BUDGETS.decode(body)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "metadata",
                        "spec",
                        "containers",
                        "resources",
                        "requests",
                        "memory",
                        "selector",
                        "status",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
def test_no_answer_is_an_error_of_another_kind(item: Any) -> None:
    with contextlib.suppress(StreamGarbled):
        read(item)
    with contextlib.suppress(StreamGarbled):
        BUDGETS.decode(a_list(item, kind="PodDisruptionBudgetList", version="policy/v1"))


async def test_the_list_is_that_of_one_node_and_comes_in_time() -> None:
    asked: list[Request] = []

    async def answer(request: Request) -> bytes:
        asked.append(request)
        return a_list(a_pod_object())

    [pod] = (await PodLister(answer).list_node("w1", for_eviction=True)).pods
    assert pod.uid == "uid-web-0"
    query = parse_qs(urlsplit(asked[0].path).query)
    assert query == {"fieldSelector": ["spec.nodeName=w1,status.phase!=Succeeded,status.phase!=Failed"]}


async def test_an_answer_that_does_not_come_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("winpool.kube.pods.ANSWER_SECONDS", 0.0)

    async def never(request: Request) -> bytes:
        raise TimeoutError

    with pytest.raises(Unavailable, match="no answer within"):
        await PodLister(never).list_node("w1", for_eviction=True)


# Budgets.


def a_budget(name: str = "web", *, allowed: int = 1, **spec: Any) -> Object:
    return {
        "metadata": {"namespace": "shop", "name": name, "generation": 2},
        "spec": {"selector": {"matchLabels": {"app": "web"}}} | spec,
        "status": {"observedGeneration": 2, "disruptionsAllowed": allowed},
    }


def budgets(*items: Object) -> tuple[Budget, ...]:
    return BUDGETS.decode(a_list(*items, kind="PodDisruptionBudgetList", version="policy/v1")).items


def is_blocked(*items: Object, pod: Pod | None = None) -> bool:
    return BudgetIndex(budgets(*items)).block_of(pod or one()) is not None


def expressions(*each: Object) -> Object:
    return {"matchExpressions": list(each)}


def test_a_budget_that_permits_no_eviction_blocks_its_pods_alone() -> None:
    assert is_blocked(a_budget(allowed=0))
    assert not is_blocked(a_budget(allowed=1))
    assert not is_blocked(a_budget(allowed=0), pod=Pod("shop", "db", "w1", labels={"app": "db"}))
    assert not is_blocked(a_budget(allowed=0), pod=Pod("other", "web", "w1", labels={"app": "web"}))


def test_two_budgets_block_a_pod_whatever_they_permit() -> None:
    assert is_blocked(a_budget("one"), a_budget("two"))


def test_a_budget_whose_status_is_old_permits_nothing() -> None:
    assert is_blocked(a_budget() | {"metadata": {"namespace": "shop", "name": "web", "generation": 3}})
    assert is_blocked(a_budget() | {"status": None})


@pytest.mark.parametrize(
    ("policy", "current", "desired", "expected"),
    [
        ("AlwaysAllow", 0, 3, True),
        ("AlwaysAllow", 0, 0, True),
        ("IfHealthyBudget", 2, 3, False),
        ("IfHealthyBudget", 3, 3, True),
        ("IfHealthyBudget", 0, 0, False),
        (None, 4, 3, True),
        (None, 2, 3, False),
        ("Unheard", 2, 3, False),
    ],
)
def test_whether_a_budget_lets_pods_go_that_are_not_ready_is_that_of_kubernetes(
    policy: str | None, current: int, desired: int, expected: bool
) -> None:
    """https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy."""
    told = a_budget(allowed=0, unhealthyPodEvictionPolicy=policy)
    told["status"] |= {"currentHealthy": current, "desiredHealthy": desired}
    [found] = budgets(told)
    assert found.lets_unready_go is expected
    unready = Pod("shop", "web", "w1", labels={"app": "web"})
    assert is_blocked(told, pod=unready) is not expected
    assert is_blocked(told, pod=structs.replace(unready, is_ready=True))


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, BudgetHealth(2, 1, 3, is_current=True)),
        ({"observedGeneration": 1}, BudgetHealth(2, 1, 3, is_current=False)),
        ({"disruptedPods": {}}, BudgetHealth(2, 1, 3, is_current=True)),
        (
            {"disruptedPods": {"web-1": "2026-11-01T12:00:00Z"}},
            BudgetHealth(2, 1, 3, is_current=True, is_settled=False),
        ),
        (
            {"conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]},
            BudgetHealth(2, 1, 3, is_current=True, is_failing=True),
        ),
        (
            {"conditions": [{"type": "DisruptionAllowed", "reason": "InsufficientPods"}]},
            BudgetHealth(2, 1, 3, is_current=True),
        ),
    ],
)
def test_what_distinguishes_never_from_not_now_is_read(status: Object, expected: BudgetHealth) -> None:
    given = a_budget()
    given["status"] |= {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 3} | status
    [found] = budgets(given)
    assert found.health == expected


def test_the_room_of_a_pod_is_that_of_the_budgets_that_the_api_server_asks() -> None:
    index = BudgetIndex(budgets(a_budget("web", allowed=2), a_budget("all", selector={})))
    rooms = index.rooms_of(one())
    assert [(each.name, each.allowed) for each in rooms] == [("shop/all", 1), ("shop/web", 2)]
    assert index.rooms_of(structs.replace(one(), is_pending=True)) == ()
    assert index.rooms_of(Pod("other", "web", "w1", labels={"app": "web"})) == ()


def test_a_budget_without_a_status_lets_pods_go_that_are_not_ready_only_where_its_spec_says_so() -> None:
    always = a_budget(unhealthyPodEvictionPolicy="AlwaysAllow") | {"status": None}
    [first], [second] = budgets(always), budgets(a_budget() | {"status": None})
    assert (first.lets_unready_go, second.lets_unready_go) == (True, False)


@pytest.mark.parametrize(
    ("selector", "is_about"),
    [
        ({}, True),
        (None, False),
        ({"matchLabels": {"app": "web", "tier": "x"}}, False),
        (expressions({"key": "app", "operator": "In", "values": ["a", "web"]}), True),
        (expressions({"key": "app", "operator": "NotIn", "values": ["web"]}), False),
        (expressions({"key": "tier", "operator": "NotIn", "values": ["web"]}), True),
        (expressions({"key": "app", "operator": "Exists"}), True),
        (expressions({"key": "app", "operator": "DoesNotExist"}), False),
        (expressions({"key": "app", "operator": "Resembles"}), True),
    ],
)
def test_the_selector_of_a_budget_is_that_of_kubernetes(selector: Object | None, is_about: bool) -> None:
    assert is_blocked(a_budget(allowed=0, selector=selector)) is is_about


@pytest.mark.slow
def test_in_a_namespace_with_too_many_budgets_to_compare_no_pod_is_evicted_and_in_others_they_are() -> None:
    """Anyone who may create budgets in a namespace could otherwise keep the operator busy for minutes."""
    pods = [Pod("shop", "web", "w1"), Pod("other", "web", "w1")]
    few = [Budget("shop", f"b{number}", labels={"app": "x"}) for number in range(MOST_TERMS // 2)]
    more = [*few, Budget("shop", "one-more")]
    met = tuple(Requirement(f"key-{number}", "DoesNotExist") for number in range(MOST_TERMS))
    for found, expected in (
        (few, [False, False]),
        (more, [True, False]),
        ([Budget("other", "x", requirements=met)], [False, True]),
    ):
        index = BudgetIndex(found)
        assert [index.block_of(pod) is not None for pod in pods] == expected


def stuffed(name: str, namespace: str = "shop") -> Object:
    """Return a budget as large as the API server accepts."""
    values = [f"{number:04x}" for number in range(160_000)]
    selector = expressions({"key": "app", "operator": "NotIn", "values": values})
    return a_budget(name, selector=selector) | {"metadata": {"namespace": namespace, "name": name}}


@pytest.mark.slow
def test_of_a_budget_with_a_huge_selector_nothing_is_kept_and_no_pod_of_its_namespace_is_evicted() -> None:
    body = a_list(
        *[stuffed(f"b{number}") for number in range(2)],
        kind="PodDisruptionBudgetList",
        version="policy/v1",
    )
    tracemalloc.start()
    try:
        found = BUDGETS.decode(body).items
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 16_384
    index = BudgetIndex(found)
    blocked = [index.block_of(Pod(namespace, "web", "w1")) for namespace in ("shop", "other")]
    assert [each and each.why for each in blocked] == [BlockedBy.UNREADABLE, None]


async def test_of_a_namespace_with_too_many_budgets_only_that_is_kept_and_others_are_read() -> None:
    """Each as large as one may be, on pages of 20."""
    values = [f"{number:04x}" for number in range(LARGEST // (4 + OF_EACH) - 8)]
    selector = expressions({"key": "app", "operator": "NotIn", "values": values})
    most = MOST_OF_NAMESPACE // LARGEST + 20
    hostile = [a_budget(f"b{number:03}", selector=selector) for number in range(most)]
    good = a_budget("good", allowed=0) | {"metadata": {"namespace": "good", "name": "good"}}
    pages = [[*hostile[:40], good], hostile[40:]]

    async def answer(request: Request) -> bytes:
        token = parse_qs(urlsplit(request.path).query).get("continue", ["0"])[0]
        more = {"continue": "1"} if token == "0" else {}
        return a_list(*pages[int(token)], kind="PodDisruptionBudgetList", version="policy/v1", **more)

    found = await BudgetLister(answer).list()
    assert sorted((each.namespace, each.is_too_large) for each in found) == [("good", False), ("shop", True)]
    index = BudgetIndex(found)
    assert index.block_of(Pod("good", "web", "w1", labels={"app": "web"})) is not None
    assert index.block_of(Pod("good", "web", "w1", labels={"app": "db"})) is None


async def test_where_all_budgets_together_are_too_many_those_with_the_most_are_left_out() -> None:
    """Whoever may fill some namespaces has no pods of others blocked."""
    values = [f"{number:04x}" for number in range(LARGEST // (4 + OF_EACH) - 8)]
    selector = expressions({"key": "app", "operator": "NotIn", "values": values})
    most = MOST_OF_NAMESPACE // LARGEST - 8
    hostile = [
        a_budget(f"b{number}", selector=selector)
        | {"metadata": {"namespace": f"n{place}", "name": f"b{number}"}}
        for place in range(MOST_OF_ALL // MOST_OF_NAMESPACE + 2)
        for number in range(most)
    ]
    good = a_budget("good", allowed=0) | {"metadata": {"namespace": "good", "name": "good"}}

    async def answer(request: Request) -> bytes:
        return a_list(*hostile, good, kind="PodDisruptionBudgetList", version="policy/v1")

    found = await BudgetLister(answer).list()
    assert [each.is_too_large for each in found if each.namespace == "good"] == [False]
    assert {each.namespace for each in found if each.is_too_large} < {f"n{place}" for place in range(99)}


def test_the_issue_of_budgets_that_are_not_read_has_the_limits() -> None:
    choice = Choice(None, None, Basis.COMMIT, "", {}, frozenset({"shop"}))
    [found] = eviction_findings(
        [Step(a_node("w1"), EvictionState.BLOCKED, None, choice=choice)], KnownEvictions()
    )
    for limit in (
        f"One may take {LARGEST // 1024} KiB",
        f"of a namespace {MOST_OF_NAMESPACE // 1024**2} MiB",
        f"all together {MOST_OF_ALL // 1024**2} MiB",
        f"{MOST_TERMS:,} labels and requirements",
        f"{MOST_COMPARED:,} steps",
    ):
        assert limit in found.message


def test_of_a_pod_with_huge_labels_nothing_is_kept() -> None:
    labels = {f"key-{number}": "x" * 60 for number in range(1000)}
    page = decode_pod_page(a_list(a_pod_object(metadata={"labels": labels})), for_eviction=True)
    assert page.pods == ()
    [lost] = page.unreadable
    assert (lost.node, "its labels take more than 16384 bytes" in lost.problem) == ("w1", True)
    few = {f"key-{number}": "x" for number in range(100)}
    assert read(a_pod_object(metadata={"labels": few}))[0].labels.items() >= few.items()


def test_one_budget_that_cannot_be_read_makes_the_list_none() -> None:
    with pytest.raises(StreamGarbled):
        budgets(a_budget(), {"metadata": {"name": "no-namespace"}})


async def test_the_budgets_of_all_pages_are_listed() -> None:
    pages = [
        a_list(a_budget(), kind="PodDisruptionBudgetList", version="policy/v1", **{"continue": "t"}),
        a_list(
            a_budget() | {"metadata": {"namespace": "other", "name": "x"}},
            a_budget("second"),
            kind="PodDisruptionBudgetList",
            version="policy/v1",
        ),
    ]

    async def answer(request: Request) -> bytes:
        return pages.pop(0)

    assert {each.name for each in await BudgetLister(answer).list()} == {"web", "x", "second"}


@in_virtual_time
async def test_a_list_of_budgets_whose_pages_trickle_in_ends_in_time() -> None:
    number = iter(range(1000))

    async def answer(request: Request) -> bytes:
        await asyncio.sleep(5)
        token = {"continue": f"page-{next(number)}"}
        return a_list(a_budget(), kind="PodDisruptionBudgetList", version="policy/v1", **token)

    began = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable, match="not all of them within 15 s"):
        await BudgetLister(answer).list()
    assert asyncio.get_running_loop().time() - began == LIST_SECONDS
