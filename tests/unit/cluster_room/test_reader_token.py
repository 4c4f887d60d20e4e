"""The token that kubelets are shown: when it is asked for, how long it is used, what is said without it."""

from __future__ import annotations

import asyncio
import json
import logging
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Seconds
from winpool.cluster.access import explain
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, Forbidden, NotFound, Unavailable, UnconfirmedRefusal, error_of
from winpool.cluster.reader_token import ReaderToken, token_request
from winpool.cluster.request import Request
from winpool.cluster.transport import Transport

FORBIDDEN = (
    'serviceaccounts "winpool-kubelet-reader" is forbidden: User'
    ' "system:serviceaccount:winpool-system:winpool" cannot create resource "serviceaccounts/token" in API'
    ' group "" in the namespace "winpool-system"'
)
BROUGHT = "Apply deploy/overlays/memory, or with the Helm chart set memory.enabled=true."


def answer(token: str, *, seconds: Any = 3600) -> bytes:
    return json.dumps(
        {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": "winpool-kubelet-reader", "namespace": "winpool-system"},
            "spec": {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": seconds},
            "status": {"token": token, "expirationTimestamp": "2026-11-01T13:00:00Z"},
        }
    ).encode()


def refused(status: int, message: str) -> ApiError:
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message})
    label = token_request().label
    return error_of(status=status, body=body.encode(), request=label, group="")


MISSING_RULE = refused(403, FORBIDDEN)
NO_ACCOUNT = refused(404, 'serviceaccounts "winpool-kubelet-reader" not found')
DOWN = Unavailable("no answer")


