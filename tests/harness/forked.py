"""Operators and simulated nodes that are forked from a process which has imported all of their code.

A test run starts hundreds of them, and each would import for a second what the one before imported. From
``main`` on they are what ``python -m`` runs: a process, with arguments, environment and output of its own,
that can be killed at any moment. ``test_operator_process``, the documents, the demo and the benches start
theirs from nothing.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

IMPORTED: Final = (
    "winpool.__main__",
    "winpool.app",
    "winpool.logs",
    "testbed.winsim.__main__",
    "harness.second_feature",
    "harness.jumping_clock",
    "harness.quick_labels",
    "harness.quick_force",
)
"""What is imported once: the modules whose ``main`` may be asked for, and what those import when they run."""

_FROM = multiprocessing.get_context("forkserver")
_FROM.set_forkserver_preload(list(IMPORTED))

_ONE_ASKS: Final = threading.Lock()
"""An exit code is read from a pipe, once: of two threads that ask at the same moment, one is told 255. To
start a process is to ask for the exit codes of all others."""


class Forked:
    """A running ``python -m MODULE``; the part of ``subprocess.Popen`` that tests need.

    Args:
        module: one of ``IMPORTED``, with a ``main`` that reads ``sys.argv`` and returns the exit code.
        arguments: of its command line.
        environment: all of it.
        output: the file to which it appends what it prints.

    """

    def __init__(
        self, module: str, arguments: Sequence[str], *, environment: Mapping[str, str], output: Path
    ) -> None:
        assert module in IMPORTED, f"{module} is not imported where it is forked from"
        self._process = _FROM.Process(
            target=_run, args=(module, list(arguments), dict(environment), str(output)), name=module
        )
        with _ONE_ASKS:
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        with _ONE_ASKS:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; negative is the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it still runs after so many seconds.

        """
        multiprocessing.connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def _run(module: str, arguments: list[str], environment: dict[str, str], output: str) -> None:
    """Become what ``python -m`` would have started."""
    with Path(output).open("ab") as file, Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    threading.Thread(target=_end_with_the_tests, name="end-with-the-tests", daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [module.removesuffix(".__main__"), *arguments]
    sys.exit(import_module(module).main())


def _end_with_the_tests() -> None:
    """Leave nothing behind where the process that runs the tests is killed and cannot clean up."""
    tests = multiprocessing.parent_process()
    assert tests is not None
    multiprocessing.connection.wait([tests.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
