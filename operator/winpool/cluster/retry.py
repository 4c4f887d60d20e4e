"""Which requests the transport itself sends again, when, and how often.

Retries are short and few: they cover a short failure, so that a page of a long list or one patch
of thousands does not fail. An outage is for the loops above, which have their own backoff and
observe again before they try again.

The transport sends again only
- reads (get, list), and
- writes that are marked as guarded: they have the resourceVersion that they were decided
  on. So where the first attempt did reach the server and only its answer was lost, the
  second is a 409, and nothing is done twice.

It never sends again: creations, and any request whose first attempt reached its time limit.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import tenacity

from winpool.cluster.errors import ApiError, NoAnswer, TooManyRequests, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ATTEMPTS: Final = 3
"""In all. With the pauses below they cover about a second: a leader change of etcd, the end of one
API server of several, a full queue of priority and fairness."""

FIRST_PAUSE_SECONDS: Final = 0.2
PAUSE_CAP_SECONDS: Final = 2.0

RETRY_AFTER_LIMIT_SECONDS: Final = 10.0
"""A server that asks for more than this is overloaded: the caller gets the error instead of waiting."""

_jitter: Final = random.SystemRandom().uniform


def is_worth_repeating(error: BaseException) -> bool:
    """Whether the same request may succeed in a moment."""
    if not isinstance(error, TooManyRequests | Unavailable) or isinstance(error, NoAnswer):
        return False
    return error.retry_after is None or error.retry_after <= RETRY_AFTER_LIMIT_SECONDS


def pause_before(*, attempt: int, error: BaseException | None) -> float:
    """Return the seconds to wait after ``attempt`` (1 = the first): full jitter, at least Retry-After.

    Full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog) spreads the many
    requests in flight that failed in the same instant.
    """
    ceiling = min(PAUSE_CAP_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    asked = error.retry_after if isinstance(error, ApiError) else None
    return (asked or 0.0) + _jitter(0.0, ceiling)


def retrying(
    *, sleep: Callable[[float], Awaitable[None]], on_retry: Callable[[], None]
) -> tenacity.AsyncRetrying:
    """Make the policy for one request. Two requests must not share it: it keeps state between attempts."""

    def wait(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        return pause_before(attempt=state.attempt_number, error=error)

    def before_sleep(_: tenacity.RetryCallState) -> None:
        on_retry()

    return tenacity.AsyncRetrying(
        stop=tenacity.stop_after_attempt(ATTEMPTS),
        wait=wait,
        retry=tenacity.retry_if_exception(is_worth_repeating),
        sleep=sleep,
        before_sleep=before_sleep,
        reraise=True,
    )