class Server:
    """A transport that answers each request with the next of ``answers``, the last again and again."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []
        self.open = asyncio.Event()
        self.open.set()

    async def request(self, request: Request) -> bytes:
        self.asked.append(request)
        await self.open.wait()
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, ApiError):
            raise found
        return found


def reader(server: Server, clock: Seconds, told: list[str] | None = None) -> ReaderToken:
    def changed() -> None:
        if told is not None:
            told.append(token.problem)

    token = ReaderToken(
        cast("Transport", server),
        monotonic=clock,
        on_problem=changed,
        backoff=Backoff(first=1, cap=60, uniform=lambda _low, high: high),
    )
    return token


async def test_a_token_of_that_account_is_asked_for_an_hour_and_for_the_api_server() -> None:
    server = Server(answer("one"))
    assert await reader(server, Seconds())() == "one"
    [asked] = server.asked
    assert (asked.method, asked.path) == (
        "POST",
        "/api/v1/namespaces/winpool-system/serviceaccounts/winpool-kubelet-reader/token",
    )
    assert (asked.verb, asked.resource, asked.namespace) == (
        "create",
        "serviceaccounts/token",
        "winpool-system",
    )
    assert json.loads(asked.body or b"") == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }


async def test_nothing_is_asked_for_before_a_kubelet_is_polled() -> None:
    server = Server(answer("one"))
    token = reader(server, Seconds())
    await asyncio.sleep(0)
    assert server.asked == []
    await token.close()


async def test_it_is_renewed_after_four_fifths_of_its_life_and_used_on_meanwhile() -> None:
    clock, server = Seconds(), Server(answer("one"), answer("two"))
    token = reader(server, clock)
    assert await token() == "one"
    clock.now += 2879
    assert await token() == "one"
    assert len(server.asked) == 1
    clock.now += 1
    server.open.clear()
    assert [await token(), await token()] == ["one", "one"]
    server.open.set()
    await until_asked(server, 2)
    assert await token() == "two"
    assert len(server.asked) == 2


async def until_asked(server: Server, times: int) -> None:
    """Let a request that was begun beside the calls go out, and come to its end."""
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(server.asked) == times


async def test_its_life_begins_before_it_is_asked_for() -> None:
    clock, server = Seconds(), Server(answer("one"), DOWN)
    token = reader(server, clock)
    server.open.clear()
    first = asyncio.ensure_future(token())
    await until_asked(server, 1)
    clock.now += 20
    server.open.set()
    assert await first == "one"
    clock.now += 3579
    assert await token() == "one"
    await until_asked(server, 2)
    clock.now += 1
    assert await token() is None


async def test_a_life_that_the_server_shortens_counts_and_a_longer_one_is_not_used() -> None:
    for told, life in ((1200, 1200), (3607, 3600), (10**9, 3600)):
        clock, server = Seconds(), Server(answer("one", seconds=told), DOWN)
        token = reader(server, clock)
        await token()
        clock.now += life - 1
        assert await token() == "one"
        clock.now += 1
        assert await token() is None


async def test_all_who_ask_at_once_wait_for_one_request() -> None:
    server = Server(answer("one"))
    token = reader(server, Seconds())
    assert await asyncio.gather(*(token() for _ in range(100))) == ["one"] * 100
    assert len(server.asked) == 1


async def test_who_gives_up_waiting_does_not_end_the_request_of_others() -> None:
    server = Server(answer("one"))
    token = reader(server, Seconds())
    server.open.clear()
    hasty, patient = (asyncio.ensure_future(token()) for _ in range(2))
    await asyncio.sleep(0)
    hasty.cancel()
    await asyncio.gather(hasty, return_exceptions=True)
    assert hasty.cancelled()
    server.open.set()
    assert await patient == "one"
    assert len(server.asked) == 1


async def test_after_a_failure_it_is_asked_again_after_pauses_that_grow_to_a_minute() -> None:
    clock, server = Seconds(), Server(DOWN)
    token = reader(server, clock)
    asked_at: list[float] = []
    for _ in range(4000):
        before = len(server.asked)
        assert await token() is None
        if len(server.asked) > before:
            asked_at.append(clock.now)
        clock.now += 0.1
    pauses = [round(after - before) for before, after in pairwise(asked_at)]
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]


async def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    clock, server = Seconds(), Server(ApiError("too many", status=429, retry_after=30), answer("one"))
    token = reader(server, clock)
    assert await token() is None
    clock.now += 29
    assert await token() is None
    clock.now += 1
    assert await token() == "one"


async def test_a_token_that_cannot_be_renewed_is_used_until_its_end() -> None:
    clock, server = Seconds(), Server(answer("one"), DOWN)
    token = reader(server, clock)
    await token()
    begun = clock.now
    for times, passed in enumerate((2880, 2980, 3080, 3599), start=2):
        clock.now = begun + passed
        assert await token() == "one"
        await until_asked(server, times)
    clock.now = begun + 3600
    assert await token() is None


async def test_a_missing_right_is_told_with_the_rule_for_that_account_only() -> None:
    told: list[str] = []
    clock, server = Seconds(), Server(MISSING_RULE, MISSING_RULE, DOWN, answer("one"))
    token = reader(server, clock, told)
    assert await token() is None
    rule = (
        '{apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: ["winpool-kubelet-reader"],'
        ' verbs: ["create"]}'
    )
    assert token.problem == (
        "system:serviceaccount:winpool-system:winpool may not create serviceaccounts/token in namespace"
        f" winpool-system. Add the rule {rule} to a Role in namespace winpool-system that is bound to it."
        f" {BROUGHT}"
    )
    missing = token.problem
    for _ in range(2):  # the same refusal, and an outage that says nothing about rights
        clock.now += 60
        assert await token() is None
        assert token.problem == missing
    clock.now += 60
    assert await token() == "one"
    assert told == [missing, ""]


async def test_a_missing_account_is_told() -> None:
    told: list[str] = []
    token = reader(Server(NO_ACCOUNT), Seconds(), told)
    assert await token() is None
    assert told == [f"The ServiceAccount winpool-system/winpool-kubelet-reader does not exist. {BROUGHT}"]


@pytest.mark.parametrize("error", [DOWN, UnconfirmedRefusal("create: 403 not yet", status=403)])
async def test_a_failure_of_another_kind_is_no_missing_permission(error: ApiError) -> None:
    token = reader(Server(error), Seconds())
    assert await token() is None
    assert token.problem == ""


async def test_a_refusal_by_a_policy_is_told_in_its_own_words() -> None:
    denied = refused(403, "ValidatingAdmissionPolicy 'corp' denied request: no tokens on Sundays")
    token = reader(Server(denied), Seconds())
    await token()
    assert "no tokens on Sundays" in token.problem


SECRET = "eyJhbGciOiJSUzI1NiJ9.c2VjcmV0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        SECRET.encode(),
        json.dumps({"kind": "TokenRequest", "status": {"token": SECRET}}).encode(),
        answer(SECRET).replace(b"TokenRequest", b"TokenReview"),
        answer(SECRET, seconds=599),
        answer(SECRET, seconds=-1),
        answer(SECRET, seconds=SECRET),
        answer(""),
    ],
)
async def test_an_answer_that_is_none_gives_no_token_and_gets_into_no_log(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server(body)
    token = reader(server, Seconds())
    assert await token() is None
    [line] = [each for each in caplog.records if each.name.startswith("winpool.")]
    assert "the token of the ServiceAccount winpool-system/winpool-kubelet-reader: " in line.getMessage()
    assert SECRET not in caplog.text
    assert SECRET not in repr(vars(token))


@given(st.binary(max_size=80))
def test_no_answer_is_too_strange(body: bytes) -> None:
    async def asked() -> str | None:
        return await reader(Server(body), Seconds())()

    assert asyncio.run(asked()) is None


async def test_the_token_is_in_no_log_and_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, server = Seconds(), Server(DOWN, DOWN, DOWN, answer(SECRET))
    token = reader(server, clock)
    for _ in range(4):
        await token()
        clock.now += 10
    assert await token() == SECRET
    assert [each.levelname for each in caplog.records if each.name.startswith("winpool.")] == [
        "WARNING",
        "INFO",
    ]
    assert SECRET not in caplog.text


async def test_closing_ends_a_request_that_is_under_way() -> None:
    server = Server(answer("one"))
    server.open.clear()
    token = reader(server, Seconds())
    waiting = asyncio.ensure_future(token())
    await asyncio.sleep(0)
    await token.close()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()


def test_a_rule_can_be_for_one_object_only() -> None:
    assert isinstance(MISSING_RULE, Forbidden)
    assert isinstance(NO_ACCOUNT, NotFound)
    assert 'resourceNames: ["one"], verbs' in explain(MISSING_RULE, name="one")
    assert "resourceNames" not in explain(MISSING_RULE)
