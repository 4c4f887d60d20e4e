"""``make explore``: property tests, quiet worlds and rollouts from a random seed, and the largest clusters.

The seed is printed, and ``make explore SEED=…`` takes it again. What failed is kept in ``.explore/``: the
output, and the examples in Hypothesis' own database, which the next run tries first.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
KEPT: Final = ROOT / ".explore"
SEEDS: Final = 2**31
"""pytest-randomly takes no more than 32 bits; the worlds count up from there."""
WORLDS: Final = 100_000
"""A hundred times those of ``make test``."""
WORLDS_PER_ROLLOUT: Final = 10
"""Each of these has two hundred passes: 10,000 of them take half an hour."""
PODS: Final = 150_000
"""Of the largest clusters; ``make test`` lists a tenth of them."""
TEST_TIMEOUT_SECONDS: Final = 3600
"""Guard: ten times the examples, and the slowest property takes a minute for its own on a busy machine."""
PASSED: Final = 0


@dataclass(frozen=True, slots=True)
class Run:
    """A run of pytest, and what it is called in the name of its log."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def runs(seed: int, *, worlds: int) -> list[Run]:
    """Return what is run from a seed."""
    return [
        Run(
            "properties",
            (
                "-m",
                "hypothesis",
                f"--hypothesis-seed={seed}",
                f"--randomly-seed={seed}",
                f"--timeout={TEST_TIMEOUT_SECONDS}",
                "tests/unit",
            ),
            {"HYPOTHESIS_PROFILE": "explore"},
        ),
        Run(
            "worlds",
            (f"--randomly-seed={seed}", "tests/unit/controllers/test_quiet_worlds.py"),
            {"WINPOOL_WORLDS": str(worlds), "WINPOOL_FIRST_WORLD": str(seed)},
        ),
        Run(
            "rollouts",
            (f"--randomly-seed={seed}", "tests/unit/upgrade/test_rollout_properties.py"),
            {"WINPOOL_ROLLOUTS": str(worlds // WORLDS_PER_ROLLOUT), "WINPOOL_FIRST_WORLD": str(seed)},
        ),
        Run(
            "sizes",
            (
                f"--randomly-seed={seed}",
                "tests/unit/contract/test_survey.py",
                "tests/unit/kube/test_node_texts.py",
            ),
            {"WINPOOL_PODS": str(PODS)},
        ),
    ]


def main(
    arguments: Sequence[str] | None = None,
    *,
    kept: Path = KEPT,
    run: Callable[[Run, Path], int] | None = None,
) -> int:
    """Explore; return 1 where something failed."""
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument(
        "--seed", type=_seed, default=None, help="one that was printed; default: a random one"
    )
    parser.add_argument("--worlds", type=int, default=WORLDS, help="how many worlds (default %(default)s)")
    given = parser.parse_args(arguments)
    seed = secrets.randbelow(SEEDS) if given.seed is None else given.seed
    print(f"seed {seed}; again by: make explore SEED={seed}", flush=True)
    kept.mkdir(exist_ok=True)
    failed = []
    for each in runs(seed, worlds=given.worlds):
        log = kept / f"{each.name}-seed-{seed}.log"
        if (run or _pytest)(each, log) == PASSED:
            log.unlink(missing_ok=True)
        else:
            failed.append(log)
    older = sorted(set(kept.glob("*-seed-*.log")) - set(failed))
    for word, logs in (("kept", failed), ("kept earlier", older)):
        for log in logs:
            print(f"{word}: {log} (make explore SEED={log.stem.rpartition('-')[2]})")
    print(f"seed {seed}: {f'{len(failed)} failed' if failed else 'nothing found'}")
    return 1 if failed else 0


def _seed(text: str) -> int | None:
    """Read what a variable of make gives, where not set is an empty text."""
    if not text:
        return None
    if not text.isdecimal() or int(text) >= SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number below {SEEDS}")
    return int(text)


def _pytest(each: Run, log: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *each.arguments]
    with (
        log.open("w") as output,
        subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **each.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            output.write(line)
    return process.returncode


if __name__ == "__main__":
    sys.exit(main())
