"""The clock of a term: it runs on while the process or the machine sleeps."""

from __future__ import annotations

import time

import pytest

from winpool.kube.leader_election import make_identity, running_on


def test_a_term_goes_on_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    # CLOCK_BOOTTIME counts the time of a suspend, CLOCK_MONOTONIC does not; no test can suspend a machine.
    suspended = 3600.0
    real = time.clock_gettime

    def after_a_suspend(which: int) -> float:
        return real(which) + (suspended if which == time.CLOCK_BOOTTIME else 0.0)

    before = running_on()
    monkeypatch.setattr(time, "clock_gettime", after_a_suspend)
    assert running_on() - before >= suspended


def test_two_processes_of_one_host_have_different_names() -> None:
    first, second = make_identity("node-1.example.com"), make_identity("node-1.example.com")
    assert first != second
    assert first.startswith("node-1.example.com_")


@pytest.mark.parametrize("host", ["", "ümläut host", "x" * 500, "a\nb"])
def test_any_host_gives_a_name_that_a_header_and_a_lease_can_have(host: str) -> None:
    name = make_identity(host)
    assert name.isascii()
    assert name.isprintable()
    assert " " not in name
    assert len(name) <= 72
