"""The operator of the demo: a process beside the cluster, under its own ServiceAccount."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.control import ComponentState
from testbed.errors import TestbedError, tail
from testbed.waiting import wait_until
from winpool.api.keys import ADDRESS_ANNOTATION, LEASE, NAMESPACE

if TYPE_CHECKING:
    from testbed.cluster import Testbed
    from testbed.component import Component

NAME = "operator"
"""Of the component."""
HOST = "127.0.0.1"
START_SECONDS = 60.0
"""For the operator to listen, which takes two seconds on a machine that does nothing else."""

QUICK_POLLS = ("--memory-poll-seconds", "2", "--memory-hot-poll-seconds", "2")
"""Kubelets are asked every minute by default. Nobody waits for that long before a demo."""


def command(testbed: Testbed, *more: str) -> list[str]:
    """Return the command line of an operator that can reach simulated kubelets; ``more`` are further flags.

    Kubelets have their certificates from a CA of their own, and listen on loopback addresses.
    """
    return [
        sys.executable, "-m", "winpool", "run",
        "--kubeconfig", str(testbed.kubeconfig("winpool")), "--host", HOST, "--leader-elect",
        "--kubelet-ca-file", str(testbed.kubelet_ca_file), "--kubelet-address-ranges", "127.0.0.0/8", *more,
    ]  # fmt: skip


def announce(testbed: Testbed, url: str) -> None:
    """Write the operator's address on its Lease: ``kubectl winpool memory`` finds it there, without a Pod."""
    place = ("-n", NAMESPACE)
    testbed.kubectl("wait", "--for=create", f"lease/{LEASE}", *place, f"--timeout={START_SECONDS:.0f}s")
    testbed.kubectl("annotate", f"lease/{LEASE}", *place, f"{ADDRESS_ANNOTATION}={url}", "--overwrite")


def shell_words(command: list[str]) -> str:
    """Write a command as a person types it: ``python`` for the interpreter, paths from here."""
    words = ["python" if word == sys.executable else word for word in command]
    here = f"{Path.cwd()}{os.sep}"
    return shlex.join(word.removeprefix(here) for word in words)


def served(operator: Component, *, begin: int = 0) -> str:
    """Return the URL that the operator serves, once its log names the port, from byte ``begin`` on.

    Raises TestbedError where it ends instead, or does not listen in time.
    """
    wait_until(
        lambda: _bound(operator, begin) is not None,
        what="the operator to serve its metrics",
        timeout_seconds=START_SECONDS,
        explain=lambda: f"; the end of its log:\n{tail(operator.status.log)}",
    )
    return f"http://{HOST}:{_bound(operator, begin)}"


def _bound(operator: Component, begin: int) -> int | None:
    status = operator.status
    if status.state is ComponentState.EXITED:
        raise TestbedError(f"the operator ended ({status.exit}); the end of its log:\n{tail(status.log)}")
    text = status.log.read_bytes()[begin:].decode(errors="replace") if status.log.exists() else ""
    found = re.findall(r"serving on port (\d+)", text)
    return int(found[-1]) if found else None
