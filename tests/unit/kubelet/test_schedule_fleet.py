"""A fleet that is polled by a schedule, in virtual time, with nodes that answer, are slow, or hang."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kubelet import schedule as limits
from winpool.kubelet.schedule import Schedule

NO_JITTER = 0.5
"""Half of the range: intervals are exact."""

NEVER = 1e9


class Fleet:
    """Nodes that answer after a time. It records when polls begin."""

    def __init__(self, names: list[str], latency: Callable[[str], float]) -> None:
        self.latency = latency
        self.schedule = Schedule(jitter=lambda: NO_JITTER)
        self.schedule.set_nodes(names, now=0.0)
        self.starts: dict[str, list[float]] = {name: [] for name in names}
        self._now = 0.0
        self._in_flight: list[tuple[float, str, bool]] = []

    def heat(self, names: list[str], heat: float = 1.0) -> None:
        for name in names:
            self.schedule.set_priority(name, heat, now=self._now)

    def poll_soon(self, names: list[str]) -> None:
        self.schedule.poll_soon(names, now=self._now)

    def run(self, *, until: float) -> None:
        while self._now <= until:
            for poll in self.schedule.due(now=self._now):
                assert poll.node not in [name for _, name, _ in self._in_flight]
                self.starts[poll.node].append(self._now)
                took = self.latency(poll.node)
                end = self._now + min(took, poll.deadline)
                heapq.heappush(self._in_flight, (end, poll.node, took <= poll.deadline))
            assert len(self._in_flight) <= limits.MAX_IN_FLIGHT
            look = self.schedule.next_due(now=self._now)
            ends = [self._in_flight[0][0]] if self._in_flight else []
            self._now = min(ends if look is None else [look, *ends])
            while self._in_flight and self._in_flight[0][0] <= self._now:
                end, name, sampled = heapq.heappop(self._in_flight)
                self.schedule.done(name, now=end, sampled=sampled)

    def longest_gap(self, name: str, *, since: float) -> float:
        """Return the longest time between two polls of the node, and to the end."""
        starts = [start for start in self.starts[name] if start >= since]
        assert starts, f"{name} is not polled"
        return max(later - earlier for earlier, later in pairwise([*starts, self._now]))


def names(count: int) -> list[str]:
    return [f"w{number:04}" for number in range(count)]


@pytest.mark.slow
def test_healthy_nodes_are_polled_as_often_while_others_are_slow_or_hang() -> None:
    """5 % answer after 7 s, 1 % never, and 5 % are hot."""
    fleet_names = names(2000)
    slow, hanging = fleet_names[:100], fleet_names[100:120]
    hot, healthy = fleet_names[120:220], fleet_names[220:]
    latency = dict.fromkeys(fleet_names, 0.1) | dict.fromkeys(slow, 7.0) | dict.fromkeys(hanging, NEVER)
    fleet = Fleet(fleet_names, latency.__getitem__)
    fleet.heat(hot)
    fleet.run(until=900.0)
    assert max(fleet.longest_gap(name, since=120.0) for name in hot) <= limits.HOT_INTERVAL + 0.5
    assert max(fleet.longest_gap(name, since=120.0) for name in healthy) <= limits.BASE_INTERVAL + 0.5
    assert max(fleet.longest_gap(name, since=120.0) for name in slow) <= 90.0
    assert max(fleet.longest_gap(name, since=120.0) for name in hanging) <= limits.LONGEST_BACKOFF + 30.0


def test_no_node_waits_for_ever_while_hot_nodes_alone_need_more_places_than_there_are() -> None:
    fleet_names = names(600)
    fleet = Fleet(fleet_names, lambda _: 4.0)
    fleet.heat(fleet_names[:400])
    fleet.run(until=600.0)
    assert max(fleet.longest_gap(name, since=0.0) for name in fleet_names) <= 100.0


def test_when_all_nodes_hang_and_then_answer_all_are_polled_as_usual_within_six_minutes() -> None:
    fleet_names, seconds = names(500), NEVER
    fleet = Fleet(fleet_names, lambda _: seconds)
    fleet.run(until=1200.0)
    seconds = 0.1
    fleet.run(until=1200.0 + 360.0)
    fleet.run(until=2400.0)
    assert max(fleet.longest_gap(name, since=1560.0) for name in fleet_names) <= limits.BASE_INTERVAL + 0.5


@pytest.mark.slow
def test_a_pool_that_is_awaited_all_the_time_costs_fifty_polls_a_second_and_delays_no_hot_node() -> None:
    fleet_names = names(1000)
    hot = fleet_names[:20]
    fleet = Fleet(fleet_names, lambda _: 0.1)
    fleet.heat(hot)
    fleet.run(until=300.0)
    for second in range(300, 420):
        fleet.poll_soon(fleet_names)
        fleet.run(until=float(second))
    starts = sorted(at for name in fleet_names for at in fleet.starts[name] if at >= 300.0)
    usual = 1000 / limits.BASE_INTERVAL + len(hot) / limits.HOT_INTERVAL
    assert len(starts) <= 120 * (limits.SOON_POLLS_PER_SECOND + usual)
    assert max(fleet.longest_gap(name, since=200.0) for name in hot) <= limits.HOT_INTERVAL + 0.5
    assert (
        max(fleet.longest_gap(name, since=330.0) for name in fleet_names)
        <= 1000 / limits.SOON_POLLS_PER_SECOND + 1
    )


@contextmanager
def few_places() -> Iterator[None]:
    with patch.multiple(limits, MAX_IN_FLIGHT=6, MAX_LATE_IN_FLIGHT=2, HOT_POLLS_PER_SECOND=1):
        yield


LATENCIES = st.sampled_from([0.0, 0.1, 3.0, 6.0, 9.0, NEVER])


@given(nodes=st.lists(st.tuples(LATENCIES, st.sampled_from([0.0, 0.0, 0.3, 1.0])), min_size=1, max_size=30))
def test_every_node_is_polled_again_and_again_whatever_the_others_do(
    nodes: list[tuple[float, float]],
) -> None:
    """Of few places, the late nodes have two: a turn of each takes at most ten seconds."""
    with few_places():
        fleet_names = names(len(nodes))
        latency = {name: took for name, (took, _) in zip(fleet_names, nodes, strict=True)}
        fleet = Fleet(fleet_names, latency.__getitem__)
        for name, (_, heat) in zip(fleet_names, nodes, strict=True):
            fleet.heat([name], heat)
        fleet.run(until=1500.0)
        turn = limits.LONGEST_DEADLINE * len(nodes) / limits.MAX_LATE_IN_FLIGHT
        bound = limits.LONGEST_BACKOFF + turn + limits.HOT_HEAD_START + limits.BASE_INTERVAL
        assert all(fleet.longest_gap(name, since=0.0) <= bound for name in fleet_names)
