"""Which decisions of two runs of one scene are the same."""

from __future__ import annotations

from collections.abc import Iterable

from bench.pressure.decisions import Decision, Decisions, compared
from winpool.model.pressure import Level


def whats(decisions: Decisions) -> list[str]:
    return [each.what for each in decisions.found]


def noted(*levels: Level | None, signalled: bool = False) -> Decisions:
    decisions = Decisions()
    for at, level in enumerate(levels):
        decisions.note(at, level, signalled=signalled)
    return decisions


def differing(fast: Iterable[Decision], real: Iterable[Decision], *, delay: float = 0.0) -> list[str]:
    found = compared([*fast], [*real], seconds=600, delay=delay)
    return [each.what for each in found if not each.agrees]


def test_looks_that_miss_a_level_find_the_same_decisions() -> None:
    every = noted(None, Level.NORMAL, Level.WARNING, Level.PROXY_ONLY, Level.SOFT, Level.HARD, Level.NORMAL)
    assert whats(noted(None, Level.NORMAL, Level.HARD, Level.NORMAL)) == whats(every)


def test_a_level_that_is_not_known_any_more_is_a_decision() -> None:
    assert whats(noted(Level.NORMAL, None)) == ["Normal or worse", "less than Normal"]


def test_the_signal_counts_when_it_changes() -> None:
    decisions = noted(None, None, signalled=True)
    decisions.note(5, None, signalled=False)
    assert decisions.found == [Decision("signalled", 0), Decision("signal removed", 5)]


def test_decisions_agree_within_an_interval_and_the_delay() -> None:
    fast = [Decision("signalled", 300, 10)]
    assert differing(fast, [Decision("signalled", 312)], delay=2) == []
    assert differing(fast, [Decision("signalled", 288)], delay=2) == []
    assert differing(fast, [Decision("signalled", 312.5)], delay=2) == ["signalled"]


def test_the_eviction_of_another_pod_differs_and_so_does_none() -> None:
    fast = [Decision("evicted leak", 300, 10)]
    assert differing(fast, [Decision("evicted steady", 300)]) == ["evicted leak", "evicted steady"]
    assert differing(fast, []) == ["evicted leak"]
    assert differing([], fast) == ["evicted leak"]


def test_after_an_eviction_times_count_from_it() -> None:
    fast = [Decision("evicted leak", 300, 10), Decision("signal removed", 590, 10)]
    real = [Decision("evicted leak", 309), Decision("signal removed", 609)]
    assert differing(fast, real) == []
    assert differing(fast, [real[0], Decision("signal removed", 588)]) == ["signal removed"]


def test_where_one_mode_evicts_no_pod_times_count_from_the_start() -> None:
    fast = [Decision("evicted leak", 300, 10), Decision("signal removed", 590, 10)]
    assert differing(fast, [Decision("signal removed", 590)]) == ["evicted leak"]


def test_a_second_change_of_the_same_kind_differs_from_one() -> None:
    twice = [Decision("signalled", 100, 10), Decision("signalled", 300, 10)]
    assert differing(twice, twice[:1]) == ["signalled"]
    assert differing(twice, twice) == []


def test_what_the_other_mode_may_decide_after_the_end_does_not_differ() -> None:
    assert differing([Decision("signalled", 595, 10)], []) == []
    assert differing([Decision("signalled", 585, 10)], []) == ["signalled"]
