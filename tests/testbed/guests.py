"""``python -m testbed.guests``: simulated Windows nodes in a cluster of yours, until Ctrl-C.

No machine is behind them. They speak through ``kubectl proxy`` with your credentials, and impersonate their
kubelets, which needs the right to impersonate ``system:node:…`` and ``system:nodes`` (cluster-admin has it).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from testbed.errors import TestbedError
from testbed.process import LAUNCHER
from testbed.waiting import wait_until

SIMULATED: Final = "winsim/simulated"
"""The label of these nodes, and the key of their taints: nothing else has it."""
TAINTS: Final = (f"{SIMULATED}=true:NoSchedule", f"{SIMULATED}=true:NoExecute")
MOST_NODES: Final = 20
"""Enough to see what winpool does. More would be a load test of someone's control plane."""
PROXY_SECONDS: Final = 30.0
"""For kubectl to listen, which takes a moment; the rest is for an exec plugin that logs in."""
INTERRUPTED: Final = 130

WARNING: Final = """\
This adds {count} simulated Windows nodes to the cluster {server} of the context {context}: {names}.
- No machine is behind them. Each has the taints {key}:NoSchedule and {key}:NoExecute, so only pods
  that tolerate every taint are scheduled there, as those of some DaemonSets. Such a pod is reported as
  Running, and runs nowhere.
- All that counts nodes sees them: autoscalers, quotas, bills by node. The controller of a cloud may delete
  them.
- winpool cannot poll their kubelets, which have no endpoint: the memory of these nodes stays unknown.
Use a cluster that no one depends on."""


class Kubectl:
    """The person's kubectl, with the flags that choose the cluster."""

    def __init__(self, flags: Sequence[str]) -> None:
        self._command = ("kubectl", *flags)

    def run(self, *arguments: str) -> str:
        """Return what it prints. Raises TestbedError with what it says where it fails."""
        try:
            done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, check=False)
        except OSError as error:
            raise TestbedError(f"kubectl cannot be started: {error.strerror}") from None
        if done.returncode != 0:
            raise TestbedError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes of the cluster. Raises TestbedError as ``run`` does."""
        found: list[dict[str, Any]] = json.loads(self.run("get", "nodes", "-o", "json"))["items"]
        return found

    def can(self, verb: str, what: str) -> bool:
        """Whether the person may do that."""
        command = [*self._command, "auth", "can-i", "--quiet", verb, what]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    @contextlib.contextmanager
    def proxy(self) -> Iterator[Path]:
        """Yield the socket of a ``kubectl proxy``. It is in a directory of ours, so that only we reach it."""
        with tempfile.TemporaryDirectory(prefix="winpool-guests-") as directory:
            socket = Path(directory) / "proxy.sock"
            command = bound(*self._command, "proxy", f"--unix-socket={socket}")
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, process_group=0) as process:
                try:
                    wait_until(
                        lambda: socket.exists() or process.poll() is not None,
                        what="kubectl proxy",
                        timeout_seconds=PROXY_SECONDS,
                    )
                    if process.poll() is not None:
                        raise TestbedError("kubectl proxy has ended")
                    yield socket
                finally:
                    process.terminate()


def join(kubectl: Kubectl, *, count: int, prefix: str, labels: Sequence[str], sure: bool) -> int:
    """Have the nodes join, keep them until Ctrl-C, and delete them; return the exit code.

    Raises TestbedError where a Node of such a name exists, a right is missing, or the person did not agree.
    """
    names = [f"{prefix}-w{number:02}" for number in range(1, count + 1)]
    refuse_others(names, kubectl.nodes())
    for whom in ("groups/system:nodes", f"users/system:node:{names[0]}"):
        if not kubectl.can("impersonate", whom):
            raise TestbedError(f"you may not impersonate {whom} in this cluster; cluster-admin may")
    config = json.loads(kubectl.run("config", "view", "--minify", "-o", "json"))
    said = WARNING.format(
        count=count,
        server=config["clusters"][0]["cluster"]["server"],
        context=config["current-context"],
        names=", ".join(names),
        key=SIMULATED,
    )
    print(said, flush=True)
    if not sure and input("Continue? Type yes: ") != "yes":
        raise TestbedError("nothing was changed")
    refuse_others(names, kubectl.nodes())  # while the person read, another may have had nodes join
    with kubectl.proxy() as socket:
        command = [
            *bound(sys.executable, "-m", "testbed.winsim", "--server=http://localhost"),
            *(f"--kubectl-proxy={socket}", f"--windows={count}", "--linux=0", f"--prefix={prefix}"),
            *(f"--label={label}" for label in (f"{SIMULATED}=true", *labels)),
            *(f"--taint={taint}" for taint in TAINTS),
            "--delete-on-exit",
        ]
        # In a group of its own: it gets Ctrl-C from us, once, and deletes the nodes before the proxy ends.
        with subprocess.Popen(command, process_group=0) as process:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: process.terminate())
            return process.wait()


def bound(*argv: str) -> list[str]:
    """Return the command line of a program that dies with this process, whatever kills that."""
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), argv[0], *argv]


def refuse_others(names: Sequence[str], nodes: Sequence[dict[str, Any]]) -> None:
    """Raise TestbedError where one of the names is that of a node, simulated or not."""
    known = {node["metadata"]["name"] for node in nodes}
    if taken := sorted(known & set(names)):
        raise TestbedError(
            f"the cluster has nodes of these names: {', '.join(taken)}. Choose another --prefix, or remove "
            "simulated nodes that were left with: python -m testbed.guests leave"
        )


def leave(kubectl: Kubectl) -> int:
    """Delete all simulated nodes, whoever left them; return the exit code."""
    print(kubectl.run("delete", "nodes", "-l", f"{SIMULATED}=true").strip() or "there are none")
    return 0


def parser() -> argparse.ArgumentParser:
    """Both commands and their options."""
    root = argparse.ArgumentParser(prog="python -m testbed.guests", description=__doc__)
    commands = root.add_subparsers(required=True, dest="command", metavar="COMMAND")
    cluster = argparse.ArgumentParser(add_help=False)
    cluster.add_argument("--kubeconfig", metavar="FILE", help="kubeconfig (default: as kubectl)")
    cluster.add_argument("--context", metavar="NAME", help="context of the kubeconfig (default: as kubectl)")
    joining = commands.add_parser("join", parents=[cluster], help="have nodes join until Ctrl-C")
    joining.add_argument("--windows", type=_count, default=3, metavar="N", help="nodes (default 3)")
    joining.add_argument("--prefix", default="simulated", help="beginning of their names (default simulated)")
    joining.add_argument(
        "--label", action="append", default=[], metavar="KEY=VALUE", help="a label; may be repeated"
    )
    joining.add_argument("--yes", action="store_true", help="do not ask after the warning")
    commands.add_parser("leave", parents=[cluster], help="delete all simulated nodes that were left")
    return root


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= MOST_NODES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of nodes from 1 to {MOST_NODES}")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    given = parser().parse_args(arguments)
    chosen = {"kubeconfig": given.kubeconfig, "context": given.context}
    kubectl = Kubectl([f"--{flag}={value}" for flag, value in chosen.items() if value is not None])
    try:
        if given.command == "leave":
            return leave(kubectl)
        return join(kubectl, count=given.windows, prefix=given.prefix, labels=given.label, sure=given.yes)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, EOFError):
        print("\nnothing was changed", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
