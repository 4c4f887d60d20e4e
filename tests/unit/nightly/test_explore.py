"""What explores chooses a seed, says it, takes it again, and keeps what failed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

from nightly.explore import KEPT, SEEDS, Run, main, runs


class Pytest:
    """Stands in for pytest: writes the log, and fails for the runs that were named."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing
        self.ran: list[Run] = []

    def __call__(self, run: Run, log: Path) -> int:
        self.ran.append(run)
        log.write_text("what was printed\n")
        return int(run.name in self.failing)


def test_a_seed_that_is_given_decides_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest_ = Pytest()
    assert main(["--seed", "4711", "--worlds", "50"], kept=tmp_path, run=pytest_) == 0
    assert pytest_.ran == runs(4711, worlds=50)
    said = [
        " ".join((*run.arguments, *(f"{k}={v}" for k, v in run.environment.items()))) for run in pytest_.ran
    ]
    assert "--hypothesis-seed=4711" in said[0]
    assert "HYPOTHESIS_PROFILE=explore" in said[0]
    assert "WINPOOL_WORLDS=50 WINPOOL_FIRST_WORLD=4711" in said[1]
    assert "WINPOOL_ROLLOUTS=5 WINPOOL_FIRST_WORLD=4711" in said[2]
    assert "WINPOOL_PODS=150000" in said[3]
    assert all("--randomly-seed=4711" in each for each in said)
    assert (
        capsys.readouterr().out == "seed 4711; again by: make explore SEED=4711\nseed 4711: nothing found\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_without_a_seed_it_is_another_each_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert main(["--seed", ""], kept=tmp_path, run=Pytest()) == 0
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert first.startswith("seed ")
    assert first != second


def test_what_failed_is_kept_and_named_and_the_rest_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "worlds-seed-3.log").write_text("of a night before")
    pytest_ = Pytest("properties")
    assert main(["--seed", "7"], kept=tmp_path, run=pytest_) == 1
    assert [run.name for run in pytest_.ran] == ["properties", "worlds", "rollouts", "sizes"]
    kept = tmp_path / "properties-seed-7.log"
    assert kept.read_text() == "what was printed\n"
    assert capsys.readouterr().out.splitlines()[1:] == [
        f"kept: {kept} (make explore SEED=7)",
        f"kept earlier: {tmp_path / 'worlds-seed-3.log'} (make explore SEED=3)",
        "seed 7: 1 failed",
    ]


def test_the_profile_looks_ten_times_as_hard_by_chance_and_remembers_what_failed() -> None:
    usual, exploring = settings.get_profile("ci"), settings.get_profile("explore")
    assert exploring.max_examples == 10 * usual.max_examples
    assert (usual.derandomize, exploring.derandomize) == (True, False)
    assert usual.database is None
    assert isinstance(exploring.database, DirectoryBasedExampleDatabase)
    assert exploring.database.path == KEPT / "examples"


@pytest.mark.parametrize("seed", ["x", "-1", str(SEEDS)])
def test_what_is_no_seed_is_refused(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([f"--seed={seed}"], kept=tmp_path, run=Pytest())
    assert "is not a whole number below" in capsys.readouterr().err
