"""Polls begin together: a few at once take less CPU time than each by itself."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Final

import pytest

from harness.memory_fleet import Stage, a_watching_pool
from harness.virtual_time import in_virtual_time
from winpool.kubelet.schedule import MAX_IN_FLIGHT

APART: Final = 0.3
"""Promised as the most by which a poll is late (docs/adr/0034-polls-over-plain-sockets.md)."""
ROUNDING: Final = 1e-6


@pytest.mark.slow
@in_virtual_time
async def test_polls_begin_every_three_tenths_of_a_second_at_most_and_late_by_no_more_than_that() -> None:
    stage = Stage(range(600), jitter=None)
    stage.collector.want(a_watching_pool(), stage.nodes)
    task = asyncio.create_task(stage.collector.run())
    await asyncio.sleep(200)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    begun = [at for number in range(600) for at in stage.polls_of(number)]
    looks = sorted({round(at, 6) for at in begun})
    assert len(begun) >= 600 * 3
    assert all(later - earlier >= APART - ROUNDING for earlier, later in pairwise(looks))
    for number in range(600):
        polls = stage.polls_of(number)
        assert all(57 <= later - earlier <= 63 + APART + ROUNDING for earlier, later in pairwise(polls))


@in_virtual_time
async def test_a_look_that_finds_more_than_there_are_places_for_is_followed_by_another_one_soon() -> None:
    stage = Stage(range(300), jitter=0.0)
    for number in range(300):
        stage.machine(number).seconds = 0.01
    stage.collector.want(a_watching_pool(), stage.nodes)
    task = asyncio.create_task(stage.collector.run())
    await asyncio.sleep(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert stage.fleet.most_in_flight == MAX_IN_FLIGHT
    assert all(stage.polls_of(number) for number in range(300)), "all are due at once, and 64 fit into 0.3 s"
