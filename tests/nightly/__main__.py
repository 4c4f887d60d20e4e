"""``make nightly``: what takes too long for each commit. Every part runs although one before it failed."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""What a shell reports for a command that Ctrl-C ended."""

PARTS: Final = {
    "crash": "test-crash",
    "breaks": "breaks",
    "memory": "test-memory",
    "newest": "test-newest",
    "oldest": "test-oldest",
    "explore": "explore",
    "benches": "test-benches",
    "pressure": "bench-pressure-nightly",
    "image": "test-image",
    "release": "test-release",
    "chart": "test-chart",
    "plugin": "test-plugin",
    "manifests": "lint-manifests",
    "sbom": "sbom",
    "docs": "test-docs",
}
"""The parts by name, each with the target of the Makefile that is it.

``audit`` is none: it needs the advisories of PyPI, and a part must pass on a machine that cannot read them.
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a part; ``code`` is its exit code, negative for a signal that ended it."""

    part: str
    code: int
    seconds: float
    last_line: str
    """The last that it printed: pytest counts there."""

    @property
    def verdict(self) -> str:
        """Say in a word how it ended."""
        if self.code == 0:
            return "passed"
        return f"FAILED (exit {self.code})" if self.code > 0 else f"FAILED (signal {-self.code})"


Runner = Callable[[Sequence[str]], tuple[int, str]]


def main(
    arguments: Sequence[str] | None = None,
    *,
    runner: Runner | None = None,
    monotonic: Callable[[], float] = time.monotonic,
) -> int:
    """Run the parts and print the table; return 1 where one failed."""
    parser = argparse.ArgumentParser(prog="make nightly", description=__doc__)
    parser.add_argument("--make", default="make", help="the make to run the parts with")
    parser.add_argument("parts", nargs="*", help=f"which of {', '.join(PARTS)}; all, where none is named")
    given = parser.parse_args(arguments)
    if unknown := [part for part in given.parts if part not in PARTS]:
        print(f"no part is called {', '.join(unknown)}; there are {', '.join(PARTS)}", file=sys.stderr)
        return USAGE
    outcomes: list[Outcome] = []
    try:
        for part in given.parts or PARTS:
            print(f"\n=== {part}: make {PARTS[part]}", flush=True)
            outcomes.append(_run(part, make=given.make, runner=runner or _echoed, monotonic=monotonic))
    except KeyboardInterrupt:
        print("\n".join(table(outcomes)))
        print("interrupted; the parts that are missing here were not run to their end", file=sys.stderr)
        return INTERRUPTED
    print("\n".join(("", *table(outcomes))))
    return FAILED if any(outcome.code for outcome in outcomes) else 0


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each part, below a head."""
    rows = [("PART", "OUTCOME", "DURATION", "LAST LINE")]
    rows += [(each.part, each.verdict, duration(each.seconds), each.last_line) for each in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [
        "  ".join(
            (*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3])
        ).rstrip()
        for row in rows
    ]


def duration(seconds: float) -> str:
    """Write seconds as people read them: ``45 s``, ``12 min 03 s``, ``1 h 02 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _run(part: str, *, make: str, runner: Runner, monotonic: Callable[[], float]) -> Outcome:
    began = monotonic()
    code, last_line = runner([*make.split(), "--no-print-directory", PARTS[part]])
    return Outcome(part, code, monotonic() - began, last_line)


def _echoed(command: Sequence[str]) -> tuple[int, str]:
    """Run a command, show what it prints as it comes; return its exit code and the last line of text."""
    last_line = ""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            # What make itself says of a failure (``make: *** …``) tells less than the line before it.
            if line.strip() and not line.startswith("make"):
                last_line = line.strip()
    return process.returncode, last_line


if __name__ == "__main__":
    sys.exit(main())
