"""Processes that cannot outlive the one who started them, and telling a process from a stranger.

Linux only: it relies on parent-death signals and process file descriptors.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import psutil

LAUNCHER: Final = Path(__file__).parent / "launcher.py"
START_TIME_TOLERANCE_SECONDS: Final = 2.0
"""A start time is reckoned from the wall clock, which time synchronisation moves. No process can get the
pid of another that started less than two seconds before it and ended in between, in any way that matters."""


def start_bound(
    argv: Sequence[str],
    *,
    executable: Path | None = None,
    environment: Mapping[str, str],
    log: Path,
    cwd: Path,
) -> subprocess.Popen[bytes]:
    """Start a child that dies with this process, its output appended to a log.

    Call it from a thread that lives as long as the process, such as the main one: the kernel sends the
    signal when the *thread* that started the child ends.
    """
    file = executable or argv[0]
    # Not preexec_fn, which may deadlock where there are threads: a launcher that asks for the signal and
    # then becomes the program. -I and -S keep it from importing anything but the standard library.
    launcher = [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), str(file)]
    with log.open("ab") as output:
        return subprocess.Popen(
            [*launcher, *argv],
            env=dict(environment),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def start_time(pid: int) -> float:
    """Tell when a process started, in seconds since the epoch.

    Raises:
        psutil.NoSuchProcess: there is none.

    """
    return psutil.Process(pid).create_time()


def find(pid: int, *, started: float) -> psutil.Process | None:
    """Return the process with that pid and start time; None where it is gone or the pid is a stranger's."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        same = abs(process.create_time() - started) <= START_TIME_TOLERANCE_SECONDS
        if same and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def describe_exit(returncode: int) -> str:
    """Name an exit status in the words of the shell: ``exit code 1`` or ``SIGKILL``."""
    if returncode >= 0:
        return f"exit code {returncode}"
    try:
        return signal.Signals(-returncode).name
    except ValueError:
        return f"signal {-returncode}"
