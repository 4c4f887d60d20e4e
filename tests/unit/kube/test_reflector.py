"""From where the reflector goes on after which trouble, and which news it takes in: in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from harness.running_reflector import a_reflector
from harness.scripted_transport import (
    QUIET,
    SILENT,
    End,
    ScriptedTransport,
    Step,
    Watch,
    bookmark,
    deleted,
    error_event,
    modified,
    node_list,
    node_object,
)
from harness.virtual_time import in_virtual_time
from winpool.kube.errors import (
    Forbidden,
    Gone,
    NotFound,
    StreamCut,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)

NODES = node_list(node_object("w1", 5), node_object("w2", 6), version=10)
LATER = node_list(node_object("w1", 5), node_object("w2", 6), version=20)
CUT = StreamCut("watch nodes: the stream broke")
GONE = Gone("watch nodes: 410 too old", status=410)
HUGE = TooLarge("watch nodes: a line of more than 4194304 bytes")
GARBAGE = b"<html><body>502 Bad Gateway</body></html>"


# Trouble that a watch goes on from


@pytest.mark.parametrize(
    ("steps", "position"),
    [
        ([], "10"),
        ([modified("w1", 12)], "12"),
        ([modified("w1", 12), bookmark(30)], "30"),
        ([deleted("w2", 13)], "13"),
    ],
    ids=["the list", "a change", "a bookmark", "a deletion"],
)
@in_virtual_time
async def test_a_cut_watch_goes_on_from_the_last_good_version_without_a_list(
    steps: list[Step], position: str
) -> None:
    server = ScriptedTransport(lists=[NODES], watches=[[*steps, CUT], QUIET])
    async with a_reflector(server):
        await asyncio.sleep(10)
        assert server.positions == ["10", position]
        assert len(server.listed) == 1


@pytest.mark.parametrize(
    "trouble",
    [
        Unavailable("watch nodes: cannot connect", reason="NoConnection"),
        Unavailable("watch nodes: 503", status=503),
        Unauthorized("watch nodes: 401", status=401),
        Forbidden("watch nodes: 403", status=403),
        NotFound("watch nodes: 404", status=404),
        TooManyRequests("watch nodes: 429", status=429),
        [error_event(500)],
        [GARBAGE, modified("w1", 99)],
    ],
    ids=["no server", "503", "401", "403", "404", "429", "an error in the stream", "garbage"],
)
@in_virtual_time
async def test_trouble_after_good_lines_goes_on_where_it_was_and_takes_nothing_away(trouble: Watch) -> None:
    server = ScriptedTransport(lists=[NODES], watches=[[modified("w1", 12), 5.0, End.PROPER], trouble, QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(5.1)
        error = running.reflector.last_error
        assert error is not None
        await asyncio.sleep(5)
        assert running.reflector.last_error is None
        assert server.positions == ["10", "12", "12"]
        assert len(server.listed) == 1
        assert running.versions == {"w1": "12", "w2": "6"}


@in_virtual_time
async def test_garbage_elsewhere_each_time_is_no_reason_to_list() -> None:
    watches: list[Watch] = [[modified("w1", 11 + turn), GARBAGE] for turn in range(5)]
    server = ScriptedTransport(lists=[NODES], watches=[*watches, QUIET])
    async with a_reflector(server):
        await asyncio.sleep(30)
        assert server.positions == ["10", "11", "12", "13", "14", "15"]
        assert len(server.listed) == 1


# Trouble that only a list helps against


@in_virtual_time
async def test_garbage_again_at_the_same_place_is_listed_around() -> None:
    watches: list[Watch] = [[modified("w1", 12), GARBAGE], [GARBAGE], QUIET]
    server = ScriptedTransport(lists=[NODES, LATER], watches=watches)
    async with a_reflector(server):
        await asyncio.sleep(10)
        assert server.positions == ["10", "12", "20"]
        assert len(server.listed) == 2


@pytest.mark.parametrize(
    "watches",
    [[[modified("w1", 12), 10.0, error_event(410)]], [[modified("w1", 12), 10.0, End.PROPER], GONE]],
    ids=["in the stream", "as the answer"],
)
@in_virtual_time
async def test_410_lists_at_once_and_watches_on_from_there(watches: list[Watch]) -> None:
    server = ScriptedTransport(lists=[NODES, LATER], watches=[*watches, QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(20)
        assert server.listed == pytest.approx([0, 10])
        assert server.positions[-1] == "20"
        assert running.reflector.stats.expired == 1


@in_virtual_time
async def test_410_again_lists_after_a_pause_until_a_watch_has_brought_something() -> None:
    expired = [error_event(410)]
    watches: list[Watch] = [[10.0, *expired], expired, expired, [modified("w1", 20), 20.0, *expired], QUIET]
    server = ScriptedTransport(lists=[NODES, LATER], watches=watches)
    async with a_reflector(server):
        await asyncio.sleep(60)
        assert len(server.listed) == 5
        _, first, second, third, fourth = server.listed
        assert first == pytest.approx(10), "at once"
        assert 0.5 <= second - server.watched[1] <= 1.001
        assert 1 <= third - server.watched[2] <= 2.001
        assert fourth == pytest.approx(server.watched[3] + 20), "at once"


@in_virtual_time
async def test_a_deletion_that_nobody_tells_of_any_more_is_found_by_the_list_after_a_410() -> None:
    without = node_list(node_object("w1", 5), version=20)
    server = ScriptedTransport(lists=[NODES, without], watches=[[10.0, error_event(410)], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(9)
        running.changes.clear()
        await asyncio.sleep(9)
        [(old, new)] = running.changes
        assert (old and old.name, new) == ("w2", None)


@in_virtual_time
async def test_a_silent_watch_is_given_up_after_70_seconds_for_a_list() -> None:
    server = ScriptedTransport(lists=[NODES, LATER], watches=[[modified("w1", 12), SILENT], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(70.4)
        assert len(server.listed) == 1
        assert running.versions == {"w1": "12", "w2": "6"}
        await asyncio.sleep(1)
        assert len(server.listed) == 2
        assert server.positions == ["10", "20"]


@in_virtual_time
async def test_a_line_too_large_is_listed_around() -> None:
    server = ScriptedTransport(lists=[NODES, LATER], watches=[[modified("w1", 12), HUGE], QUIET])
    async with a_reflector(server):
        await asyncio.sleep(10)
        assert server.positions == ["10", "20"]


# News


@in_virtual_time
async def test_an_older_state_after_a_newer_one_is_dropped() -> None:
    lines = [modified("w1", 15, team="new"), modified("w1", 12, team="old"), deleted("w1", 13), bookmark(20)]
    server = ScriptedTransport(lists=[NODES], watches=[[*lines, CUT], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(10)
        assert running.versions == {"w1": "15", "w2": "6"}
        assert running.label("w1", "team") == "new"
        assert server.positions == ["10", "20"]
        assert running.reflector.stats.dropped == 2


@in_virtual_time
async def test_an_own_write_is_undone_neither_by_older_lines_nor_by_an_older_list() -> None:
    """All of them tell of a time before the write; what comes after it is taken in again."""
    older = node_list(node_object("w1", 12, team="before"), node_object("w2", 6), version=13)
    watches: list[Watch] = [
        [2.0, modified("w1", 12, team="before"), 2.0, error_event(410)],
        [2.0, modified("w1", 16, team="after"), 60.0],
    ]
    server = ScriptedTransport(lists=[NODES, older], watches=watches)
    async with a_reflector(server) as running:
        await asyncio.sleep(1)
        node = running.reflector.objects["w1"]
        running.reflector.accept_written(
            replace(node, resource_version="15", labels={**node.labels, "team": "ours"})
        )
        await asyncio.sleep(2)
        assert running.label("w1", "team") == "ours", "after the line"
        await asyncio.sleep(2)
        assert len(server.listed) == 2
        assert running.label("w1", "team") == "ours", "after the list"
        await asyncio.sleep(2)
        assert running.label("w1", "team") == "after"


@in_virtual_time
async def test_a_list_that_says_nothing_new_is_told_to_nobody() -> None:
    server = ScriptedTransport(lists=[NODES, LATER], watches=[[10.0, error_event(410)], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(9)
        assert len(running.changes) == 2
        await asyncio.sleep(9)
        assert len(server.listed) == 2
        assert len(running.changes) == 2


@in_virtual_time
async def test_a_node_that_cannot_be_read_is_kept_as_last_seen_and_the_watch_goes_on() -> None:
    unreadable = modified("w1", 12)
    unreadable["object"]["metadata"]["labels"] = 7
    server = ScriptedTransport(lists=[NODES], watches=[[unreadable, modified("w2", 13), 60.0]])
    async with a_reflector(server) as running:
        await asyncio.sleep(10)
        assert running.versions == {"w1": "5", "w2": "13"}
        assert (running.reflector.stats.undecodable, running.reflector.stats.restarts) == (1, 0)


@in_virtual_time
async def test_only_what_the_operator_reads_is_of_interest() -> None:
    heartbeat = modified("w1", 12)
    server = ScriptedTransport(
        lists=[NODES], watches=[[heartbeat, modified("w1", 13, zone="a"), bookmark(30), deleted("w2", 31)]]
    )
    async with a_reflector(server):
        await asyncio.sleep(0.5)
        # The first is of interest because of the list before it.
        assert server.calm[:4] == [False, False, True, False]
