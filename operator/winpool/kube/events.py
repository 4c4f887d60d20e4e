"""Writes what happened as Events, which ``kubectl describe`` shows.

Kopf's own poster is not used: it fills ``involvedObject.namespace``, so that ``kubectl describe`` does not
show events of cluster-scoped objects, and it makes a new object for each repetition. Everything here has a
limit: the queue, the rate per pool and of all together, the memory for repetitions, and the attempts (P7).
So an event may be lost; what a person must know is in the status too.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from winpool.api.events import CLUSTER_EVENTS
from winpool.api.keys import FIELD_MANAGER, REPORTING_CONTROLLER
from winpool.api.text import printable, written_micro
from winpool.kube.backoff import Backoff, Budgets, Outage
from winpool.kube.client import Transport
from winpool.kube.errors import AlreadyExists, ApiError, Forbidden, Invalid, NotFound
from winpool.kube.request import JSON, MERGE_PATCH, Request
from winpool.loops import Wake, keep_newest

NOTE_BYTES: Final = 1024
REASON_BYTES: Final = 128
"""What the API server accepts, in bytes of UTF-8 (k8s.io/kubernetes: pkg/apis/core/validation/events.go)."""

_NAME_LIMIT: Final = 230
"""Of the 253 characters of a name, those for the object's own name, before our suffix."""

_encode: Final = msgspec.json.Encoder().encode


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to which object; ``namespace`` is empty for one of the cluster.

    ``uid`` is the object's real one: otherwise ``kubectl describe`` would not show the event.
    ``reason`` says why, ``action`` what was done or tried, both in CamelCase and at most 128
    bytes; ``note`` is for people, is made printable and cut at 1024 bytes.
    """

    api_version: str
    kind: str
    name: str
    uid: str
    reason: str
    action: str
    note: str
    type: Literal["Normal", "Warning"] = "Normal"
    namespace: str = ""

    @property
    def path(self) -> str:
        """Where the API server keeps such events."""
        return f"/apis/events.k8s.io/v1/namespaces/{self.namespace or CLUSTER_EVENTS}/events"

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes two records the same event: object, reason, action, and note.

        The note is part of it, since it cannot be changed in an Event that exists: the event of a restored
        label must not count as a repetition of the event of a taint that was restored a moment before.
        """
        return (self.uid, self.reason, self.action, self.note)


@dataclass(slots=True)
class Series:
    """One Event object and how often it happened.

    ``written`` is the count that the API server knows, 0 before it has the object. ``due`` and
    ``last_recorded`` are monotonic seconds.
    """

    record: EventRecord
    first_time: datetime
    last_time: datetime
    last_recorded: float
    count: int = 1
    written: int = 0
    due: float = 0.0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        """Give the object its name."""
        self.name = event_name(self.record, self.first_time)

    def begin_anew(self, now: datetime) -> None:
        """Continue as a new object: the old one is gone (events live for an hour)."""
        self.first_time, self.count, self.written = now, 1, 0
        self.name = event_name(self.record, now)

    def encode(self, *, reporting_instance: str) -> bytes:
        """Write the Event to be created. It starts without a series, which needs a count of 2."""
        record = self.record
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.name, "namespace": record.namespace or CLUSTER_EVENTS},
            "eventTime": written_micro(self.first_time),
            "reportingController": REPORTING_CONTROLLER,
            "reportingInstance": truncate(reporting_instance, REASON_BYTES),
            "type": record.type,
            "reason": truncate(record.reason, REASON_BYTES),
            "action": truncate(record.action, REASON_BYTES),
            "note": truncate(printable(record.note), NOTE_BYTES),
            "regarding": {
                "apiVersion": record.api_version,
                "kind": record.kind,
                "name": record.name,
                "uid": record.uid,
                **({"namespace": record.namespace} if record.namespace else {}),
            },
        }
        return _encode(body)

    def encode_repetition(self) -> bytes:
        """Write the merge patch with the count; nothing else may change."""
        series = {"count": self.count, "lastObservedTime": written_micro(self.last_time)}
        return _encode({"series": series})


def event_name(record: EventRecord, time: datetime) -> str:
    """Name an event after its object and its content, so that sending it twice cannot make two events."""
    identity = "\n".join((*record.key, time.isoformat()))
    digest = hashlib.sha256(identity.encode(errors="backslashreplace")).hexdigest()[:16]
    return f"{record.name[:_NAME_LIMIT].rstrip('.-')}.{digest}"


