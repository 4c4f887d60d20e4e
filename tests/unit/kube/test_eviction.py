"""What is asked of the API server to evict a pod, and how its answers read."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from msgspec.structs import replace

from winpool.kube.client import Transport
from winpool.kube.errors import (
    ApiError,
    Conflict,
    DisruptionBudget,
    NotFound,
    StreamGarbled,
    TooManyRequests,
    error_of,
)
from winpool.kube.request import Request
from winpool.kube.writer import Writer
from winpool.model.node import Deletion, Eviction

WEB = Eviction(namespace="shop", name="web-1", uid="uid-of-web", node="w1", why="the node is drained")
SUCCESS = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}'


class Answering:
    """A transport with one answer."""

    def __init__(self, answer: bytes | ApiError) -> None:
        self.asked: list[Request] = []
        self._answer = answer

    async def request(self, request: Request) -> bytes:
        self.asked.append(request)
        if isinstance(self._answer, ApiError):
            raise self._answer
        return self._answer


async def evicted(answer: bytes | ApiError, eviction: Eviction = WEB) -> Request:
    transport = Answering(answer)
    await Writer(cast(Transport, transport)).evict(eviction)
    (asked,) = transport.asked
    return asked


def refusal(status: int, message: str, **more: Any) -> ApiError:
    body = {"kind": "Status", "status": "Failure", "message": message, **more}
    return error_of(status=status, body=json.dumps(body).encode(), request="create pods/eviction shop/web-1")


async def test_a_pod_is_named_by_its_uid_and_keeps_its_own_grace() -> None:
    asked = await evicted(SUCCESS)
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/shop/pods/web-1/eviction")
    assert (asked.verb, asked.resource) == ("create", "pods/eviction")
    assert json.loads(asked.body or b"") == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "shop", "name": "web-1"},
        "deleteOptions": {"preconditions": {"uid": "uid-of-web"}},
    }


async def test_the_transport_does_not_ask_again_by_itself() -> None:
    assert not (await evicted(SUCCESS)).is_repeatable


@pytest.mark.parametrize(
    "words",
    [
        "Precondition failed: UID in precondition: uid-of-web, UID in object meta: another",
        "the UID in the precondition (uid-of-web) does not match the UID in record (another). The object"
        " might have been deleted and then recreated",
    ],
)
async def test_a_pod_whose_name_another_has_is_gone(words: str) -> None:
    message = f'Operation cannot be fulfilled on Pod "web-1": {words}'
    with pytest.raises(NotFound, match="409 Operation cannot be fulfilled"):
        await evicted(refusal(409, message, reason="Conflict"))


@pytest.mark.parametrize(
    "message",
    [
        'Operation cannot be fulfilled on poddisruptionbudgets.policy "web": the object has been modified',
        'Operation cannot be fulfilled on pods "web-1": Precondition failed: ResourceVersion in precondition:'
        " 7, ResourceVersion in object meta: 8",
    ],
)
async def test_a_pod_or_a_budget_that_keeps_changing_is_not_gone(message: str) -> None:
    with pytest.raises(Conflict):
        await evicted(refusal(409, message, reason="Conflict"))


async def test_a_budget_that_others_keep_writing_is_of_this_pod_and_not_of_the_server() -> None:
    message = 'Timeout: couldn\'t update PodDisruptionBudget "web" due to conflicts'
    with pytest.raises(Conflict, match="due to conflicts"):
        await evicted(refusal(504, message, reason="Timeout"))


async def test_a_refusal_of_a_budget_is_told_apart_from_an_overloaded_server() -> None:
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget web needs 2 healthy pods"}
    with pytest.raises(DisruptionBudget, match="The disruption budget web needs 2 healthy pods"):
        await evicted(refusal(429, "Cannot evict pod.", details={"causes": [cause]}))
    with pytest.raises(TooManyRequests) as caught:
        await evicted(refusal(429, "too many requests, please try again later"))
    assert type(caught.value) is TooManyRequests


# Deletions.

DELETED = replace(WEB, deletion=Deletion(resource_version="17", grace_seconds=30))
OBJECT = b'{"kind":"PartialObjectMetadata","metadata":{"name":"web-1","uid":"uid-of-web"}}'
ANOTHER = b'{"kind":"PartialObjectMetadata","metadata":{"name":"web-1","uid":"another"}}'


async def test_a_pod_is_deleted_only_as_it_was_read_and_with_a_grace() -> None:
    asked = await evicted(OBJECT, DELETED)
    assert (asked.method, asked.path) == ("DELETE", "/api/v1/namespaces/shop/pods/web-1")
    assert (asked.verb, asked.resource, asked.is_repeatable) == ("delete", "pods", False)
    assert json.loads(asked.body or b"") == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 30,
        "preconditions": {"uid": "uid-of-web", "resourceVersion": "17"},
    }


async def test_a_deletion_may_be_answered_by_a_success() -> None:
    assert (await evicted(SUCCESS, DELETED)).verb == "delete"


@pytest.mark.parametrize("answer", [ANOTHER, b"{}", b"<html>", b'{"kind":"Status","status":"Failure"}'])
async def test_a_deletion_that_is_answered_by_something_else_may_have_been_carried_out(answer: bytes) -> None:
    with pytest.raises(StreamGarbled, match="does not say that the pod ends"):
        await evicted(answer, DELETED)


async def test_a_pod_that_is_not_as_it_was_read_is_a_conflict() -> None:
    words = "Precondition failed: ResourceVersion in precondition: 17, ResourceVersion in object meta: 18"
    message = f'Operation cannot be fulfilled on pods "web-1": {words}'
    with pytest.raises(Conflict):
        await evicted(refusal(409, message, reason="Conflict"), DELETED)
