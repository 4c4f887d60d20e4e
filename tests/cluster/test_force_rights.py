"""What ``deploy/components/force`` permits to the operator, by its own token, and what it does not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

import pytest

from cluster.fence_ground import standing_pods
from cluster.rights_ground import TOKEN_SECONDS, Ground, flat, granted, standing
from cluster.test_rollout_rights import OPENSHIFT, RIGHTS, assert_refused
from gen.rights import FORCE, INSTALLED, ROLLOUT, rights_of
from harness.documents import ROOT
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.fence import POD_FENCE
from winpool.api.keys import NAMESPACE
from winpool.kube.writer import deletion_request
from winpool.model.node import Deletion, Eviction

Object = dict[str, Any]

FORCE_RIGHTS: Final = str(ROOT / "deploy" / "components" / "force" / "force-rights.yaml")
DELETED_FROM: Final = ("default", "kube-system", OPENSHIFT)


@pytest.fixture(scope="module")
def operator(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The operator's token, with what the component brings, and pods to delete."""
    testbed.kubectl("create", "namespace", OPENSHIFT)
    for each in (RIGHTS, FORCE_RIGHTS):
        testbed.kubectl("apply", "-f", each)
    token = testbed.mint_token(lifetime_seconds=TOKEN_SECONDS)
    try:
        with standing(testbed, directory=tmp_path_factory.mktemp("force"), token=token) as ground:
            eventually(lambda: ground.may("delete", "", "pods", namespace=""), what="the rights")
            yield ground
    finally:
        for each in (RIGHTS, FORCE_RIGHTS):
            testbed.kubectl("delete", "-f", each)
        testbed.kubectl("delete", "namespace", OPENSHIFT, "--wait=false")


def deleted(operator: Ground, namespace: str) -> tuple[int, Object]:
    """Delete the pod as the operator does; it is a dry run."""

    def answer() -> tuple[int, Object] | None:
        _, pod = operator.admin.ask("GET", f"/api/v1/namespaces/{namespace}/pods/target")
        metadata = pod["metadata"]
        eviction = Eviction(namespace, "target", metadata["uid"], "n", "a drain")
        request = deletion_request(eviction, Deletion(metadata["resourceVersion"], 30))
        said = operator.caller.ask("DELETE", f"{request.path}?dryRun=All", json.loads(request.body or b""))
        return said if said[0] != HTTPStatus.CONFLICT else None

    answered = eventually(answer, what="nobody else writes the pod meanwhile")
    assert answered
    return answered


@pytest.mark.parametrize("namespace", ["default", NAMESPACE])
def test_the_operator_has_the_rows_of_the_table_and_no_others(operator: Ground, namespace: str) -> None:
    roles = [role for role in (*INSTALLED, ROLLOUT, FORCE) if role.namespace in ("", namespace)]
    wanted = granted(right for role in roles for right in rights_of(role))

    def as_the_table_says() -> bool:
        return flat(operator.rules(namespace)["resourceRules"]) == wanted | operator.everyones

    assert eventually(as_the_table_says, what="the rights of the table")


@pytest.mark.parametrize("namespace", DELETED_FROM)
def test_it_deletes_pods_also_of_the_system(operator: Ground, namespace: str) -> None:
    with standing_pods(operator.admin, namespace):
        status, said = deleted(operator, namespace)
        assert status == HTTPStatus.OK, said


def test_it_deletes_no_pod_of_its_own_namespace(operator: Ground) -> None:
    with standing_pods(operator.admin, NAMESPACE):
        assert_refused(deleted(operator, NAMESPACE), POD_FENCE)


def test_it_deletes_no_collection_of_pods(operator: Ground) -> None:
    path = "/api/v1/namespaces/default/pods?dryRun=All"
    assert operator.caller.status("DELETE", path) == HTTPStatus.FORBIDDEN
