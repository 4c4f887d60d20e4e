"""Two candidates by the rules alone: whatever is slow, lost or skewed, never do two have a term at once."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kube import lease_rules as terms
from winpool.kube.lease_rules import (
    RETRY_SECONDS,
    Move,
    Observation,
    claim,
    next_move,
    observe,
    read_record,
    release,
    renewal,
    term_end,
)

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
WALL_JUMPS = (-86_400.0, -30.0, 0.0, 0.0, 30.0, 86_400.0)
"""What a wall clock is set by, again and again."""
PAUSES = (*[0.01] * 18, 0.3, 1.5, 4.0, 9.0, 14.0, 61.0)
"""Of a process, of a request, of an answer: mostly none, and longer than any term."""
FASTEST = 1.2
"""Clocks run between 1/1.2 and 1.2 times as fast as time: their ratio stays below LEASE / TERM = 1.5."""


@dataclass
class Server:
    """The Lease, its version, and how the time goes on."""

    random: Random
    spec: dict[str, Any] | None = None
    version: int = 0
    time: float = 0.0
    queue: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    numbers: int = 0

    def after(self, seconds: float, work: Callable[[], None]) -> None:
        self.numbers += 1
        heapq.heappush(self.queue, (self.time + seconds, self.numbers, work))

    def pause(self) -> float:
        return self.random.choice(PAUSES) * self.random.random()

    def send(self, change: Callable[[], object], then: Callable[[object], None]) -> None:
        """Have ``change`` carried out some time later, and its result told later still, or never."""

        def arrive() -> None:
            result = change()
            if self.random.random() > 0.1:
                self.after(self.pause(), lambda: then(result))

        if self.random.random() > 0.05:
            self.after(self.pause(), arrive)

    def write(self, version: int, spec: dict[str, Any]) -> int | None:
        """Return the new version; None for a conflict. A write that changes nothing gives no new version."""
        if version != self.version:
            return None
        merged = {**(self.spec or {}), **spec}
        if merged != self.spec:
            self.spec, self.version = merged, self.version + 1
        return self.version


class Process:
    """One process from its start to its end; ``terms`` are the times in which it could write."""

    def __init__(self, server: Server, identity: str, *, rate: float, offset: float) -> None:
        self.server = server
        self.identity = identity
        self.rate = rate
        self.offset = offset
        self.terms: list[tuple[float, float]] = []
        self.sighting: Observation | None = None
        self.term_ends = float("-inf")
        self.has_led = False
        self.attempt = 0
        self.has_ended = False

    def clock(self) -> float:
        return self.offset + self.server.time * self.rate

    def wall(self) -> datetime:
        return NOON + timedelta(seconds=self.server.time + self.server.random.choice(WALL_JUMPS))

    def step(self) -> None:
        """Begin an attempt; whatever an earlier one brings from now on is too late."""
        if self.has_ended:
            return
        if self.has_led and (self.term_ends <= self.clock()):
            self.has_ended = True
            return
        if self.has_led and self.server.random.random() < 0.03:
            self.give_back()
            return
        self.attempt += 1
        attempt = self.attempt
        self.server.after(RETRY_SECONDS + self.server.pause(), self.step)
        seen, now = self.sighting, self.clock()
        if self.has_led or seen is None or next_move(seen, identity=self.identity, now=now) is not Move.WAIT:
            self.server.send(
                lambda: (self.server.version, self.server.spec), lambda told: self.looked(attempt, told)
            )

    def looked(self, attempt: int, told: Any) -> None:
        if attempt != self.attempt or self.has_ended:
            return
        version, spec = told
        record = None if spec is None else read_record(spec)
        self.sighting = observe(self.sighting, record, at=self.clock())
        move = next_move(self.sighting, identity=self.identity, now=self.clock())
        if self.has_led and move is not Move.RENEW:
            self.has_ended = True
        elif move is not Move.WAIT:
            if record is not None and move is Move.RENEW:
                wanted = renewal(record, identity=self.identity, now=self.wall())
            else:
                wanted = claim(record, identity=self.identity, now=self.wall())
            sent = self.clock()
            self.server.send(
                lambda: self.server.write(version, wanted), lambda new: self.written(attempt, new, sent)
            )

    def written(self, attempt: int, version: object, sent: float) -> None:
        if attempt != self.attempt or self.has_ended or version is None:
            return
        self.term_ends = term_end(sent=sent)
        if self.term_ends > self.clock():
            self.has_led = True
            self.terms.append((self.server.time, (self.term_ends - self.offset) / self.rate))

    def give_back(self) -> None:
        """End the term, then release."""
        self.has_ended = True
        self.terms = [(start, min(end, self.server.time)) for start, end in self.terms]
        version, spec = self.server.version, self.server.spec
        record = read_record(spec or {})
        if record.holder == self.identity:
            wanted = release(record, now=self.wall())
            self.server.send(lambda: self.server.write(version, wanted), lambda _: None)


def simulated(seed: int, *, seconds: float) -> list[Process]:
    """Run two places for so long; a process that ended is replaced by a new one, as a kubelet does."""
    random = Random(seed)
    server = Server(random)
    places = [(random.uniform(1 / FASTEST, FASTEST), random.uniform(-1e6, 1e6)) for _ in range(2)]
    running: list[Process | None] = [None, None]
    processes: list[Process] = []
    while server.time < seconds:
        for place, (rate, offset) in enumerate(places):
            process = running[place]
            if process is None or process.has_ended:
                process = Process(server, f"p{len(processes)}", rate=rate, offset=offset)
                running[place] = process
                processes.append(process)
                server.after(random.uniform(0, 3), process.step)
        server.time, _, work = heapq.heappop(server.queue)
        work()
    return processes


def overlaps(processes: list[Process]) -> list[str]:
    """Return which two processes could write at the same time."""
    return [
        f"{one.identity} until {end:.3f} and {other.identity} from {start:.3f}"
        for one, other in combinations(processes, 2)
        for begin, end in one.terms
        for start, stop in other.terms
        if end > start and stop > begin
    ]


@given(st.integers(min_value=0, max_value=2**32))
def test_never_do_two_have_a_term_at_once(seed: int) -> None:
    assert overlaps(simulated(seed, seconds=600)) == []


def test_the_simulation_has_takeovers_and_renewals() -> None:
    """Otherwise the property above would say nothing."""
    led = [[each for each in simulated(seed, seconds=600) if each.terms] for seed in range(20)]
    assert min(map(len, led)) >= 2
    assert sum(map(len, led)) >= 100
    assert sum(len(each.terms) for run in led for each in run) >= 500


@pytest.mark.parametrize(("name", "value"), [("TERM_SECONDS", 20.0), ("LEASE_SECONDS", 8.0)])
def test_the_simulation_notices_times_that_are_wrong(
    monkeypatch: pytest.MonkeyPatch, name: str, value: float
) -> None:
    monkeypatch.setattr(terms, name, value)
    assert any(overlaps(simulated(seed, seconds=600)) for seed in range(50))
