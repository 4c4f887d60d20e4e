"""The token that kubelets are shown: when it is asked for, how long it is used, what is said without it."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scripted_transport import gaps
from harness.virtual_time import in_virtual_time, run_virtually
from winpool.kube.backoff import Backoff
from winpool.kube.client import Transport
from winpool.kube.errors import (
    ApiError,
    Forbidden,
    NotFound,
    Unavailable,
    UnconfirmedRefusal,
    error_of,
    explain,
)
from winpool.kube.request import Request
from winpool.kube.tokens import ReaderToken, reader_request

FORBIDDEN = (
    'serviceaccounts "winpool-kubelet-reader" is forbidden: User'
    ' "system:serviceaccount:winpool-system:winpool" cannot create resource "serviceaccounts/token" in API'
    ' group "" in the namespace "winpool-system"'
)
BROUGHT = "Apply install-memory.yaml of this version, or with the Helm chart set memory.enabled=true."


def answer(token: str, *, seconds: Any = 600) -> bytes:
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
    label = reader_request().label
    return error_of(status=status, body=body.encode(), request=label, group="")


MISSING_RULE = refused(403, FORBIDDEN)
NO_ACCOUNT = refused(404, 'serviceaccounts "winpool-kubelet-reader" not found')
DOWN = Unavailable("no answer")


class Server:
    """A transport that answers each request with the next of ``answers``, the last again and again."""

    def __init__(self, *answers: bytes | ApiError) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []
        self.asked_at: list[float] = []
        self.open = asyncio.Event()
        self.open.set()

    async def request(self, request: Request) -> bytes:
        self.asked.append(request)
        self.asked_at.append(asyncio.get_running_loop().time())
        await self.open.wait()
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(found, ApiError):
            raise found
        return found


def reader(server: Server, told: list[str] | None = None) -> ReaderToken:
    """Return what a poll asks for its token. Its pauses are as long as they can be."""

    def changed() -> None:
        if told is not None:
            told.append(token.problem)

    token = ReaderToken(
        cast("Transport", server),
        monotonic=asyncio.get_running_loop().time,
        on_problem=changed,
        backoff=Backoff(first=1, cap=60, uniform=lambda _low, high: high),
    )
    return token


@in_virtual_time
async def test_a_token_of_that_account_is_asked_for_ten_minutes_and_for_the_api_server() -> None:
    server = Server(answer("one"))
    assert await reader(server)() == "one"
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
        "spec": {"expirationSeconds": 600},
    }


@in_virtual_time
async def test_nothing_is_asked_for_before_a_kubelet_is_polled() -> None:
    server = Server(answer("one"))
    token = reader(server)
    await asyncio.sleep(3600)
    assert server.asked == []
    await token.close()


@in_virtual_time
async def test_it_is_renewed_after_four_fifths_of_its_life_and_used_on_meanwhile() -> None:
    server = Server(answer("one"), answer("two"))
    token = reader(server)
    assert await token() == "one"
    await asyncio.sleep(479)
    assert await token() == "one"
    assert len(server.asked) == 1
    await asyncio.sleep(1)
    server.open.clear()
    assert [await token(), await token()] == ["one", "one"]
    await asyncio.sleep(1)
    server.open.set()
    await asyncio.sleep(1)
    assert await token() == "two"
    assert len(server.asked) == 2


@in_virtual_time
async def test_its_life_begins_before_it_is_asked_for() -> None:
    server = Server(answer("one"), DOWN)
    token = reader(server)
    server.open.clear()
    first = asyncio.ensure_future(token())
    await asyncio.sleep(20)
    server.open.set()
    assert await first == "one"
    await asyncio.sleep(579)
    assert await token() == "one"
    await asyncio.sleep(1)
    assert await token() is None
    await token.close()


@in_virtual_time
async def test_a_longer_life_is_not_used() -> None:
    life = 600
    for told in (600, 607, 10**9):
        token = reader(Server(answer("one", seconds=told), DOWN))
        await token()
        await asyncio.sleep(life - 1)
        assert await token() == "one"
        await asyncio.sleep(1)
        assert await token() is None
        await token.close()


@in_virtual_time
async def test_all_who_ask_at_once_wait_for_one_request() -> None:
    server = Server(answer("one"))
    token = reader(server)
    assert await asyncio.gather(*(token() for _ in range(100))) == ["one"] * 100
    assert len(server.asked) == 1


@in_virtual_time
async def test_who_gives_up_waiting_does_not_end_the_request_of_others() -> None:
    server = Server(answer("one"))
    token = reader(server)
    server.open.clear()
    hasty, patient = (asyncio.ensure_future(token()) for _ in range(2))
    await asyncio.sleep(1)
    hasty.cancel()
    await asyncio.gather(hasty, return_exceptions=True)
    assert hasty.cancelled()
    server.open.set()
    assert await patient == "one"
    assert len(server.asked) == 1


@in_virtual_time
async def test_after_a_failure_it_is_asked_again_after_pauses_that_grow_to_a_minute() -> None:
    server = Server(DOWN)
    token = reader(server)
    for _ in range(20):  # as often as a poll fails at most
        assert await token() is None
        await asyncio.sleep(30)
    assert [round(pause) for pause in gaps(server.asked_at)][:9] == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    await token.close()


@in_virtual_time
async def test_what_is_missing_is_asked_for_again_however_rarely_nodes_are_polled() -> None:
    server = Server(*[MISSING_RULE] * 5, answer("one"))
    token = reader(server)
    assert await token() is None
    await asyncio.sleep(299)
    assert token.problem == ""
    assert len(server.asked) == 6
    assert await token() == "one"


@in_virtual_time
async def test_once_nothing_is_polled_any_more_nothing_is_asked_for() -> None:
    server = Server(DOWN)
    token = reader(server)
    assert await token() is None
    await asyncio.sleep(700)
    asked = len(server.asked)
    await asyncio.sleep(3600)
    assert len(server.asked) == asked
    assert await token() is None
    assert len(server.asked) == asked + 1
    await token.close()


@in_virtual_time
async def test_who_asks_during_a_pause_is_not_kept_waiting() -> None:
    server = Server(DOWN)
    token = reader(server)
    await asyncio.sleep(100)
    assert await token() is None
    for _ in range(10):
        await asyncio.sleep(7)
        at = asyncio.get_running_loop().time()
        assert await token() is None
        assert asyncio.get_running_loop().time() == at
    await token.close()


@in_virtual_time
async def test_a_pause_that_the_server_asks_for_is_kept() -> None:
    server = Server(ApiError("too many", status=429, retry_after=30), answer("one"))
    token = reader(server)
    assert await token() is None
    await asyncio.sleep(29)
    assert await token() is None
    await asyncio.sleep(2)
    assert await token() == "one"


@in_virtual_time
async def test_a_token_that_cannot_be_renewed_is_used_until_its_end() -> None:
    server = Server(answer("one"), DOWN)
    token = reader(server)
    assert await token() == "one"
    for seconds in (480, 40, 40, 39):
        await asyncio.sleep(seconds)
        assert await token() == "one"
    assert [round(pause) for pause in gaps(server.asked_at)] == [480, 1, 2, 4, 8, 16, 32]
    await asyncio.sleep(1)
    assert await token() is None
    await token.close()


# Kubelets refuse it


@in_virtual_time
async def test_a_token_that_most_kubelets_refuse_is_renewed_with_the_next_poll_and_used_until_then() -> None:
    server = Server(answer("one"), answer("two"))
    token = reader(server)
    assert await token() == "one"
    await asyncio.sleep(10)
    server.open.clear()
    token.refused("one")
    assert len(server.asked) == 1
    assert await token() == "one"
    server.open.set()
    await asyncio.sleep(1)
    assert await token() == "two"
    assert len(server.asked) == 2


@in_virtual_time
async def test_kubelets_that_refuse_whatever_they_are_shown_cost_a_request_in_five_minutes() -> None:
    server = Server(*[answer(f"token-{number}") for number in range(100)])
    token = reader(server)
    for _ in range(3600):
        shown = await token()
        assert shown is not None
        token.refused(shown)
        await asyncio.sleep(1)
    assert len(server.asked) == 13
    assert [round(pause) for pause in gaps(server.asked_at)] == [1, *[300] * 11]


@in_virtual_time
async def test_a_refusal_of_an_older_token_renews_nothing() -> None:
    server = Server(answer("one"), answer("two"), answer("three"))
    token = reader(server)
    await token()
    token.refused("one")
    await token()
    await asyncio.sleep(1)
    await asyncio.sleep(310)
    for late in ("one", "", "another"):
        token.refused(late)
        assert await token() == "two"
    assert len(server.asked) == 2
    token.refused("two")
    await token()
    await asyncio.sleep(1)
    assert await token() == "three"


@in_virtual_time
async def test_while_no_new_token_is_given_the_refused_one_is_used_and_what_is_missing_is_told() -> None:
    """The account was deleted: its tokens are worth nothing. With a new account polls go on by themselves."""
    server = Server(answer("one"), *[NO_ACCOUNT] * 4, answer("two"))
    token = reader(server)
    for _ in range(60):
        shown = await token()
        assert shown in ("one", "two")
        if shown == "one":
            token.refused(shown)
        await asyncio.sleep(1)
    assert [round(pause) for pause in gaps(server.asked_at)] == [1, 1, 2, 4, 8]
    assert token.problem == ""
    assert shown == "two"


@in_virtual_time
async def test_an_early_renewal_is_logged_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    token = reader(Server(answer(SECRET)))
    await token()
    for _ in range(3):
        token.refused(SECRET)
    [line] = [each.getMessage() for each in caplog.records if each.name.startswith("winpool.")]
    assert line == (
        "most kubelets refuse the token of the ServiceAccount winpool-system/winpool-kubelet-reader; winpool"
        " asks for a new one"
    )


# What is told


@in_virtual_time
async def test_a_missing_right_is_told_with_the_rule_for_that_account_only() -> None:
    told: list[str] = []
    server = Server(MISSING_RULE, MISSING_RULE, DOWN, answer("one"))
    token = reader(server, told)
    assert await token() is None
    rule = (
        '{apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: ["winpool-kubelet-reader"],'
        ' verbs: ["create"]}'
    )
    missing = (
        "system:serviceaccount:winpool-system:winpool may not create serviceaccounts/token in namespace"
        f" winpool-system. Add the rule {rule} to a Role in namespace winpool-system that is bound to it."
        f" {BROUGHT}"
    )
    assert token.problem == missing
    await asyncio.sleep(6)  # the same refusal, and an outage that says nothing about rights
    assert len(server.asked) == 3
    assert token.problem == missing
    await asyncio.sleep(60)
    assert await token() == "one"
    assert told == [missing, ""]


@in_virtual_time
async def test_a_missing_account_is_told() -> None:
    told: list[str] = []
    token = reader(Server(NO_ACCOUNT), told)
    assert await token() is None
    assert told == [f"The ServiceAccount winpool-system/winpool-kubelet-reader does not exist. {BROUGHT}"]
    await token.close()


@pytest.mark.parametrize("error", [DOWN, UnconfirmedRefusal("create: 403 not yet", status=403)])
@in_virtual_time
async def test_a_failure_of_another_kind_is_no_missing_permission(error: ApiError) -> None:
    token = reader(Server(error))
    assert await token() is None
    assert token.problem == ""
    await token.close()


@in_virtual_time
async def test_a_refusal_by_a_policy_is_told_in_its_own_words() -> None:
    denied = refused(403, "ValidatingAdmissionPolicy 'corp' denied request: no tokens on Sundays")
    token = reader(Server(denied))
    await token()
    assert "no tokens on Sundays" in token.problem
    await token.close()


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
@in_virtual_time
async def test_an_answer_that_is_none_gives_no_token_and_gets_into_no_log(
    body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server(body)
    token = reader(server)
    assert await token() is None
    await token.close()
    [line] = [each for each in caplog.records if each.name.startswith("winpool.")]
    assert "the token of the ServiceAccount winpool-system/winpool-kubelet-reader: " in line.getMessage()
    assert SECRET not in caplog.text
    assert SECRET not in repr(vars(token))


@given(st.binary(max_size=80))
def test_no_answer_is_too_strange(body: bytes) -> None:
    async def asked() -> str | None:
        token = reader(Server(body))
        found = await token()
        await token.close()
        return found

    assert run_virtually(asked()) is None


@in_virtual_time
async def test_the_token_is_in_no_log_and_failures_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    token = reader(Server(DOWN, DOWN, DOWN, answer(SECRET)))
    assert await token() is None
    await asyncio.sleep(30)
    assert await token() == SECRET
    assert [each.levelname for each in caplog.records if each.name.startswith("winpool.")] == [
        "WARNING",
        "INFO",
    ]
    assert SECRET not in caplog.text


@in_virtual_time
async def test_closing_ends_a_request_that_is_under_way() -> None:
    server = Server(answer("one"))
    server.open.clear()
    token = reader(server)
    waiting = asyncio.ensure_future(token())
    await asyncio.sleep(1)
    await token.close()
    assert await waiting is None


def test_a_rule_can_be_for_one_object_only() -> None:
    assert isinstance(MISSING_RULE, Forbidden)
    assert isinstance(NO_ACCOUNT, NotFound)
    assert 'resourceNames: ["one"], verbs' in explain(MISSING_RULE, name="one")
    assert "resourceNames" not in explain(MISSING_RULE)
