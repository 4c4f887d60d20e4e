"""What is read of pods on nodes that may be upgraded: as the scheduler counts, and bounded whatever comes."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from winpool.api.keys import WINDOWS_BUILD_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.quantity import GIB, MIB
from winpool.kube.pods import TEXT_KEPT, TOLERATIONS_KEPT, decode_pod_page
from winpool.model.pods import MOST_GRACE_SECONDS, Pod, PodShape, PodWork, Requests, Toleration, Unclear

Object = dict[str, Any]

EVERYWHERE = ("w1", "w2")


def a_pod_object(
    name: str = "web-1", *, node: str = "w1", annotation: str | None = None, **spec: Any
) -> Object:
    annotations = {} if annotation is None else {"annotations": {WINDOWS_BUILD_ANNOTATION: annotation}}
    return {
        "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"}, **annotations},
        "spec": {"nodeName": node, "containers": [requesting()], **spec},
        "status": {"phase": "Running"},
    }


def requesting(cpu: str = "250m", memory: str = "1Gi", **more: Any) -> Object:
    return {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}, **more}


def page(*items: Any) -> bytes:
    listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    return json.dumps({**listed, "items": items}).encode()


def read(item: Object) -> Pod:
    found = decode_pod_page(page(item), with_work=EVERYWHERE)
    assert found.unreadable == ()
    return found.pods[0]


def work(annotation: str | None = None, **spec: Any) -> PodWork:
    found = read(a_pod_object(annotation=annotation, **spec)).work
    assert found is not None
    return found


def affinity(*terms: Object) -> Object:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {"nodeAffinity": {required: {"nodeSelectorTerms": list(terms)}}}


def label_in(key: str, *values: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def test_a_plain_pod_is_read() -> None:
    tolerations = [{"key": "os", "operator": "Exists"}]
    found = work(
        nodeSelector={"disk": "ssd", "a": "b"},
        tolerations=tolerations,
        schedulerName="default-scheduler",
        runtimeClassName="windows-2022",
    )
    assert found == PodWork(
        PodShape(
            Requests(250, GIB, 1),
            selector=(("a", "b"), ("disk", "ssd")),
            tolerations=(Toleration("os", "Exists"),),
        ),
        runtime_class="windows-2022",
    )


def test_only_pods_on_the_nodes_that_are_asked_for_are_read_so_far() -> None:
    items = [a_pod_object("a", node="w1"), a_pod_object("b", node="w9")]
    assert [pod.work is not None for pod in decode_pod_page(page(*items), with_work=["w1"]).pods] == [
        True,
        False,
    ]
    assert [pod.work for pod in decode_pod_page(page(*items)).pods] == [None, None]


def test_what_is_read_of_every_pod_is_the_same_with_and_without_it() -> None:
    item = a_pod_object(
        nodeSelector={"a": "b"}, tolerations=[{"operator": "Exists"}], priorityClassName="high"
    )
    with_it, without = read(item), decode_pod_page(page(item)).pods[0]
    assert with_it.work is not None
    assert (with_it.full_name, with_it.tolerations, with_it.labels) == (
        without.full_name,
        without.tolerations,
        without.labels,
    )


@pytest.mark.parametrize(("phase", "is_pending"), [("Pending", True), ("Running", False), (None, False)])
def test_a_pod_that_has_not_started_is_pending(phase: str | None, is_pending: bool) -> None:
    assert read(a_pod_object() | {"status": {"phase": phase}}).is_pending is is_pending


# Requests


@every(
    ("spec", "cpu", "memory"),
    [
        ({"containers": []}, 0, 0),
        ({"containers": [{"name": "main"}]}, 0, 0),
        ({"containers": [{"name": "main", "resources": {"limits": {"cpu": "4"}}}]}, 0, 0),
        ({"containers": [requesting("1", "1Gi"), requesting("500m", "512Mi")]}, 1500, GIB + 512 * MIB),
        ({"containers": [requesting("1u", "1m")]}, 1, 1),
        ({"containers": [requesting("-1", "-1")]}, 0, 0),
        ({"initContainers": [requesting("100m", "3Gi")]}, 250, 3 * GIB),
        ({"initContainers": [requesting("2", "1Mi"), requesting("1", "2Gi")]}, 2000, 2 * GIB),
        (
            {"initContainers": [requesting("1", "1Gi", restartPolicy="Always")]},
            1250,
            2 * GIB,
        ),
        (
            # The sidecar runs while the second init container does, and goes on beside the containers.
            {"initContainers": [requesting("1", "1Gi", restartPolicy="Always"), requesting("2", "4Gi")]},
            3000,
            5 * GIB,
        ),
        (
            # The init container is over before the sidecar begins.
            {"initContainers": [requesting("2", "4Gi"), requesting("1", "1Gi", restartPolicy="Always")]},
            2000,
            4 * GIB,
        ),
        ({"overhead": {"cpu": "50m", "memory": "64Mi"}}, 300, GIB + 64 * MIB),
        ({"resources": {"requests": {"cpu": "3"}}}, 3000, GIB),
        (
            {"resources": {"requests": {"cpu": "3", "memory": "1Mi"}}, "overhead": {"memory": "1Mi"}},
            3000,
            2 * MIB,
        ),
    ],
)
def test_requests_are_what_the_scheduler_counts(spec: Object, cpu: int, memory: int) -> None:
    assert work(**spec).shape == PodShape(Requests(cpu, memory, 1))


# Which nodes would take it


@every(
    ("spec", "unclear"),
    [
        ({}, ""),
        ({"affinity": {}}, ""),
        ({"affinity": affinity(label_in("zone", "a"))}, ""),
        ({"affinity": affinity(label_in("zone", "a", "b"))}, Unclear.NODE_AFFINITY),
        ({"affinity": affinity(label_in("zone", "a"), label_in("zone", "b"))}, Unclear.NODE_AFFINITY),
        ({"affinity": affinity()}, Unclear.NODE_AFFINITY),
        (
            {"affinity": affinity({"matchExpressions": [{"key": "zone", "operator": "Exists"}]})},
            Unclear.NODE_AFFINITY,
        ),
        (
            {"affinity": affinity(label_in("zone", "a") | {"matchFields": [{"key": "metadata.name"}]})},
            Unclear.NODE_AFFINITY,
        ),
        ({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, ""),
        (
            {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            Unclear.POD_AFFINITY,
        ),
        (
            {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]}}},
            Unclear.POD_AFFINITY,
        ),
        ({"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, ""),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, Unclear.SPREAD),
        ({"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, ""),
        ({"volumes": [{"name": "a", "configMap": {}}, {"name": "b", "hostPath": {"path": "C:\\"}}]}, ""),
        ({"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "b"}}]}, Unclear.VOLUMES),
        ({"volumes": [{"name": "a", "ephemeral": {}}]}, Unclear.VOLUMES),
        ({"volumes": [{"name": "a", "unheardOf": {}}]}, Unclear.VOLUMES),
        (
            {"containers": [{"resources": {"requests": {"microsoft.com/directx": "1"}}}]},
            Unclear.RESOURCES,
        ),
        ({"containers": [{"resources": {"requests": {"microsoft.com/directx": "0"}}}]}, ""),
        ({"resourceClaims": [{"name": "gpu"}]}, Unclear.CLAIMS),
        ({"containers": [{"ports": [{"containerPort": 80}]}]}, ""),
        ({"containers": [{"ports": [{"containerPort": 80, "hostPort": 80}]}]}, Unclear.HOST_PORTS),
        ({"schedulerName": "mine"}, Unclear.SCHEDULER),
    ],
)
def test_what_decides_beside_requests_and_labels_is_named(spec: Object, unclear: str) -> None:
    assert work(**spec).shape.unclear == unclear


def test_labels_that_affinity_requires_count_as_those_of_the_selector() -> None:
    term = {
        "matchExpressions": [*label_in("zone", "a")["matchExpressions"], {"key": "x", "operator": "Exists"}]
    }
    found = work(nodeSelector={"disk": "ssd"}, affinity=affinity(term))
    assert found.shape.selector == (("disk", "ssd"), ("zone", "a"))
    assert found.shape.unclear == Unclear.NODE_AFFINITY, "of the rest only that it is there is known"


def test_of_several_terms_none_is_required() -> None:
    found = work(affinity=affinity(label_in("zone", "a"), label_in("zone", "b")))
    assert found.shape.selector == ()


# The Windows that it is made for


@every(
    ("annotation", "spec", "build", "is_bound"),
    [
        (None, {}, "", False),
        ("10.0.17763", {}, "10.0.17763", False),
        ("10.0.17763.1234", {}, "10.0.17763", False),
        ("2019", {}, "", False),
        ("", {}, "", False),
        ("10.0." + "1" * 100_000, {}, "", False),
        (None, {"nodeSelector": {WINDOWS_BUILD_LABEL: "10.0.20348"}}, "10.0.20348", True),
        ("10.0.17763", {"nodeSelector": {WINDOWS_BUILD_LABEL: "10.0.20348"}}, "10.0.20348", True),
        (None, {"affinity": affinity(label_in(WINDOWS_BUILD_LABEL, "10.0.20348"))}, "10.0.20348", True),
        (None, {"affinity": affinity(label_in(WINDOWS_BUILD_LABEL, "10.0.1", "10.0.2"))}, "", False),
    ],
)
def test_the_build_is_what_the_pod_declares(
    annotation: str | None, spec: Object, build: str, is_bound: bool
) -> None:
    found = work(annotation, **spec)
    assert (found.build, found.is_bound) == (build, is_bound)


# The rest


@pytest.mark.parametrize(
    ("seconds", "grace"),
    [
        (None, 30),
        (0, 0),
        (-5, 0),
        (7200, 7200),
        (2**63 - 1, MOST_GRACE_SECONDS),
        (10**30, MOST_GRACE_SECONDS),
    ],
)
def test_the_grace_is_one_that_can_be_reckoned_with(seconds: int | None, grace: int) -> None:
    assert work(terminationGracePeriodSeconds=seconds).grace_seconds == grace


def test_an_empty_dir_is_lost() -> None:
    assert work(volumes=[{"name": "tmp", "emptyDir": {}}]).is_local
    assert not work(volumes=[{"name": "emptyDir", "secret": {}}]).is_local


# Whatever comes


@every(
    "spec",
    [
        {"containers": "all"},
        {"containers": [7]},
        {"containers": [requesting(cpu="much")]},
        {"containers": [{"resources": {"requests": {"x": "y"}}}]},
        {"nodeSelector": {"a": 5}},
        {"volumes": {}},
        {"affinity": []},
        {"terminationGracePeriodSeconds": "long"},
        {"schedulerName": "s" * 600},
        {"overhead": {"cpu": True}},
    ],
)
def test_a_part_that_cannot_be_read_leaves_the_rest_of_the_pod(spec: Object) -> None:
    pod = read(a_pod_object(**spec))
    assert (pod.full_name, pod.work) == ("shop/web-1", None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
PARTS = (
    "nodeSelector", "affinity", "topologySpreadConstraints", "volumes", "containers", "initContainers",
    "resources", "overhead", "resourceClaims", "schedulerName", "terminationGracePeriodSeconds",
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(PARTS), JSON, min_size=1))
def test_any_part_may_be_anything(parts: Object) -> None:
    """Nothing of it makes a pod unreadable for those who do not ask for it."""
    item = a_pod_object(**parts)
    assert read(item).full_name == decode_pod_page(page(item)).pods[0].full_name


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {f"key-{number}": "x" * 63 for number in range(10_000)}},
        {"nodeSelector": {"a": "x" * 1_000_000}},
        {"tolerations": [{"key": "x" * 1_000_000}]},
        {"tolerations": [{"key": f"k{number}"} for number in range(TOLERATIONS_KEPT + 1)]},
        {"affinity": affinity(label_in("x" * 1_000_000, "a"))},
    ],
)
def test_of_what_is_too_long_nothing_is_kept_but_that_it_was(spec: Object) -> None:
    assert work(**spec).shape == PodShape(Requests(250, GIB, 1), unclear=Unclear.SIZE)


def test_what_is_as_long_as_it_may_be_is_kept() -> None:
    assert work(nodeSelector={"a": "x" * (TEXT_KEPT - 1)}).shape.unclear == ""
    assert work(nodeSelector={"a": "x" * TEXT_KEPT}).shape.unclear == Unclear.SIZE


def test_ten_thousand_containers_and_volumes_are_added_up_and_not_kept() -> None:
    containers = [requesting("1m", "1", ports=[{"containerPort": 80}] * 10)] * 10_000
    found = work(
        containers=containers, volumes=[{"name": f"v{number}", "secret": {}} for number in range(10_000)]
    )
    assert found.shape == PodShape(Requests(10_000, 10_000, 1))
    assert sys.getsizeof(found.shape.selector) + sys.getsizeof(found.build) < 200
