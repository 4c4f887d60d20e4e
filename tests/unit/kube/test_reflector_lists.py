"""When the reflector lists nodes, and what it makes of a list that is broken or old: in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from harness.running_reflector import a_reflector
from harness.scripted_transport import (
    QUIET,
    ScriptedTransport,
    Watch,
    error_event,
    gaps,
    modified,
    node_list,
    node_object,
)
from harness.virtual_time import in_virtual_time
from winpool.kube.errors import Gone, Unavailable
from winpool.kube.watch import RELIST_RETRY_SECONDS

NODES = node_list(node_object("w1", 5), node_object("w2", 6), version=10)
LATER = node_list(node_object("w1", 5), node_object("w2", 6), version=20)
DOWN = Unavailable("list nodes: cannot connect", reason="NoConnection")
GONE = Gone("list nodes: 410 too old", status=410)
EXPIRED = error_event(410)

LONGEST_PERIOD = 660.0 + 2
"""Ten minutes, with what is added by chance, and a watch that is asked for in whole seconds."""


# Complete or not


@in_virtual_time
async def test_nodes_are_synced_by_a_complete_list_and_by_nothing_less() -> None:
    half = node_list(node_object("w1", 5), version=10, goes_on="1")
    server = ScriptedTransport(lists=[half, DOWN, NODES])
    async with a_reflector(server) as running:
        await asyncio.sleep(0.4)
        assert list(running.reflector.objects) == ["w1"], "it is there, whatever becomes of the list"
        assert not running.reflector.synced
        assert server.watched == []
        await asyncio.sleep(1)
        assert list(running.reflector.objects) == ["w1", "w2"]
        assert running.reflector.synced


@in_virtual_time
async def test_half_a_list_takes_nothing_away() -> None:
    half = node_list(node_object("w1", 5), version=20, goes_on="1")
    whole = node_list(node_object("w1", 5), version=21)
    server = ScriptedTransport(lists=[NODES, half, DOWN, whole], watches=[[5.0, EXPIRED], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(5.4)
        assert len(server.listed) == 3
        assert list(running.reflector.objects) == ["w1", "w2"]
        await asyncio.sleep(1)
        assert "continue" not in server.asked[-2].query, "it is begun anew"
        assert list(running.reflector.objects) == ["w1"]


@in_virtual_time
async def test_a_list_with_a_node_without_a_readable_name_takes_nothing_away() -> None:
    """It may be any of those that seem to be gone."""
    nameless = node_list(node_object("w1", 5), {"metadata": {}}, version=20)
    server = ScriptedTransport(lists=[NODES, nameless], watches=[[5.0, EXPIRED], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(10)
        assert server.positions == ["10", "20"]
        assert list(running.reflector.objects) == ["w1", "w2"]


# When one is due


@in_virtual_time
async def test_nodes_are_listed_every_ten_minutes_and_not_more_often() -> None:
    server = ScriptedTransport(lists=[NODES])
    async with a_reflector(server) as running:
        await asyncio.sleep(2 * 3600)
        assert len(server.listed) >= 11
        assert min(gaps(server.listed)) >= 600
        assert max(gaps(server.listed)) <= LONGEST_PERIOD
        assert running.reflector.stats.restarts == 0
        assert max(gaps(server.watched)) <= 300, "proxies cut what is older"


@in_virtual_time
async def test_a_watch_that_the_server_does_not_end_is_left_half_a_minute_after_a_list_was_due() -> None:
    server = ScriptedTransport(lists=[NODES], punctual=False)
    async with a_reflector(server) as running:
        await asyncio.sleep(3600)
        assert len(server.listed) >= 5
        assert min(gaps(server.listed)) >= 630
        assert max(gaps(server.listed)) <= LONGEST_PERIOD + 30
        assert running.reflector.stats.restarts == 0


@in_virtual_time
async def test_a_due_list_that_fails_is_put_up_with_and_made_up_for_a_minute_later() -> None:
    server = ScriptedTransport(lists=[NODES, DOWN, DOWN, LATER])
    async with a_reflector(server) as running:
        await asyncio.sleep(LONGEST_PERIOD + 2 * (RELIST_RETRY_SECONDS + 2))
        assert len(server.listed) == 4
        due, again, made = gaps(server.listed)
        assert 600 <= due <= LONGEST_PERIOD
        assert min(again, made) >= RELIST_RETRY_SECONDS
        assert max(again, made) <= RELIST_RETRY_SECONDS + 2
        assert set(server.positions) == {"10", "20"}, "meanwhile it went on where it was"
        assert (running.reflector.last_error, running.reflector.stats.restarts) == (None, 0)
        await asyncio.sleep(server.listed[-1] + 599 - server.time)
        assert len(server.listed) == 4


@in_virtual_time
async def test_a_due_list_that_expires_between_two_pages_is_begun_anew_at_once() -> None:
    half = node_list(node_object("w1", 5), version=15, goes_on="1")
    server = ScriptedTransport(lists=[NODES, half, GONE, LATER])
    async with a_reflector(server):
        await asyncio.sleep(LONGEST_PERIOD)
        _, *due = server.listed
        assert due == [due[0]] * 3
        assert server.positions[-1] == "20"


# When one is asked for


@in_virtual_time
async def test_a_list_asked_for_ends_the_watch_and_is_made_at_once_without_any_trouble() -> None:
    server = ScriptedTransport(lists=[NODES, LATER])
    async with a_reflector(server) as running:
        await asyncio.sleep(100)
        running.reflector.ask_for_list()
        await asyncio.sleep(1)
        assert server.listed == [0, 100]
        assert (server.watched, server.positions) == ([0, 100], ["10", "20"])
        assert (running.reflector.last_error, running.reflector.stats.restarts) == (None, 0)


@in_virtual_time
async def test_lists_asked_for_are_ten_seconds_apart_however_many_ask() -> None:
    server = ScriptedTransport(lists=[NODES])
    async with a_reflector(server) as running:
        for _ in range(200):
            await asyncio.sleep(0.5)
            running.reflector.ask_for_list()
        assert 10 <= len(server.listed) <= 11
        assert min(gaps(server.listed)) >= 9.999


@in_virtual_time
async def test_many_who_ask_within_ten_seconds_get_one_list() -> None:
    server = ScriptedTransport(lists=[NODES])
    async with a_reflector(server) as running:
        for _ in range(9):
            await asyncio.sleep(1)
            running.reflector.ask_for_list()
        await asyncio.sleep(500)
        assert server.listed == pytest.approx([0, 10])


@pytest.mark.parametrize(("opening", "listed"), [(8.0, 10.0), (15.0, 15.0)], ids=["before", "after"])
@in_virtual_time
async def test_a_list_asked_for_while_a_watch_is_being_opened_is_made(opening: float, listed: float) -> None:
    """There is no watch then that could be ended; it comes before or after the list is due."""
    server = ScriptedTransport(lists=[NODES], opening_seconds=opening)
    async with a_reflector(server) as running:
        await asyncio.sleep(3)
        running.reflector.ask_for_list()
        await asyncio.sleep(100)
        assert server.listed == pytest.approx([0, listed])


@in_virtual_time
async def test_who_asks_after_a_due_list_has_failed_need_not_wait_a_minute() -> None:
    server = ScriptedTransport(lists=[NODES, DOWN, LATER])
    async with a_reflector(server) as running:
        await asyncio.sleep(100)
        running.reflector.ask_for_list()
        await asyncio.sleep(2)
        assert server.listed == [0, 100]
        running.reflector.ask_for_list()
        await asyncio.sleep(20)
        assert server.listed == pytest.approx([0, 100, 110])


@in_virtual_time
async def test_who_asks_during_a_due_list_that_fails_need_not_wait_a_minute() -> None:
    server = ScriptedTransport(lists=[NODES, DOWN, LATER], list_seconds=2.0)
    async with a_reflector(server) as running:
        await asyncio.sleep(100)
        running.reflector.ask_for_list()
        await asyncio.sleep(1)
        running.reflector.ask_for_list()
        await asyncio.sleep(30)
        assert server.listed == pytest.approx([0, 100, 112])


# Lists that are older than what was seen


@in_virtual_time
async def test_an_older_list_is_of_a_cluster_that_was_restored(caplog: pytest.LogCaptureFixture) -> None:
    """What goes on from there is news, though its versions are lower than those from before."""
    before = node_list(node_object("w1", 90), node_object("w2", 91), version=100)
    restored = node_list(node_object("w1", 40, team="backup"), version=50)
    watches: list[Watch] = [[5.0, EXPIRED], [60.0, modified("w1", 51, team="new"), 60.0]]
    server = ScriptedTransport(lists=[before, restored], watches=watches)
    async with a_reflector(server) as running:
        await asyncio.sleep(6)
        assert running.versions == {"w1": "40"}
        assert "nodes: the cluster was restored from version 100 to the older 50" in caplog.text
        await asyncio.sleep(61)
        assert running.versions == {"w1": "51"}
        assert server.positions == ["100", "50"]
