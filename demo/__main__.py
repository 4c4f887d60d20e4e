"""``python -m demo`` tells the story and ends; ``up`` and ``down`` leave a cluster to play with."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from demo.narrator import ROOT, StepFailedError
from demo.playground import furnish
from demo.story import tell
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.options import Options
from testbed.patience import patiently
from testbed.progress import Report
from testbed.started import Started

WINDOWS, LINUX = 12, 2
DIRECTORY = Path(".testbed")
"""Where ``up`` keeps everything, if nobody says where."""

INTERRUPTED = 130
"""What a shell reports for a command that Ctrl-C ended; the Makefile takes it for a good end."""

_AFTER_INTERRUPT = {
    "up": "interrupted: nothing is left running; run make up to start again",
    "down": "interrupted: something may still run; run make down to stop it",
    None: "interrupted: nothing is left running; run make demo to start again",
}


def _report(text: str) -> None:
    print(text, flush=True)


def _start(
    directory: Path, *, die_with_parent: bool, report: Report, options: Options | None = None
) -> Testbed:
    return Testbed.up(
        directory=directory,
        apply=[ROOT / "demo" / "installation"],
        windows=WINDOWS,
        linux=LINUX,
        die_with_parent=die_with_parent,
        options=options,
        report=report,
    )


def demo() -> None:
    """Tell the story on a cluster of its own, and leave nothing."""
    with tempfile.TemporaryDirectory(prefix="winpool-demo-") as directory:
        with patiently(_report) as voice:
            testbed = _start(Path(directory), die_with_parent=True, report=voice.say)
        with testbed:
            tell(testbed)
        _report("\nThe cluster is stopped; nothing is left running.")


def up(chosen: Path | None) -> None:
    """Leave a cluster with nodes and the operator running; one that runs already goes on.

    Raises TestbedError where no directory was chosen, and one runs elsewhere.
    """
    directory = chosen or DIRECTORY
    with patiently(_report) as voice:
        if (found := Started.at(directory)) is not None:
            if not found.has_files:
                raise TestbedError(
                    f"the files of the cluster in {directory} are gone: run make down to stop it"
                )
            voice.say(f"a cluster already runs in {directory}; run make down to stop it")
            furnish(Testbed.attach(directory), report=voice.say)
            return
        if chosen is None and (others := Started.running()):
            raise TestbedError(
                f"a cluster of make up already runs in {places(others)}: run make down to stop it, or "
                "make up DEMO_DIR=… to start another one beside it"
            )
        # So that the memory of all nodes can be watched.
        options = Options(kubelet_endpoints=True)
        testbed = _start(directory, die_with_parent=False, report=voice.say, options=options)
        try:
            if started := Started.at(directory):
                started.note()
            furnish(testbed, report=voice.say)
        except BaseException:
            testbed.down()
            raise


def down(chosen: Path | None) -> None:
    """End what ``up`` left in the directory that was chosen; if none was, in the usual one or wherever it is.

    Raises TestbedError where several run elsewhere.
    """
    here = Started.at(chosen or DIRECTORY)
    others = [] if chosen or here else Started.running()
    if len(others) > 1:
        raise TestbedError(
            f"clusters of make up run in {places(others)}: name one of these with make down DEMO_DIR=…"
        )
    found = here or next(iter(others), None)
    if found is None:
        where = f"no cluster runs in {chosen}" if chosen else "no cluster of make up runs"
        _report(f"{where}; run make up to start one")
        return
    found.end()
    _report(f"the cluster in {found.directory} and its operator are stopped; run make up to start them again")


def places(clusters: Sequence[Started]) -> str:
    """Name the directories of clusters."""
    return ", ".join(str(each.directory) for each in clusters)


def main() -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("command", nargs="?", choices=("up", "down"))
    parser.add_argument(
        "--dir",
        type=Path,
        help=f"where `up` keeps everything (default {DIRECTORY}); `down` finds by itself what runs",
    )
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
