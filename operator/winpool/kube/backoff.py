"""How long to wait before a request is made again, and what the log says meanwhile.

How long to wait before trying again.

Token buckets by name: how often something may be done, with some room for a burst.

When a watch may be opened again.

What a reflector does after an error, and why.

One line in the log when something begins to fail, one when it recovers, and few in between.

Refusals that may be over in a moment, and are reported only when they have lasted.

An API server that starts answers requests before its authorizer has read roles and bindings, and refuses
every request until then (kubernetes/kubernetes#121635; with many bindings it takes longer). If this were
reported at once, each status and log would ask for a rule that exists already.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from winpool.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    StreamGarbled,
    StreamSilent,
    TooLarge,
    UnconfirmedRefusal,
)

RETRY_AFTER_CAP_SECONDS: Final = 60.0
"""The longest Retry-After that is obeyed. Otherwise one wrong header could stop the operator for a day."""

_uniform: Final = random.SystemRandom().uniform


class Backoff:
    """Pauses that double, with jitter: between half of a step and the whole of it.

    The jitter keeps many clients that lost the same server from coming back in step; the lower
    bound limits the requests of a single one. Not thread-safe. It has no clock of its own.
    """

    __slots__ = ("_asked_cap", "_attempt", "_cap", "_first", "_uniform")

    def __init__(
        self,
        *,
        first: float = 1.0,
        cap: float = 30.0,
        asked_cap: float = RETRY_AFTER_CAP_SECONDS,
        uniform: Callable[[float, float], float] = _uniform,
    ) -> None:
        self._first = first
        self._cap = cap
        self._asked_cap = asked_cap
        self._uniform = uniform
        self._attempt = 0

    def next(self, *, asked: float | None = None) -> float:
        """Return the seconds to wait now; the next call returns up to twice as many, up to the cap.

        ``asked`` is what the server asked for (Retry-After): obeyed, up to ``asked_cap``.
        """
        step = self._first
        for _ in range(self._attempt):
            step = min(step * 2, self._cap)
        if step < self._cap:
            self._attempt += 1
        return max(self._uniform(step / 2, step), min(asked or 0.0, self._asked_cap))

    def reset(self) -> None:
        """Start from the first step again, after a success."""
        self._attempt = 0


_NAMES_KEPT: Final = 1024
"""Bound of memory. Beyond it, the name used longest ago is forgotten; at worst it has its burst again."""


class Budgets:
    """Each name has up to ``burst`` tokens, and gets ``per_second`` new ones until it has that many."""

    __slots__ = ("_burst", "_left", "_monotonic", "_per_second")

    def __init__(self, *, per_second: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._monotonic = monotonic
        # For each name the tokens left, and at which time; the last used is at the end.
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str, *, leaving: int = 0) -> bool:
        """Take a token; False where no more than ``leaving`` are left."""
        now = self._monotonic()
        left, when = self._left.pop(name, (self._burst, now))
        left = min(self._burst, left + (now - when) * self._per_second)
        granted = left >= 1.0 + leaving
        self._left[name] = (left - 1.0 if granted else left, now)
        if len(self._left) > _NAMES_KEPT:
            self._left.popitem(last=False)
        return granted


SHORT_LIFE_SECONDS: Final = 1.0
"""The least time from opening a watch to opening it again. Otherwise a proxy that ends each at once, properly
or with a 410, would get requests in a tight loop. A watch that ends sooner and brought nothing is a
failure."""


class Openings:
    """The openings of one watch, SHORT_LIFE_SECONDS apart; one that lived longer is followed at once."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next = float("-inf")

    async def take(self) -> None:
        """Return when the watch may be opened."""
        if (pause := self._next - self._monotonic()) > 0:
            await asyncio.sleep(pause)
        self._next = self._monotonic() + SHORT_LIFE_SECONDS


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to do after an error: list, or continue from the last good version; at once or after a pause."""

    relist: bool
    pause: bool = True


def recovery_after(error: ApiError, *, progressed: bool, expired_before: bool) -> Recovery:
    """Decide how to continue after ``error``.

    ``progressed`` says whether anything had come in since the error before, ``expired_before``
    whether that was a 410 too.

    - 410: the version is too old to continue from; only a list shows what was missed. The first
      time it is listed at once, as after any outage that was long enough: waiting changes nothing.
    - Silence: either the connection is dead, and continuing would be enough. Or the server does
      not know the version yet (etcd was restored from a backup), and the watch is silent for ever.
      The client cannot distinguish the two, so it lists.
    - A line too large: it would come again, so it lists.
    - A line cut off, garbage, a broken connection, no server, a refusal: all that was stored before
      is good, so it continues from there; the server sends again what came after. If garbage comes
      again at the same place, with nothing good in between, it lists.
    """
    if isinstance(error, Gone):
        return Recovery(relist=True, pause=expired_before and not progressed)
    if isinstance(error, StreamSilent | TooLarge):
        return Recovery(relist=True)
    if isinstance(error, StreamGarbled):
        return Recovery(relist=not progressed)
    return Recovery(relist=False)


REMINDER_SECONDS: Final = 300.0
"""How often an outage that continues unchanged is logged again."""

FLAP_SECONDS: Final = 60.0
"""The same failure within this time after its last line is not logged again, recovered or not."""


class Outage:
    """Logs failures of one thing by their kind: the same failure again and again is one message.

    ``meanwhile`` says what the operator does about it.
    """

    __slots__ = ("_announced", "_kind", "_logger", "_meanwhile", "_monotonic", "_since", "_told_at", "_what")

    def __init__(
        self, what: str, *, logger: logging.Logger, monotonic: Callable[[], float], meanwhile: str
    ) -> None:
        self._what = what
        self._meanwhile = meanwhile
        self._logger = logger
        self._monotonic = monotonic
        self._since: float | None = None
        self._told_at = float("-inf")
        self._kind: tuple[type[Exception], str] | None = None
        self._announced = False

    def failed(self, error: Exception) -> None:
        """Log a failure, if it is of another kind than the last or that was long ago.

        The kind is its type, and its reason where it is an ApiError. An UnconfirmedRefusal is logged for
        debugging only: either it is over in a moment, or it comes again as a confirmed one.
        """
        now = self._monotonic()
        quiet = FLAP_SECONDS if self._since is None else REMINDER_SECONDS
        if self._since is None:
            self._since = now
        kind = (type(error), getattr(error, "reason", ""))
        is_told = kind == self._kind and now - self._told_at < quiet
        if is_told or isinstance(error, UnconfirmedRefusal):
            self._logger.debug("%s: %s; %s", self._what, error, self._meanwhile)
            return
        self._kind, self._told_at, self._announced = kind, now, True
        self._logger.warning("%s: %s; %s", self._what, error, self._meanwhile)

    def ended(self) -> None:
        """Log, once and only after a failure that was logged, that it works again."""
        if self._since is None:
            return
        if self._announced:
            self._logger.info("%s: recovered after %.1f s", self._what, self._monotonic() - self._since)
        self._since, self._announced = None, False


LASTS_SECONDS: Final = 5.0
"""A refusal that is this old is believed. An API server reads its roles in about a second; a person who
forgot a rule waits this long for the report."""


MOST: Final = 1024
"""Refusals that are remembered, of any namespace. Beyond it the oldest is forgotten, and counts as new
again."""


class FirstRefusals:
    """Knows since when each verb on a resource is refused in each namespace.

    Namespaces are distinguished. Otherwise what one of them permits would hide for ever what another refuses.
    """

    __slots__ = ("_monotonic", "_since")

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: dict[tuple[str, str, str | None], float] = {}

    def judge(self, error: ApiError) -> ApiError:
        """Return a refusal by RBAC that has not lasted as an UnconfirmedRefusal, any other error as it is.

        A refusal by an admission policy concerns the object, not a server that starts, so it is believed.
        """
        if not isinstance(error, Forbidden) or error.permission is None:
            return error
        asked = error.permission
        now = self._monotonic()
        since = self._since.setdefault((asked.verb, asked.resource, asked.namespace), now)
        if len(self._since) > MOST:
            del self._since[next(iter(self._since))]
        if now - since >= LASTS_SECONDS:
            return error
        return UnconfirmedRefusal(error.message, status=error.status, retry_after=error.retry_after)

    def permitted(self, *, verb: str, resource: str, namespace: str | None) -> None:
        """Note that this was permitted: the next refusal of it is a first one again."""
        if self._since:
            self._since.pop((verb, resource, namespace), None)
