"""When a kubelet says something: intervals of its heartbeats, and the rule for full status reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """A kubelet's defaults (``KubeletConfiguration``), all in seconds.

    The Lease is renewed at a quarter of its duration. The status is computed every ``status_sync``
    and sent when it changed, or else every ``status_report``. ``jitter`` stretches both intervals
    by up to that part of themselves.
    """

    lease_duration: int = 40
    status_sync: float = 10.0
    status_report: float = 300.0
    jitter: float = 0.04

    @property
    def lease_renewal(self) -> float:
        """Seconds between two renewals of the Lease."""
        return self.lease_duration / 4


class ReportSchedule:
    """Decides whether an unchanged status is due to be sent again.

    After a report that was sent for a change, or the first one, the next is due after the report
    interval plus a random part between minus and plus one half of it; a periodic one is followed
    after the plain interval. So reports of many nodes that changed together drift apart (kubelet,
    ``tryUpdateNodeStatus``).
    """

    __slots__ = ("_delay", "_interval", "_last", "_random")

    def __init__(self, *, interval: float, random: Random) -> None:
        self._interval = interval
        self._random = random
        self._last: float | None = None
        self._delay = 0.0

    def due(self, now: float) -> bool:
        """Tell whether a report is due at this monotonic time, be there a change or not."""
        return self._last is None or now - self._last >= self._interval + self._delay

    def sent(self, now: float, *, changed: bool) -> None:
        """Record a report that the API server has accepted."""
        spread = changed or self._last is None
        self._delay = self._interval * (self._random.random() - 0.5) if spread else 0.0
        self._last = now
