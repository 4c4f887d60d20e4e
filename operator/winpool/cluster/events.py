"""Reports what happened, in Events that ``kubectl describe`` shows.

Kopf's own poster is not used: it fills ``involvedObject.namespace``, so that ``kubectl describe``
does not show events of cluster-scoped objects, and it makes a new object for each repetition.
Everything here has a limit: the queue, the rate per pool and of all together (``event_budget``),
the memory for repetitions, and the attempts. So an event may be lost; what a person must know is in
the status too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Final

from winpool.api.keys import FIELD_MANAGER
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from winpool.cluster.event_budget import CLUSTER_PER_SECOND, EventBudget
from winpool.cluster.event_record import NAMESPACE, EventRecord, Series
from winpool.cluster.outage import Outage
from winpool.cluster.request import MERGE_PATCH, Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from winpool.cluster.transport import Transport

__all__ = ["EventRecord", "EventRecorder"]

log = logging.getLogger(__name__)

PATH: Final = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"

QUEUE_LIMIT: Final = 1000
"""Events that wait to be sent. Each is about a kilobyte; beyond the limit the oldest is dropped."""

SAME_SECONDS: Final = 120.0
"""The same event again within this time is a repetition of the first (Karpenter uses two minutes)."""

REPETITION_SECONDS: Final = 30.0
"""The least time between two writes of the repetitions of one event, however many they are."""

SERIES_KEPT: Final = 1000
"""Events whose repetitions are remembered; beyond it, the one without a repetition for longest is
forgotten."""

ATTEMPTS: Final = 3
"""With pauses of about 1 and 2 s: enough for a short failure. In a longer one, events are dropped and
counted."""

RETRY_AFTER_CAP_SECONDS: Final = 10.0

FLUSH_SECONDS: Final = 0.5
"""The time for the last events at a stop, of the 2 s that the whole stop may take."""


class EventRecorder:
    """Accepts records at any time without waiting, and sends them one after the other while ``run`` runs.

    ``posted`` counts what was written; ``dropped`` what was not, by cause: "rate_limited" (of its pool),
    "cluster_rate_limited", "queue_full", "failed", "stopped". Repetitions are not dropped but delayed. They
    count in the budget of the cluster too; half of its burst is kept for new events.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        reporting_instance: str,
        now: Callable[[], datetime],
        per_second: int = CLUSTER_PER_SECOND,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.posted = 0
        self.dropped: Counter[str] = Counter()
        self._transport = transport
        self._reporting_instance = reporting_instance
        self._now = now
        self._monotonic = monotonic
        self._budget = EventBudget(per_second=per_second, monotonic=monotonic)
        self._outage = Outage("events", logger=log, monotonic=monotonic, meanwhile="the event is dropped")
        self._queue: deque[Series] = deque()
        # Written events that have happened again since, each to be written again when it is due.
        self._repeated: list[Series] = []
        self._recent: OrderedDict[tuple[str, str, str, str], Series] = OrderedDict()
        self._in_hand: Series | None = None
        self._work = asyncio.Event()

    def record(self, event: EventRecord, *, budget: str | None = None, is_warning: bool = False) -> None:
        """Queue an event; never waits, never raises.

        ``budget`` names the rate limit that it counts against: the pool, for events about its
        nodes. By default it is the object's kind and name. What ``is_warning`` of something that is about to
        be done does not count there: it has limits of its own.
        """
        now = self._monotonic()
        series = self._recent.get(event.key)
        if series is not None and now - series.last_recorded < SAME_SECONDS:
            self._repeat(series, now)
        elif refusal := self._budget.refuse_new(
            budget or f"{event.kind}/{event.name}", is_warning=is_warning
        ):
            self.dropped[refusal] += 1
        else:
            self._begin(event, now)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._wait_for_work()
            while (series := self._next()) is not None:
                self._in_hand = series
                await self._deliver(series, attempts=ATTEMPTS)
                self._in_hand = None

    async def flush(self) -> None:
        """Send what is left, for at most FLUSH_SECONDS. Call it after ``run`` has ended."""
        left = [*([self._in_hand] if self._in_hand else ()), *self._queue, *self._repeated]
        self._in_hand = None
        self._queue.clear()
        self._repeated.clear()
        sent = 0
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                for series in left:
                    await self._deliver(series, attempts=1)
                    sent += 1
        except TimeoutError:
            self.dropped["stopped"] += len(left) - sent

    def _begin(self, event: EventRecord, now: float) -> None:
        time_now = self._now()
        series = Series(record=event, first_time=time_now, last_time=time_now, last_recorded=now)
        self._remember(series)
        self._queue.append(series)
        if len(self._queue) > QUEUE_LIMIT:
            self._forget(self._queue.popleft())
            self.dropped["queue_full"] += 1
        self._work.set()

    def _repeat(self, series: Series, now: float) -> None:
        is_all_written = series.count == series.written
        series.count += 1
        series.last_time = self._now()
        series.last_recorded = now
        self._remember(series)
        if is_all_written:  # otherwise it is queued already, or will be when what is being sent is written
            self._repeated.append(series)
            self._work.set()

    def _remember(self, series: Series) -> None:
        self._recent[series.record.key] = series
        self._recent.move_to_end(series.record.key)
        if len(self._recent) > SERIES_KEPT:
            self._recent.popitem(last=False)

    def _forget(self, series: Series) -> None:
        if self._recent.get(series.record.key) is series:
            del self._recent[series.record.key]

    def _next(self) -> Series | None:
        """Take the next event to send: new ones first, then the repetition that has been due longest."""
        if self._queue:
            return self._queue.popleft()
        series = min(self._repeated, key=_due, default=None)
        if series is None or series.due > self._monotonic() or not self._budget.take_repetition():
            return None
        self._repeated.remove(series)
        return series

    async def _wait_for_work(self) -> None:
        """Return when something was queued, or a repetition is due."""
        self._work.clear()
        if self._queue:
            return
        next_due = min(map(_due, self._repeated), default=None)
        try:
            pause = (
                None if next_due is None else max(next_due, self._budget.repetitions_from) - self._monotonic()
            )
            async with asyncio.timeout(pause):
                await self._work.wait()
        except TimeoutError:
            return

    async def _deliver(self, series: Series, *, attempts: int) -> None:
        """Write one event as it is now, or drop it. Raises nothing."""
        backoff = Backoff(first=1.0, cap=5.0, asked_cap=RETRY_AFTER_CAP_SECONDS)
        for attempt in range(1, attempts + 1):
            try:
                await self._send(series)
            except ApiError as error:
                if attempt == attempts or isinstance(error, Forbidden | Invalid | NotFound):
                    self._give_up(series, error)
                    return
                await asyncio.sleep(backoff.next(asked=error.retry_after))
            else:
                self.posted += 1
                self._outage.ended()
                self._put_off(series)
                return

    async def _send(self, series: Series) -> None:
        count = series.count
        if series.written:
            try:
                await self._transport.request(self._repetition(series))
            except NotFound:
                series.begin_anew(self._now())
                count = series.count
                await self._transport.request(self._creation(series))
        else:
            count = 1
            try:
                await self._transport.request(self._creation(series))
            except AlreadyExists:
                log.debug("event %s exists already: the answer to an earlier request was lost", series.name)
        series.written = count

    def _put_off(self, series: Series) -> None:
        """Note when the next repetition may be written; queue it if there is one by now."""
        series.due = self._monotonic() + REPETITION_SECONDS
        if series.count > series.written:
            self._repeated.append(series)

    def _give_up(self, series: Series, error: ApiError) -> None:
        self.dropped["failed"] += 1
        self._forget(series)
        self._outage.failed(error)

    def _creation(self, series: Series) -> Request:
        return Request(
            verb="create",
            resource="events",
            name=series.name,
            path=f"{PATH}?fieldManager={FIELD_MANAGER}",
            body=series.encode(reporting_instance=self._reporting_instance),
        )

    def _repetition(self, series: Series) -> Request:
        return Request(
            verb="patch",
            resource="events",
            name=series.name,
            path=f"{PATH}/{series.name}?fieldManager={FIELD_MANAGER}",
            body=series.encode_repetition(),
            content_type=MERGE_PATCH,
        )


def _due(series: Series) -> float:
    return series.due
