"""Which facts that anyone can change without a pause are worth a line in the log."""

from __future__ import annotations

from harness.clock import Seconds
from winpool.kube.backoff import LogThrottle

TOO_EARLY, LATER = 9.0, 10.0


def lines_of(*given: tuple[float, str]) -> list[tuple[str, int]]:
    """Return the facts that are logged, with how many were skipped before, of facts given after pauses."""
    clock = Seconds()
    throttle = LogThrottle(monotonic=clock)
    found = []
    for pause, fact in given:
        clock.now += pause
        skipped = throttle.take("key", seconds=10.0, fact=fact)
        if skipped is not None:
            found.append((fact, skipped))
    return found


def test_a_fact_is_logged_once() -> None:
    assert lines_of((0, "a"), (LATER, "a"), (LATER, "a")) == [("a", 0)]


def test_a_new_fact_is_logged_at_once_after_a_quiet_time() -> None:
    assert lines_of((0, "a"), (LATER, "b"), (LATER, "a")) == [("a", 0), ("b", 0), ("a", 0)]


def test_a_fact_that_came_too_early_is_logged_when_it_still_holds_later() -> None:
    assert lines_of((0, "a"), (TOO_EARLY, "b"), (1, "b")) == [("a", 0), ("b", 0)]


def test_facts_that_came_too_early_and_no_longer_hold_are_counted() -> None:
    many = [(0.01, f"invented-{number}") for number in range(100)]
    assert lines_of((0, "a"), *many, (LATER, "b")) == [("a", 0), ("b", 100)]
    assert lines_of((0, "a"), *many, (0, "b"), (LATER, "b")) == [("a", 0), ("b", 100)]


def test_a_fact_that_was_over_is_logged_again_and_no_earlier_than_another() -> None:
    clock = Seconds()
    throttle = LogThrottle(monotonic=clock)
    assert throttle.take("key", seconds=10.0, fact="a") == 0
    throttle.over("key")
    assert throttle.take("key", seconds=10.0, fact="a") is None
    clock.now += LATER
    assert throttle.take("key", seconds=10.0, fact="a") == 0
