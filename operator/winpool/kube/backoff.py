"""Says how long to wait before something is tried again, how often it may be done, and what to log of it.

``Backoff`` is for one loop, ``KeyedBackoff`` for many objects, and ``Budgets`` are token buckets.
``LogThrottle`` and ``Outage`` keep the log short. ``FirstRefusals`` is for an API server
that has just started.
"""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from winpool.kube.errors import ApiError, Forbidden, UnconfirmedRefusal
from winpool.loops import keep_newest

KeyT = TypeVar("KeyT", bound=Hashable)

RETRY_AFTER_CAP_SECONDS: Final = 60.0
"""The longest Retry-After that is obeyed. Otherwise one wrong header could stop the operator for a day."""

_MOST_DOUBLINGS: Final = 30
"""Beyond any cap. Counting on would overflow a float."""

uniform: Final = random.SystemRandom().uniform
"""Returns a number between two, by chance, so that operators and loops do not act in step."""


def doubled(first: float, times: int, *, cap: float) -> float:
    """Return the pause after so many failures in a row: twice as long each time, up to ``cap``."""
    return min(first * 2.0 ** min(max(times - 1, 0), _MOST_DOUBLINGS), cap)


@dataclass(slots=True, kw_only=True)
class Backoff:
    """The pauses of one loop, which double, with jitter: between half of a step and the whole of it.

    The jitter keeps many clients that lost the same server from coming back in step; the lower
    bound limits the requests of a single one. Not thread-safe. It has no clock of its own.
    """

    first: float = 1.0
    cap: float = 30.0
    asked_cap: float = RETRY_AFTER_CAP_SECONDS
    uniform: Callable[[float, float], float] = uniform
    _times: int = field(default=0, init=False)

    def next(self, *, asked: float | None = None) -> float:
        """Return the seconds to wait now; the next call returns up to twice as many, up to the cap.

        ``asked`` is what the server asked for (Retry-After): obeyed, up to ``asked_cap``.
        """
        self._times += 1
        step = doubled(self.first, self._times, cap=self.cap)
        return max(self.uniform(step / 2, step), min(asked or 0.0, self.asked_cap))

    def reset(self) -> None:
        """Start from the first step again, after a success."""
        self._times = 0


FIRST_PAUSE_SECONDS: Final = 2.0
LONGEST_PAUSE_SECONDS: Final = 300.0

QUIET_SECONDS: Final = 600.0
"""Longer than the longest pause. Otherwise what fails again at that pace would not count as failing again."""

KEPT: Final = 4096
"""Bound of memory, some 300 bytes each. Beyond it, the one noted longest ago is forgotten; at worst it is
tried once more."""


class _Failures(msgspec.Struct, frozen=True):
    times: int
    last: float
    due: float


