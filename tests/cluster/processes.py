"""The processes of a testbed as the machine sees them: nothing may be left when it has ended."""

from __future__ import annotations

import contextlib
from pathlib import Path

import psutil

from testbed.waiting import wait_until

NAMES = ("etcd", "apiserver", "kcm", "scheduler")
GUARD_SECONDS = 180.0
"""Against waiting for ever; every outcome here comes within a few seconds."""


def processes_of(directory: Path) -> list[psutil.Process]:
    """Everything that runs and names the directory in its command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if str(directory) in " ".join(process.cmdline()):
                found.append(process)
    return found


def wait_for_none_of(directory: Path) -> None:
    wait_until(
        lambda: not processes_of(directory),
        what=f"the processes of {directory} to end",
        timeout_seconds=GUARD_SECONDS,
        explain=lambda: f": {processes_of(directory)}",
    )
