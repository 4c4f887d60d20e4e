"""Decides which kubelets to poll now: one poll of a node at a time, and a bounded number in all.

A node is hot if it is near the end of its memory: it is polled more often, and first. A node is late if its
last poll took long. Late nodes share a part of the slots, so nodes that hang do not delay those that answer.
Times are of a monotonic clock, in seconds. A poll costs some 25 µs here.

Kubelets on Windows answer slowly: 2 s where Linux takes 0.1 s, and more than a minute under load
(kubernetes/kubernetes#74991, #104283). Ten requests at once made one hang for three minutes (#104111).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterator
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Final

import msgspec

BASE_INTERVAL: Final = 60.0
"""Between two polls of a node. 5,000 nodes are 83 polls a second, and a leak takes longer than a minute."""

HOT_INTERVAL: Final = 10.0
"""Between two polls of a hot node, so that the two samples that an eviction needs are 10 s apart."""


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """Between two polls of the same node, by the operator's settings; ``hot`` is at most ``base``."""

    base: float = BASE_INTERVAL
    hot: float = HOT_INTERVAL


HOT_POLLS_PER_SECOND: Final = 50
"""Polls of hot nodes within any second. More hot nodes are polled less often. With connections that are kept,
50 polls take 2 % of a core."""

SOON_POLLS_PER_SECOND: Final = 50
"""Polls that are brought forward, over all pools: a pool of 500 nodes is looked at again within hot nodes'
interval. In a pool of 3,000 nodes or more, each is due earlier anyway."""

MAX_IN_FLIGHT: Final = 64
"""Polls that wait for an answer. More gain nothing: 64 take 500 samples a second."""

MAX_LATE_IN_FLIGHT: Final = 16
"""Of these, polls of nodes that were late the last time: 48 slots stay for the others, whatever happens."""

MAX_KEPT: Final = 128
"""Connections that are kept for the next poll. Each takes 32 kB (``Wire``). A poll over a new connection
takes four times the CPU time."""

LONGEST_DEADLINE: Final = 10.0
"""For one poll, from the connection to the end of the body. metrics-server allows the same."""

PATIENT_DEADLINE: Final = 30.0
"""For a poll of a late node: one that pages answers late, and what it says then matters most. On a disk of
200 reads a second that takes 20 s. It is less than the 55 s within which two samples are evidence."""

PATIENT_FAILURES: Final = 2
"""After more failures in a row a node hangs: it must not hold for 30 s what other late nodes wait for."""

DEADLINE_SHARE: Final = 0.8
"""The part of the interval that a poll may take, so that it has ended before the next one is due."""

LATE_SECONDS: Final = 5.0
"""A poll that takes longer, or all of its time, makes its node a late one until the next poll. It occupies a
slot for as long as a hundred healthy nodes do."""

LONGEST_BACKOFF: Final = 300.0
"""Between two polls of a node that keeps failing: after a failure has ended, the node is polled within five
minutes."""

JITTER_SHARE: Final = 0.05
"""An interval varies by this share in both directions, so that polls that began together do not stay
together."""

HOT_HEAD_START: Final = 10.0
"""The hottest node is polled before a node that has been due for less than so many seconds longer. A limit,
so that no node waits for ever."""

SPREAD_PER_NODE: Final = BASE_INTERVAL / 5000
"""New nodes are polled for the first time within this time for each of them, and within BASE_INTERVAL. A few
are polled at once, and a fleet of 5,000 nodes is not polled in one burst."""


def next_answer(seconds: float) -> float:
    """Return after how many seconds a node that took so many ``seconds`` is heard of; 0 if it is not late."""
    return PATIENT_DEADLINE if seconds > LATE_SECONDS else 0.0


