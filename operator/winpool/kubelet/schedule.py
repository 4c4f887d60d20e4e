"""Which nodes to poll now: in two tiers, one poll of a node at a time, and a bounded number in all.

A node is hot if it is near the end of its memory. A node is late if its last poll took long. Late nodes
share a part of the places, so nodes that hang do not delay those that answer. All limits: ``limits``.

Times are of a monotonic clock, in seconds. A poll costs some 25 µs here.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from winpool.kubelet import limits
from winpool.kubelet.keeping import Keeping
from winpool.kubelet.waiting import Waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll:
    """A poll to start now, with its deadline in seconds.

    With ``keep`` its connection may stay for the next one. Without it, one that was kept has to be closed.
    """

    node: str
    deadline: float
    keep: bool


class _Lane(Enum):
    """Nodes that are due, by the limit that they share."""

    ORDINARY = "ordinary"
    HOT = "hot"
    LATE = "late"


@dataclass(slots=True)
class _Node:
    """``heat`` is from 0 (not hot) to 1 (hottest); ``failures`` is how many polls in a row have failed.

    ``is_awaited``: when the poll in flight has ended, the next one is to be brought forward.
    """

    due: float
    heat: float = 0.0
    failures: int = 0
    is_late: bool = False
    is_awaited: bool = False
    polled: float | None = None


@dataclass(slots=True)
class _Flight:
    """A poll in flight, and whether it counts for the limit of late nodes."""

    started: float
    is_late: bool


@dataclass(slots=True)
class Schedule:
    """The nodes, when each is due, and what is in flight.

    ``jitter`` returns a number from 0 to 1, such as ``random.random``.
    """

    jitter: Callable[[], float]
    intervals: limits.Intervals = field(default_factory=limits.Intervals)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _flights: dict[str, _Flight] = field(default_factory=dict)
    _later: Waiting = field(default_factory=Waiting)
    """Nodes that are not due yet, by the time at which they are."""
    _lanes: dict[_Lane, Waiting] = field(default_factory=lambda: {lane: Waiting() for lane in _Lane})
    """Nodes that are due, by their turn."""
    _hot_starts: deque[float] = field(default_factory=deque)
    """When the last polls of hot nodes began, oldest first."""
    _hot: set[str] = field(default_factory=set)
    _keeping: Keeping = field(default_factory=Keeping)
    _soon: float = 0.0
    """When the next poll may be that is brought forward."""

    def set_nodes(self, names: Collection[str], *, now: float) -> None:
        """Poll exactly these nodes from now on. Polls in flight last until ``done``."""
        for name in self._nodes.keys() - set(names):
            del self._nodes[name]
            self._hot.discard(name)
            self._keeping.forget(name)
            self._remove(name)
        added = [name for name in names if name not in self._nodes]
        spread = min(limits.SPREAD_PER_NODE * len(added), self.intervals.base)
        for name in added:
            self._nodes[name] = _Node(due=now + self.jitter() * spread)
            self._queue(name)

    def set_heat(self, name: str, heat: float, *, now: float) -> None:
        """Note how near a node is to the end of its memory: from 0, not hot, to 1, the worst of all."""
        node = self._nodes.get(name)
        if node is None:
            return
        was_hot, node.heat = node.heat > 0, min(max(0.0, heat), 1.0)  # NaN is 0
        if node.heat > 0:
            self._hot.add(name)
        else:
            self._hot.discard(name)
        if node.heat > 0 and not was_hot and not node.failures:
            node.due = min(node.due, (now if node.polled is None else node.polled) + self._tier(node))
        self._queue(name)

    def poll_soon(self, names: Collection[str], *, now: float) -> None:
        """Bring the next poll of these nodes forward, those first that would be polled first anyway.

        No node is polled more often than a hot one, and none that fails before its back-off is over. A poll
        that is in flight shows what was before: the next one counts.
        """
        self._soon = max(self._soon, now)
        nodes = {name: self._nodes[name] for name in names if name in self._nodes}
        for name in sorted(nodes, key=lambda each: nodes[each].due):
            node = nodes[name]
            due = max(self._soon, now if node.polled is None else node.polled + self.intervals.hot)
            if name in self._flights:
                node.is_awaited = True
            elif not node.failures and due < node.due:
                node.due = due
                self._queue(name)
                self._soon += 1 / limits.SOON_POLLS_PER_SECOND

    def interval(self, name: str) -> float:
        """Return every how many seconds the node is polled while it answers."""
        node = self._nodes.get(name)
        return self.intervals.base if node is None else self._tier(node)

    def due(self, *, now: float) -> list[Poll]:
        """Return the polls to start now. Each of them is in flight until ``done``, which must follow."""
        for name in self._later.until(now):
            self._line_up(name)
        polls = []
        while len(self._flights) < limits.MAX_IN_FLIGHT and (lane := self._next_lane(now)) is not None:
            polls.append(self._start(self._lanes[lane].pop(), now=now))
        return polls

    def done(self, name: str, *, now: float, sampled: bool) -> None:
        """Note that a poll has ended, with a sample or without."""
        flight = self._flights.pop(name)
        node = self._nodes.get(name)
        self._keeping.done(name, sampled=sampled and node is not None)
        if node is None:
            return
        node.is_late = now - flight.started > limits.LATE_SECONDS
        node.failures = 0 if sampled else node.failures + 1
        variation = 1 + limits.JITTER_SHARE * (2 * self.jitter() - 1)
        node.due = flight.started + variation * self._backed_off(node)
        self._queue(name)
        if node.is_awaited:
            node.is_awaited = False
            self.poll_soon((name,), now=now)

    def next_look(self, *, now: float) -> float | None:
        """Return when ``due`` may have something to start; None where a poll has to end first."""
        if len(self._flights) >= limits.MAX_IN_FLIGHT:
            return None
        times = [self._later.first(), *(self._open_from(lane, now) for lane in _Lane)]
        return min((time for time in times if time is not None), default=None)

    def _queue(self, name: str) -> None:
        """Have the node wait until it is due. A node in flight waits for ``done``."""
        if name not in self._flights:
            self._remove(name)
            self._later.add(name, self._nodes[name].due)

    def _remove(self, name: str) -> None:
        for waiting in (self._later, *self._lanes.values()):
            waiting.remove(name)

    def _line_up(self, name: str) -> None:
        node = self._nodes[name]
        lane = _Lane.LATE if node.is_late else _Lane.HOT if self._is_fast(node) else _Lane.ORDINARY
        self._lanes[lane].add(name, node.due - node.heat * limits.HOT_HEAD_START)

    def _next_lane(self, now: float) -> _Lane | None:
        """Return the lane whose first node is next, of those whose limit permits one more poll."""
        turns = []
        for lane in _Lane:
            opens = self._open_from(lane, now)
            if opens is not None and opens <= now:
                turns.append((self._lanes[lane].first(), lane.value, lane))
        return min(turns)[2] if turns else None

    def _open_from(self, lane: _Lane, now: float) -> float | None:
        """Return from when on the first node of the lane may be polled.

        None where no node waits, or where a poll of a late node has to end first.
        """
        waiting = self._lanes[lane]
        if not waiting or (lane is _Lane.LATE and self._late_in_flight() >= limits.MAX_LATE_IN_FLIGHT):
            return None
        starts = self._hot_starts
        if not self._is_fast(self._nodes[waiting.head()]) or len(starts) < limits.HOT_POLLS_PER_SECOND:
            return now
        return max(now, starts[0] + 1.0)

    def _late_in_flight(self) -> int:
        return sum(flight.is_late for flight in self._flights.values())

    def _start(self, name: str, *, now: float) -> Poll:
        node = self._nodes[name]
        if self._is_fast(node):
            self._hot_starts.append(now)
            if len(self._hot_starts) > limits.HOT_POLLS_PER_SECOND:
                self._hot_starts.popleft()
        node.polled = now
        self._flights[name] = _Flight(started=now, is_late=node.is_late)
        return Poll(
            node=name,
            deadline=min(limits.DEADLINE_SHARE * self._tier(node), limits.LONGEST_DEADLINE),
            keep=self._keeping.keeps(name, hot=self._hot),
        )

    def _is_fast(self, node: _Node) -> bool:
        """Whether the node is polled more often than the others."""
        return self._tier(node) < self.intervals.base

    def _tier(self, node: _Node) -> float:
        """Return the interval of the node's tier.

        That of hot nodes grows with their number. Where it would be the base interval or more, there is one
        tier for all, in which the hot nodes go first.
        """
        if not node.heat:
            return self.intervals.base
        stretched = len(self._hot) / limits.HOT_POLLS_PER_SECOND
        return min(max(self.intervals.hot, stretched), self.intervals.base)

    def _backed_off(self, node: _Node) -> float:
        """Return the interval to the next poll.

        After one failure it is half of the usual one, so that a single loss makes no node unknown: a sample
        is fresh for two intervals. Then it doubles. It is never shorter than that of hot nodes.
        """
        usual = self._tier(node)
        if not node.failures:
            return usual
        doublings = min(node.failures - 1, 10)  # a thousand times is beyond the limit already
        first = max(usual / 2, min(usual, self.intervals.hot))
        return min(first * (1 << doublings), limits.LONGEST_BACKOFF)
