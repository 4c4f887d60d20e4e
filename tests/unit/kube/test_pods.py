"""Pods are read from whatever comes, and nothing unreadable ever reads as an absence."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.every import every
from winpool.kube.errors import StreamGarbled
from winpool.kube.pods import PROBLEM_LENGTH, decode_pod_page
from winpool.model.pods import Pod, Toleration

Object = dict[str, Any]

CONTAINERD = (
    'Back-off pulling image "registry.example/app:1": ErrImagePull: rpc error: code = NotFound desc = failed'
    ' to pull and unpack image "registry.example/app:1": no match for platform in manifest: not found'
)


def a_pod_object(name: str = "cni-x7k2p", /, **status: Any) -> Object:
    return {
        "metadata": {
            "namespace": "kube-system",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {"app": "cni"},
            "annotations": {"kubernetes.io/config.hash": "x", "note": "y"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": "not-the-controller", "uid": "1"},
                {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cni", "uid": "2", "controller": True},
            ],
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {
            "nodeName": "w1",
            "os": {"name": "windows"},
            "priority": 2000001000,
            "priorityClassName": "system-node-critical",
            "containers": [{"name": "main", "image": "registry.example/cni:1"}],
            "tolerations": [
                {"operator": "Exists"},
                {"key": "os", "value": "windows", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
        "status": {
            "phase": "Running",
            "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}],
            "containerStatuses": [{"name": "main", "ready": True, "state": {"running": {"startedAt": "x"}}}],
            **status,
        },
    }


CNI = Pod(
    namespace="kube-system",
    name="cni-x7k2p",
    node="w1",
    uid="uid-cni-x7k2p",
    os="windows",
    controller_kind="DaemonSet",
    controller="cni",
    labels={"app": "cni"},
    tolerations=(Toleration(operator="Exists"), Toleration("os", "", "windows", "NoExecute", 300)),
    is_critical=True,
    is_ready=True,
)
BARE = {"metadata": {"namespace": "shop", "name": "web"}, "spec": {"nodeName": "w1"}}


def page(*items: Any, kind: str = "PodList", **metadata: str) -> bytes:
    listed = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "9", **metadata}}
    return json.dumps({**listed, "items": items}).encode()


def read(item: Any) -> Pod:
    found = decode_pod_page(page(item))
    assert found.unreadable == ()
    return found.pods[0]


def waiting(reason: str, message: str | None) -> Object:
    return {"name": "main", "ready": False, "state": {"waiting": {"reason": reason, "message": message}}}


def test_a_pod_is_read_to_the_wanted_fields() -> None:
    assert read(a_pod_object()) == CNI


def test_a_bare_pod_has_defaults() -> None:
    assert read(BARE) == Pod("shop", "web", "w1")


def test_nulls_read_like_absences() -> None:
    nulls = {
        "metadata": {
            **BARE["metadata"], "labels": None, "annotations": None, "ownerReferences": None,
            "deletionTimestamp": None,
        },
        "spec": {"nodeName": "w1", "os": None, "priorityClassName": None, "tolerations": None},
        "status": {
            "phase": None, "reason": None, "message": None, "conditions": None, "containerStatuses": None,
            "initContainerStatuses": None,
        },
    }  # fmt: skip
    assert read(nulls) == Pod("shop", "web", "w1")
    assert read({**BARE, "status": None}) == Pod("shop", "web", "w1")
    toleration = dict.fromkeys(("key", "operator", "value", "effect", "tolerationSeconds"))
    assert read({**BARE, "spec": {"nodeName": "w1", "tolerations": [toleration]}}).tolerations == (
        Toleration(),
    )


def test_an_owner_that_is_not_the_controller_manages_nothing() -> None:
    owned = a_pod_object()
    del owned["metadata"]["ownerReferences"][1]["controller"]
    pod = read(owned)
    assert (pod.controller_kind, pod.controller) == ("", "")


@pytest.mark.parametrize(
    ("priority_class", "expected"),
    [("system-node-critical", True), ("system-cluster-critical", True), ("high", False), (None, False)],
)
def test_which_pods_are_critical(priority_class: str | None, expected: bool) -> None:
    spec = {"nodeName": "w1", "priorityClassName": priority_class}
    assert read({**BARE, "spec": spec}).is_critical is expected


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_finished(phase: str) -> None:
    assert read(a_pod_object(phase=phase)).is_finished


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_a_pod_that_has_not_ended_is_not(phase: str) -> None:
    assert not read(a_pod_object(phase=phase)).is_finished


@pytest.mark.parametrize("status", ["False", "Unknown", ""])
def test_only_true_is_ready(status: str) -> None:
    assert not read(a_pod_object(conditions=[{"type": "Ready", "status": status}])).is_ready


def test_a_pod_on_its_way_out_and_one_of_a_static_pod_say_so() -> None:
    going = a_pod_object()
    going["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
    assert read(going).is_terminating
    mirror = a_pod_object()
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = ""
    assert read(mirror).is_mirror


@pytest.mark.parametrize("reason", ["PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch"])
def test_a_pod_that_its_kubelet_refused_for_its_operating_system(reason: str) -> None:
    assert read(a_pod_object(phase="Failed", reason=reason)).platform_problem == reason
    told = read(a_pod_object(phase="Failed", reason=reason, message="the OS field\n  does not match"))
    assert told.platform_problem == f"{reason}: the OS field does not match"


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Failed", "reason": "Evicted", "message": "no match for platform in manifest"},
        {"phase": "Running", "reason": "PodOSNotSupported"},
        {"phase": "Failed", "containerStatuses": [waiting("ErrImagePull", CONTAINERD)]},
        {"containerStatuses": [waiting("ErrImagePull", "connection refused")]},
        {"containerStatuses": [waiting("ErrImagePull", None)]},
        {"containerStatuses": [waiting("CrashLoopBackOff", "no match for platform in manifest")]},
        {"containerStatuses": [{"name": "main", "state": {}}, {"name": "other"}]},
    ],
    ids=["evicted", "running", "ended", "another error", "no message", "crashing", "no state"],
)
def test_everything_else_is_no_evidence_for_another_platform(status: Object) -> None:
    assert read(a_pod_object(**status)).platform_problem == ""


@pytest.mark.parametrize("field", ["containerStatuses", "initContainerStatuses"])
@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff", "CreateContainerError"])
def test_an_image_that_is_not_there_for_the_platform(field: str, reason: str) -> None:
    others = [{"name": "other", "state": {"running": {}}}, waiting("ContainerCreating", None)]
    pod = read(a_pod_object(phase="Pending", **{field: [*others, waiting(reason, CONTAINERD)]}))
    assert pod.platform_problem == "its image: no match for platform in manifest: not found"


MISMATCH = "The container operating system does not match the host operating system."
BY_CONTAINERD = f"failed to create shim task: hcs::CreateComputeSystem app: {MISMATCH}: unknown"
IN_GERMAN = "hcs::CreateComputeSystem app: Die Betriebssysteme stimmen nicht überein. (0xC0370101)"
BY_DOCKER = (
    "container app encountered an error during CreateContainer: failure in a Windows system call: "
    "The operating system of the container does not match the operating system of the host. (0xc0370101)"
)


@every(
    ("message", "problem"),
    [
        (BY_CONTAINERD, "its image is for another build of Windows"),
        (IN_GERMAN, "its image is for another build of Windows (0xc0370101)"),
        (BY_DOCKER, "its image is for another build of Windows (0xc0370101)"),
        (BY_DOCKER.removesuffix(" (0xc0370101)"), "its image is for another build of Windows"),
        (
            "a Windows version 10.0.26100-based image is incompatible with a 10.0.20348 host",
            "its image: a Windows version 10.0.26100-based image is incompatible with a 10.0.20348 host",
        ),
        ("hcs::CreateComputeSystem app: The virtual machine could not be started. (0xc0370102)", ""),
    ],
)
def test_an_image_for_another_build_shows_wherever_the_kubelet_reports_it(message: str, problem: str) -> None:
    """While it waits to be started again, the container has only the message of the back-off."""
    failed = {"terminated": {"reason": "StartError", "message": message, "exitCode": 128}}
    backing_off = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting"}}
    for status in (
        waiting("RunContainerError", message),
        {"name": "main", "state": failed},
        {"name": "main", "state": backing_off, "lastState": failed},
        {
            "name": "main",
            "state": backing_off,
            "lastState": {"terminated": {"reason": "ContainerCannotRun", "message": message}},
        },
    ):
        assert read(a_pod_object(containerStatuses=[status])).platform_problem == problem
    ended = {"terminated": {"reason": "Error", "message": message}}
    assert read(a_pod_object(containerStatuses=[{"name": "main", "state": ended}])).platform_problem == ""


def test_what_a_kubelet_says_is_cut_to_what_matters() -> None:
    sentence = "no matching manifest for windows(10.0.20348)/amd64 in the manifest list entries"
    problem = read(
        a_pod_object(containerStatuses=[waiting("ErrImagePull", f"{'x' * 5000} {sentence}{' y' * 5000}")])
    ).platform_problem
    assert problem.startswith(f"its image: {sentence} y y")
    assert len(problem) <= PROBLEM_LENGTH + len("its image: ")


def test_the_same_tolerations_are_made_once() -> None:
    first, second = decode_pod_page(page(a_pod_object("a"), a_pod_object("b"))).pods
    assert first.tolerations is second.tolerations


@pytest.mark.parametrize("count", [1, 32, 33, 200])
def test_any_number_of_tolerations_is_read(count: int) -> None:
    tolerations = [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]
    pod = read({**BARE, "spec": {"nodeName": "w1", "tolerations": tolerations}})
    assert pod.tolerations == tuple(Toleration(f"k{number}", "Exists") for number in range(count))


WRONG: list[Object] = [
    {"metadata": {"namespace": "a", "name": "b", "labels": {"a": 5}}, "spec": {"nodeName": "w1"}},
    {"metadata": {"namespace": "a", "name": 5}, "spec": {"nodeName": "w1"}},
    {"metadata": None, "spec": {"nodeName": "w1"}},
    {"spec": {"nodeName": "w1"}},
    {"metadata": {"namespace": "a"}, "spec": {"nodeName": "w1"}},
    {"metadata": {"name": "b"}, "spec": {"nodeName": "w1"}},
    {**BARE, "spec": {"nodeName": "w1", "tolerations": "all"}},
    {**BARE, "spec": {"nodeName": "w1", "tolerations": [{"tolerationSeconds": 1.5}]}},
    {**BARE, "spec": {"nodeName": "w1", "os": "linux"}},
    {**BARE, "status": "Running"},
    {**BARE, "status": {"conditions": [7]}},
]


@every("wrong", WRONG)
def test_a_pod_that_cannot_be_read_hides_no_other_and_its_node_is_told(wrong: Object) -> None:
    found = decode_pod_page(page(a_pod_object("a"), wrong, a_pod_object("b")))
    assert [pod.name for pod in found.pods] == ["a", "b"]
    assert [lost.node for lost in found.unreadable] == ["w1"]
    assert "a pod on node w1: " in str(found.unreadable[0])


@every(
    "wrong",
    [
        7,
        None,
        "web",
        [],
        {},
        {"metadata": {"namespace": "a", "name": "b"}},
        {**BARE, "spec": {}},
        {**BARE, "spec": {"nodeName": None}},
        {**BARE, "spec": {"nodeName": ""}},
        {**BARE, "spec": {"nodeName": ["w1"]}},
        {"spec": {"nodeName": "x" * 254}},
    ],
)
def test_a_pod_of_which_the_node_cannot_be_read_is_told_as_such(wrong: Any) -> None:
    found = decode_pod_page(page(a_pod_object(), wrong))
    assert found.pods == (CNI,)
    assert [lost.node for lost in found.unreadable] == [""]
    assert "a pod on an unknown node: " in str(found.unreadable[0])


GARBAGE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"{}",
    b"<html>502</html>",
    b'{"kind":"PodList","apiVersion":"v1"}',
    b'{"kind":"PodList","apiVersion":"v1","items":[]}',
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"}}',
    b'{"kind":"PodList","apiVersion":"v2","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"PodList","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[]}',
    b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}',
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":9},"items":[]}',
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":{}}',
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9","continue":5},"items":[]}',
    b'{"kind":"Status","status":"Failure","code":500}',
    b"[" * 100_000,
    b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":' + b"[" * 100_000,
    page(a_pod_object())[:-40],
    page(a_pod_object()) + b"}",
]


@every("body", GARBAGE)
def test_garbage_says_nothing_at_all(body: bytes) -> None:
    with pytest.raises(StreamGarbled, match=r"^list pods: "):
        decode_pod_page(body)


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    with pytest.raises(StreamGarbled):
        decode_pod_page(data)


WHOLE = page(a_pod_object("a"), a_pod_object("b"), **{"continue": "token"})


@given(st.integers(0, len(WHOLE) - 1), st.binary(max_size=4))
def test_bytes_that_were_changed_on_the_way_are_read_or_garbled(place: int, other: bytes) -> None:
    with contextlib.suppress(StreamGarbled):
        decode_pod_page(WHOLE[:place] + other + WHOLE[place + len(other) :])


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [(part, field) for part, fields in a_pod_object().items() for field in fields] + [
    ("metadata", "deletionTimestamp"),
    ("status", "initContainerStatuses"),
    ("status", "reason"),
]


@given(st.sampled_from(FIELDS), JSON)
def test_any_field_may_be_anything(place: tuple[str, str], value: Any) -> None:
    """Whatever one field holds, the pod is read or told of, never garbled and never silently gone."""
    strange = a_pod_object()
    part, field = place
    strange[part][field] = value
    found = decode_pod_page(page(strange))
    assert len(found.pods) + len(found.unreadable) == 1


def test_a_page_tells_of_which_moment_it_is_and_where_it_goes_on() -> None:
    found = decode_pod_page(page(a_pod_object(), **{"continue": "token"}))
    assert (found.resource_version, found.continue_token) == ("9", "token")
    assert decode_pod_page(page()).pods == ()
    assert (
        decode_pod_page(
            b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":null}'
        ).pods
        == ()
    )
