"""Pauses grow, are spread, and have a cap; only what is safe to repeat is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Seconds
from winpool.kube.backoff import Backoff, Budgets
from winpool.kube.client import ATTEMPTS, is_worth_repeating, pause_before, retrying
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
        (ValueError(), False),
    ],
)
def test_what_is_worth_another_attempt(error: BaseException, worth: bool) -> None:
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


async def test_attempts_are_few_and_the_last_error_is_raised() -> None:
    pauses: list[float] = []
    retries: list[None] = []
    attempts: list[ApiError] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def fail() -> None:
        attempts.append(Unavailable(f"attempt {len(attempts) + 1}", status=503))
        raise attempts[-1]

    policy = retrying(sleep=sleep, on_retry=lambda: retries.append(None))
    with pytest.raises(Unavailable) as caught:
        await policy(fail)
    assert caught.value is attempts[-1]
    assert len(attempts) == ATTEMPTS
    assert len(pauses) == len(retries) == ATTEMPTS - 1


async def test_an_attempt_that_succeeds_ends_it() -> None:
    answers: Iterator[ApiError | str] = iter([TooManyRequests("429", retry_after=0.0), "answer"])

    async def attempt() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    policy = retrying(sleep=asyncio.sleep, on_retry=lambda: None)
    assert await policy(attempt) == "answer"


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