def truncate(text: str, limit: int) -> str:
    """Cut ``text`` to ``limit`` bytes of UTF-8, at a character, with an ellipsis where it was cut."""
    encoded = text.encode(errors="replace")
    if len(encoded) <= limit:
        return encoded.decode()
    return encoded[: limit - len("…".encode())].decode(errors="ignore") + "…"


Refusal = Literal["RateLimited", "ClusterRateLimited"]
Drop = Literal[Refusal, "QueueFull", "Failed", "Stopped"]

PER_SECOND: Final = 1.0
BURST: Final = 20
"""New events per pool: as many as a person can read, and enough for those of one edit."""

CLUSTER_PER_SECOND: Final = 5
CLUSTER_BURST: Final = 100
"""Writes of events about all pools and nodes together: five a second are 18,000 an hour, and some 20 MB in
etcd. The burst is that of five pools, so that an edit that concerns many of them, such as a new row of the
support matrix, is reported completely."""

KEPT_FOR_NEW: Final = CLUSTER_BURST // 2
"""The part of that burst that repetitions do not use: they can wait without loss, new events cannot."""

WARNINGS_BURST: Final = 20
"""Warnings of what is about to be done, per pool: one for each of the 16 taints of a spec, with some room."""

CLUSTER_WARNINGS_PER_SECOND: Final = 1
CLUSTER_WARNINGS_BURST: Final = 100
"""Those of all pools together, beside all other events. No other event takes their room: what they warn of
cannot be undone."""

_CLUSTER: Final = "cluster"


