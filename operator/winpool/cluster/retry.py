"""Which requests are sent again by the transport itself, when, and how often.

Short and few: a blip is bridged here so that a page of a long list or one patch of
thousands does not count as a failure; an outage is for the loops above, which have
their own backoff and look at the world again before they try again.

Sent again are only
- reads (get, list), and
- writes that say they are guarded: they carry the resourceVersion that they were decided
  on, so where the first attempt did reach the server and only its answer was lost, the
  second is a 409, and nothing is done twice.

Never sent again: creations, and anything whose first attempt already waited out its time.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

import tenacity

from winpool.cluster.errors import ApiError, NoAnswer, TooManyRequests, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

ATTEMPTS: Final = 3
"""In all. With the pauses below they bridge about a second: a leader change of etcd, one API
server of several going away, a full queue of priority and fairness."""

FIRST_PAUSE_SECONDS: Final = 0.2
PAUSE_CAP_SECONDS: Final = 2.0

RETRY_AFTER_LIMIT_SECONDS: Final = 10.0
"""A server that asks for more than this is overloaded: the caller should know rather than wait."""

_jitter: Final = random.SystemRandom().uniform


def is_worth_repeating(error: BaseException) -> bool:
    """Tell whether the same request may succeed in a moment."""
    if not isinstance(error, TooManyRequests | Unavailable) or isinstance(error, NoAnswer):
        return False
    return error.retry_after is None or error.retry_after <= RETRY_AFTER_LIMIT_SECONDS


def pause_before(*, attempt: int, error: BaseException | None) -> float:
    """Seconds before the attempt after ``attempt`` (1 = the first): full jitter, never below Retry-After.

    Full jitter ("Exponential Backoff And Jitter", AWS Architecture Blog) spreads the many
    requests in flight that failed in the same instant.
    """
    ceiling = min(PAUSE_CAP_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
    asked = error.retry_after if isinstance(error, ApiError) else None
    return (asked or 0.0) + _jitter(0.0, ceiling)


def retrying(
    *, sleep: Callable[[float], Awaitable[None]], on_retry: Callable[[], None]
) -> tenacity.AsyncRetrying:
    """Make the policy for one request. It is not to be shared by two: it keeps state between attempts."""

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
