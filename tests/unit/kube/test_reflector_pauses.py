"""How often the reflector asks in trouble, and what it tells of its contact meanwhile: in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from harness.builders import Object
from harness.running_reflector import a_reflector
from harness.scripted_transport import (
    QUIET,
    SILENT,
    Answer,
    End,
    ScriptedTransport,
    Watch,
    bookmark,
    error_event,
    gaps,
    modified,
    node_list,
    node_object,
)
from harness.virtual_time import in_virtual_time
from winpool.kube.errors import (
    Forbidden,
    Gone,
    StreamCut,
    TooLarge,
    TooManyRequests,
    Unavailable,
    parse_permission,
)

NODES = node_list(node_object("w1", 5), version=10)
DOWN = Unavailable("nodes: cannot connect", reason="NoConnection")
GONE = Gone("nodes: 410 too old", status=410)
CUT = StreamCut("watch nodes: the stream broke")
HUGE = TooLarge("nodes: more than 4194304 bytes")
FORBIDDEN = Forbidden("nodes: 403", status=403)
GARBAGE = b"<html><body>502 Bad Gateway</body></html>"

FAR_APART = 45
"""Requests of a kind in ten minutes: pauses up to 30 s, of which chance takes at most half."""

SMALLER_PAGES = 8
"""A page too large is asked for at once with half as many objects, from 500 down to one."""


# Pauses


@pytest.mark.parametrize("trouble", [DOWN, [CUT], [error_event(500)]], ids=["no server", "cut", "500"])
@in_virtual_time
async def test_pauses_grow_up_to_half_a_minute(trouble: Watch) -> None:
    server = ScriptedTransport(lists=[NODES], watches=[trouble])
    async with a_reflector(server):
        await asyncio.sleep(300)
        found = gaps(server.watched)
        assert len(found) >= 10
        for gap, step in zip(found, [1, 2, 4, 8, 16] + [30] * len(found), strict=False):
            assert step / 2 <= gap <= step + 0.001


@in_virtual_time
async def test_pauses_begin_anew_once_a_watch_has_brought_something() -> None:
    watches: list[Watch] = [*[DOWN] * 6, [bookmark(10), CUT], [CUT], QUIET]
    server = ScriptedTransport(lists=[NODES], watches=watches)
    async with a_reflector(server):
        await asyncio.sleep(120)
        *_, long, first, second = gaps(server.watched)
        assert long >= 15
        assert first <= 1.001
        assert 1 <= second <= 2.001


@pytest.mark.parametrize(("asked", "obeyed"), [(20.0, 20.0), (86_400.0, 60.0)], ids=["20 s", "a day"])
@in_virtual_time
async def test_what_the_server_asks_for_is_obeyed_up_to_a_minute(asked: float, obeyed: float) -> None:
    busy = TooManyRequests("watch nodes: 429", status=429, retry_after=asked)
    server = ScriptedTransport(lists=[NODES], watches=[busy, QUIET])
    async with a_reflector(server):
        await asyncio.sleep(100)
        assert server.watched == pytest.approx([0, obeyed])


@pytest.mark.parametrize(
    ("answer", "at_once"),
    [(DOWN, 0), (FORBIDDEN, 0), (GONE, 0), (b"{}", 0), (GARBAGE, 0), (HUGE, SMALLER_PAGES)],
    ids=["no server", "403", "410", "no list", "no JSON", "too large"],
)
@in_virtual_time
async def test_lists_that_fail_are_made_far_apart(answer: Answer, at_once: int) -> None:
    server = ScriptedTransport(lists=[answer])
    async with a_reflector(server) as running:
        await asyncio.sleep(600)
        assert 20 <= len(server.listed) - at_once <= FAR_APART
        assert server.watched == []
        assert not running.reflector.synced


@pytest.mark.parametrize(
    "watch",
    [DOWN, FORBIDDEN, GONE, [CUT], [GARBAGE], [HUGE], [error_event(410)], [error_event(500)], [End.PROPER]],
    ids=["no server", "403", "410", "cut", "garbage", "too large", "410 in it", "500 in it", "ended"],
)
@in_virtual_time
async def test_watches_that_bring_nothing_are_opened_far_apart(watch: Watch) -> None:
    server = ScriptedTransport(lists=[NODES], watches=[watch])
    async with a_reflector(server) as running:
        await asyncio.sleep(600)
        assert 20 <= len(server.watched) <= FAR_APART
        assert len(server.listed) <= FAR_APART
        assert list(running.reflector.objects) == ["w1"]


@pytest.mark.parametrize("end", [CUT, GARBAGE, error_event(410)], ids=["cut", "garbage", "410"])
@in_virtual_time
async def test_watches_that_break_after_each_good_line_are_opened_once_a_second(
    end: bytes | StreamCut | Object,
) -> None:
    server = ScriptedTransport(lists=[NODES], watches=[[modified("w1", 10), end]])
    async with a_reflector(server):
        await asyncio.sleep(60)
        assert 50 <= len(server.watched) <= 61
        assert min(gaps(server.watched)) >= 0.999
        assert len(server.listed) <= 61


@in_virtual_time
async def test_watches_that_are_silent_cost_a_list_each_and_no_more() -> None:
    server = ScriptedTransport(lists=[NODES], watches=[[SILENT]])
    async with a_reflector(server):
        await asyncio.sleep(600)
        assert 6 <= len(server.watched) <= 9
        assert len(server.listed) <= len(server.watched) + 1


# Contact


@in_virtual_time
async def test_contact_is_made_after_the_first_list_and_before_nodes_are_synced() -> None:
    server = ScriptedTransport(lists=[DOWN, NODES])
    async with a_reflector(server) as running:
        await asyncio.sleep(10)
        assert running.contacts == [server.listed[1]]
        assert running.was_synced == [False]
        assert running.reflector.synced


@pytest.mark.parametrize("end", [CUT, End.PROPER, error_event(410)], ids=["cut", "ended early", "410"])
@in_virtual_time
async def test_contact_is_made_anew_after_a_watch_that_did_not_end_in_its_time(
    end: End | StreamCut | Object,
) -> None:
    server = ScriptedTransport(lists=[NODES], watches=[[5.0, end], QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(500)
        assert running.contacts == [0, server.watched[1]]


@in_virtual_time
async def test_neither_a_watch_that_ends_in_its_time_nor_a_list_that_was_asked_for_is_a_new_contact() -> None:
    server = ScriptedTransport(lists=[NODES])
    async with a_reflector(server) as running:
        await asyncio.sleep(1000)
        running.reflector.ask_for_list()
        await asyncio.sleep(1000)
        assert len(server.watched) > 6
        assert running.contacts == [0]


@in_virtual_time
async def test_a_contact_that_came_to_nothing_is_made_again_with_each_watch_until_it_does_not() -> None:
    server = ScriptedTransport(lists=[NODES])
    async with a_reflector(server, failing=2) as running:
        await asyncio.sleep(50)
        assert running.reflector.synced, "what nodes there are is known all the same"
        assert running.contacts == [0, 0]
        await asyncio.sleep(1000)
        assert running.contacts == [0, 0, server.watched[1]]


@in_virtual_time
async def test_the_time_since_the_last_contact_stays_below_a_minute_and_grows_in_silence() -> None:
    server = ScriptedTransport(lists=[DOWN, NODES, DOWN], watches=[QUIET, [SILENT]])
    async with a_reflector(server) as running:
        await asyncio.sleep(0.1)
        assert running.reflector.last_contact_seconds == float("inf")
        seen: list[float] = []
        for _ in range(250):
            await asyncio.sleep(1)
            seen.append(running.reflector.last_contact_seconds)
        assert 58 <= max(seen) <= 60.001
        await asyncio.sleep(500)
        assert len(server.watched) == 2
        assert running.reflector.last_contact_seconds > 400
        assert list(running.reflector.objects) == ["w1"]


@in_virtual_time
async def test_a_refusal_is_told_with_the_rule_that_is_missing_until_a_watch_is_open() -> None:
    words = 'User "winpool" cannot watch resource "nodes" in API group "" at the cluster scope'
    refused = Forbidden(f"watch nodes: 403 {words}", status=403)
    refused.permission = parse_permission(words)
    server = ScriptedTransport(lists=[NODES], watches=[refused, QUIET])
    async with a_reflector(server) as running:
        await asyncio.sleep(0.4)
        error = running.reflector.last_error
        assert isinstance(error, Forbidden)
        assert 'Add the rule {apiGroups: [""], resources: ["nodes"], verbs: ["watch"]}' in error.message
        await asyncio.sleep(1)
        assert running.reflector.last_error is None
