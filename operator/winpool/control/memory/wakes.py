"""When pools are woken for news about the memory of their nodes.

News of pressure wakes a pool at once. Whether something is known at all changes for every node within the
first minutes, again when a network or a Prometheus fails, and all the time where many kubelets are slow: that
is gathered, for longer in a pool of thousands of nodes. So is, still longer, that nodes are known to be calm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.control.memory.watched_node import News
from winpool.kubelet.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable

KNOWN_SECONDS: Final = 5.0
"""How long a pool gathers news that something has become known, or is no longer known: it is for people."""

NODES_PER_GATHERED_SECOND: Final = 200
"""From 1,000 nodes on, a pool gathers such news for one second for each so many of its nodes. A pool of 5,000
has 83 first samples a second after a start, and each of its passes takes 0.1 s to 0.2 s of CPU time: less
than a hundredth of 25 s."""

CALM_SECONDS: Final = 30.0
"""How long a pool gathers news that nodes are calm, and the most for what becomes known. A calm node may
still carry a signal from before the start; it has waited five minutes for its removal by then."""


class Wakes:
    """Wakes pools by ``wake``; ``on_wait`` is called when one is to be woken later.

    ``nodes_of`` returns how many nodes of a pool are watched.
    """

    def __init__(
        self,
        wake: Callable[[str], None],
        *,
        nodes_of: Callable[[str], int],
        on_wait: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._wake = wake
        self._nodes_of = nodes_of
        self._on_wait = on_wait
        self._monotonic = monotonic
        self._waiting = Waiting()

    def tell(self, pool: str, news: News) -> None:
        """Wake the pool now, or once such news was gathered."""
        if news is News.PRESSURE:
            self._waiting.remove(pool)
            self._wake(pool)
            return
        at, waits_until = self._monotonic() + self._gather_seconds(pool, news), self._waiting.number(pool)
        if waits_until is None or at < waits_until:
            self._waiting.add(pool, at)
            self._on_wait()

    def _gather_seconds(self, pool: str, news: News) -> float:
        if news is News.CALM:
            return CALM_SECONDS
        return min(max(KNOWN_SECONDS, self._nodes_of(pool) / NODES_PER_GATHERED_SECOND), CALM_SECONDS)

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
