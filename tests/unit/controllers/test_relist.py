"""When all pools are listed, and how often where lists fail: in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import a_body
from harness.running_relister import LONGEST_PERIOD, PERIOD, a_relister
from harness.scripted_transport import Answer, ScriptedTransport, gaps, pool_list
from harness.stage import until
from harness.virtual_time import in_virtual_time
from winpool.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    TooManyRequests,
    Unavailable,
    parse_permission,
)

BOTH = pool_list(a_body("a", version=3), a_body("b", version=4), version=10)
HALF = pool_list(a_body("a", version=3), version=20, goes_on="1")
DOWN = Unavailable("list windowsnodepools: cannot connect", reason="NoConnection")
GARBAGE = b"<html><body>502 Bad Gateway</body></html>"


# When


@in_virtual_time
async def test_pools_are_listed_at_the_start_and_then_every_period_and_not_more_often() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(2 * 3600)
        assert len(server.listed) >= 20
        assert server.listed[0] == 0
        assert min(gaps(server.listed)) >= PERIOD
        assert max(gaps(server.listed)) <= LONGEST_PERIOD
        assert running.after == server.listed


@in_virtual_time
async def test_a_list_that_is_asked_for_is_made_at_once() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.relister.ask()
        await asyncio.sleep(PERIOD)
        assert server.listed == [0, 100]


@in_virtual_time
async def test_lists_that_are_asked_for_are_a_second_apart_however_many_ask() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        for _ in range(300):
            await asyncio.sleep(0.1)
            running.relister.ask()
        assert 28 <= len(server.listed) <= 31
        assert min(gaps(server.listed)) >= 0.999


@in_virtual_time
async def test_who_asks_during_a_list_gets_one_more() -> None:
    """What they have seen may have happened after the list was made."""
    server = ScriptedTransport(lists=[BOTH], list_seconds=5.0)
    async with a_relister(server) as running:
        await asyncio.sleep(3)
        running.relister.ask()
        running.relister.ask()
        await asyncio.sleep(100)
        assert server.listed == pytest.approx([0, 6])


# A list that fails


@pytest.mark.parametrize("failure", [DOWN, GARBAGE], ids=["no server", "garbage"])
@in_virtual_time
async def test_nothing_is_synced_or_told_before_a_complete_list(failure: Answer) -> None:
    server = ScriptedTransport(lists=[failure, HALF, failure, BOTH])
    async with a_relister(server) as running:
        assert running.relister.problem == "not listed yet"
        await asyncio.sleep(0.4)
        assert len(server.listed) == 1
        assert running.relister.problem.startswith("list windowsnodepools: ")
        await asyncio.sleep(1)
        assert len(server.listed) == 3
        assert (running.names, running.pools.synced, running.after) == (set(), False, [])
        await asyncio.sleep(2)
        assert running.names == {"a", "b"}
        assert running.pools.synced
        assert running.relister.problem == ""
        assert running.after == server.listed[-1:]


@in_virtual_time
async def test_a_list_that_expires_between_two_pages_is_begun_anew_at_once() -> None:
    gone = Gone("list windowsnodepools: 410 too old", status=410)
    server = ScriptedTransport(lists=[HALF, gone, BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(0.1)
        assert server.listed == [0, 0, 0]
        assert (running.names, running.after) == ({"a", "b"}, [0])


@in_virtual_time
async def test_a_list_that_fails_is_tried_again_after_pauses_that_grow_up_to_half_a_minute() -> None:
    server = ScriptedTransport(lists=[DOWN])
    async with a_relister(server) as running:
        await asyncio.sleep(300)
        found = gaps(server.listed)
        assert len(found) >= 10
        for gap, step in zip(found, [1, 2, 4, 8, 16] + [30] * len(found), strict=False):
            assert step / 2 <= gap <= step + 0.001
        assert running.after == []


@in_virtual_time
async def test_who_asks_does_not_shorten_the_pause_after_a_failure() -> None:
    server = ScriptedTransport(lists=[DOWN])
    async with a_relister(server) as running:
        for _ in range(600):
            await asyncio.sleep(1)
            running.relister.ask()
        assert 20 <= len(server.listed) <= 45


@in_virtual_time
async def test_pauses_begin_anew_after_a_list_that_was_made() -> None:
    server = ScriptedTransport(lists=[*[DOWN] * 7, BOTH, DOWN, BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(120)
        assert len(running.after) == 1
        running.relister.ask()
        await asyncio.sleep(10)
        *_, long, _, short = gaps(server.listed)
        assert long >= 15
        assert 0.5 <= short <= 1.001


@in_virtual_time
async def test_who_has_asked_in_a_pause_after_a_failure_is_served_by_the_list_that_is_made_next() -> None:
    server = ScriptedTransport(lists=[DOWN, BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(0.2)
        running.relister.ask()
        await asyncio.sleep(PERIOD - 1)
        assert len(server.listed) == 2
        assert running.after == server.listed[-1:]


@in_virtual_time
async def test_who_asks_during_a_list_that_fails_is_served_by_the_next() -> None:
    server = ScriptedTransport(lists=[DOWN, BOTH], list_seconds=5.0)
    async with a_relister(server) as running:
        await asyncio.sleep(3)
        running.relister.ask()
        await asyncio.sleep(PERIOD - 1)
        assert len(server.listed) == 2
        assert len(running.after) == 1


# The CRD


@in_virtual_time
async def test_when_the_crd_has_gone_pools_are_listed_at_once_and_once_more() -> None:
    """The API server may serve them a moment longer than it says."""
    missing = NotFound("list windowsnodepools: 404", status=404)
    server = ScriptedTransport(lists=[BOTH, BOTH, missing])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.relister.kind_changed()
        await asyncio.sleep(1)
        assert server.listed == [0, 100]
        assert running.relister.problem == ""
        await asyncio.sleep(1.1)
        assert len(server.listed) == 3
        assert "kubectl apply -f crds.yaml" in running.relister.problem


@in_virtual_time
async def test_when_the_crd_has_come_back_the_pause_after_failures_is_over() -> None:
    missing = NotFound("list windowsnodepools: 404", status=404)
    server = ScriptedTransport(lists=[*[missing] * 10, BOTH])
    async with a_relister(server) as running:
        await until(lambda: len(server.listed) == 10, seconds=300)
        running.relister.kind_changed()
        await asyncio.sleep(0.1)
        assert running.relister.problem == ""
        await asyncio.sleep(PERIOD - 3)
        assert len(server.listed) == 12


@pytest.mark.parametrize(("asked", "obeyed"), [(20.0, 20.0), (86_400.0, 60.0)], ids=["20 s", "a day"])
@in_virtual_time
async def test_what_the_server_asks_for_is_obeyed_up_to_a_minute(asked: float, obeyed: float) -> None:
    busy = TooManyRequests("list windowsnodepools: 429", status=429, retry_after=asked)
    server = ScriptedTransport(lists=[busy, BOTH])
    async with a_relister(server):
        await asyncio.sleep(100)
        assert server.listed == pytest.approx([0, obeyed])


def forbidden() -> Forbidden:
    words = (
        'User "winpool" cannot list resource "windowsnodepools" in API group "winpool.dev"'
        " at the cluster scope"
    )
    error = Forbidden(f"list windowsnodepools: 403 {words}", status=403)
    error.permission = parse_permission(words)
    return error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotFound("list windowsnodepools: 404", status=404), "kubectl apply -f crds.yaml"),
        (forbidden(), 'resources: ["windowsnodepools"], verbs: ["list"]'),
    ],
    ids=["no CRD", "no permission"],
)
@in_virtual_time
async def test_the_problem_says_what_to_do_until_a_list_is_made(error: ApiError, told: str) -> None:
    server = ScriptedTransport(lists=[error, BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(0.4)
        assert told in running.relister.problem
        await asyncio.sleep(1)
        assert running.relister.problem == ""
