"""``make up`` and ``make down``: a cluster with Windows nodes and the operator, left running to play with."""

from __future__ import annotations

import os
import re
import shlex
import socket
import sys
from pathlib import Path

from demo.narrator import operator_command
from testbed.cluster import Testbed
from testbed.component import Component
from testbed.control import ComponentState
from testbed.errors import TestbedError, tail
from testbed.paths import Layout
from testbed.process import find
from testbed.progress import Report
from testbed.state import State
from testbed.waiting import wait_until
from winpool.settings import Settings

OPERATOR = "operator"
HOST = "127.0.0.1"
START_SECONDS = 60.0
"""For the operator to listen, which takes two seconds on a machine that does nothing else."""


def attached(directory: Path) -> Testbed | None:
    """Return the testbed that runs in a directory; None where none does."""
    state = State.read(Layout(directory.absolute()))
    if state is None or find(state.pid, started=state.start_time) is None:
        return None
    return Testbed.attach(directory)


def furnish(testbed: Testbed, *, report: Report) -> None:
    """Label the nodes for the sample, have the operator run, and say how to use both."""
    testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22", "--overwrite")
    port = _start_operator(testbed)
    report("the operator runs with its own ServiceAccount and default settings (see docs/operator.md)")
    report(f"metrics: http://{HOST}:{port}/metrics")
    report("\nrun this in your shell:\n")
    for line in exports(testbed):
        report(line)
    report(
        "\nthen try: kubectl apply -f deploy/samples/win-2022.yaml && kubectl winpool status -w\n"
        "stop everything with: make down"
    )


def exports(testbed: Testbed) -> list[str]:
    """Return the lines that make kubectl and ``kubectl winpool`` work in a shell."""
    kubectl = testbed.environment["PATH"].partition(os.pathsep)[0]
    # kubectl finds the plugin by its name, kubectl-winpool, which is installed beside the interpreter.
    folders = f"{kubectl}{os.pathsep}{Path(sys.executable).parent}"
    return [
        f"export KUBECONFIG={shlex.quote(testbed.environment['KUBECONFIG'])}",
        f'export PATH={shlex.quote(folders)}:"$PATH"',
    ]


def _start_operator(testbed: Testbed) -> int:
    """Have the operator run; return the port of its metrics."""
    known = next((each for each in testbed.components() if each.name == OPERATOR), None)
    begin = 0
    if known is None:
        testbed.run(OPERATOR, operator_command(testbed, "--port", str(_port())))
    elif known.state is ComponentState.EXITED:
        begin = known.log.stat().st_size if known.log.exists() else 0
        testbed.component(OPERATOR).start()
    operator = testbed.component(OPERATOR)
    wait_until(
        lambda: _bound(operator, begin) is not None,
        what="the operator to serve its metrics",
        timeout_seconds=START_SECONDS,
        explain=lambda: f"; the end of its log:\n{tail(operator.status.log)}",
    )
    return _bound(operator, begin) or 0


def _bound(operator: Component, begin: int) -> int | None:
    """Return the port that the operator says it serves on, in its log from byte ``begin`` on."""
    status = operator.status
    if status.state is ComponentState.EXITED:
        raise TestbedError(f"the operator ended ({status.exit}); the end of its log:\n{tail(status.log)}")
    text = status.log.read_bytes()[begin:].decode(errors="replace") if status.log.exists() else ""
    found = re.findall(r"serving on port (\d+)", text)
    return int(found[-1]) if found else None


def _port() -> int:
    """Return the operator's default port, or 0, which takes any, where another program has that."""
    default = int(Settings.model_fields["port"].default)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, default))
        except OSError:
            return 0
    return default