@dataclass(slots=True, kw_only=True)
class KeyedBackoff(Generic[KeyT]):
    """How often something failed lately, and until when it has to wait, by a key: 2, 4, 8 … ``cap`` seconds.

    After ten quiet minutes a count starts at zero. There is no jitter: each pause began at another time.
    """

    monotonic: Callable[[], float]
    cap: float = LONGEST_PAUSE_SECONDS
    kept: int = KEPT
    _failures: OrderedDict[KeyT, _Failures] = field(default_factory=OrderedDict, init=False)
    """The one that failed last is at the end."""

    def note(self, key: KeyT, *, at_least: float = 0.0) -> int:
        """Note that it failed again; return how often it has lately.

        The next try waits ``at_least`` so many seconds, up to LONGEST_PAUSE_SECONDS.
        """
        now = self.monotonic()
        times = self.times(key) + 1
        pause = max(doubled(FIRST_PAUSE_SECONDS, times, cap=self.cap), min(at_least, LONGEST_PAUSE_SECONDS))
        keep_newest(self._failures, key, _Failures(times, last=now, due=now + pause), most=self.kept)
        return times

    def forget(self, key: KeyT) -> None:
        """Forget the failures and the pause of one."""
        self._failures.pop(key, None)

    def times(self, key: KeyT) -> int:
        """Return how often it failed lately."""
        known = self._failures.get(key)
        return known.times if known and self.monotonic() - known.last < QUIET_SECONDS else 0

    def counts(self) -> dict[KeyT, int]:
        """Return how often each failed lately."""
        self.forget_quiet(self.monotonic())
        return {key: each.times for key, each in self._failures.items()}

    def forget_quiet(self, now: float) -> None:
        """Forget those that did not fail lately: machines come and go for years (P7)."""
        quiet_until = now - QUIET_SECONDS
        while self._failures and next(iter(self._failures.values())).last <= quiet_until:
            self._failures.popitem(last=False)

    def is_waiting(self, key: KeyT) -> bool:
        """Whether the pause of that one is not over."""
        known = self._failures.get(key)
        return known is not None and known.due > self.monotonic()

    def seconds_to_next(self, wanted: Iterable[KeyT]) -> float | None:
        """Return in how many seconds one of ``wanted`` may be tried again: 0 for now, None if none waits.

        One whose pause is over counts until it is tried.
        """
        now = self.monotonic()
        known = (self._failures.get(key) for key in wanted)
        return min((max(0.0, each.due - now) for each in known if each), default=None)

    def seconds_to_quiet(self, key: KeyT) -> float:
        """Return in how many seconds its failures are forgotten, if there are no more."""
        known = self._failures.get(key)
        return max(0.0, known.last + QUIET_SECONDS - self.monotonic()) if known else 0.0


_NAMES_KEPT: Final = 1024
"""Bound of memory. Beyond it, the name used longest ago is forgotten; at worst it has its burst again."""


@dataclass(slots=True, kw_only=True)
class Budgets:
    """Each name has up to ``burst`` tokens, and gets ``per_second`` new ones until it has that many."""

    per_second: float
    burst: int
    monotonic: Callable[[], float]
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict, init=False)
    """For each name the tokens left, and at which time; the last used is at the end."""

    def take(self, name: str, *, leaving: int = 0) -> bool:
        """Take a token; False where no more than ``leaving`` are left."""
        now = self.monotonic()
        left, when = self._left.pop(name, (self.burst, now))
        left = min(self.burst, left + (now - when) * self.per_second)
        granted = left >= 1.0 + leaving
        keep_newest(self._left, name, (left - 1.0 if granted else left, now), most=_NAMES_KEPT)
        return granted


_LINES_KEPT: Final = 100
"""Bound of memory: keys may contain values. Beyond it, the key used longest ago is forgotten."""


class _Line(msgspec.Struct):
    fact: object = None
    logged: object = None
    logged_at: float = float("-inf")
    skipped: int = 0


@dataclass(slots=True, kw_only=True)
class LogThrottle:
    """Says which lines to log of what may happen at any rate: one for each key, and not again for a while.

    A line for every change would let those who cause it fill the log, and hide all other lines (P7).
    """

    monotonic: Callable[[], float]
    _lines: OrderedDict[str, _Line] = field(default_factory=OrderedDict, init=False)

    def take(self, key: str, *, seconds: float, fact: object = None) -> int | None:
        """Return how many lines of ``key`` were skipped since the last; None where this one is skipped too.

        With ``fact`` it is logged only where that differs from the fact of the last line, and only changes of
        it count as skipped. A fact that came too early is logged when it is given again later.
        """
        now = self.monotonic()
        line = self._lines.get(key) or _Line()
        keep_newest(self._lines, key, line, most=_LINES_KEPT)
        is_change, line.fact = fact is None or fact != line.fact, fact
        if now - line.logged_at < seconds or (fact is not None and fact == line.logged):
            line.skipped += is_change
            return None
        skipped = line.skipped - (not is_change)  # this fact was skipped itself, when it was new
        line.logged, line.logged_at, line.skipped = fact, now, 0
        return max(0, skipped)

    def over(self, key: str) -> None:
        """Note that the last fact is no longer true: the same one is new when it comes again."""
        if key in self._lines:
            self._lines[key].fact = self._lines[key].logged = None


