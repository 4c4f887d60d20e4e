"""When time alone changes what is known: so that what was computed before may be used until then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.memory import BOTH, KUBELET_ONLY, a_sample, committed
from harness.memory_histories import History, after, histories, settings
from winpool.features.memory.detector import changes_after, known_at, step
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import NO_SAMPLES

ROUNDING = 0.001


@pytest.mark.slow
@given(history=histories, settings=settings, later=st.lists(st.integers(0, 900), min_size=1, max_size=5))
@hypothesis_settings(max_examples=200)
def test_until_then_nothing_changes(history: History, settings: DetectorSettings, later: list[int]) -> None:
    samples = history.samples
    state, now = after(samples, settings), samples[-1].arrived_at
    view, until = known_at(state, now=now, settings=settings), changes_after(state, now=now)
    for moment in sorted(now + each for each in later):
        while until is not None and moment > until:
            view = known_at(state, now=until + ROUNDING, settings=settings)
            until = changes_after(state, now=until + ROUNDING)
        assert known_at(state, now=moment, settings=settings) == view


def test_what_is_never_sampled_never_changes() -> None:
    assert changes_after(NO_SAMPLES, now=0) is None


def test_a_level_is_known_until_its_sample_is_no_longer_fresh() -> None:
    state = NO_SAMPLES
    for at in (1000.0, 1060.0):
        state = step(state, a_sample(at, interval=60, **committed(12, pods_commit=None)), KUBELET_ONLY)
    assert changes_after(state, now=1060) == 1180
    assert known_at(state, now=1180, settings=BOTH).level is not None
    assert known_at(state, now=1180.1, settings=BOTH).level is None
    assert changes_after(state, now=1180.1) is None
