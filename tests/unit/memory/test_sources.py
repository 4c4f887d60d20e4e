"""How old a sample is: by its arrival, and only if its own time advances, or as its source says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.memory import EXPORTER_ONLY, KUBELET, KUBELET_ONLY, PROMETHEUS, a_sample, available, committed
from winpool.features.memory.detector import known_at, step
from winpool.features.memory.levels import fresh_seconds
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import NO_SAMPLES, Axis, AxisPressure, MemorySample, NodePressure

OWN = 1_790_000_000.0
LONGEST_SECONDS = 120


def after(*samples: MemorySample, settings: DetectorSettings) -> NodePressure:
    state = NO_SAMPLES
    for each in samples:
        state = step(state, each, settings)
    return state


def age(state: NodePressure, *, now: float, settings: DetectorSettings) -> float | None:
    """Return how old what is known of COMMIT is, None where nothing is known."""
    found: AxisPressure = known_at(state, now=now, settings=settings).axes[Axis.COMMIT]
    return None if found.level is None or found.sampled_at is None else now - found.sampled_at


def polled(*times: tuple[float, float]) -> NodePressure:
    """Return what is known after samples of a kubelet: own time, and when they arrived."""
    samples = (a_sample(at, taken_at=own, interval=60, **committed(12)) for own, at in times)
    return after(*samples, settings=KUBELET_ONLY)


def queried(*times: tuple[float, float, float]) -> NodePressure:
    """Return what is known after samples of Prometheus: own time, when they arrived, and their age then."""
    return after(*(scraped(*each) for each in times), settings=EXPORTER_ONLY)


def scraped(own: float, at: float, old: float) -> MemorySample:
    values = committed(12) | available(8)
    return a_sample(at, source=PROMETHEUS, taken_at=own, age=old, interval=30, **values)


def kubelet_age(state: NodePressure, *, now: float) -> float | None:
    return age(state, now=now, settings=KUBELET_ONLY)


def exporter_age(state: NodePressure, *, now: float) -> float | None:
    return age(state, now=now, settings=EXPORTER_ONLY)


def test_the_first_sample_of_a_kubelet_may_be_hours_old_and_the_second_one_is_not() -> None:
    assert kubelet_age(polled((OWN, 100)), now=100) is None
    assert kubelet_age(polled((OWN, 100), (OWN + 60, 160)), now=165) == 5


def test_a_time_that_stands_still_keeps_ageing() -> None:
    frozen = polled((OWN, 100), (OWN + 60, 160), (OWN + 60, 220), (OWN + 60, 280))
    assert kubelet_age(frozen, now=280) == 120
    assert kubelet_age(frozen, now=281) is None


def test_a_clock_that_was_set_back_makes_the_age_unknown_until_it_advances_from_there() -> None:
    back = (OWN, 100), (OWN + 60, 160), (OWN - 3600, 220)
    assert kubelet_age(polled(*back), now=220) is None
    assert kubelet_age(polled(*back, (OWN - 3540, 280)), now=281) == 1


def test_a_source_that_has_stopped_while_no_sample_came_is_not_fresh() -> None:
    """Its node could not be reached for an hour, and its counters stopped in the first minute of it."""
    seen = (OWN, 100), (OWN + 60, 160), (OWN + 120, 3760)
    assert kubelet_age(polled(*seen), now=3760) is None
    assert kubelet_age(polled(*seen, (OWN + 180, 3820)), now=3821) == 1


def test_a_source_that_has_gone_on_while_no_sample_came_is_fresh() -> None:
    assert kubelet_age(polled((OWN, 100), (OWN + 60, 160), (OWN + 3660, 3760)), now=3761) == 1
    assert kubelet_age(polled((OWN, 100), (OWN, 160), (OWN, 3700), (OWN + 3660, 3760)), now=3761) == 1


@pytest.mark.parametrize("wrong", [-1e9, 1e9])
def test_a_clock_that_is_wrong_by_years_does_not_matter(wrong: float) -> None:
    assert kubelet_age(polled((OWN + wrong, 100), (OWN + wrong + 60, 160)), now=170) == 10


def test_prometheus_says_the_age_so_the_first_sample_counts_and_is_as_old_as_it_says() -> None:
    assert exporter_age(queried((OWN, 100, 12)), now=103) == 15
    assert exporter_age(queried((OWN, 100, 12), (OWN, 115, 27)), now=115) == 27


def test_a_sample_that_arrives_older_than_it_may_be_is_unknown() -> None:
    assert exporter_age(queried((OWN, 100, 75)), now=100) == 75
    assert exporter_age(queried((OWN, 100, 76)), now=100) is None
    assert exporter_age(queried((OWN, 100, 3600)), now=100) is None


def test_one_that_arrives_too_old_does_not_keep_younger_ones_from_counting() -> None:
    assert exporter_age(queried((OWN, 100, 3600), (OWN + 3610, 120, 10)), now=120) == 10


def test_a_sample_from_the_future_of_prometheus_counts_once_it_advances() -> None:
    first = (OWN, 100.0, -5.0)
    assert exporter_age(queried(first), now=100) is None
    assert exporter_age(queried(first, (OWN, 115, 10)), now=115) is None
    assert exporter_age(queried(first, (OWN + 15, 115, -5)), now=116) == 1


@pytest.mark.parametrize("said", [float("nan"), float("inf"), -float("inf"), 2.0**63])
def test_an_age_that_cannot_be_proves_nothing(said: float) -> None:
    assert exporter_age(queried((OWN, 100, said)), now=100) is None
    assert exporter_age(queried((OWN, 100, said), (OWN + 15, 115, said)), now=115) == 0


def test_of_two_prometheus_that_answer_in_turn_the_one_that_is_behind_changes_nothing() -> None:
    """Its sample is older than the one that is known, and is no clock that was set back."""
    assert exporter_age(queried((OWN, 100, 1), (OWN - 8, 101, 10)), now=101) == 2
    assert exporter_age(queried((OWN, 100, 1), (OWN - 8, 101, 10), (OWN + 15, 116, 1)), now=116) == 1


def test_a_prometheus_whose_clock_was_set_back_goes_on_being_believed() -> None:
    assert exporter_age(queried((OWN, 100, 1), (OWN - 3600, 115, 1)), now=115) == 1


BOTH_AGED = DetectorSettings(sources=(PROMETHEUS, KUBELET))


def test_a_preferred_source_that_lags_takes_over_once_it_is_ahead_of_what_is_known() -> None:
    polls = [a_sample(at, source=KUBELET, interval=60, **committed(12)) for at in (40.0, 100.0)]
    behind, ahead = scraped(OWN, 101, 20), scraped(OWN + 30, 131, 20)

    def spoken(*samples: MemorySample) -> tuple[str, float | None]:
        found = after(*samples, settings=BOTH_AGED).axes[Axis.COMMIT]
        return found.source, found.sampled_at

    assert spoken(*polls, behind) == (KUBELET, 100)
    assert spoken(*polls, behind, ahead) == (PROMETHEUS, 111)


@pytest.mark.parametrize(("interval", "seconds"), [(10, 25), (15, 37.5), (48, 120), (60, 120), (300, 120)])
def test_a_sample_is_fresh_for_two_and_a_half_intervals_and_never_beyond_two_minutes(
    interval: float, seconds: float
) -> None:
    assert fresh_seconds(a_sample(0, interval=interval)) == seconds


TIMES = st.lists(st.tuples(st.integers(-5, 5), st.integers(0, 100)), min_size=1, max_size=20)


@given(steps=TIMES, shift=st.integers(-(10**9), 10**9), later=st.integers(0, 500))
def test_shifting_either_clock_changes_nothing(steps: list[tuple[int, int]], shift: int, later: int) -> None:
    def known(own_shift: int, our_shift: int) -> float | None:
        own, now, samples = OWN, 0.0, []
        for advance, waited in steps:
            own, now = own + advance, now + waited
            samples.append((own + own_shift, now + our_shift))
        return kubelet_age(polled(*samples), now=now + our_shift + later)

    assert known(0, 0) == known(shift, 0) == known(0, shift)


@given(steps=TIMES)
def test_what_is_fresh_has_advanced_within_the_last_two_minutes(steps: list[tuple[int, int]]) -> None:
    """A sample that arrives with the last that counted, or has its time, says nothing."""
    own, now, advanced = OWN, 0.0, float("-inf")
    samples: list[tuple[float, float]] = []
    counted: tuple[float, float] | None = None
    for advance, waited in steps:
        own, now = own + advance, now + waited
        if counted is None or (own != counted[0] and now != counted[1]):
            if counted is not None and own > counted[0]:
                advanced = now
            counted = own, now
        samples.append((own, now))
        if kubelet_age(polled(*samples), now=now) is not None:
            assert now - advanced <= LONGEST_SECONDS


AGED = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(-5, 200)), min_size=1, max_size=12
)


@given(steps=AGED, later=st.integers(0, 200))
def test_nothing_is_younger_than_its_source_says(steps: list[tuple[int, int, int]], later: int) -> None:
    own, now = OWN, 0.0
    samples: list[tuple[float, float, float]] = []
    for advance, waited, old in steps:
        own, now = own + advance, now + waited
        samples.append((own, now, old))
    youngest = min(now - at + max(old, 0) for _, at, old in samples)
    found = exporter_age(queried(*samples), now=now + later)
    assert found is None or youngest + later <= found <= LONGEST_SECONDS
