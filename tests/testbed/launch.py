"""Starts and ends the supervisor of a testbed."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import psutil

from testbed.control import Request, ask
from testbed.errors import TestbedError, tail
from testbed.options import Options
from testbed.paths import Layout
from testbed.process import find
from testbed.state import State
from testbed.waiting import wait_until

START_TIMEOUT_SECONDS: Final = 120.0
"""More than the supervisor's own limit, so that the supervisor is the one who says what was slow."""
STOP_TIMEOUT_SECONDS: Final = 20.0
"""The supervisor needs up to three seconds for the simulated nodes and none for the rest."""


def refuse_occupied(layout: Layout) -> None:
    """Raise TestbedError where a testbed runs in the directory or it belongs to somebody else."""
    if not layout.is_ours():
        raise TestbedError(
            f"{layout.root} holds files that are not a testbed's; name an empty or a new directory with --dir"
        )
    state = State.read(layout)
    if state is not None and find(state.pid, started=state.start_time):
        raise TestbedError(
            f"a testbed runs in {layout.root} already (pid {state.pid}); end it with: "
            f"python -m testbed down --dir {layout.root}"
        )


def start_supervisor(layout: Layout, *, options: Options, binary: Path) -> subprocess.Popen[bytes]:
    """Start the supervisor of a directory; it dies with this process until told to detach."""
    arguments = {
        "directory": layout.root,
        "binary": binary,
        "parent": os.getpid(),
        "options": options.model_dump_json(),
    }
    flags = [text for name, value in arguments.items() for text in (f"--{name}", str(value))]
    with layout.supervisor_log.open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "testbed.supervisor", *flags],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C goes to us, and we end it in good order
        )


def await_ready(layout: Layout, process: subprocess.Popen[bytes]) -> State:
    """Wait until the whole control plane is up, and return what the supervisor says about itself.

    Raises:
        TestbedError: it ended or took too long; with the end of its log, which has the cause.

    """

    def is_ready() -> bool:
        if process.poll() is not None:
            raise TestbedError(f"the testbed did not start:\n{tail(layout.supervisor_log, lines=40)}")
        try:
            return ask(layout.socket, Request(do="status")).ready
        except OSError:  # not listening yet, or too busy to answer
            return False

    wait_until(
        is_ready,
        what="the control plane",
        timeout_seconds=START_TIMEOUT_SECONDS,
        explain=lambda: f"; the end of the supervisor's log:\n{tail(layout.supervisor_log)}",
    )
    state = State.read(layout)
    if state is None:
        raise TestbedError(f"the testbed started but wrote no {layout.state}")
    return state


def end_supervisor(process: subprocess.Popen[bytes]) -> None:
    """End a supervisor that we started, and with it all its children."""
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_stranger(pid: int, *, started: float) -> None:
    """End a supervisor of another process, if ``pid`` still is the one that started at ``started``."""
    process = find(pid, started=started)
    if process is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(STOP_TIMEOUT_SECONDS)
