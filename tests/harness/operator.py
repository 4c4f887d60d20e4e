"""The operator under test: a real process, under its own ServiceAccount, that can be killed at any moment."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from harness.forked import Forked
from harness.waiting import HopelessError, eventually
from testbed.errors import tail

USER = "system:serviceaccount:winpool-system:winpool"
"""Who the operator is in the audit log."""

LONG_SUPPORTED = Path(__file__).with_name("long-supported.yaml")
"""Rows that every operator under test is given, so that no end of support comes while the clock goes on.

A test about dates runs the operator on a clock of its own; one about rows names a file of its own.
"""


class Started(Protocol):
    """A process that a test has started, as ``subprocess.Popen`` has it."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, number: signal.Signals, /) -> None: ...

    def kill(self) -> None: ...


class Operator:
    """``python -m winpool run``, started and ended by a test. Logs as JSON into ``log_file``.

    It is forked from a process that has imported its code, unless it is to start ``from_nothing``. ``module``
    is another one with an operator in it (``harness.forked``), which cannot.
    """

    def __init__(
        self,
        *,
        kubeconfig: Path,
        log_file: Path,
        environment: Mapping[str, str] | None = None,
        from_nothing: bool = False,
        module: str = "winpool.__main__",
    ) -> None:
        assert not from_nothing or module == "winpool.__main__", "only the operator itself is a command"
        self.log_file = log_file
        self._module = module
        self._from_nothing = from_nothing
        self._kubeconfig = kubeconfig
        self._environment = dict(environment or {})
        self._process: Started | None = None

    def start(self, *, wait: bool = True) -> None:
        """Start it; with ``wait``, return when it is ready."""
        assert self._process is None, "it is running"
        self._offset = self.log_file.stat().st_size if self.log_file.exists() else 0
        environment = {
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "WINPOOL_KUBECONFIG": str(self._kubeconfig),
            "WINPOOL_HOST": "127.0.0.1",
            "WINPOOL_PORT": "0",
            "WINPOOL_LOG_FORMAT": "json",
            "WINPOOL_SUPPORT_MATRIX_FILE": str(LONG_SUPPORTED),
            # What pods of other tests select is not what a test is about.
            "WINPOOL_UNAUDITED_NAMESPACES": "default",
            **self._environment,
        }
        self._process = self._launch(environment)
        if wait:
            self.wait_ready()

    @property
    def pid(self) -> int:
        """The process ID of the running operator."""
        assert self._process is not None, "it is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it was started and has not ended by itself."""
        return self._process is not None and self._process.poll() is None

    def wait_ready(self) -> None:
        """Return when /readyz answers 200.

        Raises:
            HopelessError: it has ended; with the end of its log.

        """
        eventually(self.ready, what=f"operator ready ({self.log_file})")

    def ready(self) -> bool:
        """Whether /readyz answers 200 now; raises HopelessError where it never will."""
        if not self.running:
            raise HopelessError(f"the operator has ended; the end of {self.log_file}:\n{tail(self.log_file)}")
        return self.get("/readyz")[0] == 200

    @property
    def url(self) -> str:
        """Where it serves, once it is ready."""
        port = self._port()
        assert port is not None, "it does not serve yet"
        return f"http://127.0.0.1:{port}"

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of an HTTP GET; (0, "") where nothing listens yet."""
        port = self._port()
        if port is None:
            return 0, ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the sample of that name whose labels include ``labels``; None where there is none."""
        for line in self.get("/metrics")[1].splitlines():
            if match := re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line):
                pairs = dict(re.findall(r'(\w+)="([^"]*)"', match[1] or ""))
                if labels.items() <= pairs.items():
                    return float(match[2])
        return None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal that does not end it, such as SIGSTOP."""
        os.kill(self.pid, number)

    def wait_ended(self, *, seconds: float = 60) -> int:
        """Return the exit code once it has ended by itself.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.

        """
        assert self._process is not None, "it is not running"
        code = self._process.wait(timeout=seconds)
        self._process = None
        return code

    def kill(self) -> None:
        """SIGKILL: no last word."""
        self._end(signal.SIGKILL)

    def stop(self, *, seconds: float = 10) -> int:
        """SIGTERM, and return the exit code. Fails if it takes longer than ``seconds``."""
        return self._end(signal.SIGTERM, seconds=seconds)

    def close(self) -> None:
        """End it if it still runs."""
        if self._process is not None:
            self.kill()

    def log_text(self) -> str:
        """Return all that it has logged, over all its starts."""
        return self.log_file.read_text() if self.log_file.exists() else ""

    def log_lines(self) -> list[dict[str, object]]:
        """Return its log as records; lines that are no JSON come as {"message": line}."""
        return [_parse(line) for line in self.log_text().splitlines() if line]

    def _launch(self, environment: Mapping[str, str]) -> Started:
        """Start the process in this environment, with its output at the end of the log."""
        if not self._from_nothing:
            return Forked(self._module, ["run"], environment=environment, output=self.log_file)
        with self.log_file.open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "winpool", "run"], env=environment, stdout=output, stderr=output
            )

    def _end(self, number: signal.Signals, *, seconds: float = 10) -> int:
        process, self._process = self._process, None
        assert process is not None, "it is not running"
        process.send_signal(number)
        try:
            return process.wait(timeout=seconds)
        finally:
            process.kill()
            process.wait()

    def _port(self) -> int | None:
        started = self.log_text().encode()[self._offset :].decode(errors="replace")
        found = re.search(r"serving on port (\d+)", started)
        return int(found[1]) if found else None


def _parse(line: str) -> dict[str, object]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {"message": line}
    return parsed if isinstance(parsed, dict) else {"message": line}
