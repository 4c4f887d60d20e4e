"""What ``deploy/components/rollout`` permits to the operator, by its own token, and what it does not."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import pytest

from cluster.fence_ground import standing_pods
from cluster.harming import HARMS
from cluster.rights_ground import TOKEN_SECONDS, Ground, flat, granted, standing
from gen.rights import INSTALLED, ROLLOUT, rights_of
from harness.documents import ROOT
from harness.waiting import eventually
from testbed.cluster import Testbed
from winpool.api.fence import EVENT_FENCE, EVICTION_FENCE, NODE_FENCE
from winpool.api.keys import NAMESPACE
from winpool.kube.events import EventRecord, Series
from winpool.kube.writer import eviction_request
from winpool.model.node import Eviction

Object = dict[str, Any]

RIGHTS: Final = str(ROOT / "deploy" / "components" / "rollout" / "rollout-rights.yaml")
OPENSHIFT: Final = "openshift-of-the-fence"
EVICTED_FROM: Final = ("default", "kube-system", OPENSHIFT)
READS: Final = {
    "volume attachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "deployments": "/apis/apps/v1/deployments",
    "replica sets": "/apis/apps/v1/replicasets",
    "stateful sets": "/apis/apps/v1/statefulsets",
    "replication controllers": "/api/v1/replicationcontrollers",
    "jobs": "/apis/batch/v1/jobs",
}
"""What is listed, and nothing else: no watch, and no read of a single object."""
BUDGETS: Final = "/apis/policy/v1/poddisruptionbudgets"
KEP: Final = ("DrainInProgress", "Drained", "MaintenanceInProgress")
"""https://github.com/kubernetes/enhancements/issues/5683"""
APPLY: Final = "application/apply-patch+yaml"


@pytest.fixture(scope="module")
def operator(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The operator's token, with what the component brings, and pods to evict."""
    testbed.kubectl("apply", "-f", RIGHTS)
    testbed.kubectl("create", "namespace", OPENSHIFT)
    token = testbed.mint_token(lifetime_seconds=TOKEN_SECONDS)
    try:
        with standing(testbed, directory=tmp_path_factory.mktemp("rollout"), token=token) as ground:
            eventually(
                lambda: ground.may("evict", "winpool.dev", "systempods", namespace=""), what="the rights"
            )
            yield ground
    finally:
        testbed.kubectl("delete", "-f", RIGHTS)
        testbed.kubectl("delete", "namespace", OPENSHIFT, "--wait=false")


@pytest.fixture(scope="module")
def pods(operator: Ground) -> Iterator[dict[str, str]]:
    with standing_pods(operator.admin, *EVICTED_FROM, NAMESPACE) as uids:
        yield uids


@pytest.mark.parametrize("namespace", ["default", "kube-system", NAMESPACE])
def test_the_operator_has_the_rows_of_the_table_and_no_others(operator: Ground, namespace: str) -> None:
    roles = [role for role in (*INSTALLED, ROLLOUT) if role.namespace in ("", namespace)]
    wanted = granted(right for role in roles for right in rights_of(role))

    def as_the_table_says() -> bool:
        return flat(operator.rules(namespace)["resourceRules"]) == wanted | operator.everyones

    assert eventually(as_the_table_says, what="the rights of the table")


@pytest.mark.parametrize("harm", HARMS)
def test_a_harmful_request_is_refused_and_changes_nothing(operator: Ground, harm: str) -> None:
    request = HARMS[harm]
    before = [operator.look(path) for path in request.targets]
    status, said = operator.send(request)
    assert status == HTTPStatus.FORBIDDEN, said
    assert [operator.look(path) for path in request.targets] == before


@pytest.mark.parametrize("what", READS)
def test_it_lists_what_says_whether_a_node_can_be_handed_over_and_workloads_are_back(
    operator: Ground, what: str
) -> None:
    path = READS[what]
    assert operator.caller.status("GET", path) == HTTPStatus.OK
    assert operator.caller.status("GET", f"{path}?watch=1&timeoutSeconds=1") == HTTPStatus.FORBIDDEN
    assert operator.caller.status("DELETE", path) == HTTPStatus.FORBIDDEN


def test_it_watches_budgets_and_changes_none(operator: Ground) -> None:
    assert operator.caller.status("GET", f"{BUDGETS}?watch=1&timeoutSeconds=1") == HTTPStatus.OK
    path = f"/apis/policy/v1/namespaces/{operator.place}/poddisruptionbudgets/target"
    assert operator.caller.patch(path, {"spec": {"minAvailable": 0}})[0] == HTTPStatus.FORBIDDEN


# Evictions, and the events about them


def evicted(operator: Ground, namespace: str, uid: str, **options: Any) -> tuple[int, Object]:
    """Send an eviction as the operator does, but for ``options``; it is a dry run."""
    request = eviction_request(Eviction(namespace=namespace, name="target", uid=uid, node="n", why="a drain"))
    body = json.loads(request.body or b"")
    body["deleteOptions"] |= options
    return operator.caller.ask("POST", f"{request.path}?dryRun=All", body)


@pytest.mark.parametrize("namespace", EVICTED_FROM)
def test_it_evicts_pods_also_of_the_system(operator: Ground, pods: dict[str, str], namespace: str) -> None:
    status, said = evicted(operator, namespace, pods[namespace])
    assert status == HTTPStatus.CREATED, said


def test_it_evicts_no_pod_of_its_own_namespace(operator: Ground, pods: dict[str, str]) -> None:
    assert_refused(evicted(operator, NAMESPACE, pods[NAMESPACE]), EVICTION_FENCE)


@pytest.mark.parametrize("namespace", EVICTED_FROM)
@pytest.mark.parametrize(
    "options", [{"preconditions": {}}, {"gracePeriodSeconds": 0}], ids=["no UID", "at once"]
)
def test_it_evicts_no_pod_without_its_uid_or_with_another_grace(
    operator: Ground, pods: dict[str, str], namespace: str, options: Object
) -> None:
    assert_refused(evicted(operator, namespace, pods[namespace], **options), EVICTION_FENCE)


@pytest.mark.parametrize("namespace", EVICTED_FROM)
def test_it_deletes_no_pod(operator: Ground, pods: dict[str, str], namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    for each in (f"{path}/target", path):
        assert operator.caller.status("DELETE", f"{each}?dryRun=All") == HTTPStatus.FORBIDDEN


def reported(operator: Ground, namespace: str, **changes: str) -> tuple[int, Object]:
    """Write the event about an evicted pod as the operator does, but for ``changes``; it is a dry run."""
    record = EventRecord(
        api_version="v1",
        kind="Pod",
        namespace=namespace,
        name="target",
        uid="1",
        reason="PodEvicted",
        action="EvictPod",
        note="The operator evicted this pod.",
        type="Normal",
    )
    now = datetime.now(UTC)
    series = Series(record=record, first_time=now, last_time=now, last_recorded=0.0)
    body = json.loads(series.encode(reporting_instance="test"))
    return operator.caller.ask("POST", f"{record.path}?dryRun=All", body | changes)


@pytest.mark.parametrize("namespace", EVICTED_FROM)
def test_it_reports_an_eviction_where_it_may_evict(operator: Ground, namespace: str) -> None:
    status, said = reported(operator, namespace)
    assert status == HTTPStatus.CREATED, said


@pytest.mark.parametrize("namespace", ["kube-system", OPENSHIFT])
@pytest.mark.parametrize("changes", [{"reason": "Killing"}, {"reportingController": "kubelet"}], ids=str)
def test_it_writes_no_other_event_there(operator: Ground, namespace: str, changes: dict[str, str]) -> None:
    assert_refused(reported(operator, namespace, **changes), EVENT_FENCE)


def test_it_writes_no_event_beside_itself(operator: Ground) -> None:
    assert_refused(reported(operator, NAMESPACE), EVENT_FENCE)


def assert_refused(answer: tuple[int, Object], fence: str) -> None:
    status, said = answer
    assert status == HTTPStatus.FORBIDDEN, said
    assert f"ValidatingAdmissionPolicy '{fence}'" in said["message"]


# Conditions of nodes


@contextmanager
def a_node(operator: Ground, *, system: str) -> Iterator[str]:
    """Create a node with the conditions of a kubelet and of another drainer; yield its path."""
    name = f"drained-{system}-{secrets.token_hex(3)}"
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/os": system}},
    }
    status, said = operator.admin.ask("POST", "/api/v1/nodes", body)
    assert status == HTTPStatus.CREATED, said
    path = f"/api/v1/nodes/{name}"
    try:
        theirs = applied(name, Drained="False", Ready="True")
        status, said = operator.admin.ask("PATCH", f"{path}/status?fieldManager=another", theirs, kind=APPLY)
        assert status == HTTPStatus.OK, said
        yield path
    finally:
        operator.admin.ask("DELETE", path)


def applied(name: str, **conditions: str) -> Object:
    found = [
        {"type": each, "status": status, "reason": "DrainCompleted", "message": "."}
        for each, status in conditions.items()
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"conditions": found},
    }


