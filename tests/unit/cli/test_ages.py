"""Ages as kubectl writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.builders import NOON
from winpool.cli.counts import age


@pytest.mark.parametrize(
    ("ago", "written"),
    [
        # The cases of k8s.io/apimachinery/pkg/util/duration TestHumanDuration.
        (timedelta(seconds=1), "1s"),
        (timedelta(seconds=70), "70s"),
        (timedelta(seconds=190), "3m10s"),
        (timedelta(minutes=70), "70m"),
        (timedelta(hours=47), "47h"),
        (timedelta(hours=49), "2d1h"),
        (timedelta(days=8, hours=2), "8d"),
        (timedelta(days=367), "367d"),
        (timedelta(days=365 * 2 + 25), "2y25d"),
        (timedelta(days=365 * 8 + 2), "8y"),
        # Where there is nothing of the smaller unit, and at the ends.
        (timedelta(minutes=3), "3m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=7, minutes=5), "7h5m"),
        (timedelta(hours=8, minutes=5), "8h"),
        (timedelta(days=2), "2d"),
        (timedelta(0), "0s"),
        (timedelta(seconds=-30), "0s"),
    ],
)
def test_an_age_is_written_as_kubectl_writes_it(ago: timedelta, written: str) -> None:
    assert age(NOON - ago, now=NOON) == written


def test_what_nobody_knows_the_age_of_has_a_question_mark() -> None:
    assert age(None, now=NOON) == "?"
