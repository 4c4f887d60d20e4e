"""What is read of the controllers that make lost pods again, and how much of it is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from harness.builders import NOON
from harness.every import every
from winpool.kube import listers
from winpool.kube.errors import Forbidden, StreamGarbled
from winpool.kube.listers import LISTINGS, WorkloadLister
from winpool.kube.request import Request
from winpool.model.pods import Pod
from winpool.model.rollout import Controller, Workloads, mark_of

Object = dict[str, Any]
KINDS = {
    "replicasets": ("ReplicaSet", "apps/v1"),
    "deployments": ("Deployment", "apps/v1"),
    "statefulsets": ("StatefulSet", "apps/v1"),
    "replicationcontrollers": ("ReplicationController", "v1"),
    "jobs": ("Job", "batch/v1"),
}


def an_object(spec: Object | None = None, status: Object | None = None, **metadata: Any) -> Object:
    found = {"namespace": "shop", "name": "web", "uid": "uid-of-web", **metadata}
    return {"metadata": found, "spec": spec or {}, "status": status or {}}


def listed(**objects: list[Object] | Exception) -> Workloads:
    """Return what is listed of a cluster with these objects, by the resource."""

    async def answer(request: Request) -> bytes:
        found = objects.get(request.resource, [])
        if isinstance(found, Exception):
            raise found
        kind, version = KINDS[request.resource]
        head = {"kind": f"{kind}List", "apiVersion": version, "metadata": {"resourceVersion": "9"}}
        return json.dumps(head | {"items": found}).encode()

    return asyncio.run(WorkloadLister(answer).list(started=NOON, began=7.0))


def only(resource: str, item: Object) -> Controller | None:
    found = listed(**{resource: [item]})
    return next(iter(found.controllers.values()), None)


def test_all_kinds_are_listed() -> None:
    assert [each.resource for each in LISTINGS] == [*KINDS]


@pytest.mark.parametrize("resource", ["replicasets", "deployments", "statefulsets", "replicationcontrollers"])
def test_what_is_read_of_a_controller(resource: str) -> None:
    owners = [{"uid": "another"}, {"uid": "owner", "controller": True}]
    item = an_object({"replicas": 5, "paused": True}, {"readyReplicas": 4}, ownerReferences=owners)
    assert only(resource, item) == Controller(
        KINDS[resource][0], "shop/web", "uid-of-web", "owner", wanted=5, ready=4, is_paused=True
    )


def test_one_that_says_nothing_wants_one_pod_and_has_none() -> None:
    found = only("deployments", an_object())
    assert found == Controller("Deployment", "shop/web", "uid-of-web", wanted=1)


def test_the_deployment_of_a_pod_is_found() -> None:
    owner = [{"uid": "uid-of-web", "controller": True}]
    replicas = an_object({"replicas": 1}, name="web-6d5f", uid="uid-of-6d5f", ownerReferences=owner)
    found = listed(replicasets=[replicas], deployments=[an_object()])
    pod = Pod("shop", "web-6d5f-x", "w1", controller_kind="ReplicaSet", controller="web-6d5f")
    controller = found.of(pod)
    assert (found.started, found.began) == (NOON, 7.0)
    assert controller is not None
    assert controller.title == "Deployment shop/web"


@every(
    "resource, item",
    [
        pytest.param("replicasets", an_object({"replicas": 0}, {"replicas": 0}), id="an old ReplicaSet"),
        pytest.param("deployments", an_object(deletionTimestamp="2026-11-01T12:00:00Z"), id="being deleted"),
    ],
)
def test_what_makes_no_pods_is_left_out(resource: str, item: Object) -> None:
    assert only(resource, item) is None


def test_a_replica_set_that_still_has_pods_and_a_deployment_that_wants_none_are_read() -> None:
    assert only("replicasets", an_object({"replicas": 0}, {"replicas": 1})) is not None
    assert only("deployments", an_object({"replicas": 0})) is not None


@every(
    "spec, status, wanted",
    [
        pytest.param({"parallelism": 3, "completions": 9}, {"succeeded": 2}, 3, id="in full"),
        pytest.param({"parallelism": 3, "completions": 9}, {"succeeded": 8}, 1, id="the last"),
        pytest.param({"parallelism": 3}, {}, 3, id="a queue"),
        pytest.param({"parallelism": 3}, {"succeeded": 1}, 0, id="a queue that is empty"),
        pytest.param(
            {"parallelism": 3, "completions": 9, "podReplacementPolicy": "Failed"},
            {"terminating": 2},
            1,
            id="that waits for predecessors",
        ),
        pytest.param({"parallelism": 3, "completions": 9}, {"terminating": 2}, 3, id="that does not wait"),
        pytest.param(
            {"parallelism": 3}, {"conditions": [{"type": "Complete", "status": "True"}]}, 0, id="complete"
        ),
        pytest.param(
            {"parallelism": 3}, {"conditions": [{"type": "FailureTarget", "status": "True"}]}, 0, id="failing"
        ),
        pytest.param(
            {"parallelism": 3}, {"conditions": [{"type": "Suspended", "status": "False"}]}, 3, id="resumed"
        ),
    ],
)
def test_how_many_pods_a_job_wants(spec: Object, status: Object, wanted: int) -> None:
    found = only("jobs", an_object(spec, status | {"ready": 1}))
    assert found is not None
    assert (found.wanted, found.ready, found.is_paused) == (wanted, 1, False)


def test_a_job_that_is_suspended_is_paused() -> None:
    found = only("jobs", an_object({"suspend": True}))
    assert found is not None
    assert found.is_paused


@every("item", [{}, {"metadata": {"name": "web"}}, an_object(uid="x" * 1000), an_object({"replicas": "3"})])
def test_with_one_that_cannot_be_read_nothing_is_known(item: Object) -> None:
    with pytest.raises(StreamGarbled, match="deployments: one that cannot be read"):
        listed(deployments=[an_object(), item])


def test_without_a_list_of_one_kind_nothing_is_known() -> None:
    with pytest.raises(Forbidden):
        listed(jobs=Forbidden("403", status=403))


def test_an_owner_whose_uid_is_none_is_not_kept() -> None:
    """The API server does not limit it, and anyone who may create a ReplicaSet writes it."""
    found = only("replicasets", an_object(ownerReferences=[{"uid": "x" * 10**5, "controller": True}]))
    assert found is not None
    assert found.owner_uid == ""


def test_of_too_many_the_namespaces_with_the_most_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listers, "MOST_OF_ALL", 100 * listers.OF_EACH)
    monkeypatch.setattr(listers, "ROOM", 10 * listers.OF_EACH)
    noisy = [an_object(namespace="noisy", name=f"job-{n}", uid=f"uid-{n}") for n in range(120)]
    found = listed(deployments=[an_object()], jobs=noisy)
    assert found.left_out == {"noisy"}
    assert [*found.controllers] == [mark_of("uid-of-web")]