class EventBudget:
    """Says what may be written now. ``monotonic`` returns seconds."""

    def __init__(self, *, per_second: int, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pools = Budgets(per_second=PER_SECOND, burst=BURST, monotonic=monotonic)
        self._cluster = Budgets(per_second=per_second, burst=CLUSTER_BURST, monotonic=monotonic)
        self._pools_warnings = Budgets(per_second=PER_SECOND, burst=WARNINGS_BURST, monotonic=monotonic)
        self._cluster_warnings = Budgets(
            per_second=CLUSTER_WARNINGS_PER_SECOND, burst=CLUSTER_WARNINGS_BURST, monotonic=monotonic
        )
        self._token_seconds = 1 / per_second
        self.repetitions_from = float("-inf")
        """Before this time there is no room for a repetition."""

    def refuse_new(self, name: str, *, is_warning: bool = False) -> Refusal | None:
        """Take the room for a new event in the budget ``name`` and in that of all; return which has none."""
        pools = self._pools_warnings if is_warning else self._pools
        cluster = self._cluster_warnings if is_warning else self._cluster
        if not pools.take(name):
            return "RateLimited"
        return None if cluster.take(_CLUSTER) else "ClusterRateLimited"

    def take_repetition(self) -> bool:
        """Take the room for writing a repetition; False where there is none now."""
        now = self._monotonic()
        if now < self.repetitions_from:
            return False
        if self._cluster.take(_CLUSTER, leaving=KEPT_FOR_NEW):
            return True
        self.repetitions_from = now + self._token_seconds
        return False


log = logging.getLogger(__name__)

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


@dataclass(eq=False)
class EventRecorder:
    """Accepts records at any time without waiting, and sends them one after the other while ``run`` runs.

    ``posted`` counts what was written; ``dropped`` what was not, by reason: "RateLimited" (of its pool),
    "ClusterRateLimited", "QueueFull", "Failed", "Stopped". Repetitions are not dropped but delayed. They
    count in the budget of the cluster too; half of its burst is kept for new events.
    """

    transport: Transport
    _: KW_ONLY
    reporting_instance: str
    now: Callable[[], datetime]
    per_second: int = CLUSTER_PER_SECOND
    monotonic: Callable[[], float] = time.monotonic
    posted: int = field(default=0, init=False)
    dropped: Counter[Drop] = field(default_factory=Counter, init=False)
    _queue: deque[Series] = field(default_factory=deque, init=False)
    _repeated: list[Series] = field(default_factory=list, init=False)
    """Written events that have happened again since, each to be written again when it is due."""
    _recent: OrderedDict[tuple[str, str, str, str], Series] = field(default_factory=OrderedDict, init=False)
    _in_hand: Series | None = field(default=None, init=False)
    _work: Wake = field(default_factory=Wake, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing recorded."""
        self._budget = EventBudget(per_second=self.per_second, monotonic=self.monotonic)
        self._outage = Outage("events", log, self.monotonic, "the event is dropped")

    def record(self, event: EventRecord, *, budget: str | None = None, is_warning: bool = False) -> None:
        """Queue an event; never waits, never raises.

        ``budget`` names the rate limit that it counts against: the pool, for events about its
        nodes. By default it is the object's kind and name. What ``is_warning`` of something that is about to
        be done does not count there: it has limits of its own.
        """
        now = self.monotonic()
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
            self.dropped["Stopped"] += len(left) - sent

    def _begin(self, event: EventRecord, now: float) -> None:
        time_now = self.now()
        series = Series(record=event, first_time=time_now, last_time=time_now, last_recorded=now)
        keep_newest(self._recent, event.key, series, most=SERIES_KEPT)
        self._queue.append(series)
        if len(self._queue) > QUEUE_LIMIT:
            self._forget(self._queue.popleft())
            self.dropped["QueueFull"] += 1
        self._work.set()

    def _repeat(self, series: Series, now: float) -> None:
        is_all_written = series.count == series.written
        series.count += 1
        series.last_time = self.now()
        series.last_recorded = now
        keep_newest(self._recent, series.record.key, series, most=SERIES_KEPT)
        if is_all_written:  # otherwise it is queued already, or will be when what is being sent is written
            self._repeated.append(series)
            self._work.set()

    def _forget(self, series: Series) -> None:
        if self._recent.get(series.record.key) is series:
            del self._recent[series.record.key]

    def _next(self) -> Series | None:
        """Take the next event to send: new ones first, then the repetition that has been due longest."""
        if self._queue:
            return self._queue.popleft()
        series = min(self._repeated, key=_due, default=None)
        if series is None or series.due > self.monotonic() or not self._budget.take_repetition():
            return None
        self._repeated.remove(series)
        return series

    async def _wait_for_work(self) -> None:
        """Return when something was queued, or a repetition is due."""
        self._work.clear()
        if self._queue:
            return
        next_due = min(map(_due, self._repeated), default=None)
        now, room = self.monotonic(), self._budget.repetitions_from
        await self._work.wait(seconds=None if next_due is None else max(next_due, room) - now)

    async def _deliver(self, series: Series, *, attempts: int) -> None:
        """Write one event as it is now, or drop it. Raises nothing."""
        backoff = Backoff(first=1.0, cap=5.0, asked_cap=RETRY_AFTER_CAP_SECONDS)
        for attempt in range(1, attempts + 1):
            try:
                await self._send(series)
            except ApiError as error:
                if attempt == attempts or isinstance(error, Forbidden | Invalid | NotFound):
                    self.dropped["Failed"] += 1
                    self._forget(series)
                    self._outage.failed(error)
                    return
                await asyncio.sleep(backoff.next(asked=error.retry_after))
            else:
                self.posted += 1
                self._outage.ended()
                series.due = self.monotonic() + REPETITION_SECONDS
                if series.count > series.written:
                    self._repeated.append(series)
                return

    async def _send(self, series: Series) -> None:
        count = series.count
        if series.written:
            try:
                await self._write(series, is_new=False)
            except NotFound:
                series.begin_anew(self.now())
            else:
                series.written = count
                return
        try:
            await self._write(series, is_new=True)
        except AlreadyExists:
            log.debug("event %s exists already: the answer to an earlier request was lost", series.name)
        series.written = 1

    async def _write(self, series: Series, *, is_new: bool) -> None:
        instance, path = self.reporting_instance, series.record.path
        await self.transport.request(
            Request(
                verb="create" if is_new else "patch",
                resource="events",
                name=series.name,
                path=f"{path if is_new else f'{path}/{series.name}'}?fieldManager={FIELD_MANAGER}",
                body=series.encode(reporting_instance=instance) if is_new else series.encode_repetition(),
                content_type=JSON if is_new else MERGE_PATCH,
            )
        )


def _due(series: Series) -> float:
    return series.due
