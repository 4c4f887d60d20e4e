"""Reviews of tokens: what is asked of the API server, how its answers are read, and how often it is asked."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from typing import Any, cast

import pytest

from harness.clock import Seconds
from harness.virtual_time import run_virtually
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, StreamGarbled, Unavailable, error_of
from winpool.kube.request import Request
from winpool.kube.tokens import (
    IN_FLIGHT,
    IN_FLIGHT_KEPT,
    REVIEW_SECONDS,
    Reviews,
    Verdict,
    review_deletions,
    review_request,
)

TOKEN = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJzY3JhcGVyIn0.c2lnbmF0dXJl"
USER = {
    "username": "system:serviceaccount:monitoring:prometheus",
    "uid": "u-1",
    "groups": ["system:serviceaccounts", "system:authenticated"],
    "extra": {"authentication.kubernetes.io/credential-id": ["JTI=1"]},
}

Answer = bytes | ApiError


def token_review(**status: Any) -> bytes:
    body = {"kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {}}
    return json.dumps({**body, "spec": {"token": TOKEN}, "status": status}).encode()


def access_review(**status: Any) -> bytes:
    body = {"kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return json.dumps({**body, "spec": {}, "status": status}).encode()


KNOWN = token_review(authenticated=True, user=USER, audiences=["https://kubernetes.default.svc"])
ALLOWED = access_review(allowed=True, reason="RBAC: allowed by …")
DENIED = access_review(allowed=False)


class Answering:
    """A transport with one answer for each resource."""

    def __init__(self, *, tokens: Answer = KNOWN, rights: Answer = ALLOWED) -> None:
        self.asked: list[Request] = []
        self.before: Callable[[], Any] | None = None
        self._answers = {"tokenreviews": tokens, "subjectaccessreviews": rights}

    async def request(self, request: Request) -> bytes:
        self.asked.append(request)
        if self.before is not None:
            await self.before()
        answer = self._answers[request.resource]
        if isinstance(answer, ApiError):
            raise answer
        return answer


def reviews_over(transport: Answering, clock: Callable[[], float] | None = None) -> Reviews:
    return Reviews(cast("Transport", transport), path="/metrics", monotonic=clock or Seconds())


async def verdict(transport: Answering) -> Verdict:
    return await reviews_over(transport).review(TOKEN, address="10.0.0.1", known=False)


async def test_the_api_server_is_asked_whose_the_token_is_and_what_that_user_may() -> None:
    transport = Answering()
    assert await verdict(transport) == "Permitted"
    whose, may = transport.asked
    assert (whose.method, whose.path) == ("POST", "/apis/authentication.k8s.io/v1/tokenreviews")
    assert json.loads(whose.body or b"") == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": TOKEN},
    }
    assert (may.method, may.path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
    assert json.loads(may.body or b"") == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": USER["username"],
            "uid": USER["uid"],
            "groups": USER["groups"],
            "extra": USER["extra"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        },
    }


@pytest.mark.parametrize(
    ("tokens", "rights", "expected"),
    [
        pytest.param(KNOWN, ALLOWED, "Permitted", id="permitted"),
        pytest.param(KNOWN, DENIED, "Forbidden", id="no right"),
        pytest.param(token_review(user={}, error="expired"), ALLOWED, "Invalid", id="invalid token"),
        pytest.param(token_review(authenticated=False, user=USER), ALLOWED, "Invalid", id="not he"),
        pytest.param(token_review(authenticated=True), ALLOWED, "Invalid", id="nobody"),
        pytest.param(token_review(authenticated=True, user={"uid": "1"}), ALLOWED, "Invalid", id="no name"),
        pytest.param(b"{}", ALLOWED, "Failed", id="empty answer"),
        pytest.param(b"<html>", ALLOWED, "Failed", id="not JSON"),
        pytest.param(ALLOWED, ALLOWED, "Failed", id="another kind"),
        pytest.param(KNOWN.replace(b"/v1", b"/v9"), ALLOWED, "Failed", id="another version"),
        pytest.param(KNOWN, b"{}", "Failed", id="empty answer about the right"),
        pytest.param(KNOWN, access_review(), "Failed", id="no answer about the right"),
        pytest.param(KNOWN, access_review(allowed="true"), "Failed", id="a text for a truth"),
        pytest.param(KNOWN, KNOWN, "Failed", id="another kind about the right"),
        pytest.param(Unavailable("no"), ALLOWED, "Failed", id="not reachable"),
        pytest.param(KNOWN, Unavailable("no"), "Failed", id="not reachable any more"),
    ],
)
async def test_only_a_clear_yes_permits(tokens: Answer, rights: Answer, expected: Verdict) -> None:
    assert await verdict(Answering(tokens=tokens, rights=rights)) == expected


def refusal(resource: str) -> ApiError:
    said = (
        f'{resource}.authentication.k8s.io is forbidden: User "system:serviceaccount:winpool-system:winpool"'
        f' cannot create resource "{resource}" in API group "authentication.k8s.io" at the cluster scope'
    )
    body = json.dumps({"kind": "Status", "message": said, "reason": "Forbidden"}).encode()
    return error_of(status=403, body=body, request=f"create {resource}", group="authentication.k8s.io")


async def test_a_missing_right_of_the_operator_is_logged_with_its_rule_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    error = refusal("tokenreviews")
    assert isinstance(error, Forbidden)
    reviews = reviews_over(Answering(tokens=error))
    for _ in range(3):
        assert await reviews.review(TOKEN, address="10.0.0.1", known=True) == "Failed"
    (line,) = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert '{apiGroups: ["authentication.k8s.io"], resources: ["tokenreviews"], verbs: ["create"]}' in line


@pytest.mark.parametrize("cut", [len(TOKEN), 20], ids=["whole", "cut"])
async def test_an_answer_that_repeats_the_token_is_not_logged(
    caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    caplog.set_level(logging.DEBUG)
    for answer in (
        error_of(status=502, body=f"cannot forward {TOKEN[:cut]}".encode(), request="create tokenreviews"),
        json.dumps({"kind": TOKEN}).encode(),
        TOKEN.encode(),
    ):
        assert await verdict(Answering(tokens=answer)) == "Failed"
    said = [each.getMessage() for each in caplog.records]
    assert len(said) == 3
    assert [text for text in said if TOKEN[:16] in text] == []


def test_a_request_shows_no_token() -> None:
    assert TOKEN not in repr(review_request(TOKEN))


# How often


async def ask_many(
    reviews: Reviews, tokens: int, *, addresses: int = 1, known: bool = False
) -> list[Verdict]:
    return [
        await reviews.review(f"invented-{number}", address=f"10.0.0.{number % addresses}", known=known)
        for number in range(tokens)
    ]


async def test_a_flood_from_one_address_is_asked_about_a_few_times_and_leaves_room_for_others() -> None:
    transport, clock = Answering(tokens=token_review(user={})), Seconds()
    reviews = reviews_over(transport, clock)
    found = await ask_many(reviews, 1000)
    assert found.count("Invalid") == len(transport.asked) == 5
    assert found.count("RateLimited") == 995
    assert await reviews.review(TOKEN, address="10.9.9.9", known=False) == "Invalid", "another address"
    clock.now += 10
    assert (await ask_many(reviews, 1000)).count("Invalid") == 5
    for _ in range(100):
        clock.now += 1
        await ask_many(reviews, 10)
    assert len(transport.asked) == 5 + 1 + 5 + 100


async def test_a_flood_from_many_addresses_is_bounded_too_and_known_tokens_have_their_own_room() -> None:
    transport, clock = Answering(tokens=token_review(user={})), Seconds()
    reviews = reviews_over(transport, clock)
    found = await ask_many(reviews, 1000, addresses=200)
    assert found.count("Invalid") == 10
    assert (await ask_many(reviews, 1000, known=True)).count("Invalid") == 10
    asked = len(transport.asked)
    for _ in range(100):
        clock.now += 1
        await ask_many(reviews, 200, addresses=200)
    # Those for known tokens fill up first.
    assert len(transport.asked) - asked == 100 * 5 - 10


async def test_four_addresses_that_fill_a_port_leave_reviews_for_a_fifth() -> None:
    transport, clock = Answering(tokens=token_review(user={})), Seconds()
    reviews = reviews_over(transport, clock)
    for _ in range(100):
        clock.now += 1
        await ask_many(reviews, 400, addresses=4)
    assert await reviews.review(TOKEN, address="10.9.9.9", known=False) == "Invalid"


async def test_a_slow_api_server_keeps_few_connections_busy_and_known_tokens_pass() -> None:
    transport, gate = Answering(), asyncio.Event()
    transport.before = gate.wait
    reviews = reviews_over(transport)

    def begin(number: int, *, known: bool) -> asyncio.Task[Verdict]:
        review = reviews.review(f"token-{number}", address=f"10.0.0.{number}", known=known)
        return asyncio.create_task(review)

    new = [begin(number, known=False) for number in range(20)]
    known = [begin(number, known=True) for number in range(20, 40)]
    await asyncio.sleep(0.01)
    assert len(transport.asked) == IN_FLIGHT
    gate.set()
    found = [await asyncio.gather(*tasks) for tasks in (new, known)]
    assert [each.count("Permitted") for each in found] == [IN_FLIGHT - IN_FLIGHT_KEPT, IN_FLIGHT_KEPT]
    assert [each.count("RateLimited") for each in found] == [16, 16]
    assert await reviews.review(TOKEN, address="10.9.9.9", known=False) == "Permitted", "all have ended"


def test_an_api_server_that_does_not_answer_is_waited_for_as_long_as_a_scrape_can() -> None:
    async def run() -> tuple[Verdict, float]:
        loop, transport = asyncio.get_running_loop(), Answering()
        transport.before = asyncio.Event().wait
        started = loop.time()
        return await reviews_over(transport, loop.time).review(TOKEN, address="", known=False), (
            loop.time() - started
        )

    assert run_virtually(run()) == ("Failed", REVIEW_SECONDS)


# The operator's own right to delete pods.


def own_review(**status: Any) -> bytes:
    body = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return json.dumps({**body, "spec": {}, "status": status}).encode()


async def reviewed(answer: bytes) -> Request:
    asked: list[Request] = []

    async def send(request: Request) -> bytes:
        asked.append(request)
        return answer

    await review_deletions(send)
    return asked[0]


async def test_it_asks_whether_it_may_delete_pods_of_all_namespaces() -> None:
    asked = await reviewed(own_review(allowed=True))
    assert (asked.method, asked.path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
    spec = json.loads(asked.body or b"")["spec"]
    assert spec == {"resourceAttributes": {"verb": "delete", "resource": "pods"}}


async def test_a_right_to_delete_that_is_missing_is_named() -> None:
    with pytest.raises(Forbidden) as refused:
        await reviewed(own_review(allowed=False, reason="no"))
    permission = refused.value.permission
    assert permission is not None
    assert (permission.verb, permission.resource, permission.namespace) == ("delete", "pods", None)


@pytest.mark.parametrize("answer", [b"", b"{}", own_review(), access_review(denied=True)])
async def test_an_answer_that_does_not_say_it_is_no_verdict(answer: bytes) -> None:
    with pytest.raises(StreamGarbled):
        await reviewed(answer)
