"""A refusal is told once it has lasted: an API server that starts refuses everybody for a moment."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import aiohttp
import pytest

from harness.listener import EMPTY, Listener, a_kubeconfig_for, an_authority, listening, server_tls
from winpool.kube.backoff import LASTS_SECONDS, MOST, FirstRefusals, Outage
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import (
    ApiError,
    Forbidden,
    NotFound,
    TooLarge,
    Unavailable,
    UnconfirmedRefusal,
    error_of,
)
from winpool.kube.request import REPLY_LIMIT, Request

WATCH: Final = Request(verb="watch", resource="nodes", path="/api/v1/nodes?watch=true")
BY_POLICY: Final = 'nodes "w1" is forbidden: ValidatingAdmissionPolicy "fridays" denied request: not today'


class Time:
    """What the monotonic clock says."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def by_rbac(verb: str, resource: str) -> str:
    """Return what an API server says that has not read its roles."""
    return (
        f'{resource} is forbidden: User "winpool" cannot {verb} resource "{resource}" in API group ""'
        ' at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "winpool" not found'
    )


def body(message: str) -> bytes:
    return json.dumps({"kind": "Status", "reason": "Forbidden", "message": message}).encode()


def refused(verb: str = "list", resource: str = "nodes") -> ApiError:
    return error_of(status=403, body=body(by_rbac(verb, resource)), request=f"{verb} {resource}")


def refused_in(namespace: str) -> ApiError:
    cannot = 'User "winpool" cannot create resource "pods/eviction" in API group ""'
    said = f'{cannot} in the namespace "{namespace}"'
    return error_of(status=403, body=body(said), request="create pods/eviction")


def page(message: str) -> bytes:
    text = body(message)
    head = f"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


def test_a_first_refusal_may_pass_and_one_that_lasts_is_believed() -> None:
    time = Time()
    refusals = FirstRefusals(monotonic=time)
    first = refusals.judge(refused())
    assert type(first) is UnconfirmedRefusal
    assert isinstance(first, Unavailable)
    assert first.message == refused().message
    time.now += LASTS_SECONDS - 0.1
    assert type(refusals.judge(refused())) is UnconfirmedRefusal
    time.now += 0.1
    last = refusals.judge(refused())
    assert type(last) is Forbidden
    assert last.permission is not None


def test_each_thing_that_is_refused_has_a_time_of_its_own() -> None:
    time = Time()
    refusals = FirstRefusals(monotonic=time)
    refusals.judge(refused("list", "nodes"))
    time.now += LASTS_SECONDS
    assert type(refusals.judge(refused("watch", "nodes"))) is UnconfirmedRefusal
    assert type(refusals.judge(refused("list", "pods"))) is UnconfirmedRefusal
    assert type(refusals.judge(refused("list", "nodes"))) is Forbidden


def test_what_was_answered_meanwhile_is_refused_for_the_first_time_again() -> None:
    time = Time()
    refusals = FirstRefusals(monotonic=time)
    refusals.judge(refused())
    time.now += LASTS_SECONDS
    refusals.permitted("list", "nodes", None)
    assert type(refusals.judge(refused())) is UnconfirmedRefusal


def test_what_one_namespace_permits_says_nothing_of_another() -> None:
    time = Time()
    refusals = FirstRefusals(monotonic=time)
    refusals.judge(refused_in("payments"))
    refusals.judge(refused_in("billing"))
    time.now += LASTS_SECONDS
    refusals.permitted("create", "pods/eviction", "billing")
    assert type(refusals.judge(refused_in("payments"))) is Forbidden
    assert type(refusals.judge(refused_in("billing"))) is UnconfirmedRefusal


def test_what_is_remembered_of_refusals_is_bounded() -> None:
    time = Time()
    refusals = FirstRefusals(monotonic=time)
    for number in range(MOST + 1):
        refusals.judge(refused_in(f"ns-{number}"))
    time.now += LASTS_SECONDS
    assert type(refusals.judge(refused_in(f"ns-{MOST}"))) is Forbidden
    assert type(refusals.judge(refused_in("ns-0"))) is UnconfirmedRefusal, "the oldest is forgotten"


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/api/v1/nodes/w1", None),
        ("/api/v1/pods?limit=500", None),
        ("/api/v1/namespaces/payments/pods/web-1/eviction", "payments"),
        ("/apis/events.k8s.io/v1/namespaces/default/events?fieldManager=winpool", "default"),
        ("/api/v1/nodes?fieldSelector=/namespaces/x/", None),
    ],
)
def test_the_namespace_of_a_request_is_in_its_path(path: str, namespace: str | None) -> None:
    assert Request(verb="create", resource="pods/eviction", path=path).namespace == namespace


