"""Events are named so that they cannot double, written as the API takes them, and bounded."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from harness.strategies import NASTY
from harness.virtual_time import run_virtually
from winpool.api.text import written_micro
from winpool.kube.client import Transport
from winpool.kube.credentials import Connection, FixedHeader, Tls, TlsFiles
from winpool.kube.events import EventRecord, EventRecorder, Series, event_name, truncate
from winpool.kube.request import Request

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
POOL = EventRecord(
    api_version="winpool.dev/v1alpha1",
    kind="WindowsNodePool",
    name="win-2022",
    uid="1234",
    reason="RolloutCompleted",
    action="UpdateNodes",
    note="40 of 40 nodes",
)


def a_series(record: EventRecord = POOL) -> Series:
    return Series(record=record, first_time=NOON, last_time=NOON, last_recorded=0.0)


def test_an_event_is_written_as_the_api_takes_it() -> None:
    body = json.loads(a_series().encode(reporting_instance="winpool-0"))
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": body["metadata"]["name"], "namespace": "default"},
        "eventTime": "2026-11-01T12:00:00.000000Z",
        "reportingController": "winpool.dev/winpool",
        "reportingInstance": "winpool-0",
        "type": "Normal",
        "reason": "RolloutCompleted",
        "action": "UpdateNodes",
        "note": "40 of 40 nodes",
        # No namespace, not even an empty one: kubectl describe of a cluster-scoped object looks for none.
        "regarding": {
            "apiVersion": "winpool.dev/v1alpha1",
            "kind": "WindowsNodePool",
            "name": "win-2022",
            "uid": "1234",
        },
    }


def test_the_same_event_has_the_same_name_and_another_one_has_not() -> None:
    name = event_name(POOL, NOON)
    assert name == event_name(replace(POOL, type="Warning"), NOON)
    others = [
        event_name(replace(POOL, note="other words"), NOON),
        event_name(replace(POOL, uid="5678"), NOON),
        event_name(replace(POOL, reason="Other"), NOON),
        event_name(replace(POOL, action="Other"), NOON),
        event_name(POOL, NOON + timedelta(microseconds=1)),
    ]
    assert len({name, *others}) == 6
    assert name.startswith("win-2022.")


@given(st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", fullmatch=True))
def test_a_name_is_always_one_that_the_api_takes(object_name: str) -> None:
    name = event_name(replace(POOL, name=object_name), NOON)
    assert len(name) <= 253
    assert name.startswith(object_name[:200].rstrip(".-"))
    assert name[-18] not in ".-", "the part before our suffix ends in a letter or digit"


@given(st.text(max_size=2000), st.integers(min_value=3, max_value=1024))
def test_a_text_is_cut_in_bytes_but_never_within_a_character(text: str, limit: int) -> None:
    cut = truncate(text, limit)
    assert len(cut.encode()) <= limit
    whole = text.encode(errors="replace").decode()
    assert cut == whole or (cut.endswith("…") and whole.startswith(cut[:-1]))


@given(st.text() | NASTY)
def test_a_note_holds_nothing_that_does_not_show(text: str) -> None:
    body = json.loads(a_series(replace(POOL, note=text)).encode(reporting_instance="winpool-0"))
    assert body["note"].isprintable()


def test_long_texts_fit_the_api() -> None:
    long = replace(POOL, note="ü" * 1024, reason="R" * 200, action="A" * 200)
    body = json.loads(a_series(long).encode(reporting_instance="h" * 200))
    assert len(body["note"].encode()) <= 1024
    assert all(len(body[field].encode()) <= 128 for field in ("reason", "action", "reportingInstance"))


def test_a_repetition_tells_count_and_time_and_nothing_else() -> None:
    series = a_series()
    series.count, series.last_time = 3, NOON + timedelta(seconds=1)
    assert json.loads(series.encode_repetition()) == {
        "series": {"count": 3, "lastObservedTime": "2026-11-01T12:00:01.000000Z"}
    }


def test_times_are_utc() -> None:
    cet = timezone(timedelta(hours=1))
    assert written_micro(datetime(2026, 11, 1, 13, tzinfo=cet)) == "2026-11-01T12:00:00.000000Z"


# Bounds. What is really posted is shown against a real API server.


NOWHERE = Connection(
    server="https://127.0.0.1:1",
    tls=Tls(TlsFiles(), monotonic=time.monotonic),
    authorization=FixedHeader("Bearer x"),
)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
async def recorder() -> AsyncIterator[tuple[EventRecorder, Clock]]:
    """A recorder that does not run: what is recorded stays in its queue."""
    clock = Clock()
    async with Transport(NOWHERE) as transport:
        yield (
            EventRecorder(transport, reporting_instance="me", now=lambda: NOON, monotonic=clock.monotonic),
            clock,
        )


def about(number: int) -> EventRecord:
    return replace(POOL, name=f"w{number}", uid=f"u{number}", kind="Node")


async def test_a_budget_of_one_pool_leaves_the_others_alone(recorder: tuple[EventRecorder, Clock]) -> None:
    events, clock = recorder
    for number in range(25):
        events.record(about(number), budget="pool-a")
    assert events.dropped == {"RateLimited": 5}
    events.record(about(100), budget="pool-b")
    assert events.dropped == {"RateLimited": 5}
    clock.seconds += 3
    for number in range(200, 204):
        events.record(about(number), budget="pool-a")
    assert events.dropped == {"RateLimited": 6}


async def test_no_other_event_takes_the_room_of_a_warning(recorder: tuple[EventRecorder, Clock]) -> None:
    events, _ = recorder
    for number in range(500):
        events.record(about(number), budget=f"pool-{number % 10}")
    before = dict(events.dropped)
    for number in range(1000, 1016):
        events.record(about(number), budget="pool-1", is_warning=True)
    assert dict(events.dropped) == before
    for number in range(2000, 2300):
        events.record(about(number), budget=f"pool-{number}", is_warning=True)
    assert events.dropped["ClusterRateLimited"] - before.get("ClusterRateLimited", 0) == 216, (
        "not without end"
    )


async def test_many_pools_together_have_a_budget_too(recorder: tuple[EventRecorder, Clock]) -> None:
    events, clock = recorder
    for number in range(300):
        events.record(about(number), budget=f"pool-{number}")
    assert events.dropped == {"ClusterRateLimited": 200}
    clock.seconds += 3
    for number in range(300, 340):
        events.record(about(number), budget=f"pool-{number}")
    assert events.dropped == {"ClusterRateLimited": 200 + 40 - 15}


async def test_a_pool_without_budget_takes_nothing_of_that_of_all(
    recorder: tuple[EventRecorder, Clock],
) -> None:
    events, _ = recorder
    for number in range(1000):
        events.record(about(number), budget="noisy")
    for number in range(1000, 1080):
        events.record(about(number), budget=f"pool-{number}")
    assert events.dropped == {"RateLimited": 980}


def writes_of_a_storm(*, per_second: int, kinds: int, seconds: int) -> tuple[list[float], EventRecorder]:
    """Return when events were written, from the start on, while so many kinds happen every second."""

    async def run() -> tuple[list[float], EventRecorder]:
        loop = asyncio.get_running_loop()
        written: list[float] = []

        async def note(_: Request) -> bytes:
            written.append(loop.time() - start)
            return b"{}"

        transport: Any = SimpleNamespace(request=note)
        events = EventRecorder(
            transport, reporting_instance="me", now=lambda: NOON, per_second=per_second, monotonic=loop.time
        )
        start = loop.time()
        running = asyncio.create_task(events.run())
        for _ in range(seconds):
            for number in range(kinds):
                events.record(about(number), budget=f"pool-{number}")
            await asyncio.sleep(1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return written, events

    return run_virtually(run())


def test_repetitions_are_within_the_budget_of_the_cluster() -> None:
    written, events = writes_of_a_storm(per_second=5, kinds=200, seconds=200)
    assert 5 * 200 - 50 <= len(written) <= 5 * 200 + 100
    for second in range(200):
        assert len([each for each in written if second <= each < second + 10]) <= 100 + 5 * 10
    assert len([each for each in written if 100 <= each < 200]) <= 5 * 100 + 1, "no burst while it goes on"
    assert events.dropped["RateLimited"] == 0


def test_repetitions_leave_room_for_what_is_new() -> None:
    written, events = writes_of_a_storm(per_second=1, kinds=60, seconds=200)
    assert events.dropped == {}
    assert len(written) <= 100 + 200
    for number in range(1000, 1050):
        events.record(about(number), budget=f"pool-{number}")
    assert events.dropped == {}


async def test_a_repetition_is_never_dropped(recorder: tuple[EventRecorder, Clock]) -> None:
    events, clock = recorder
    for _ in range(100):
        events.record(POOL)
        clock.seconds += 119
    assert events.dropped == {}


async def test_a_full_queue_loses_the_oldest_and_counts_it(recorder: tuple[EventRecorder, Clock]) -> None:
    events, clock = recorder
    for number in range(1003):
        events.record(about(number))
        clock.seconds += 1
    assert events.dropped == {"QueueFull": 3}


async def test_a_flush_without_a_server_gives_up_within_a_second(
    recorder: tuple[EventRecorder, Clock],
) -> None:
    events, _ = recorder
    for number in range(3):
        events.record(about(number))
    await events.flush()
    assert events.posted == 0
    assert events.dropped == {"Failed": 3}
