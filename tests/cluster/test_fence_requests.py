"""The fence about evictions, events and tokens, with the operator's own identity and more rights than it has.

Everything is a dry run: admission decides it like any other request.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

import pytest

from cluster.fence_ground import Ground, standing, standing_pods
from harness.identity import Caller
from testbed.cluster import Testbed
from winpool.api.fence import EVENT_FENCE, EVICTION_FENCE, TOKEN_FENCE
from winpool.api.keys import NAMESPACE, READER_ACCOUNT
from winpool.kube.events import EventRecord, Series
from winpool.kube.tokens import reader_request
from winpool.kube.writer import eviction_request
from winpool.model.node import Eviction

Object = dict[str, Any]

CORE: Final = "/api/v1"
READER: Final = f"{CORE}/namespaces/{NAMESPACE}/serviceaccounts/{READER_ACCOUNT}"
PRECONDITION: Final = {"preconditions": {"uid": "1"}}
"""Of no pod. Admission comes before the eviction looks for the pod, which then is another one."""


@dataclass(frozen=True)
class Denied:
    """A request, and the words of the refusal."""

    path: str
    body: Object
    said: str


def eviction(namespace: str, options: Object | None, said: str = "") -> Denied:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "target", "namespace": namespace},
        **({} if options is None else {"deleteOptions": options}),
    }
    return Denied(f"{CORE}/namespaces/{namespace}/pods/target/eviction", body, said)


def token(path: str, spec: Object, said: str = "") -> Denied:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return Denied(f"{path}/token", body, said)


UID: Final = "an eviction of the operator names the UID of the pod"
GRACE: Final = "an eviction of the operator leaves the pod its own grace period"
PLACE: Final = (
    f"the operator evicts no pod of {NAMESPACE}, and those of a namespace that begins with kube- or"
    " openshift- only with the right to evict systempods.winpool.dev: ClusterRole winpool-rollout"
)
WHOSE: Final = f"the operator gets tokens of the ServiceAccount {NAMESPACE}/{READER_ACCOUNT} only"
LIFE: Final = "a token that the operator gets lives at most 600 seconds"

EVICTIONS: Final = {
    "without options": eviction("default", None, UID),
    "without a precondition": eviction("default", {"preconditions": {}}, UID),
    "of whichever pod has a version": eviction("default", {"preconditions": {"resourceVersion": "1"}}, UID),
    "at once": eviction("default", {**PRECONDITION, "gracePeriodSeconds": 0}, GRACE),
    "with a grace of our own": eviction("default", {**PRECONDITION, "gracePeriodSeconds": 600}, GRACE),
    "in kube-system": eviction("kube-system", PRECONDITION, PLACE),
    "beside the operator": eviction(NAMESPACE, PRECONDITION, PLACE),
}
FOREIGN: Final = (
    "in other namespaces than default the operator writes only events PodEvicted about Pods, where it may "
    "evict them"
)
TEAM: Final = "team-of-the-fence"


def an_event(namespace: str, *, kind: str = "Pod", **changes: str) -> Denied:
    """Return the event about an evicted pod as the operator writes it, but for ``changes``."""
    record = EventRecord(
        api_version="v1",
        kind=kind,
        namespace=namespace,
        name="target",
        uid="1",
        reason="PodEvicted",
        action="EvictPod",
        note="The operator evicted this pod.",
        type="Warning",
    )
    now = datetime.now(UTC)
    series = Series(record=record, first_time=now, last_time=now, last_recorded=0.0)
    body: Object = json.loads(series.encode(reporting_instance="test"))
    return Denied(record.path, body | changes, FOREIGN)


EVENTS: Final = {
    "about a ConfigMap": an_event(TEAM, kind="ConfigMap"),
    "of another reason": an_event(TEAM, reason="Killing"),
    "of another reporter": an_event(TEAM, reportingController="kubelet"),
    "in kube-system": an_event("kube-system"),
    "beside the operator": an_event(NAMESPACE),
}
TOKENS: Final = {
    "of the operator": token(f"{CORE}/namespaces/{NAMESPACE}/serviceaccounts/winpool", {}, WHOSE),
    "of another account": token(f"{CORE}/namespaces/default/serviceaccounts/default", {}, WHOSE),
    "of that name elsewhere": token(f"{CORE}/namespaces/default/serviceaccounts/{READER_ACCOUNT}", {}, WHOSE),
    "for a day": token(READER, {"expirationSeconds": 86400}, LIFE),
}


@pytest.fixture(scope="module")
def ground(testbed: Testbed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    with standing(testbed, directory=tmp_path_factory.mktemp("fence")) as found:
        testbed.kubectl("create", "namespace", TEAM)
        for namespace in (NAMESPACE, "default"):
            testbed.kubectl("create", "serviceaccount", READER_ACCOUNT, "-n", namespace)
        try:
            yield found
        finally:
            testbed.kubectl("delete", "namespace", TEAM, "--wait=false")
            for namespace in (NAMESPACE, "default"):
                testbed.kubectl("delete", "serviceaccount", READER_ACCOUNT, "-n", namespace)


@pytest.fixture(scope="module")
def pods(ground: Ground) -> Iterator[None]:
    """A pod of the name that the evictions have, in each of their namespaces."""
    with standing_pods(ground.admin, "default", "kube-system", NAMESPACE):
        yield


def refused(ground: Ground, denied: Denied, *, fence: str) -> bool:
    status, said = ground.operator.ask("POST", f"{denied.path}?dryRun=All", denied.body)
    assert status == HTTPStatus.FORBIDDEN, said
    assert f"ValidatingAdmissionPolicy '{fence}'" in said["message"]
    assert denied.said in said["message"]
    return True


@pytest.mark.parametrize("name", EVICTIONS)
def test_a_harmful_eviction_of_the_operator_is_refused(ground: Ground, pods: None, name: str) -> None:
    assert refused(ground, EVICTIONS[name], fence=EVICTION_FENCE)


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_the_operator_beside_those_of_evicted_pods_is_refused(ground: Ground, name: str) -> None:
    assert refused(ground, EVENTS[name], fence=EVENT_FENCE)


def test_an_event_about_an_evicted_pod_passes_and_no_other_one_is_changed_or_deleted(ground: Ground) -> None:
    ours, theirs = an_event(TEAM), an_event(TEAM, reportingController="kubelet")
    status, said = ground.operator.ask("POST", f"{ours.path}?dryRun=All", ours.body)
    assert status == HTTPStatus.CREATED, said
    status, said = ground.admin.ask("POST", theirs.path, theirs.body)
    assert status == HTTPStatus.CREATED, said
    path = f"{theirs.path}/{theirs.body['metadata']['name']}"
    try:
        for status, said in (
            ground.operator.patch(path, {"metadata": {"labels": {"a": "b"}}}),
            ground.operator.ask("DELETE", path),
        ):
            assert status == HTTPStatus.FORBIDDEN, said
            assert FOREIGN in said["message"]
    finally:
        ground.admin.ask("DELETE", path)


@pytest.mark.parametrize("name", TOKENS)
def test_a_token_of_another_account_or_a_longer_life_is_refused(ground: Ground, name: str) -> None:
    assert refused(ground, TOKENS[name], fence=TOKEN_FENCE)


def test_an_eviction_as_the_operator_sends_it_passes(ground: Ground, pods: None) -> None:
    path = f"{CORE}/namespaces/default/pods/target"
    _, pod = ground.admin.ask("GET", path)
    request = eviction_request(
        Eviction(namespace="default", name="target", uid=pod["metadata"]["uid"], node="n", why="a test")
    )
    status, said = sent(ground.operator, request.path, request.body)
    assert status == HTTPStatus.CREATED, said


def test_a_token_as_the_operator_asks_for_it_is_given(ground: Ground) -> None:
    request = reader_request()
    status, said = sent(ground.operator, request.path, request.body)
    assert status == HTTPStatus.CREATED, said
    assert said["spec"]["expirationSeconds"] == 600


def sent(caller: Caller, path: str, body: bytes | None) -> tuple[int, Object]:
    return caller.ask("POST", f"{path}?dryRun=All", json.loads(body or b""))


@pytest.mark.nightly
def test_others_may_evict_and_get_tokens_as_before(ground: Ground, pods: None) -> None:
    """Or the refusals would not be of the fence."""
    harms = [each for name, each in {**EVICTIONS, **TOKENS}.items() if name != "without options"]
    for harm in harms:
        _, said = ground.admin.ask("POST", f"{harm.path}?dryRun=All", harm.body)
        assert "ValidatingAdmissionPolicy" not in str(said.get("message", "")), said
