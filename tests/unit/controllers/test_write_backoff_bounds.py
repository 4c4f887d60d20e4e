"""Whatever happens to a node, it is written only so often, and whoever has to wait is woken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from harness.builders import a_node, by_name
from harness.clock import Seconds
from winpool.controllers.backoff import FREE_CHANGES, WriteBackoff
from winpool.kube.backoff import FIRST_PAUSE_SECONDS, QUIET_SECONDS
from winpool.kube.errors import ApiError, Conflict, Invalid, Unavailable
from winpool.model.node import NodePatch

HOUR = 3600.0
A_MOMENT = 0.001

PACED = 10
"""Writes of a war within ten minutes that began at peace: after 2, 4 … 256 seconds, and a first one."""

MOST_WRITES = 2 * (FREE_CHANGES + 1) + 1 + PACED
"""Within ten minutes. Each goal is written once and, where somebody undoes it, once more at once."""

MOST_TRIES = 2 * (FREE_CHANGES + 2) + int(QUIET_SECONDS / FIRST_PAUSE_SECONDS)
"""Within ten minutes, whatever comes of them: a success in between ends the pauses after refusals."""

MOST_PAUSES = 4 * (FREE_CHANGES + 2)
"""For each goal that was tried within the free changes one of each kind, and one of the node."""

GOALS = ("a", "b", "c", "d")
ERRORS: tuple[ApiError | None, ...] = (
    None,
    None,
    Invalid("422", status=422),
    Unavailable("500", status=500),
    Conflict("409", status=409),
)

goals = st.sampled_from(GOALS)
errors = st.sampled_from(ERRORS)


class OneNode(RuleBasedStateMachine):
    """A node whose goals change, that others write, and that the API server does not always take."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Seconds()
        self.backoff = WriteBackoff(monotonic=self.clock)
        self.node = a_node()
        self.writes: list[float] = []
        self.tries: list[float] = []

    @rule(goal=goals, error=errors, is_repair=st.booleans())
    def try_once(self, goal: str, error: ApiError | None, is_repair: bool) -> None:
        patch = NodePatch(node=self.node, labels={}, annotations={}, taints=None, goal=goal)
        if self.backoff.attempts(by_name(self.node)).holds_back(patch):
            return
        if error is None:
            self.backoff.note_written(patch, repaired=("label team",) if is_repair else ())
            self.writes.append(self.clock.now)
        else:
            self.backoff.note_stopped(patch, error)
        if not isinstance(error, Conflict):
            self.tries.append(self.clock.now)

    @rule(
        goals=st.lists(goals, min_size=1, max_size=4),
        errors=st.lists(errors, min_size=1, max_size=3),
        are_new=st.booleans(),
    )
    def storm(self, goals: list[str], errors: list[ApiError | None], are_new: bool) -> None:
        """As many tries as anybody can call for in a moment; a conflict is over as soon as it is there."""
        for number, goal, error in zip(range(120), cycle(goals), cycle(errors), strict=False):
            self.try_once(f"{goal}{number}" if are_new else goal, error, False)
            self.others_write()

    @rule(goals=st.lists(goals, min_size=1, max_size=3), error=errors)
    def siege(self, goals: list[str], error: ApiError | None) -> None:
        """Somebody who undoes each write, and changes the goal with it, for as long as ten pauses."""
        for _, goal in zip(range(10), cycle(goals), strict=False):
            self.try_once(goal, error, False)
            self.try_once(goal, None, False)
            self.clock.now += self.backoff.seconds_to_next() or 0.0

    @rule()
    def others_write(self) -> None:
        self.node = replace(self.node, resource_version=f"{int(self.node.resource_version) + 1}")

    @rule(seconds=st.floats(0, 2 * QUIET_SECONDS))
    def pass_time(self, seconds: float) -> None:
        self.clock.now += seconds

    @rule()
    def doze(self) -> None:
        """Nobody is let go before the moment at which a pass looks again: it would wait for nothing."""
        before = self.held_back()
        seconds = self.backoff.seconds_to_next()
        if seconds is not None and seconds > A_MOMENT:
            self.clock.now += seconds - A_MOMENT
            assert self.held_back() == before

    @rule()
    def sleep_until_nothing_waits(self) -> None:
        for _ in range(MOST_PAUSES):
            if not self.held_back():
                return
            seconds = self.backoff.seconds_to_next()
            assert seconds is not None
            self.clock.now += seconds + A_MOMENT
        raise AssertionError("woken again and again, and nobody may go")

    @invariant()
    def who_has_to_wait_is_woken(self) -> None:
        if self.held_back():
            assert self.backoff.seconds_to_next() is not None

    @invariant()
    def writes_are_bounded(self) -> None:
        now = self.clock.now
        self.writes = [at for at in self.writes if now - at < HOUR]
        self.tries = [at for at in self.tries if now - at < QUIET_SECONDS]
        assert sum(now - at < QUIET_SECONDS for at in self.writes) <= MOST_WRITES
        assert len(self.writes) <= HOUR / QUIET_SECONDS * MOST_WRITES
        assert len(self.tries) <= MOST_TRIES

    def held_back(self) -> set[str]:
        attempts = self.backoff.attempts(by_name(self.node))
        empty = NodePatch(node=self.node, labels={}, annotations={}, taints=None)
        return {goal for goal in GOALS if attempts.holds_back(replace(empty, goal=goal))}


TestOneNode = OneNode.TestCase


def test_a_kubelet_that_flaps_for_an_hour_has_its_node_written_as_often_as_a_write_war_and_the_free_changes(
    clock: Seconds,
) -> None:
    assert hour_of(clock, lambda number: f"build {number}") == FREE_CHANGES + writes_of_a_war(clock)


def writes_of_a_war(clock: Seconds) -> int:
    """Writes within an hour to a node where somebody undoes each at once."""
    return hour_of(clock, lambda _: "as ever")


def hour_of(clock: Seconds, goal_of: Callable[[int], str]) -> int:
    """Count the writes to a node within an hour in which something is due all the time."""
    backoff, node = WriteBackoff(monotonic=clock), a_node()
    ends, writes = clock.now + HOUR, 0
    while clock.now < ends:
        patch = NodePatch(node=node, labels={}, annotations={}, taints=None, goal=goal_of(writes))
        if backoff.attempts(by_name(node)).holds_back(patch):
            clock.now += (backoff.seconds_to_next() or 0.0) + A_MOMENT
        else:
            backoff.note_written(patch)
            writes += 1
    return writes