class Waiting:
    """Names that wait, each with a number: the smallest number first, then the order of the names.

    The entry of a name that is removed stays in the heap until it is on top, or until a name is added while
    most entries are such.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, str]] = []
        self._numbers: dict[str, float] = {}

    def __len__(self) -> int:
        """Return how many names wait."""
        return len(self._numbers)

    def number(self, name: str) -> float | None:
        """Return the number with which ``name`` waits; None where it does not."""
        return self._numbers.get(name)

    def add(self, name: str, number: float) -> None:
        """Have ``name`` wait with this number, and with no other."""
        if self._numbers.get(name) == number:
            return
        self._numbers[name] = number
        heapq.heappush(self._heap, (number, name))
        if len(self._heap) > 2 * len(self._numbers) + 1:
            self._heap = [(number, name) for name, number in self._numbers.items()]
            heapq.heapify(self._heap)

    def remove(self, name: str) -> None:
        """Have ``name`` wait no more, if it does."""
        self._numbers.pop(name, None)

    def first(self) -> float | None:
        """Return the smallest number, None where none waits."""
        while self._heap and self._numbers.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def head(self) -> str:
        """Return the first name. One must be waiting."""
        self.first()
        return self._heap[0][1]

    def pop(self) -> str:
        """Remove the first name and return it. One must be waiting."""
        name = self.head()
        del self._numbers[name]
        return name

    def until(self, number: float) -> Iterator[str]:
        """Remove the names with numbers up to this one, and yield them in their order."""
        while (first := self.first()) is not None and first <= number:
            yield self.pop()


class Keeping(msgspec.Struct):
    """The nodes whose connection may be open between polls, or is about to be closed."""

    _kept: set[str] = msgspec.field(default_factory=set)
    _closing: set[str] = msgspec.field(default_factory=set)
    """Nodes of ``_kept`` whose poll in flight keeps no connection."""

    def keeps(self, name: str, *, hot: AbstractSet[str]) -> bool:
        """Return whether the poll that starts now keeps its connection.

        A node that is not hot gives its slot away while there are hot nodes without one. The slot is free
        when that poll has ended: until then, the old connection may be open.
        """
        free = MAX_KEPT - len(self._kept)
        if name in self._kept:
            hot_without = len(hot) - len(hot & self._kept)
            is_needed = name not in hot and hot_without > free + len(self._closing)
            if is_needed:
                self._closing.add(name)
            return not is_needed
        if free <= 0:
            return False
        self._kept.add(name)
        return True

    def done(self, name: str, *, sampled: bool) -> None:
        """Note that a poll has ended: after a failure, its connection is closed."""
        if not sampled or name in self._closing:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Note that a node has no connection."""
        self._kept.discard(name)
        self._closing.discard(name)


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """A poll to start now, with its deadline in seconds.

    With ``keep`` its connection may stay for the next one. Without it, one that was kept has to be closed.
    """

    node: str
    deadline: float
    keep: bool


class _Queue(Enum):
    """Nodes that are due, by the limit that they share."""

    ORDINARY = "ordinary"
    HOT = "hot"
    LATE = "late"


class _Node(msgspec.Struct):
    """``priority`` is from 0 (not hot) to 1 (hottest); ``failures`` is how many polls in a row have failed.

    ``is_awaited``: when the poll in flight has ended, the next one is to be brought forward.
    """

    due: float
    priority: float = 0.0
    failures: int = 0
    is_late: bool = False
    is_awaited: bool = False
    polled: float | None = None


class _Flight(msgspec.Struct):
    """A poll in flight, and whether it counts for the limit of late nodes."""

    started: float
    deadline: float
    is_late: bool


