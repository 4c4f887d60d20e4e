"""What wakes a pool: what has changed for those who read it, and never a sample as such."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings

from harness.memory import BOTH, KUBELET, PROMETHEUS
from harness.memory_fleet import a_watched_node
from harness.memory_histories import History, histories
from harness.virtual_time import in_virtual_time
from winpool.controllers.memory import Wakes
from winpool.controllers.watched_nodes import News, Series, Silence, Wanted, WatchedNode
from winpool.kubelet.samples import Outcome
from winpool.model.pressure import Axis, NodePressure

WANTED = Wanted(
    pool="pool",
    pool_uid="uid-of-pool",
    generation=1,
    settings=BOTH,
    evicts=True,
    sources={KUBELET: None, PROMETHEUS: Series("main", "node")},
)


def a_hundred(_: str) -> int:
    return 100


def some_wakes(
    wake: Callable[[str], None],
    *,
    nodes_of: Callable[[str], int] = a_hundred,
    on_wait: Callable[[], None] = lambda: None,
) -> Wakes:
    monotonic = asyncio.get_running_loop().time
    return Wakes(wake, nodes_of=nodes_of, on_wait=on_wait, monotonic=monotonic)


def state_of(view: NodePressure) -> tuple[object, ...]:
    """Return what a report tells of a node."""
    axes = tuple((view.axes[axis].level, view.axes[axis].held) for axis in Axis)
    return (axes, view.guard, view.is_signalled)


@pytest.mark.slow
@given(history=histories)
@hypothesis_settings(max_examples=150)
def test_over_any_samples_there_is_one_piece_of_news_for_each_change_and_none_without(
    history: History,
) -> None:
    watched = WatchedNode(a_watched_node(1), WANTED, began=999.0)
    before, was_evictable, problem = state_of(watched.told), False, ""
    for sample in history.samples:
        while watched.changes_at < sample.arrived_at:
            now = watched.changes_at + 0.001
            news = watched.update(now)
            after = state_of(watched.memory)
            is_evictable = bool(watched.memory.evictable)
            has_changed = after != before or watched.problem != problem
            assert (news is not News.NONE) == (has_changed or (is_evictable and not was_evictable))
            before, was_evictable, problem = after, is_evictable, watched.problem
        watched.took(sample)
        news = watched.update(sample.arrived_at)
        after, is_evictable = state_of(watched.memory), bool(watched.memory.evictable)
        has_changed = after != before or watched.problem != problem
        assert (news is not News.NONE) == (has_changed or (is_evictable and not was_evictable))
        assert state_of(watched.told) == after
        assert watched.memory == watched.memory_at(sample.arrived_at)
        before, was_evictable, problem = after, is_evictable, watched.problem


@in_virtual_time
async def test_pressure_wakes_at_once_and_what_is_merely_known_at_most_every_five_seconds() -> None:
    loop = asyncio.get_running_loop()
    woken: list[str] = []
    waits: list[float] = []
    wakes = some_wakes(woken.append, on_wait=lambda: waits.append(loop.time()))
    for _ in range(100):
        wakes.tell("pool", News.KNOWN)
    wakes.wake_due()
    assert woken == []
    assert wakes.seconds_to_next() == 5
    assert len(waits) == 1
    wakes.tell("other", News.PRESSURE)
    assert woken == ["other"]
    await asyncio.sleep(5)
    wakes.wake_due()
    assert woken == ["other", "pool"]
    assert wakes.seconds_to_next() is None


@in_virtual_time
@pytest.mark.parametrize(
    ("nodes", "seconds"), [(0, 5), (1, 5), (1_000, 5), (1_200, 6), (5_000, 25), (6_000, 30), (100_000, 30)]
)
async def test_what_is_known_of_a_pool_of_thousands_is_gathered_for_longer(
    nodes: int, seconds: float
) -> None:
    sizes = {"large": nodes, "small": 10}
    woken: list[str] = []
    wakes = some_wakes(woken.append, nodes_of=sizes.__getitem__)
    wakes.tell("large", News.KNOWN)
    assert wakes.seconds_to_next() == seconds
    wakes.tell("small", News.KNOWN)
    assert wakes.seconds_to_next() == 5
    wakes.tell("large", News.PRESSURE)
    assert woken == ["large"]


@in_virtual_time
async def test_calm_waits_longer_unless_something_becomes_known_meanwhile() -> None:
    woken: list[str] = []
    wakes = some_wakes(woken.append)
    wakes.tell("calm", News.CALM)
    wakes.tell("known", News.CALM)
    await asyncio.sleep(10)
    wakes.tell("known", News.KNOWN)
    wakes.tell("known", News.CALM)
    assert wakes.seconds_to_next() == 5
    await asyncio.sleep(5)
    wakes.wake_due()
    assert woken == ["known"]
    wakes.tell("calm", News.CALM)
    assert wakes.seconds_to_next() == 15
    await asyncio.sleep(15)
    wakes.wake_due()
    assert woken == ["known", "calm"]
    assert wakes.seconds_to_next() is None


@in_virtual_time
async def test_what_waits_goes_with_the_pressure_that_comes_meanwhile_and_with_its_pool() -> None:
    woken: list[str] = []
    wakes = some_wakes(woken.append)
    wakes.tell("pool", News.KNOWN)
    wakes.tell("pool", News.PRESSURE)
    wakes.tell("gone", News.KNOWN)
    wakes.forget("gone")
    await asyncio.sleep(10)
    wakes.wake_due()
    assert woken == ["pool"]


@pytest.mark.parametrize(
    ("outcomes", "told"),
    [
        ([Outcome.TIMEOUT], Outcome.TIMEOUT),
        ([Outcome.TIMEOUT, Outcome.FORBIDDEN], Outcome.TIMEOUT),
        ([Outcome.TIMEOUT, Outcome.FORBIDDEN, Outcome.FORBIDDEN], Outcome.FORBIDDEN),
        ([Outcome.TIMEOUT, Outcome.FORBIDDEN, Outcome.TIMEOUT, Outcome.FORBIDDEN], Outcome.TIMEOUT),
    ],
)
def test_another_failure_is_told_once_it_has_come_twice(outcomes: list[Outcome], told: Outcome) -> None:
    silence = Silence(since=100.0, seconds=25.0)
    for outcome in outcomes:
        silence.failed(outcome)
    assert silence.problem(now=125) is None
    assert silence.problem(now=125.1) is told
    silence.ended(since=130, seconds=25)
    assert silence.problem(now=500) is None
