"""Lists that are older than what was seen: refused twice, believed the third time in a row."""

from __future__ import annotations

import logging

import pytest

from winpool.cluster.errors import StreamGarbled
from winpool.cluster.rewind import REWOUND_LISTS, Rewind


def refuse(rewind: Rewind, *, times: int) -> None:
    for _ in range(times):
        with pytest.raises(StreamGarbled, match="version 3 is older than 10"):
            rewind.check("3", seen="10")


@pytest.mark.parametrize(("version", "seen"), [("10", ""), ("10", "9"), ("10", "10"), ("abc", "9")])
def test_a_list_that_is_not_older_is_taken(version: str, seen: str) -> None:
    assert Rewind("nodes").check(version, seen=seen) is False


def test_an_older_list_is_believed_when_it_comes_again_and_again(caplog: pytest.LogCaptureFixture) -> None:
    rewind = Rewind("nodes")
    refuse(rewind, times=REWOUND_LISTS - 1)
    with caplog.at_level(logging.WARNING):
        assert rewind.check("3", seen="10") is True
    assert "nodes: the cluster was put back from version 10 to 3" in caplog.text


def test_a_list_that_is_not_older_in_between_starts_the_count_anew() -> None:
    rewind = Rewind("nodes")
    refuse(rewind, times=REWOUND_LISTS - 1)
    rewind.check("11", seen="10")
    refuse(rewind, times=REWOUND_LISTS - 1)


def test_after_a_list_that_was_believed_the_count_starts_anew() -> None:
    rewind = Rewind("nodes")
    refuse(rewind, times=REWOUND_LISTS - 1)
    rewind.check("3", seen="10")
    rewind.done()
    refuse(rewind, times=REWOUND_LISTS - 1)
