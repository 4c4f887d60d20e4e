"""What is concluded from lists of pools: from one alone, half of one, an old one (P4). In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import a_body
from harness.running_relister import GRACE, LONGEST_PERIOD, PERIOD, a_relister
from harness.scripted_transport import Answer, ScriptedTransport, pool_list
from harness.virtual_time import in_virtual_time
from winpool.cluster.errors import Unavailable

BOTH = pool_list(a_body("a", version=3), a_body("b", version=4), version=10)
HALF = pool_list(a_body("a", version=3), version=20, goes_on="1")
DOWN = Unavailable("list windowsnodepools: cannot connect", reason="NoConnection")
GARBAGE = b"<html><body>502 Bad Gateway</body></html>"
STRANGER = "uid-of-nobody"


# Pools that are gone


@pytest.mark.parametrize("end", [DOWN, GARBAGE], ids=["no server", "garbage"])
@in_virtual_time
async def test_half_a_list_takes_nothing_away_and_a_whole_one_does(end: Answer) -> None:
    whole = pool_list(a_body("a", version=3), version=21)
    server = ScriptedTransport(lists=[BOTH, HALF, end, whole])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.relister.ask()
        await asyncio.sleep(0.4)
        assert len(server.listed) == 3
        assert running.names == {"a", "b"}
        assert running.pools.synced
        assert running.relister.problem
        await asyncio.sleep(1)
        assert running.names == {"a"}


# Pools that have vanished


@in_virtual_time
async def test_one_list_alone_does_not_say_that_a_pool_has_vanished() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(PERIOD - 1)
        assert len(server.listed) == 1
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(LONGEST_PERIOD - PERIOD + 1)
        assert len(server.listed) == 2
        assert running.pools.is_vanished(STRANGER)


@in_virtual_time
async def test_lists_within_the_grace_count_as_one() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        assert not running.pools.is_vanished(STRANGER)
        for _ in range(11):
            await asyncio.sleep(5)
            running.relister.ask()
            assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(4)
        assert len(server.listed) == 12
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(2)
        running.relister.ask()
        await asyncio.sleep(1)
        assert running.pools.is_vanished(STRANGER)


@pytest.mark.parametrize("failed", [[DOWN], [GARBAGE], [HALF, DOWN]], ids=["no server", "garbage", "half"])
@in_virtual_time
async def test_lists_that_fail_do_not_count(failed: list[Answer]) -> None:
    """Neither as one of two, nor as the one that the next has to be far enough from."""
    server = ScriptedTransport(lists=[BOTH, *failed * 4, BOTH])
    async with a_relister(server) as running:
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(GRACE)
        running.relister.ask()
        await asyncio.sleep(5)
        assert len(running.after) == 1
        assert len(server.listed) >= 1 + 3 * len(failed)
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(20)
        assert len(running.after) == 2
        assert running.pools.is_vanished(STRANGER)


@in_virtual_time
async def test_a_pool_that_was_heard_of_during_a_list_is_not_gone_for_not_being_on_it() -> None:
    """Nor is that list too old to be believed: it is as new as what was known when it was asked for."""
    server = ScriptedTransport(lists=[BOTH], list_seconds=5.0)
    async with a_relister(server) as running:
        await asyncio.sleep(2)
        running.pools.accept(a_body("young", version=15))
        await asyncio.sleep(4)
        assert running.names == {"a", "b", "young"}
        assert (running.relister.problem, len(server.listed)) == ("", 1)


# Lists that are older than what was seen


@in_virtual_time
async def test_an_older_list_is_not_believed_before_it_has_come_often_and_for_half_a_minute() -> None:
    restored = pool_list(a_body("a", version=2), version=5)
    server = ScriptedTransport(lists=[BOTH, restored])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.relister.ask()
        await asyncio.sleep(29)
        assert len(server.listed) >= 4
        assert running.names == {"a", "b"}
        assert "version 5 is older than 10" in running.relister.problem
        await asyncio.sleep(31)
        assert running.names == {"a"}
        assert running.relister.problem == ""
        found = running.pools.get("a")
        assert found is not None
        assert found.resource_version == "2"
        listed = len(server.listed)
        running.relister.ask()
        await asyncio.sleep(2)
        assert len(server.listed) == listed + 1
        assert running.relister.problem == "", "from here on it is the state of the cluster"


@in_virtual_time
async def test_an_older_list_from_a_cache_that_catches_up_takes_nothing_away() -> None:
    stale = pool_list(a_body("a", version=3), version=5)
    server = ScriptedTransport(lists=[BOTH, stale, stale, BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.relister.ask()
        await asyncio.sleep(10)
        assert len(server.listed) == 4
        assert (running.names, running.relister.problem) == ({"a", "b"}, "")
        assert len(running.after) == 2