def apply(operator: Ground, path: str, **conditions: str) -> tuple[int, Object]:
    """Apply conditions as the operator, without force."""
    body = applied(path.rpartition("/")[2], **conditions)
    return operator.caller.ask("PATCH", f"{path}/status?fieldManager=winpool", body, kind=APPLY)


def conditions_of(operator: Ground, path: str) -> dict[str, str]:
    _, found = operator.admin.ask("GET", path)
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


def test_it_applies_its_conditions_and_those_of_others_stay(operator: Ground) -> None:
    with a_node(operator, system="windows") as path:
        status, said = apply(operator, path, DrainInProgress="True", MaintenanceInProgress="True")
        assert status == HTTPStatus.OK, said
        assert apply(operator, path, Drained="True")[0] == HTTPStatus.CONFLICT
        status, said = apply(operator, path, MaintenanceInProgress="True")
        assert status == HTTPStatus.OK, said
        found = conditions_of(operator, path)
        assert {each: found.get(each) for each in (*KEP, "Ready")} == {
            "DrainInProgress": None,
            "Drained": "False",
            "MaintenanceInProgress": "True",
            "Ready": "True",
        }


def test_it_applies_no_other_condition(operator: Ground) -> None:
    with a_node(operator, system="windows") as path:
        assert_refused(apply(operator, path, MaintenancePlanned="True"), NODE_FENCE)


@pytest.mark.parametrize("condition", KEP)
def test_it_applies_no_condition_to_a_node_that_is_not_a_windows_node(
    operator: Ground, condition: str
) -> None:
    with a_node(operator, system="linux") as path:
        # With force, or the conflict with the other drainer would refuse first.
        body = applied(path.rpartition("/")[2], **{condition: "True"})
        forced = f"{path}/status?fieldManager=winpool&force=true"
        assert_refused(operator.caller.ask("PATCH", forced, body, kind=APPLY), NODE_FENCE)
