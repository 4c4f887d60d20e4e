"""``python -m demo`` tells the story and ends; ``up`` and ``down`` leave a cluster to play with."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

from demo.narrator import ROOT, StepFailedError, operator_command
from demo.story import tell
from testbed.cluster import Testbed
from testbed.errors import TestbedError

WINDOWS, LINUX = 12, 2


def _report(text: str) -> None:
    print(text, flush=True)


def _start(directory: Path, *, die_with_parent: bool) -> Testbed:
    return Testbed.up(
        directory=directory,
        apply=[ROOT / "crds", ROOT / "deploy" / "base"],
        windows=WINDOWS,
        linux=LINUX,
        die_with_parent=die_with_parent,
        report=_report,
    )


def demo() -> None:
    """Tell the story on a cluster of its own, and leave nothing."""
    with tempfile.TemporaryDirectory(prefix="winpool-demo-") as directory:
        with _start(Path(directory), die_with_parent=True) as testbed:
            tell(testbed)
        _report("\nThe cluster is gone; nothing is left running.")


def up(directory: Path) -> None:
    """Leave a cluster with nodes and the operator running."""
    testbed = _start(directory, die_with_parent=False)
    testbed.kubectl("label", "nodes", "-l", "kubernetes.io/os=windows", "agentpool=win22")
    testbed.run("operator", operator_command(testbed))
    _report("the operator runs under its own ServiceAccount\n")
    for name in ("KUBECONFIG", "PATH"):
        _report(f"export {name}={shlex.quote(testbed.environment[name])}")
    _report(
        "\nnow try: kubectl apply -f deploy/samples/win-2022.yaml && kubectl get wnp; end with: make down"
    )


def down(directory: Path) -> None:
    """End what ``up`` left."""
    Testbed.attach(directory).down()
    _report("the cluster and the operator have ended")


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("up", "down"))
    parser.add_argument("--dir", type=Path, default=Path(".testbed"), help="where `up` keeps everything")
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "up":
                up(arguments.dir)
            case "down":
                down(arguments.dir)
            case _:
                demo()
    except (TestbedError, StepFailedError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