REMINDER_SECONDS: Final = 300.0
"""How often an outage that continues unchanged is logged again."""

FLAP_SECONDS: Final = 60.0
"""The same failure within this time after its last line is not logged again, recovered or not."""


@dataclass(slots=True)
class Outage:
    """Logs failures of one thing by their kind: the same failure again and again is one message.

    ``meanwhile`` says what the operator does about it. ``level`` is that of the lines about failures.
    """

    what: str
    logger: logging.Logger
    monotonic: Callable[[], float]
    meanwhile: str = "the operator tries again"
    level: int = logging.WARNING
    _throttle: LogThrottle = field(init=False)
    _since: float | None = field(default=None, init=False)
    _is_logged: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing logged."""
        self._throttle = LogThrottle(monotonic=self.monotonic)

    def failed(self, error: Exception) -> None:
        """Log a failure, if none of its kind was logged lately.

        The kind is its type, and its reason where it is an ApiError. An UnconfirmedRefusal is logged for
        debugging only: either it is over in a moment, or it comes again as a confirmed one.
        """
        quiet = FLAP_SECONDS if self._since is None else REMINDER_SECONDS
        if self._since is None:
            self._since = self.monotonic()
        kind = f"{type(error).__name__} {getattr(error, 'reason', '')}"
        is_quiet = isinstance(error, UnconfirmedRefusal) or self._throttle.take(kind, seconds=quiet) is None
        self._is_logged = self._is_logged or not is_quiet
        self.logger.log(
            logging.DEBUG if is_quiet else self.level, "%s: %s; %s", self.what, error, self.meanwhile
        )

    def ended(self) -> None:
        """Log, once and only after a failure that was logged, that it works again."""
        if self._since is None:
            return
        if self._is_logged:
            seconds = self.monotonic() - self._since
            self.logger.log(min(self.level, logging.INFO), "%s: recovered after %.1f s", self.what, seconds)
        self._since, self._is_logged = None, False


LASTS_SECONDS: Final = 5.0
"""A refusal that is this old is believed. An API server reads its roles in about a second; a person who
forgot a rule waits this long for the report."""


MOST: Final = 1024
"""Refusals that are remembered, of any namespace. Beyond it the oldest is forgotten, and counts as new
again."""


@dataclass(slots=True, kw_only=True)
class FirstRefusals:
    """Knows since when each verb on a resource is refused in each namespace.

    An API server that starts answers requests before its authorizer has read roles and bindings, and
    refuses every request until then (kubernetes/kubernetes#121635; with many bindings it takes longer). If
    this were reported at once, each status and log would ask for a rule that exists already.

    Namespaces are distinguished. Otherwise what one of them permits would hide for ever what another refuses.
    """

    monotonic: Callable[[], float]
    _since: dict[tuple[str, str, str | None], float] = field(default_factory=dict, init=False)

    def judge(self, error: ApiError) -> ApiError:
        """Return a refusal by RBAC that has not lasted as an UnconfirmedRefusal, any other error as it is.

        A refusal by an admission policy concerns the object, not a server that starts, so it is believed.
        """
        if not isinstance(error, Forbidden) or error.permission is None:
            return error
        asked = error.permission
        if self.has_lasted(asked.verb, asked.resource, asked.namespace):
            return error
        return UnconfirmedRefusal(error.message, status=error.status, retry_after=error.retry_after)

    def has_lasted(self, verb: str, resource: str, namespace: str | None) -> bool:
        """Note that this was refused now; return whether it has been for LASTS_SECONDS."""
        now = self.monotonic()
        since = self._since.setdefault((verb, resource, namespace), now)
        if len(self._since) > MOST:
            del self._since[next(iter(self._since))]
        return now - since >= LASTS_SECONDS

    def permitted(self, verb: str, resource: str, namespace: str | None) -> None:
        """Note that this was permitted: the next refusal of it is a first one again."""
        if self._since:
            self._since.pop((verb, resource, namespace), None)
