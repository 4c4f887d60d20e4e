"""Waiting ends where it has to: with what came, at the deadline, or at once where nothing can come."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.operator import Operator
from harness.waiting import HopelessError, eventually


def test_the_first_true_value_ends_it() -> None:
    values = iter([0, "", None, "done"])
    assert eventually(lambda: next(values), what="a value", every=0) == "done"


def test_an_assertion_is_told_at_the_deadline() -> None:
    def check() -> bool:
        raise AssertionError("two nodes are missing")

    with pytest.raises(
        AssertionError, match=r"nodes Ready: not within 0 s; last seen: .*two nodes are missing"
    ):
        eventually(check, what="nodes Ready", seconds=0, every=0)


def test_what_cannot_come_any_more_is_not_waited_for() -> None:
    looks = 0

    def check() -> bool:
        nonlocal looks
        looks += 1
        raise HopelessError("the process has ended")

    with pytest.raises(HopelessError, match="the process has ended"):
        eventually(check, what="never")
    assert looks == 1


@pytest.mark.slow
def test_an_operator_that_ends_at_its_start_is_told_of_with_the_end_of_its_log(tmp_path: Path) -> None:
    operator = Operator(kubeconfig=tmp_path / "missing.kubeconfig", log_file=tmp_path / "operator.log")
    try:
        with pytest.raises(HopelessError, match=r"operator\.log:\n(?s:.*)missing\.kubeconfig"):
            operator.start()
    finally:
        operator.close()
