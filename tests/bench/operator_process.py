"""The operator as people run it, as one more component of the testbed: it ends when that ends."""

from __future__ import annotations

import gzip
import http.client
import re
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import closing
from typing import Final

import msgspec
import psutil

from bench.errors import BenchError
from bench.scraping import Scrape
from testbed.cluster import Testbed
from testbed.component import Component
from testbed.errors import tail
from testbed.tokens import subject
from winpool.model.memory_report import MemoryReport

USER: Final = subject()
"""Who the operator is in the audit log."""

COMPONENT: Final = "operator"
READY_SECONDS: Final = 120.0
"""Guard only; ten seconds are promised."""
SCRAPE_SECONDS: Final = 30.0
"""Guard: what a scrape of Prometheus waits is 10 s."""
POLL_SECONDS: Final = 0.02
"""Between two questions to /readyz: the precision of the time to ready."""

_OK: Final = 200


class OperatorProcess:
    """``python -m winpool run`` under its own ServiceAccount, with ``settings`` in its environment."""

    def __init__(self, testbed: Testbed, *, settings: Mapping[str, str] | None = None) -> None:
        self._testbed = testbed
        self._settings = dict(settings or {})
        self._log = testbed.layout.log(COMPONENT)
        self._component: Component | None = None
        self._process: psutil.Process | None = None
        self._offset = 0

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None, "it was never started"
        return self._process.pid

    def start(self) -> float:
        """Start it, and return how many seconds it took until /readyz said 200."""
        self._offset = self._log.stat().st_size if self._log.exists() else 0
        started = time.monotonic()
        if self._component is None:
            self._component = self._testbed.run(COMPONENT, self._command())
        else:
            self._component.start()
        self._process = psutil.Process(self._component.pid)
        while not self._is_ready():
            self.require_alive()
            if time.monotonic() - started > READY_SECONDS:
                raise BenchError(f"the operator is not ready after {READY_SECONDS:.0f} s:\n{tail(self._log)}")
            time.sleep(POLL_SECONDS)
        return time.monotonic() - started

    def stop(self) -> None:
        """SIGTERM; it is gone when this returns.

        Raises BenchError where it did not end as one that was asked to.
        """
        assert self._component is not None, "it was never started"
        self.require_alive()
        self._component.kill(signal.SIGTERM)
        status = self._component.status
        if status.exit not in (None, "exit code 0"):
            raise BenchError(f"the operator ended with {status.exit} after SIGTERM:\n{tail(self._log)}")

    def require_alive(self) -> None:
        """Raise BenchError where it has ended by itself.

        Asks the kernel, not the supervisor, who would ask each component how it is.
        """
        assert self._component is not None, "it was never started"
        assert self._process is not None
        if not self._process.is_running():
            exit_ = self._component.status.exit
            raise BenchError(f"the operator has ended ({exit_}):\n{tail(self._log)}")

    def scrape(self) -> Scrape:
        """Return what its /metrics say now."""
        return Scrape.parse(self._get("/metrics").decode())

    def memory(self) -> MemoryReport:
        """Return what its /memory says now of all nodes whose memory it watches."""
        return msgspec.json.decode(self._get("/memory", encoding="gzip"), type=MemoryReport)

    def _get(self, path: str, *, encoding: str = "identity") -> bytes:
        self.require_alive()
        connection = http.client.HTTPConnection(self.address, timeout=SCRAPE_SECONDS)
        try:
            with closing(connection):
                connection.request("GET", path, headers={"Accept-Encoding": encoding})
                answer = connection.getresponse()
                content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise BenchError(f"the operator does not tell {path}: {error}") from error
        if answer.status != _OK:
            raise BenchError(f"the operator does not tell {path}: {answer.status} {content[:200]!r}")
        return gzip.decompress(content) if answer.headers["Content-Encoding"] == "gzip" else content

    def _command(self) -> list[str]:
        flags = {
            "kubeconfig": self._testbed.kubeconfig("winpool"),
            "host": "127.0.0.1",
            "port": 0,
            "log-format": "json",
        }
        pairs = [text for name, value in flags.items() for text in (f"--{name}", str(value))]
        variables = [f"{name}={value}" for name, value in self._settings.items()]
        return ["env", *variables, sys.executable, "-m", "winpool", "run", *pairs]

    def _is_ready(self) -> bool:
        if self._port() is None:
            return False
        try:
            with urllib.request.urlopen(f"http://{self.address}/readyz", timeout=5) as answer:
                return bool(answer.status == _OK)
        except OSError:  # not yet, or not listening yet
            return False

    @property
    def address(self) -> str:
        """Where it serves metrics and health."""
        return f"127.0.0.1:{self._port()}"

    def _port(self) -> int | None:
        with self._log.open("rb") as file:
            file.seek(self._offset)
            found = re.search(rb"serving on port (\d+)", file.read())
        return int(found[1]) if found else None
