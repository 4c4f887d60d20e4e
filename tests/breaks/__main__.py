"""``make breaks``: break each promise in a copy of the repository, and see its test fail."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from breaks.edits import Break, broken, read_all

ROOT = Path(__file__).parents[2]
PASSED, FAILED = 0, 1
"""Exit codes of pytest: anything but FAILED (a syntax error, no such test) is no proof."""


def copy_repository(to: Path) -> None:
    """Copy what git tracks, and what it would track, as it stands in the working tree."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        source = ROOT / name
        if source.is_file():
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)


def run(tests: list[str], *, copy: Path, workers: int = 0) -> tuple[int, str]:
    """Run tests in the copy, by so many workers; return pytest's exit code and what it printed."""
    beside = ["-n", str(workers), "--dist", "loadgroup"] if workers else []
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *beside, *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy / 'operator'}{os.pathsep}{copy / 'tests'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def try_out(each: Break, *, directory: Path) -> tuple[bool, str]:
    """Break a copy of its own; return whether the test noticed, and what it printed."""
    copy = directory / each.name
    copy_repository(copy)
    for path, text in broken(copy, each.edits).items():
        path.write_text(text)
    code, output = run([each.test], copy=copy)
    shutil.rmtree(copy)
    return code == FAILED, output


def main() -> int:
    """Run all breaks; return 1 where a test did not notice, or fails without a break."""
    parser = argparse.ArgumentParser(prog="make breaks", description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="how many tests run at once")
    parser.add_argument(
        "words", nargs="*", help="breaks with one of these in the name of their file; default: all"
    )
    given = parser.parse_args()
    breaks = [
        each for each in read_all() if not given.words or any(word in each.name for word in given.words)
    ]
    if not breaks:
        print(f"no break has {' or '.join(given.words)} in the name of its file", file=sys.stderr)
        return 2
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="winpool-breaks-") as name:
        directory = Path(name)
        unbroken = directory / "unbroken"
        copy_repository(unbroken)
        code, output = run(sorted({each.test for each in breaks}), copy=unbroken, workers=given.workers)
        print(f"without a break: {'passed' if code == PASSED else output}", flush=True)
        if code != PASSED:
            return 1
        with ThreadPoolExecutor(given.workers) as pool:
            tried = pool.map(lambda each: try_out(each, directory=directory), breaks)
            for each, (noticed, output) in zip(breaks, tried, strict=True):
                unnoticed += not noticed
                print(f"{'noticed  ' if noticed else 'UNNOTICED'} {each.promise}: {each.what}", flush=True)
                if not noticed:
                    print(output)
    print(f"{len(breaks) - unnoticed} passed, {unnoticed} failed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
