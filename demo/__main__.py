"""``python -m demo`` tells the story and ends; ``up`` and ``down`` leave a cluster to play with."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from demo.narrator import ROOT, StepFailedError
from demo.playground import attached, furnish
from demo.story import tell
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.options import Options

WINDOWS, LINUX = 12, 2

INTERRUPTED = 130
"""What a shell reports for a command that Ctrl-C ended; the Makefile takes it for a good end."""

_AFTER_INTERRUPT = {
    "up": "interrupted: nothing is left running; run make up to start again",
    "down": "interrupted: something may still run; run make down to stop it",
    None: "interrupted: nothing is left running; run make demo to start again",
}


def _report(text: str) -> None:
    print(text, flush=True)


def _start(directory: Path, *, die_with_parent: bool, options: Options | None = None) -> Testbed:
    return Testbed.up(
        directory=directory,
        apply=[ROOT / "demo" / "installation"],
        windows=WINDOWS,
        linux=LINUX,
        die_with_parent=die_with_parent,
        options=options,
        report=_report,
    )


def demo() -> None:
    """Tell the story on a cluster of its own, and leave nothing."""
    with tempfile.TemporaryDirectory(prefix="winpool-demo-") as directory:
        with _start(Path(directory), die_with_parent=True) as testbed:
            tell(testbed)
        _report("\nThe cluster is stopped; nothing is left running.")


def up(directory: Path) -> None:
    """Leave a cluster with nodes and the operator running; one that runs already goes on."""
    running = attached(directory)
    if running is not None:
        _report(f"a cluster already runs in {directory}; run make down to stop it")
        furnish(running, report=_report)
        return
    # So that the memory of all nodes can be watched.
    options = Options(kubelet_endpoints=True)
    testbed = _start(directory, die_with_parent=False, options=options)
    try:
        furnish(testbed, report=_report)
    except BaseException:
        testbed.down()
        raise


def down(directory: Path) -> None:
    """End what ``up`` left, if it still runs."""
    running = attached(directory)
    if running is None:
        _report(f"no cluster runs in {directory}; run make up to start one")
        return
    running.down()
    _report("the cluster and the operator are stopped; run make up to start them again")


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
    except KeyboardInterrupt:
        print(f"\n{_AFTER_INTERRUPT[arguments.command]}", file=sys.stderr)
        return INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main())
