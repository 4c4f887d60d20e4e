"""What is served, and that those who ask cannot take the event loop, the memory or the place of others."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import time
from contextlib import AsyncExitStack

import aiohttp
import pytest

from harness.clock import Seconds
from harness.served import HOST, Counting, ask, asked_anew, connected, crowd, is_closed, serving, until
from winpool.serve import http
from winpool.serve.http import Server


@pytest.mark.slow
async def test_scrapers_in_a_loop_share_one_render_a_second() -> None:
    """However many they are: what they cost the loop that reads the watches is bounded."""
    async with serving() as served:
        answers = 0
        started = time.monotonic()

        async def scrape_for_ever() -> None:
            nonlocal answers
            async with aiohttp.ClientSession() as session:
                while time.monotonic() < started + 3:
                    async with session.get(served.url("/metrics")) as answer:
                        assert answer.status == 200
                        assert "winpool_example" in await answer.text()
                    answers += 1

        async with asyncio.TaskGroup() as scrapers:
            for _ in range(8):
                scrapers.create_task(scrape_for_ever())
        seconds = time.monotonic() - started
    assert 1 <= served.collector.renders <= seconds + 1
    assert answers >= 8


async def test_a_snapshot_is_served_for_a_second_and_not_longer() -> None:
    clock, collector = Seconds(), Counting()
    server = Server(metrics=collector, unready=list, monotonic=clock)
    port = await server.start(host=HOST, port=0)
    seen = []
    try:
        async with aiohttp.ClientSession() as session:
            for pause in (0.0, 0.9, 0.2, 3600.0):
                clock.now += pause
                async with session.get(f"http://{HOST}:{port}/metrics") as answer:
                    seen.append([line for line in (await answer.text()).splitlines() if "number=" in line])
    finally:
        await server.close()
    assert seen == [[f'winpool_example{{number="0"}} {n}.0'] for n in (1, 1, 2, 3)]


@pytest.mark.parametrize(
    ("wish", "encoding"),
    [("gzip", "gzip"), ("br, gzip;q=0.5", "gzip"), ("identity", None), ("gzip;q=0", None), ("xgzip", None)],
)
async def test_the_snapshot_is_compressed_for_those_who_want_it(wish: str, encoding: str | None) -> None:
    async with (
        serving() as served,
        aiohttp.ClientSession(auto_decompress=False, headers={"Accept-Encoding": wish}) as session,
        session.get(served.url("/metrics")) as answer,
    ):
        body = await answer.read()
        assert answer.headers.get("Content-Encoding") == encoding
        assert answer.content_type == "text/plain"
        text = (gzip.decompress(body) if encoding else body).decode()
    assert 'winpool_example{number="0"} 1.0' in text
    assert "process_resident_memory_bytes" in text


@pytest.mark.slow
async def test_compressed_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    compressed = 0
    compress = gzip.compress

    def counted(data: bytes, level: int = 9, *, mtime: float | None = None) -> bytes:
        nonlocal compressed
        compressed += 1
        return compress(data, level, mtime=mtime)

    monkeypatch.setattr(gzip, "compress", counted)
    async with serving() as served:
        started = time.monotonic()
        await asyncio.gather(*(served.status("/metrics") for _ in range(8)))
        assert 1 <= compressed <= time.monotonic() - started + 1


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True], ids=["shared port", "port for health"])
@pytest.mark.parametrize(("addresses", "each"), [(1, 32), (1, 100), (4, 8), (32, 1)])
async def test_connections_that_do_nothing_do_not_fail_the_probes(
    apart: bool, addresses: int, each: int
) -> None:
    async with serving(health_port=0 if apart else None) as served, AsyncExitStack() as stack:
        port = served.server.health_port
        await crowd(stack, port, addresses=addresses, each=each)
        for _ in range(10):
            assert await asked_anew(port) == 200
            assert await asked_anew(port, path="/readyz") == 200


async def test_the_connection_that_has_sent_no_request_for_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 3)
    async with serving() as served, AsyncExitStack() as stack:
        kept = [await stack.enter_async_context(connected(served.port)) for _ in range(3)]
        for each in (*kept, kept[0]):  # which leaves the second as the longest quiet
            assert await ask(*each) == 200
        assert await asked_anew(served.port) == 200
        assert await is_closed(kept[1][0])
        for each in (kept[0], kept[2]):
            assert await ask(*each) == 200


@pytest.mark.slow
async def test_no_more_connections_than_there_are_places_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    # No connection ends by its age: what ends here had to make room.
    monkeypatch.setattr(http, "KEEP_ALIVE_SECONDS", 3600.0)
    async with serving() as served, AsyncExitStack() as stack:
        crowded = await crowd(stack, served.port, addresses=10, each=10)
        assert await asked_anew(served.port) == 200
        ends = [asyncio.create_task(is_closed(reader)) for reader, _ in crowded]
        await until(lambda: sum(end.done() for end in ends) >= 100 - 31)
        assert sum(end.done() for end in ends) <= 100 - 31
        for end in ends:
            end.cancel()
        await asyncio.gather(*ends, return_exceptions=True)


async def test_the_place_of_one_who_left_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "MAX_CONNECTIONS", 2)
    async with serving() as served, connected(served.port) as stays:
        assert await ask(*stays) == 200
        for _ in range(5):
            async with connected(served.port) as leaves:
                assert await ask(*leaves) == 200
                leaves[1].write_eof()
                assert await is_closed(leaves[0])
        assert await ask(*stays) == 200


@pytest.mark.slow
async def test_a_full_port_of_metrics_leaves_a_port_for_health_alone() -> None:
    async with serving(health_port=0) as served, AsyncExitStack() as stack:
        health = served.server.health_port
        assert health != served.port
        await crowd(stack, served.port, addresses=4, each=8)
        async with connected(health) as probe:
            for _ in range(10):
                assert await ask(*probe) == 200
                assert await ask(*probe, path="/readyz") == 200
            served.collector.unready.append("nodes: not listed yet")
            assert await ask(*probe, path="/readyz") == 503
            assert await ask(*probe, path="/metrics") == 404


async def test_with_a_port_for_health_the_other_has_metrics_only() -> None:
    async with serving(health_port=0) as served:
        assert await served.status("/metrics") == 200
        assert await served.status("/healthz") == 404
        assert await served.status("/readyz") == 404


async def test_without_one_all_is_on_one_port() -> None:
    async with serving() as served:
        assert served.server.health_port == served.port
        assert [await served.status(path) for path in ("/metrics", "/healthz", "/readyz", "/")] == [
            200,
            200,
            200,
            404,
        ]


@pytest.mark.slow
async def test_an_idle_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert http.KEEP_ALIVE_SECONDS == 15
    # Longer than a busy machine takes to ask again.
    monkeypatch.setattr(http, "KEEP_ALIVE_SECONDS", 2.0)
    async with serving() as served, connected(served.port) as (reader, writer):
        assert await ask(reader, writer) == 200
        assert await ask(reader, writer) == 200
        assert await is_closed(reader)


async def test_a_body_is_not_taken() -> None:
    async with serving() as served, connected(served.port) as (reader, writer):
        writer.write(
            b"POST /metrics HTTP/1.1\r\nHost: winpool\r\nContent-Length: 1000000000\r\n\r\n" + 9000 * b"x"
        )
        assert (await reader.readline()).startswith(b"HTTP/1.1 413 ")
        assert await is_closed(reader)
        assert served.collector.renders == 0


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
async def test_nothing_but_reading_is_allowed(method: str) -> None:
    async with (
        serving() as served,
        aiohttp.ClientSession() as session,
        session.request(method, served.url("/metrics")) as answer,
    ):
        assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")


async def test_garbage_is_answered_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with serving() as served:
        for garbage in (
            b"\x16\x03\x01 a TLS hello\r\n\r\n",
            b"GET / HTTP/9.9\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\nX: " + 10_000 * b"x" + b"\r\n\r\n",
            b"GET /metrics HTTP/1.1\r\n" + 1000 * b"X: x\r\n" + b"\r\n",
        ):
            async with connected(served.port) as (reader, writer):
                writer.write(garbage)
                assert b" 400 " in await reader.readline()
        assert await served.status("/healthz") == 200
    assert [record for record in caplog.records if record.name != "asyncio"] == []


async def test_a_fault_of_ours_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving() as served:
        monkeypatch.setattr(served.collector, "samples", json)
        assert await served.status("/metrics") == 500
    assert [record.levelname for record in caplog.records if record.name != "asyncio"] == ["ERROR"]
