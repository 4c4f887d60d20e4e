"""A Pod of the test of the README is Ready when its probe says so, and not before."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any, Final

import pytest

from harness.serving import serving
from image.pods import Probe

ASKED: Final[dict[str, Any]] = {"httpGet": {"path": "/readyz", "port": "health"}, "periodSeconds": 0}


class Answering:
    """A server of health; ``code`` is what it answers, ``paths`` what it was asked."""

    def __init__(self) -> None:
        self.code = 503
        self.paths: list[str] = []
        answering = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answering.paths.append(self.path)
                self.send_response(answering.code)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)

    def probe(self, *, first: bool, **asked: Any) -> Probe:
        ports = {"health": self.server.server_port}
        return Probe({**ASKED, **asked}, address="127.0.0.1", ports=ports, first=first)


@pytest.fixture
def health() -> Iterator[Answering]:
    answering = Answering()
    with serving(answering.server):
        yield answering


@pytest.mark.slow
def test_a_pod_is_ready_with_the_first_answer_that_is_well(health: Answering) -> None:
    probe = health.probe(first=False)
    found = []
    for code in (503, 200):
        health.code = code
        probe.look()
        found.append(probe.passes)
    assert found == [False, True]
    assert health.paths == ["/readyz", "/readyz"]


def test_only_so_many_failures_in_a_row_count(health: Answering) -> None:
    probe = health.probe(first=True, failureThreshold=2)
    found = []
    for code in (503, 200, 503, 503):
        health.code = code
        probe.look()
        found.append(probe.passes)
    assert found == [True, True, True, False]


def test_it_asks_once_a_period(health: Answering) -> None:
    probe = health.probe(first=False, periodSeconds=3600)
    health.code = 200
    probe.look()
    probe.look()
    assert len(health.paths) == 1
