"""Who may read /memory, what an operator that stands by answers, and that it costs the event loop little."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import pytest
from aiohttp import web

from harness.clock import Seconds
from harness.served import serving
from harness.watched_memory import Known, healthy
from winpool.app import make_access, make_memory, no_memory_here
from winpool.kube.client import Transport
from winpool.kube.leader_election import Elector
from winpool.model.memory_report import VERSION, MemoryReport
from winpool.serve.access import Access, Result
from winpool.serve.http import MEMORY_PATH, MOST_PLAIN_BYTES, Memory, MemorySource
from winpool.settings import Settings

GOOD = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJwZXJzb24ifQ.c2lnbmF0dXJl"
NO_TRANSPORT = cast("Transport", None)


def a_memory(
    known: MemorySource, *, standby: Callable[[], str] = lambda: "", access: Access | None = None
) -> Memory:
    return Memory(known, standby=standby, access=access, monotonic=Seconds())


async def read(known: MemorySource, *, token: str | None = None, **given: Any) -> tuple[int, str]:
    async with serving(memory=a_memory(known, **given)) as served:
        status, text, _ = await served.answer("/memory", token=token)
    return status, text


def asked_by(address: str | None) -> web.BaseRequest:
    @dataclass
    class Asked:
        remote: str | None

    return cast("web.BaseRequest", Asked(address))


async def test_it_serves_the_nodes_as_json_in_a_version() -> None:
    async with serving(memory=a_memory(healthy(3))) as served:
        status, text, headers = await served.answer("/memory")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    found = json.loads(text)
    assert found["protectedNamespaces"] == []
    assert (found["v"], [each["node"] for each in found["nodes"]]) == (
        VERSION,
        ["akswin000000", "akswin000001", "akswin000002"],
    )


async def test_an_operator_without_memory_has_no_such_path() -> None:
    async with serving() as served:
        assert await served.status("/memory") == 404


async def test_with_a_port_for_health_that_port_has_no_memory() -> None:
    async with serving(memory=a_memory(healthy(1)), health_port=0) as served:
        assert await served.status("/memory") == 200
        assert await served.status("/memory", port=served.server.health_port) == 404


# Who may read it


async def test_with_reviews_of_tokens_it_is_for_those_whom_they_permit() -> None:
    async def review(token: str, *, address: str, known: bool) -> Result:
        return "Permitted" if token == GOOD else "Forbidden"

    access = Access(review, path="/memory", role="winpool-memory-reader", monotonic=Seconds())
    async with serving(memory=a_memory(healthy(1), access=access)) as served:
        without, _, _ = await served.answer("/memory")
        refused, why, _ = await served.answer("/memory", token="another")
        read, text, _ = await served.answer("/memory", token=GOOD)
    assert (without, refused, read) == (401, 403, 200)
    assert 'nonResourceURLs: ["/memory"]' in why
    assert "such as winpool-memory-reader" in why
    assert "akswin000000" in text


@pytest.mark.parametrize("address", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_without_reviews_a_client_of_its_own_network_namespace_may_read(address: str) -> None:
    assert await a_memory(healthy(1)).refusal(asked_by(address)) is None


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "fe80::1%eth0", "::ffff:10.0.0.7", "", None, "localhost", "1270.0.0.1"]
)
async def test_without_reviews_no_client_of_the_network_may_read(address: str | None) -> None:
    refusal = await a_memory(healthy(1)).refusal(asked_by(address))
    assert refusal is not None
    assert refusal.status == 403
    assert "--metrics-auth=token" in str(refusal.text)


async def test_who_may_read_the_metrics_may_not_read_the_memory_by_that() -> None:
    """The two are different rights, since only one of the two paths names nodes."""
    asked: list[str] = []

    class Server:
        async def request(self, request: Any) -> bytes:
            body = json.loads(request.body)
            kind = body["kind"]
            if kind == "TokenReview":
                answer: dict[str, Any] = {"authenticated": True, "user": {"username": "prometheus"}}
            else:
                asked.append(body["spec"]["nonResourceAttributes"]["path"])
                answer = {"allowed": asked[-1] == "/metrics"}
            return json.dumps({"kind": kind, "apiVersion": body["apiVersion"], "status": answer}).encode()

    transport = cast("Transport", Server())
    access = make_access(
        MEMORY_PATH, Settings(metrics_auth="token"), transport=transport, monotonic=Seconds()
    )
    made = make_memory(healthy(1), cast("Elector", Seated()), access, monotonic=Seconds())
    async with serving(memory=made) as served:
        status, text, _ = await served.answer("/memory", token=GOOD)
    assert (status, asked) == (403, ["/memory"])
    assert "akswin" not in text


# Who has it


@dataclass
class Seated:
    """A seat that leads, or one that knows who does."""

    leads: bool = True
    holder: str = ""


async def test_an_operator_that_stands_by_names_the_one_that_leads() -> None:
    seat = Seated(leads=False, holder="winpool-7d9c-abcde_1a2b3c4d")
    made = make_memory(healthy(1), cast("Elector", seat), None, monotonic=Seconds())
    async with serving(memory=made) as served:
        status, text, _ = await served.answer("/memory")
        assert (status, "winpool-7d9c-abcde_1a2b3c4d, which holds the Lease" in text) == (503, True)
        seat.leads = True
        assert await served.status("/memory") == 200


def test_where_no_operator_leads_it_says_so() -> None:
    assert no_memory_here("").endswith("no operator holds the Lease winpool-system/winpool")


async def test_a_client_that_may_not_read_does_not_learn_who_leads() -> None:
    async def review(token: str, *, address: str, known: bool) -> Result:
        return "Invalid"

    access = Access(review, path="/memory", role="winpool-memory-reader", monotonic=Seconds())
    status, text = await read(healthy(1), standby=lambda: no_memory_here("secret"), access=access, token="x")
    assert (status, "secret" in text) == (401, False)


# What it costs


@dataclass
class Counting:
    """Counts the reports that are made of it, and how many turns the event loop has meanwhile.

    Each is made at most ``backoff`` times, until the loop has had three turns: on a busy machine it may have
    few of them in the time of one report.
    """

    known: Known
    backoff: int = 1
    reports: int = 0
    turns: int = 0
    turns_while_reporting: list[int] = field(default_factory=list)

    def snapshot(self) -> Callable[[], MemoryReport]:
        return self.report

    def report(self) -> MemoryReport:
        self.reports += 1
        before = self.turns
        for _ in range(self.backoff):
            made = self.known.report()
            if self.turns - before > 2:
                break
        self.turns_while_reporting.append(self.turns - before)
        return made


async def test_the_event_loop_goes_on_while_five_thousand_nodes_are_reported() -> None:
    """The watches and the renewal of the Lease are in this loop."""
    counting = Counting(healthy(5000), backoff=100)

    async def turn() -> None:
        while True:
            counting.turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    try:
        async with serving(memory=a_memory(counting)) as served:
            _, text, _ = await served.answer("/memory")
    finally:
        turning.cancel()
    assert len(json.loads(text)["nodes"]) == 5000
    assert counting.turns_while_reporting[0] > 2, "in the event loop it would be 0"


async def test_clients_share_one_report_a_second() -> None:
    counting = Counting(healthy(10))
    async with serving(memory=a_memory(counting)) as served:
        statuses = await asyncio.gather(*(served.status("/memory") for _ in range(8)))
    assert (statuses, counting.reports) == ([200] * 8, 1)


@pytest.mark.slow
async def test_a_large_answer_is_compressed_or_not_given() -> None:
    """What clients do not read is kept in memory until their connections end."""
    async with serving(memory=a_memory(healthy(10_000))) as served:
        async with (
            aiohttp.ClientSession(headers={"Accept-Encoding": "identity"}) as session,
            session.get(served.url("/memory")) as plain,
        ):
            assert plain.status == 406
            assert "send the header Accept-Encoding: gzip" in await plain.text()
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.get(served.url("/memory"), headers={"Accept-Encoding": "gzip"}) as small,
        ):
            assert small.headers["Content-Encoding"] == "gzip"
            assert len(await small.read()) < MOST_PLAIN_BYTES