class Schedule(msgspec.Struct):
    """The nodes, when each is due, and what is in flight.

    ``jitter`` returns a number from 0 to 1, such as ``random.random``.
    """

    jitter: Callable[[], float]
    intervals: Intervals = msgspec.field(default_factory=Intervals)
    _nodes: dict[str, _Node] = msgspec.field(default_factory=dict)
    _flights: dict[str, _Flight] = msgspec.field(default_factory=dict)
    _later: Waiting = msgspec.field(default_factory=Waiting)
    """Nodes that are not due yet, by the time at which they are."""
    _queues: dict[_Queue, Waiting] = msgspec.field(
        default_factory=lambda: {queue: Waiting() for queue in _Queue}
    )
    """Nodes that are due, in the order in which they are polled."""
    _hot_starts: deque[float] = msgspec.field(default_factory=deque)
    """When the last polls of hot nodes began, oldest first."""
    _hot: set[str] = msgspec.field(default_factory=set)
    _keeping: Keeping = msgspec.field(default_factory=Keeping)
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
        spread = min(SPREAD_PER_NODE * len(added), self.intervals.base)
        for name in added:
            self._nodes[name] = _Node(due=now + self.jitter() * spread)
            self._enqueue(name)

    def set_priority(self, name: str, priority: float, *, now: float) -> None:
        """Note how near a node is to the end of its memory: from 0, not hot, to 1, the worst of all."""
        node = self._nodes.get(name)
        if node is None:
            return
        was_hot, node.priority = node.priority > 0, min(max(0.0, priority), 1.0)  # NaN is 0
        if node.priority > 0:
            self._hot.add(name)
        else:
            self._hot.discard(name)
        if node.priority > 0 and not was_hot and not node.failures:
            node.due = min(node.due, (now if node.polled is None else node.polled) + self._usual(node))
        self._enqueue(name)

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
                self._enqueue(name)
                self._soon += 1 / SOON_POLLS_PER_SECOND

    def interval(self, name: str) -> float:
        """Return every how many seconds the node is polled while it answers in time."""
        node = self._nodes.get(name)
        return self.intervals.base if node is None else self._usual(node)

    def due(self, *, now: float) -> list[Poll]:
        """Return the polls to start now. Each of them is in flight until ``done``, which must follow."""
        for name in self._later.until(now):
            self._line_up(name)
        polls = []
        while len(self._flights) < MAX_IN_FLIGHT and (queue := self._next_queue(now)) is not None:
            polls.append(self._start(self._queues[queue].pop(), now=now))
        return polls

    def done(self, name: str, *, now: float, sampled: bool) -> None:
        """Note that a poll has ended, with a sample or without."""
        flight = self._flights.pop(name)
        node = self._nodes.get(name)
        self._keeping.done(name, sampled=sampled and node is not None)
        if node is None:
            return
        took = now - flight.started
        node.is_late = took > LATE_SECONDS or (not sampled and took >= flight.deadline)
        node.failures = 0 if sampled else node.failures + 1
        variation = 1 + JITTER_SHARE * (2 * self.jitter() - 1)
        node.due = flight.started + variation * self._backed_off(node)
        self._enqueue(name)
        if node.is_awaited:
            node.is_awaited = False
            self.poll_soon((name,), now=now)

    def next_due(self, *, now: float) -> float | None:
        """Return when ``due`` may have something to start; None where a poll has to end first."""
        if len(self._flights) >= MAX_IN_FLIGHT:
            return None
        times = [self._later.first(), *(self._open_from(queue, now) for queue in _Queue)]
        return min((time for time in times if time is not None), default=None)

    def _enqueue(self, name: str) -> None:
        """Have the node wait until it is due. A node in flight waits for ``done``."""
        if name not in self._flights:
            self._remove(name)
            self._later.add(name, self._nodes[name].due)

    def _remove(self, name: str) -> None:
        for waiting in (self._later, *self._queues.values()):
            waiting.remove(name)

    def _line_up(self, name: str) -> None:
        node = self._nodes[name]
        queue = _Queue.LATE if node.is_late else _Queue.HOT if self._is_fast(node) else _Queue.ORDINARY
        self._queues[queue].add(name, node.due - node.priority * HOT_HEAD_START)

    def _next_queue(self, now: float) -> _Queue | None:
        """Return the queue whose first node is next, of those whose limit permits one more poll."""
        first = []
        for queue in _Queue:
            opens = self._open_from(queue, now)
            if opens is not None and opens <= now:
                first.append((self._queues[queue].first(), queue.value, queue))
        return min(first)[2] if first else None

    def _open_from(self, queue: _Queue, now: float) -> float | None:
        """Return from when on the first node of the queue may be polled.

        None where no node waits, or where a poll of a late node has to end first.
        """
        waiting = self._queues[queue]
        if not waiting or (queue is _Queue.LATE and self._late_in_flight() >= MAX_LATE_IN_FLIGHT):
            return None
        starts = self._hot_starts
        if not self._is_fast(self._nodes[waiting.head()]) or len(starts) < HOT_POLLS_PER_SECOND:
            return now
        return max(now, starts[0] + 1.0)

    def _late_in_flight(self) -> int:
        return sum(flight.is_late for flight in self._flights.values())

    def _start(self, name: str, *, now: float) -> Poll:
        node = self._nodes[name]
        if self._is_fast(node):
            self._hot_starts.append(now)
            if len(self._hot_starts) > HOT_POLLS_PER_SECOND:
                self._hot_starts.popleft()
        node.polled = now
        deadline = min(DEADLINE_SHARE * self._usual(node), LONGEST_DEADLINE)
        if node.is_late and node.failures <= PATIENT_FAILURES:
            deadline = PATIENT_DEADLINE
        self._flights[name] = _Flight(started=now, deadline=deadline, is_late=node.is_late)
        return Poll(
            node=name,
            deadline=deadline,
            keep=self._keeping.keeps(name, hot=self._hot),
        )

    def _is_fast(self, node: _Node) -> bool:
        """Whether the node is polled more often than the others."""
        return self._usual(node) < self.intervals.base

    def _usual(self, node: _Node) -> float:
        """Return the interval of the node while it answers.

        That of hot nodes grows with their number. Where it would be the base interval or more, all
        have that one, and the hot nodes go first.
        """
        if not node.priority:
            return self.intervals.base
        stretched = len(self._hot) / HOT_POLLS_PER_SECOND
        return min(max(self.intervals.hot, stretched), self.intervals.base)

    def _backed_off(self, node: _Node) -> float:
        """Return the interval to the next poll.

        After one failure it is half of the usual one, so that a single loss makes no node unknown: a sample
        is fresh for two intervals. Then it doubles. It is never shorter than that of hot nodes.
        """
        usual = self._usual(node)
        if not node.failures:
            return usual
        doublings = min(node.failures - 1, 10)  # a thousand times is beyond the limit already
        first = max(usual / 2, min(usual, self.intervals.hot))
        return min(first * (1 << doublings), LONGEST_BACKOFF)
