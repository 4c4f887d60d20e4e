"""The limits of the schedule hold after any sequence of events."""

from __future__ import annotations

import math
from typing import Any
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from winpool.kubelet import schedule as limits
from winpool.kubelet.schedule import Poll, Schedule

FEW: dict[str, Any] = {"MAX_IN_FLIGHT": 5, "MAX_LATE_IN_FLIGHT": 2, "HOT_POLLS_PER_SECOND": 3, "MAX_KEPT": 3}
"""Limits that a dozen nodes reach."""

NAMES = [f"w{number}" for number in range(12)]


class Machine(RuleBasedStateMachine):
    """Nodes come, go, become hot and cool down; polls end soon, late, or without a sample."""

    def __init__(self) -> None:
        super().__init__()
        self.few = patch.multiple(limits, **FEW)
        self.few.start()
        self.now = 0.0
        self.schedule = Schedule(jitter=lambda: 0.5)
        self.nodes: set[str] = set()
        self.heat: dict[str, float] = {}
        self.in_flight: dict[str, tuple[float, Poll]] = {}
        self.late: set[str] = set()
        self.late_in_flight: set[str] = set()
        self.open: set[str] = set()
        """Nodes with a connection: as a client does with what the polls say."""
        self.hot_starts: list[float] = []

    def teardown(self) -> None:
        self.few.stop()

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def set_nodes(self, names: set[str]) -> None:
        self.schedule.set_nodes(sorted(names), now=self.now)
        for name in self.nodes - names:
            self.heat.pop(name, None)
            self.late.discard(name)
            self.open.discard(name)
        self.nodes = names

    @rule(name=st.sampled_from(NAMES), heat=st.sampled_from([0.0, 0.0, 0.2, 1.0, 7.0, -1.0, math.nan]))
    def set_priority(self, name: str, heat: float) -> None:
        self.schedule.set_priority(name, heat, now=self.now)
        if name in self.nodes:
            self.heat[name] = heat

    @rule(seconds=st.sampled_from([0.0, 0.2, 0.9, 1.0, 4.0, 6.0, 10.0, 60.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def poll(self) -> None:
        for poll in self.schedule.due(now=self.now):
            assert poll.node in self.nodes
            assert poll.node not in self.in_flight, "two polls of a node"
            assert poll.deadline < self.schedule.interval(poll.node)
            self.in_flight[poll.node] = (self.now, poll)
            if poll.node in self.late:
                self.late_in_flight.add(poll.node)
            if poll.keep:
                self.open.add(poll.node)
            if self.heat.get(poll.node, 0.0) > 0:
                self.hot_starts.append(self.now)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), sampled=st.booleans())
    def end(self, data: st.DataObject, sampled: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.in_flight)))
        started, poll = self.in_flight.pop(name)
        self.schedule.done(name, now=self.now, sampled=sampled)
        self.late_in_flight.discard(name)
        if not (poll.keep and sampled and name in self.nodes):
            self.open.discard(name)
        if name in self.nodes and self.now - started > limits.LATE_SECONDS:
            self.late.add(name)
        else:
            self.late.discard(name)

    @rule()
    def wait_until_it_says(self) -> None:
        """Nothing starts before the time that it says."""
        self.poll()
        look = self.schedule.next_due(now=self.now)
        if look is None:
            self.now += 1000.0
            assert self.schedule.due(now=self.now) == [] or len(self.in_flight) < FEW["MAX_IN_FLIGHT"]
            self.now -= 1000.0
        else:
            assert look > self.now
            assert self.schedule.due(now=(self.now + look) / 2) == []

    @invariant()
    def limits_hold(self) -> None:
        assert len(self.in_flight) <= FEW["MAX_IN_FLIGHT"]
        assert len(self.late_in_flight) <= FEW["MAX_LATE_IN_FLIGHT"]
        assert len(self.open) <= FEW["MAX_KEPT"]
        for start in self.hot_starts[-FEW["HOT_POLLS_PER_SECOND"] :]:
            within = [each for each in self.hot_starts if start <= each < start + 1.0]
            assert len(within) <= FEW["HOT_POLLS_PER_SECOND"]


TestSchedule: Any = Machine.TestCase
