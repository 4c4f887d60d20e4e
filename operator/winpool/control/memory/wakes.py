"""When pools are woken for news about the memory of their nodes.

News of pressure wakes a pool at once. Whether something is known at all changes for every node within the
first minutes, and again when a network or a Prometheus fails: that is gathered. So is, for longer, that nodes
are known to be calm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.control.memory.watched_node import News
from winpool.kubelet.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

GATHER_SECONDS: Final[Mapping[News, float]] = {News.KNOWN: 5.0, News.CALM: 30.0}
"""For how long news is gathered. A pool of 5,000 nodes has 83 first samples a second after a start, and each
of its passes takes 0.2 s of CPU time. What becomes known is reported, for people. A calm node may still
carry a signal from before the start; it has waited five minutes for its removal by then."""


class Wakes:
    """Wakes pools by ``wake``; ``on_wait`` is called when one is to be woken later."""

    def __init__(
        self, wake: Callable[[str], None], *, on_wait: Callable[[], None], monotonic: Callable[[], float]
    ) -> None:
        self._wake = wake
        self._on_wait = on_wait
        self._monotonic = monotonic
        self._waiting = Waiting()

    def tell(self, pool: str, news: News) -> None:
        """Wake the pool now, or within the GATHER_SECONDS of such news."""
        if news is News.PRESSURE:
            self._waiting.remove(pool)
            self._wake(pool)
            return
        at, waits_until = self._monotonic() + GATHER_SECONDS[news], self._waiting.number(pool)
        if waits_until is None or at < waits_until:
            self._waiting.add(pool, at)
            self._on_wait()

    def forget(self, pool: str) -> None:
        """Do not wake a pool that is watched no more."""
        self._waiting.remove(pool)

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a pool is to be woken; None where none is."""
        first = self._waiting.first()
        return None if first is None else max(0.0, first - self._monotonic())

    def wake_due(self) -> None:
        """Wake the pools that have waited."""
        for pool in tuple(self._waiting.until(self._monotonic())):
            self._wake(pool)
