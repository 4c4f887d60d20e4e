"""``make up`` and ``make down``: a cluster with Windows nodes and the operator, left running to play with."""

from __future__ import annotations

import os
import shlex
import socket
import sys
from pathlib import Path

from demo import operating
from demo.machines import add_batch_nodes
from testbed.cluster import Testbed
from testbed.control import ComponentState
from testbed.progress import Report
from winpool.settings import Settings

_LEAK = (
    "kubectl apply -f deploy/samples/memory-evict.yaml -f demo/batch.yaml && "
    "kubectl patch deployment worker --patch-file demo/leak.yaml"
)


def furnish(testbed: Testbed, *, report: Report) -> None:
    """Label the nodes for the samples, have the operator run, and say how to use both."""
    report("starting the operator")
    windows = ("-l", "kubernetes.io/os=windows,agentpool!=batch")
    testbed.kubectl("label", "nodes", *windows, "agentpool=win22", "--overwrite")
    add_batch_nodes(testbed)
    url = _start_operator(testbed)
    operating.announce(testbed, url)
    report("the operator runs with its own ServiceAccount (its settings: docs/operator/run.md)")
    report(f"metrics: {url}/metrics")
    report("\nrun this in your shell:\n")
    for line in exports(testbed):
        report(line)
    report(
        "\nthen try: kubectl apply -f deploy/samples/win-2022.yaml && kubectl winpool status -w\n"
        f"or watch a leak: {_LEAK} && kubectl winpool memory -w\n"
        f"stop everything with: make down DEMO_DIR={testbed.directory}"
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


def _start_operator(testbed: Testbed) -> str:
    """Have the operator run; return the URL that it serves."""
    known = next((each for each in testbed.components() if each.name == operating.NAME), None)
    begin = 0
    if known is None:
        command = operating.command(testbed, "--port", str(_port()), *operating.QUICK_POLLS)
        testbed.run(operating.NAME, command)
    elif known.state is ComponentState.EXITED:
        begin = known.log.stat().st_size if known.log.exists() else 0
        testbed.component(operating.NAME).start()
    return operating.served(testbed.component(operating.NAME), begin=begin)


def _port() -> int:
    """Return the operator's default port, or 0, which takes any, where another program has that."""
    default = int(Settings.model_fields["port"].default)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((operating.HOST, default))
        except OSError:
            return 0
    return default
