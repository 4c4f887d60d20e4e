"""``make breaks``: break each promise in a copy of the repository, and see its test fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PASSED, FAILED = 0, 1
"""Exit codes of pytest: anything but FAILED (a syntax error, no such test) is no proof."""


@dataclass(frozen=True, slots=True)
class Break:
    """A patch, what it breaks, and the test that has to notice."""

    patch: Path
    promise: str
    what: str
    test: str


def read(patch: Path) -> Break:
    """Read the head of a patch."""
    head = dict(re.findall(r"^(Promise|Break|Test): (.+)$", patch.read_text(), re.MULTILINE))
    return Break(patch, head["Promise"], head["Break"], head["Test"])


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


def run(tests: list[str], *, copy: Path) -> tuple[int, str]:
    """Run tests in the copy; return pytest's exit code and what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": f"{copy / 'operator'}{os.pathsep}{copy / 'tests'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def apply(patch: Path, *, copy: Path, reverse: bool = False) -> None:
    """Apply a patch to the copy, or take it back."""
    command = ["git", "apply", "--unsafe-paths", f"--directory={copy}", *(["--reverse"] if reverse else [])]
    subprocess.run([*command, str(patch)], cwd="/", check=True)


def main() -> int:
    """Run all breaks; return 1 where a test did not notice, or fails without a break."""
    breaks = [read(patch) for patch in sorted(Path(__file__).parent.glob("*.patch"))]
    wanted = sys.argv[1:]
    breaks = [each for each in breaks if not wanted or any(word in each.patch.name for word in wanted)]
    if not breaks:
        print(f"no break has {' or '.join(wanted)} in the name of its file", file=sys.stderr)
        return 2
    unnoticed = 0
    with tempfile.TemporaryDirectory(prefix="winpool-breaks-") as directory:
        copy = Path(directory)
        copy_repository(copy)
        code, output = run(sorted({each.test for each in breaks}), copy=copy)
        print(f"without a break: {'passed' if code == PASSED else output}", flush=True)
        if code != PASSED:
            return 1
        for each in breaks:
            apply(each.patch, copy=copy)
            code, output = run([each.test], copy=copy)
            apply(each.patch, copy=copy, reverse=True)
            noticed = code == FAILED
            unnoticed += not noticed
            print(f"{'noticed  ' if noticed else 'UNNOTICED'} {each.promise}: {each.what}", flush=True)
            if not noticed:
                print(output)
    print(f"{len(breaks) - unnoticed} passed, {unnoticed} failed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
