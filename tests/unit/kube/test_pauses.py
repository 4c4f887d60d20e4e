"""Pauses grow, are spread, and have a cap; only what is safe to repeat is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Seconds
from harness.listener import a_kubeconfig_for, an_authority, listening, server_tls
from winpool.kube.backoff import Backoff, Budgets
from winpool.kube.client import ATTEMPTS, Transport, is_worth_repeating, pause_before
from winpool.kube.credentials import load_connection
from winpool.kube.errors import (
    ApiError,
    Conflict,
    CredentialsError,
    Forbidden,
    Invalid,
    NoAnswer,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from winpool.kube.request import Request


def test_backoff_doubles_up_to_its_cap_and_starts_again() -> None:
    longest = Backoff(first=1, cap=30, uniform=lambda _, high: high)
    assert [longest.next() for _ in range(8)] == [1, 2, 4, 8, 16, 30, 30, 30]
    longest.reset()
    assert longest.next() == 1


def test_backoff_is_never_shorter_than_half_a_step() -> None:
    shortest = Backoff(first=1, cap=30, uniform=lambda low, _: low)
    assert [shortest.next() for _ in range(7)] == [0.5, 1, 2, 4, 8, 15, 15]


def test_backoff_draws_within_the_step() -> None:
    backoff = Backoff(first=2, cap=2)
    drawn = {backoff.next() for _ in range(50)}
    assert all(1 <= seconds <= 2 for seconds in drawn)
    assert len(drawn) > 1


@given(st.integers(1, 20), st.none() | st.floats(0, 10))
def test_a_retry_waits_at_least_as_long_as_asked(attempt: int, asked: float | None) -> None:
    error = TooManyRequests("429", status=429, retry_after=asked)
    assert (asked or 0) <= pause_before(attempt=attempt, error=error) <= (asked or 0) + 2


@pytest.mark.parametrize(
    ("error", "worth"),
    [
        (TooManyRequests("429", retry_after=None), True),
        (TooManyRequests("429", retry_after=10), True),
        (TooManyRequests("429", retry_after=11), False),
        (Unavailable("503", status=503), True),
        (NoAnswer("waited 30 s"), False),
        (Unavailable("the API server itself gave up", status=504, reason="Timeout"), True),
        (Conflict("409"), False),
        (Forbidden("403"), False),
        (Unauthorized("401"), False),
        (Invalid("422"), False),
        (CredentialsError("none"), False),
    ],
)
def test_what_is_worth_another_attempt(error: ApiError, worth: bool) -> None:
    assert is_worth_repeating(error) is worth


@pytest.mark.parametrize(
    ("request_", "repeatable"),
    [
        (Request(verb="get", resource="nodes", path="/"), True),
        (Request(verb="list", resource="nodes", path="/"), True),
        (Request(verb="watch", resource="nodes", path="/"), False),
        (Request(verb="create", resource="events", path="/"), False),
        (Request(verb="patch", resource="events", path="/"), False),
        (Request(verb="patch", resource="nodes", path="/", guarded=True), True),
    ],
)
def test_only_reads_and_guarded_writes_are_repeated(request_: Request, repeatable: bool) -> None:
    assert request_.is_repeatable is repeatable


def answered(status: int, *, retry_after: int | None = None) -> bytes:
    asked = "" if retry_after is None else f"Retry-After: {retry_after}\r\n"
    return f"HTTP/1.1 {status} Some\r\nContent-Length: 2\r\n{asked}\r\n{{}}".encode()


@asynccontextmanager
async def a_transport(folder: Path, answers: Iterable[bytes]) -> AsyncIterator[Transport]:
    """Give a transport to a server that gives these answers, one after the other."""
    left, authority = iter(answers), an_authority(folder, "ca")
    async with listening(server_tls(authority, folder), answer=lambda _: next(left)) as server:
        kubeconfig = a_kubeconfig_for(
            folder, server.url, ca=authority.paths.certificate, user={"token": "t0ken"}
        )
        connection = await load_connection(kubeconfig=kubeconfig, environ={})
        async with Transport(connection) as transport:
            yield transport


GET: Final = Request(verb="get", resource="nodes", path="/api/v1/nodes/w1")


@pytest.mark.slow
async def test_attempts_are_few_and_the_last_error_is_raised(tmp_path: Path) -> None:
    statuses = [503, 429, 500, 200]
    async with a_transport(tmp_path, map(answered, statuses)) as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.request(GET)
        assert caught.value.status == statuses[ATTEMPTS - 1]
        assert transport.stats.retries == ATTEMPTS - 1
        assert transport.stats.requests.total() == ATTEMPTS


async def test_an_attempt_that_succeeds_ends_it(tmp_path: Path) -> None:
    async with a_transport(tmp_path, (answered(429, retry_after=0), answered(200))) as transport:
        assert await transport.request(GET) == b"{}"
        assert transport.stats.retries == 1


async def test_what_is_not_repeatable_is_sent_once(tmp_path: Path) -> None:
    async with a_transport(tmp_path, (answered(503), answered(200))) as transport:
        with pytest.raises(Unavailable):
            await transport.request(Request(verb="create", resource="events", path="/apis/x"))
        assert transport.stats.requests.total() == 1


@pytest.mark.slow
async def test_closing_ends_the_pause_before_an_attempt(tmp_path: Path) -> None:
    async with a_transport(tmp_path, (answered(429, retry_after=9), answered(200))) as transport:
        asked = asyncio.create_task(transport.request(GET))
        await asyncio.sleep(0.5)
        await transport.close()
        async with asyncio.timeout(5):
            with pytest.raises(Unavailable, match="is being closed"):
                await asked
        assert transport.stats.requests.total() == 1


def test_a_budget_has_a_burst_and_refills() -> None:
    clock = Seconds()
    budgets = Budgets(per_second=1, burst=3, monotonic=clock)
    assert [budgets.take("a") for _ in range(5)] == [True, True, True, False, False]
    assert budgets.take("b"), "each name has its own"
    clock.now += 2
    assert [budgets.take("a") for _ in range(3)] == [True, True, False]
    clock.now += 3600
    assert [budgets.take("a") for _ in range(4)] == [True, True, True, False]


def test_names_beyond_the_bound_are_forgotten_longest_unused_first() -> None:
    budgets = Budgets(per_second=0, burst=1, monotonic=Seconds())
    assert budgets.take("first")
    assert budgets.take("second")
    for number in range(1022):
        budgets.take(str(number))
    assert not budgets.take("first")
    budgets.take("one too many")
    assert not budgets.take("first"), "it was used just now, the second was not"
    assert budgets.take("second")
