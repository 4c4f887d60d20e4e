"""Lists that are older than what was seen: refused at first, believed when they come again and again."""

from __future__ import annotations

import logging

import pytest

from harness.clock import Seconds
from winpool.kube.errors import StreamGarbled
from winpool.kube.lists import REWOUND_LISTS, REWOUND_SECONDS, Rewind


@pytest.fixture
def rewind(clock: Seconds) -> Rewind:
    return Rewind("nodes", monotonic=clock)


def refuse(rewind: Rewind, *, times: int) -> None:
    for _ in range(times):
        with pytest.raises(StreamGarbled, match="version 3 is older than 10"):
            rewind.check("3", seen="10")


@pytest.mark.parametrize(("version", "seen"), [("10", ""), ("10", "9"), ("10", "10"), ("abc", "9")])
def test_a_list_that_is_not_older_is_taken(rewind: Rewind, version: str, seen: str) -> None:
    assert rewind.check(version, seen=seen) is False


def test_an_older_list_is_believed_when_it_comes_for_long_and_often_enough(
    rewind: Rewind, clock: Seconds, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(rewind, times=REWOUND_LISTS - 1)
    clock.now += REWOUND_SECONDS
    with caplog.at_level(logging.WARNING):
        assert rewind.check("3", seen="10") is True
    assert "nodes: the cluster was restored from version 10 to the older 3" in caplog.text


def test_many_older_lists_in_a_moment_may_be_of_one_stale_cache(rewind: Rewind, clock: Seconds) -> None:
    refuse(rewind, times=10 * REWOUND_LISTS)
    clock.now += REWOUND_SECONDS - 1
    refuse(rewind, times=1)


def test_few_older_lists_over_a_long_time_are_not_believed(rewind: Rewind, clock: Seconds) -> None:
    refuse(rewind, times=1)
    clock.now += 10 * REWOUND_SECONDS
    refuse(rewind, times=1)


def test_a_list_that_is_not_older_in_between_starts_anew(rewind: Rewind, clock: Seconds) -> None:
    refuse(rewind, times=REWOUND_LISTS)
    clock.now += REWOUND_SECONDS
    rewind.check("11", seen="10")
    refuse(rewind, times=REWOUND_LISTS)


def test_after_a_list_that_was_believed_it_starts_anew(rewind: Rewind, clock: Seconds) -> None:
    refuse(rewind, times=REWOUND_LISTS)
    clock.now += REWOUND_SECONDS
    rewind.check("3", seen="10")
    rewind.done()
    refuse(rewind, times=REWOUND_LISTS)
