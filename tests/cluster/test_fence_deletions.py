"""The fence about deletions of pods, with the operator's own identity and more rights than it has.

Everything is a dry run: admission decides it like any other request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final

import pytest

from cluster.fence_ground import Ground, standing, standing_pods
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.fence import POD_FENCE
from winpool.api.keys import NAMESPACE
from winpool.kube.writer import deletion_request
from winpool.model.node import Deletion, Eviction

Object = dict[str, Any]

PODS: Final = "/api/v1/namespaces/{}/pods"
OWN: Final = 30
"""The grace period of a pod that names none."""

NAMES: Final = "a deletion of the operator names the UID and the resourceVersion of the pod"
GRACE: Final = (
    "a deletion of the operator gives the pod at least a second, and no more than its own grace period"
)
PLACE: Final = (
    f"the operator deletes no pod of {NAMESPACE}, and those of a namespace that begins with kube- or"
    " openshift- only with the right to evict systempods.winpool.dev: ClusterRole winpool-rollout"
)
STAYS: Final = "the operator deletes no pod that is static or of a DaemonSet"
SYSTEM: Final = "the operator deletes no pod that is for another system than Windows"


OF_A_DAEMON_SET: Final = {
    "ownerReferences": [
        {
            # Of a group that is not served, or the garbage collector would delete the pod at once.
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "DaemonSet",
            "name": "owner",
            "uid": "1",
            "controller": True,
        }
    ]
}


HOW: Final[dict[str, tuple[Object, str]]] = {
    "without its UID": ({"preconditions": {"uid": None}}, NAMES),
    "whatever has become of it": ({"preconditions": {"resourceVersion": None}}, NAMES),
    "without preconditions": ({"preconditions": None}, NAMES),
    "at once": ({"gracePeriodSeconds": 0}, GRACE),
    "with more than it asks for": ({"gracePeriodSeconds": OWN + 1}, GRACE),
}
WHICH: Final[dict[str, tuple[Object, str]]] = {
    "of the operator's namespace": ({"namespace": NAMESPACE}, PLACE),
    "of the system": ({"namespace": "kube-system"}, PLACE),
    "of a DaemonSet": ({"metadata": OF_A_DAEMON_SET}, STAYS),
    "that is static": ({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}}, STAYS),
    "on no node": ({"spec": {"nodeName": None, "schedulerName": "nobody"}}, GRACE),
    "for Linux": ({"spec": {"os": {"name": "linux"}}}, SYSTEM),
    "for Linux nodes": ({"spec": {"nodeSelector": {"kubernetes.io/os": "linux"}}}, SYSTEM),
}


@pytest.fixture(scope="module")
def ground(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with standing(testbed, directory=tmp_path_factory.mktemp("fence")) as found:
        yield found


@contextmanager
def a_pod(ground: Ground, *, namespace: str = "default", **changes: Object) -> Iterator[Object]:
    """Create the pod ``target``; yield it as the API server has it."""
    with standing_pods(ground.admin, namespace, **changes):
        status, pod = ground.admin.ask("GET", f"{PODS.format(namespace)}/target")
        assert status == HTTPStatus.OK, pod
        yield pod


def deleted(ground: Ground, namespace: str, options: Object | None = None) -> tuple[int, Object]:
    """Delete the pod as the operator does, but for ``options``; those that are None are left out.

    Controllers write the pod too: then it is read again.
    """

    def answer() -> tuple[int, Object] | None:
        _, pod = ground.admin.ask("GET", f"{PODS.format(namespace)}/target")
        path, body = sent(pod, grace=OWN)
        for key, value in (options or {}).items():
            body[key] = without_none(body[key] | value) if isinstance(value, dict) else value
        said = ground.operator.ask("DELETE", f"{path}?dryRun=All", without_none(body))
        return said if said[0] != HTTPStatus.CONFLICT else None

    answered = eventually(answer, what="nobody else writes the pod meanwhile")
    assert answered
    return answered


def without_none(fields: Object) -> Object:
    return {key: value for key, value in fields.items() if value is not None}


def sent(pod: Object, *, grace: int) -> tuple[str, Object]:
    """Return path and body of the request as the operator sends it."""
    metadata = pod["metadata"]
    eviction = Eviction(metadata["namespace"], metadata["name"], metadata["uid"], "n", "a test")
    request = deletion_request(eviction, Deletion(metadata["resourceVersion"], grace))
    return request.path, json.loads(request.body or b"")


def assert_refused(answer: tuple[int, Object], said: str) -> None:
    status, found = answer
    assert status == HTTPStatus.FORBIDDEN, found
    assert f"ValidatingAdmissionPolicy '{POD_FENCE}'" in found["message"]
    assert said in found["message"]


@pytest.mark.parametrize("how", HOW)
def test_a_deletion_in_a_harmful_way_is_refused(ground: Ground, how: str) -> None:
    options, said = HOW[how]
    with a_pod(ground):
        assert_refused(deleted(ground, "default", options), said)


def test_a_grace_that_is_not_named_is_that_of_the_pod_and_never_0(ground: Ground) -> None:
    with a_pod(ground, spec={"terminationGracePeriodSeconds": 0}):
        assert_refused(deleted(ground, "default", {"gracePeriodSeconds": None}), GRACE)


@pytest.mark.parametrize("which", WHICH)
def test_a_pod_is_not_deleted_that_no_drain_deletes(ground: Ground, which: str) -> None:
    changes, said = WHICH[which]
    with a_pod(ground, **changes):
        assert_refused(deleted(ground, changes.get("namespace", "default")), said)


def test_no_collection_is_deleted_and_no_pod_created_or_changed(ground: Ground) -> None:
    with a_pod(ground) as pod:
        path = PODS.format("default")
        assert_refused(ground.operator.ask("DELETE", f"{path}?dryRun=All"), NAMES)
        neither = "the operator neither creates nor changes pods"
        changed = {"metadata": {"labels": {"a": "b"}}}
        assert_refused(ground.operator.patch(f"{path}/target?dryRun=All", changed), neither)
        new = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new"}, "spec": pod["spec"]}
        assert_refused(ground.operator.ask("POST", f"{path}?dryRun=All", new), neither)


ON_WINDOWS: Final[Object] = {
    "os": {"name": "windows"},
    "securityContext": {"runAsNonRoot": True},
    "containers": [{"name": "c", "image": "example.com/c:1"}],
}


@pytest.mark.parametrize(
    ("spec", "grace"),
    [
        pytest.param({}, OWN, id="as usual"),
        pytest.param({"terminationGracePeriodSeconds": 0}, 1, id="no grace"),
        pytest.param({"terminationGracePeriodSeconds": 600}, 600, id="much grace"),
        pytest.param(ON_WINDOWS, OWN, id="for Windows"),
        pytest.param({"nodeSelector": {"kubernetes.io/os": "windows"}}, OWN, id="for Windows nodes"),
    ],
)
def test_a_deletion_as_the_operator_sends_it_passes(ground: Ground, spec: Object, grace: int) -> None:
    with a_pod(ground, spec=spec):

        def passes() -> bool:
            """Controllers write the pod too, so that it may have changed since it was read."""
            _, pod = ground.admin.ask("GET", f"{PODS.format('default')}/target")
            path, body = sent(pod, grace=grace)
            status, said = ground.operator.ask("DELETE", f"{path}?dryRun=All", body)
            assert status == HTTPStatus.OK, said
            return True

        assert eventually(passes, what="the deletion")


@pytest.mark.parametrize("preconditions", [{"uid": "1"}, {"resourceVersion": "1"}], ids=str)
def test_p5_a_pod_that_has_changed_or_is_another_one_is_not_deleted(
    ground: Ground, preconditions: Object
) -> None:
    with a_pod(ground) as pod:
        path, body = sent(pod, grace=OWN)
        body["preconditions"] |= preconditions
        status, said = ground.operator.ask("DELETE", f"{path}?dryRun=All", body)
        assert status == HTTPStatus.CONFLICT, said


@pytest.mark.nightly
@pytest.mark.parametrize("how", HOW)
def test_others_may_delete_as_before(ground: Ground, how: str) -> None:
    """Or the refusals would not be of the fence."""
    with a_pod(ground) as pod:
        path, body = sent(pod, grace=OWN)
        options = {key: each for key, each in HOW[how][0].items() if not isinstance(each, dict)}
        body = {key: each for key, each in (body | options).items() if each is not None}
        status, said = ground.admin.ask("DELETE", f"{path}?dryRun=All", body)
        assert "ValidatingAdmissionPolicy" not in str(said.get("message", "")), (status, said)
