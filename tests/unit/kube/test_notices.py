"""The same thing again and again is one line in the log."""

from __future__ import annotations

import logging

import pytest

from harness.clock import Seconds
from winpool.kube.backoff import LogThrottle, Outage
from winpool.kube.client import log_warnings, parse_warnings
from winpool.kube.errors import Forbidden, Unavailable

log = logging.getLogger("winpool.test")


@pytest.mark.parametrize(
    ("header", "texts"),
    [
        ('299 - "spec: Invalid value"', ["spec: Invalid value"]),
        (r'299 - "a \"quoted\" word", 299 - "another"', ['a "quoted" word', "another"]),
        ("nonsense", []),
        ("", []),
    ],
)
def test_warnings_are_read_as_rfc_7234_writes_them(header: str, texts: list[str]) -> None:
    assert parse_warnings(header) == texts


def test_a_warning_is_logged_once_an_hour(caplog: pytest.LogCaptureFixture) -> None:
    clock = Seconds()
    throttle = LogThrottle(monotonic=clock)
    for _ in range(3):
        log_warnings(['299 - "deprecated"'], request="list x", throttle=throttle)
    assert caplog.messages == ["the API server warns on list x: deprecated"]
    clock.now += 3600
    log_warnings(['299 - "deprecated"'], request="list x", throttle=throttle)
    assert caplog.messages[1:] == [
        "the API server warns on list x: deprecated (3 times since it was last reported)"
    ]


def test_endless_new_warnings_do_not_fill_the_memory(caplog: pytest.LogCaptureFixture) -> None:
    throttle = LogThrottle(monotonic=Seconds())
    for number in range(101):
        log_warnings([f'299 - "number {number}"'], request="x", throttle=throttle)
    caplog.clear()
    log_warnings(['299 - "number 100"'], request="x", throttle=throttle)
    assert caplog.messages == []
    log_warnings(['299 - "number 0"'], request="x", throttle=throttle)
    assert len(caplog.messages) == 1, "the first ones were forgotten"


def test_an_outage_is_told_once_and_its_end_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Seconds()
    outage = Outage("nodes", logger=log, monotonic=clock, meanwhile="kept")
    outage.ended()
    for _ in range(5):
        outage.failed(Unavailable("refused", reason="NoConnection"))
        clock.now += 10
    outage.ended()
    outage.ended()
    assert caplog.messages == ["nodes: refused; kept", "nodes: recovered after 50.0 s"]


def test_an_outage_of_another_kind_is_told_and_a_long_one_again(caplog: pytest.LogCaptureFixture) -> None:
    clock = Seconds()
    outage = Outage("nodes", logger=log, monotonic=clock, meanwhile="kept")
    outage.failed(Unavailable("refused", reason="NoConnection"))
    outage.failed(Forbidden("not allowed"))
    clock.now += 299
    outage.failed(Forbidden("not allowed"))
    clock.now += 1
    outage.failed(Forbidden("not allowed"))
    assert caplog.messages == ["nodes: refused; kept", "nodes: not allowed; kept", "nodes: not allowed; kept"]


def test_flapping_is_not_told_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Seconds()
    outage = Outage("nodes", logger=log, monotonic=clock, meanwhile="kept")
    for _ in range(6):
        outage.failed(Unavailable("cut", reason="StreamCut"))
        outage.ended()
        clock.now += 5
    assert caplog.messages == ["nodes: cut; kept", "nodes: recovered after 0.0 s"]
    clock.now += 60
    outage.failed(Unavailable("cut", reason="StreamCut"))
    assert len(caplog.messages) == 3
