"""The KEP's promise beside the data: where the two disagree, and nowhere else."""

from __future__ import annotations

import pytest

from gen.matrix_reference import disagreements
from winpool.support.matrix import built_in
from winpool.support.servicing import disagreement, first_minor, is_promised
from winpool.support.versions import Minor

FIRST = {
    "2016": None,
    "1709": None,
    "1803": None,
    "2019": 14,
    "1809": 14,
    "1903": 17,
    "1909": 18,
    "2004": 19,
    "20H2": 21,
    "2022": 23,
    "23H2": None,
    "2025": 35,
}
DISAGREE = {
    (19, "1903", True),
    *((minor, "23H2", False) for minor in range(28, 34)),
    *((minor, "2025", False) for minor in range(32, 35)),
    (35, "2019", False),
    (36, "2019", False),
}


@pytest.mark.parametrize(("release", "number"), FIRST.items())
def test_first_minor(release: str, number: int | None) -> None:
    assert first_minor(release, matrix=built_in()) == (None if number is None else Minor(1, number))


@pytest.mark.parametrize(("release", "number"), FIRST.items())
def test_the_first_minor_and_two_more_are_promised(release: str, number: int | None) -> None:
    promised = {minor.minor for minor in built_in().minors if is_promised(minor, release, matrix=built_in())}
    assert promised == (set() if number is None else {number, number + 1, number + 2})


def test_all_disagreements() -> None:
    found = list(disagreements(built_in()))
    assert {(each.minor.minor, each.release, each.promised) for each in found} == DISAGREE
    assert len(found) == len(DISAGREE)
    for each in found:
        assert f"Windows Server {each.release}" in each.message
        assert str(each.minor) in each.message


def test_what_is_supported_for_longer_than_promised_is_no_disagreement() -> None:
    assert disagreement(Minor(1, 30), "2019", matrix=built_in()) is None
