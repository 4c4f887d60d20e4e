"""What is concluded from lists of pools: from one alone, half of one, an old one (P4). In virtual time."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import NOON, a_body
from harness.running_relister import GRACE, PERIOD, a_relister
from harness.scripted_transport import Answer, ScriptedTransport, gaps, pool_list
from harness.virtual_time import in_virtual_time
from winpool.controllers.pools import BURST, PACE_SECONDS
from winpool.kube.errors import Unavailable

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
        await asyncio.sleep(1)
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(GRACE - 2)
        assert server.listed == [0]
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(2)
        assert server.listed == pytest.approx([0, GRACE])
        assert running.pools.is_vanished(STRANGER)


@in_virtual_time
async def test_an_owner_that_is_missed_is_looked_for_at_once_and_again_after_the_grace() -> None:
    """Not at the next two of the regular lists, which come up to eleven minutes later."""
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(0.1)
        assert server.listed == [0, 100]
        assert not running.pools.is_vanished(STRANGER)
        await asyncio.sleep(GRACE)
        assert server.listed == pytest.approx([0, 100, 100 + GRACE])
        assert running.pools.is_vanished(STRANGER)


@in_virtual_time
async def test_what_people_are_told_of_the_second_list_stays_and_is_not_before_it() -> None:
    server = ScriptedTransport(lists=[BOTH], list_seconds=0.4)
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.pools.is_vanished(STRANGER)
        told = running.absences.decided_at(STRANGER)
        assert told is not None
        while not running.pools.is_vanished(STRANGER):
            assert running.absences.decided_at(STRANGER) == told
            await asyncio.sleep(0.5)
        late = (told - NOON).total_seconds() - server.time
        assert 0 <= late <= 3
        assert running.absences.decided_at(STRANGER) is None


@in_virtual_time
async def test_a_second_list_that_is_late_moves_nothing_and_a_late_first_one_does() -> None:
    server = ScriptedTransport(lists=[BOTH, *[DOWN] * 5, BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.pools.is_vanished(STRANGER)
        first = running.absences.decided_at(STRANGER)
        await asyncio.sleep(60)
        assert len(running.after) == 2
        second = running.absences.decided_at(STRANGER)
        assert first is not None
        assert second is not None
        assert (second - NOON).total_seconds() == pytest.approx(running.after[-1] + GRACE, abs=1)
        assert second > first


@in_virtual_time
async def test_nothing_is_listed_for_what_nobody_asks_about_any_more() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.pools.is_vanished(STRANGER)
        await asyncio.sleep(PERIOD - 1)
        assert server.listed == [0, 100]


@in_virtual_time
async def test_an_owner_that_stays_unknown_costs_two_lists_and_none_after_that() -> None:
    """A record that may be forged stays on its node for ever, and silence is due all the same (P2)."""
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        for _ in range(1000):
            running.pools.is_vanished(STRANGER)
            await asyncio.sleep(10)
        assert server.listed[:3] == pytest.approx([0, 100, 100 + GRACE])
        assert min(gaps(server.listed[2:])) >= PERIOD


@pytest.mark.slow
@in_virtual_time
async def test_owners_that_are_made_up_one_after_another_do_not_have_us_list_all_day() -> None:
    server = ScriptedTransport(lists=[BOTH])
    async with a_relister(server) as running:
        made_up: list[str] = []
        for number in range(3600):
            made_up = [*made_up[-99:], f"uid-{number}"]
            for uid in made_up:
                running.pools.is_vanished(uid)
            await asyncio.sleep(1)
        assert len(server.listed) <= 3600 / PACE_SECONDS + BURST + 2
        assert running.pools.is_vanished(made_up[0]), "and yet they are answered"


@in_virtual_time
async def test_a_list_that_was_asked_for_before_somebody_missed_a_pool_says_nothing_of_it() -> None:
    """The pool may have been made while it was on its way (P4)."""
    server = ScriptedTransport(lists=[BOTH], list_seconds=5.0)
    async with a_relister(server) as running:
        await asyncio.sleep(2)
        for _ in range(int(GRACE) + 7):
            assert not running.pools.is_vanished(STRANGER)
            await asyncio.sleep(1)
        assert server.listed == pytest.approx([0, 6, 6 + GRACE])
        await asyncio.sleep(3)
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
        assert len(server.listed) == 13
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
async def test_an_older_list_is_of_a_cluster_that_was_restored(caplog: pytest.LogCaptureFixture) -> None:
    restored = pool_list(a_body("a", version=3, generation=7), version=5)
    server = ScriptedTransport(lists=[BOTH, restored])
    async with a_relister(server) as running:
        await asyncio.sleep(100)
        running.relister.ask()
        await asyncio.sleep(2)
        assert (running.names, running.relister.problem) == ({"a"}, "")
        assert "the cluster was restored from version 10 to the older 5" in caplog.text
        found = running.pools.get("a")
        assert found is not None
        assert (found.resource_version, found.generation) == ("3", 7), "a version that was used before"
        caplog.clear()
        running.relister.ask()
        await asyncio.sleep(2)
        assert len(server.listed) == 4, "such a list is made twice"
        assert not caplog.messages, "from here on it is the state of the cluster"