@pytest.mark.parametrize(("status", "message", "kind"), [(403, BY_POLICY, Forbidden), (404, "", NotFound)])
def test_what_is_not_refused_by_rbac_is_believed_at_once(
    status: int, message: str, kind: type[ApiError]
) -> None:
    error = error_of(status=status, body=body(message), request="patch nodes w1")
    judged = FirstRefusals(monotonic=Time()).judge(error)
    assert judged is error
    assert type(judged) is kind


def test_a_refusal_that_may_pass_is_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    refusals = FirstRefusals(monotonic=time)
    outage = Outage("nodes", logger=logging.getLogger("test"), monotonic=time, meanwhile="asked again")
    with caplog.at_level(logging.INFO):
        outage.failed(refusals.judge(refused()))
        outage.ended()
        assert caplog.messages == []
        outage.failed(refusals.judge(refused()))
        time.now += LASTS_SECONDS
        outage.failed(refusals.judge(refused()))
        assert [message.partition(";")[0] for message in caplog.messages] == [f"nodes: {refused().message}"]


@asynccontextmanager
async def a_door(folder: Path, time: Time) -> AsyncIterator[tuple[Listener, Transport]]:
    """Give a server, and a transport to it that holds first refusals back."""
    authority = an_authority(folder, "ca")
    async with listening(server_tls(authority, folder), answer=lambda _: EMPTY) as server:
        kubeconfig = a_kubeconfig_for(
            folder, server.url, ca=authority.paths.certificate, user={"token": "t0ken"}
        )
        connection = await load_connection(kubeconfig=kubeconfig, environ={})
        async with Transport(connection, refusals=FirstRefusals(monotonic=time)) as door:
            yield server, door


async def test_a_transport_holds_back_and_believes_a_watch(tmp_path: Path) -> None:
    time = Time()
    async with a_door(tmp_path, time) as (server, door):

        async def watch() -> None:
            async with door.stream(WATCH, silence_seconds=10, is_calm=lambda: True):
                pass

        server.answer = lambda _: page(by_rbac("watch", "nodes"))
        with pytest.raises(UnconfirmedRefusal):
            await watch()
        server.answer = lambda _: EMPTY
        await watch()
        time.now += LASTS_SECONDS
        server.answer = lambda _: page(by_rbac("watch", "nodes"))
        with pytest.raises(UnconfirmedRefusal):  # it was answered in between
            await watch()
        time.now += LASTS_SECONDS
        with pytest.raises(Forbidden):
            await watch()


async def test_a_guest_meets_a_broken_connection_and_then_the_refusal_with_its_words(tmp_path: Path) -> None:
    time = Time()
    words = by_rbac("watch", "windowsnodepools")
    async with a_door(tmp_path, time) as (server, door), door.guest_session() as guest:
        url = f"{server.url}/apis/winpool.dev/v1alpha1/windowsnodepools?watch=true"
        server.answer = lambda _: page(words)
        with pytest.raises(aiohttp.ClientConnectionError, match="watch windowsnodepools: 403"):
            await guest.get(url)
        server.answer = lambda _: EMPTY
        async with guest.get(url) as response:
            assert response.status == 200
        time.now += LASTS_SECONDS
        server.answer = lambda _: page(words)
        with pytest.raises(aiohttp.ClientConnectionError):
            await guest.get(url)
        time.now += LASTS_SECONDS
        async with guest.get(url) as response:
            assert response.status == 403
            assert (await response.json())["message"] == words


async def test_a_refusal_without_end_is_not_read(tmp_path: Path) -> None:
    async with a_door(tmp_path, Time()) as (server, door):
        server.answer = lambda _: page("x" * 2 * REPLY_LIMIT)
        with pytest.raises(TooLarge, match=f"an answer of more than {REPLY_LIMIT} bytes"):
            await door.request(Request(verb="get", resource="nodes", path="/api/v1/nodes/w1"))
