"""``make test``: targets that wait for much of their time, and beside them those that need the cores."""

from __future__ import annotations

import argparse
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from nightly.__main__ import duration

ROOT: Final = Path(__file__).parents[1]
FAILED: Final = 1
INTERRUPTED: Final = 130
"""What a shell reports for a command that Ctrl-C ended."""
NICE: Final = ("nice", "-n", "10")
"""What runs beside takes the time of the cores that the others leave: those have deadlines."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a target ended."""

    target: str
    code: int
    seconds: float

    def __str__(self) -> str:
        """Say it as the line below its output."""
        verdict = "passed" if self.code == 0 else f"FAILED (exit {self.code})"
        return f"{self.target}: {verdict} in {duration(self.seconds)}"


class Runner:
    """Runs targets of make, and prints the output of each in one piece at its end."""

    def __init__(self, make: str, logs: Path) -> None:
        self._make = make.split()
        self._logs = logs
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self.ended: list[Ended] = []

    def run(self, targets: Sequence[str], *, before: Sequence[str] = ()) -> None:
        """Run targets one after the other, also after one that failed."""
        for target in targets:
            log = self._logs / f"{target}.log"
            began = time.monotonic()
            with self._started([*before, *self._make, "--no-print-directory", target], log) as process:
                code = process.wait()
            ended = Ended(target, code, time.monotonic() - began)
            with self._lock:
                self.ended.append(ended)
                print(f"{log.read_text(errors='replace')}=== {ended}", flush=True)

    @contextmanager
    def _started(self, command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        with log.open("wb") as output:
            process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        self._running.add(process)
        try:
            yield process
        finally:
            self._running.discard(process)

    def end(self) -> None:
        """End what still runs."""
        for process in list(self._running):
            process.terminate()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all targets; return 1 where one failed."""
    parser = argparse.ArgumentParser(prog="make test", description=__doc__)
    parser.add_argument("--make", default="make", help="the make to run the targets with")
    parser.add_argument("--logs", type=Path, default=Path(".results"), help="where the output is kept")
    parser.add_argument("targets", nargs="+", help="those that wait")
    parser.add_argument("--beside", nargs="+", required=True, help="those that run beside them")
    given = parser.parse_args(arguments)
    given.logs.mkdir(parents=True, exist_ok=True)
    runner = Runner(given.make, given.logs)
    lanes = [
        threading.Thread(target=runner.run, args=(given.targets,)),
        threading.Thread(target=runner.run, args=(given.beside,), kwargs={"before": NICE}),
    ]
    for lane in lanes:
        lane.start()
    try:
        for lane in lanes:
            lane.join()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        runner.end()
    print("\n".join(map(str, runner.ended)))
    return FAILED if any(each.code for each in runner.ended) else 0


if __name__ == "__main__":
    sys.exit(main())
