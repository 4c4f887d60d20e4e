"""Which facts that anyone can change without a pause are worth a line in the log."""

from __future__ import annotations

from harness.clock import Seconds
from winpool.kube.lease import Paced

TOO_EARLY, LATER = 9.0, 10.0


def lines_of(*given: tuple[float, str]) -> list[tuple[str, str]]:
    """Return the facts that are logged, with what the line ends with, of facts given after pauses."""
    clock = Seconds()
    paced = Paced(10.0, clock=clock)
    found = []
    for pause, fact in given:
        clock.now += pause
        suffix = paced.suffix(fact)
        if suffix is not None:
            found.append((fact, suffix))
    return found


def test_a_fact_is_logged_once() -> None:
    assert lines_of((0, "a"), (LATER, "a"), (LATER, "a")) == [("a", "")]


def test_a_new_fact_is_logged_at_once_after_a_quiet_time() -> None:
    assert lines_of((0, "a"), (LATER, "b"), (LATER, "a")) == [("a", ""), ("b", ""), ("a", "")]


def test_a_fact_that_came_too_early_is_logged_when_it_still_holds_later() -> None:
    assert lines_of((0, "a"), (TOO_EARLY, "b"), (1, "b")) == [("a", ""), ("b", "")]


def test_facts_that_came_too_early_and_no_longer_hold_are_counted() -> None:
    many = [(0.01, f"invented-{number}") for number in range(100)]
    ended = " (100 changes before were not logged)"
    assert lines_of((0, "a"), *many, (LATER, "b")) == [("a", ""), ("b", ended)]
    assert lines_of((0, "a"), *many, (0, "b"), (LATER, "b")) == [("a", ""), ("b", ended)]


def test_a_fact_that_was_over_is_logged_again_and_no_earlier_than_another() -> None:
    clock = Seconds()
    paced = Paced(10.0, clock=clock)
    assert paced.suffix("a") == ""
    paced.over()
    assert paced.suffix("a") is None
    clock.now += LATER
    assert paced.suffix("a") == ""
