"""Pauses between two tries of one act, which grow as those of ``Pacer`` do.

Three things differ from ``Pacer``: the API server may ask for more time, each object has its own pause, and
the number of pauses has a limit, since pods come and go by the thousand.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from winpool.control.patience.pacing import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from winpool.control.patience.recurrence import QUIET_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

KeyT = TypeVar("KeyT", bound="Hashable")

KEPT: Final = 4096
"""Bound of memory, some 300 bytes each. Beyond it, the one noted longest ago is forgotten; at worst it is
tried once more."""

_MOST_TIMES: Final = 9
"""2 ** 8 seconds is the last step below the longest pause; counting on would only grow a number."""


@dataclass(frozen=True, slots=True)
class _Pause:
    times: int
    began: float
    due: float


class Pauses(Generic[KeyT]):
    """What has to wait, by a key; ``longest`` is the longest pause of our own, in seconds."""

    def __init__(self, *, monotonic: Callable[[], float], longest: float) -> None:
        self._monotonic = monotonic
        self._longest = longest
        self._pauses: OrderedDict[KeyT, _Pause] = OrderedDict()

    def note(self, key: KeyT, *, at_least: float = 0.0) -> int:
        """Note a try without success; return how many there were lately.

        The next try waits ``at_least`` so many seconds, up to LONGEST_PAUSE_SECONDS.
        """
        now = self._monotonic()
        before = self._pauses.pop(key, None)
        if before and now - before.began >= QUIET_SECONDS:
            before = None
        times = min(before.times + 1, _MOST_TIMES) if before else 1
        ours = min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 1), self._longest)
        due = now + max(ours, min(at_least, LONGEST_PAUSE_SECONDS))
        self._pauses[key] = _Pause(times, began=now, due=due)
        if len(self._pauses) > KEPT:
            self._pauses.popitem(last=False)
        return times

    def forget(self, key: KeyT) -> None:
        """Forget the tries and the pause of one."""
        self._pauses.pop(key, None)

    def has_to_wait(self, key: KeyT) -> bool:
        """Whether the pause of that one is not over."""
        pause = self._pauses.get(key)
        return pause is not None and pause.due > self._monotonic()

    def waiting(self) -> frozenset[KeyT]:
        """Return all that have to wait."""
        now = self._monotonic()
        return frozenset(key for key, pause in self._pauses.items() if pause.due > now)

    def seconds_to_next(self, wanted: Iterable[KeyT]) -> float | None:
        """Return in how many seconds one of ``wanted`` may be tried again: 0 for now, None if none waits.

        One whose pause is over counts until it is tried.
        """
        now = self._monotonic()
        pauses = (self._pauses.get(key) for key in wanted)
        return min((max(0.0, pause.due - now) for pause in pauses if pause), default=None)
