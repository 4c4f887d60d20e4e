"""A real Prometheus in a testbed, which scrapes the exporters of simulated nodes.

.. code-block:: python

    with Prometheus(testbed, jobs=[ScrapeJob(name="windows-exporter", targets=exporters)]) as prometheus:
        …  # ask prometheus.url
"""

import shutil
import signal
from collections.abc import Sequence
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self

import urllib3

from testbed.cluster import Testbed
from testbed.component import Component
from testbed.errors import TestbedError
from testbed.prometheus import ensure_prometheus
from testbed.prometheus_config import ScrapeJob, render

NAME: Final = "prometheus"
"""Of the component, its log and its directory."""
INTERVAL_SECONDS: Final = 1
"""The shortest interval that makes sense: simulated counters are read once a second."""
DISCOVERY_SECONDS: Final = 0.2
"""Prometheus looks so often whether its targets have changed; by default every five seconds."""
RELOAD_TIMEOUT_SECONDS: Final = 30.0
"""A reload takes milliseconds; the rest is for a machine under full load."""


class Prometheus:
    """A Prometheus server. It runs in the ``with`` block, and ends with its testbed at the latest.

    A testbed has one at a time, at its own port. It keeps data and configuration in the testbed's directory,
    and removes them at the end; its log stays.

    Args:
        testbed: where it runs; exporters of its nodes listen on addresses that only this machine has.
        jobs: what it scrapes.
        interval_seconds: how often.

    """

    def __init__(
        self, testbed: Testbed, *, jobs: Sequence[ScrapeJob], interval_seconds: int = INTERVAL_SECONDS
    ) -> None:
        self._testbed = testbed
        self._directory = testbed.layout.prometheus
        self._file = self._directory / "prometheus.yaml"
        self._first = jobs, interval_seconds

    @property
    def url(self) -> str:
        """Where its HTTP API is."""
        return self._testbed.prometheus_url

    @property
    def component(self) -> Component:
        """Its process, to be killed, paused, started again and waited for."""
        return self._testbed.component(NAME)

    def __enter__(self) -> Self:
        """Start it, and return when it answers queries.

        Raises:
            TestbedError: it cannot be built, or does not start; with the end of its log.

        """
        binary = ensure_prometheus()
        self._directory.mkdir(exist_ok=True)
        jobs, interval_seconds = self._first
        self._write(jobs, interval_seconds)
        argv = (
            str(binary),
            f"--config.file={self._file}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address={self.url.removeprefix('http://')}",
            "--web.enable-lifecycle",
            f"--scrape.discovery-reload-interval={DISCOVERY_SECONDS * 1000:.0f}ms",
        )
        self._testbed.run(NAME, argv, health_url=f"{self.url}/-/ready")
        try:
            self.component.wait_ready()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def configure(self, jobs: Sequence[ScrapeJob], *, interval_seconds: int = INTERVAL_SECONDS) -> None:
        """Have it scrape something else from now on. The series of targets that are gone end.

        Raises:
            TestbedError: it refuses the configuration; the text says why.

        """
        self._write(jobs, interval_seconds)
        answer = urllib3.request("POST", f"{self.url}/-/reload", timeout=RELOAD_TIMEOUT_SECONDS)
        if answer.status != HTTPStatus.OK:
            raise TestbedError(f"Prometheus refuses {self._file}: {answer.data.decode(errors='replace')}")

    def _write(self, jobs: Sequence[ScrapeJob], interval_seconds: int) -> None:
        self._file.write_text(render(jobs, interval_seconds=interval_seconds))

    def _end(self) -> None:
        # Killed: what it would still write to the disk is removed here.
        self.component.kill(signal.SIGKILL)
        shutil.rmtree(self._directory, ignore_errors=True)
