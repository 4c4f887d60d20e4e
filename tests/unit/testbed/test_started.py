"""What ``make down`` finds of ``make up``: the clusters that were noted, and never another process."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.paths import CACHE_VARIABLE
from testbed.process import start_time
from testbed.started import Started

PAST = 1_000_000.0


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def process() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["sleep", "600"]) as sleeper:
        yield sleeper
        sleeper.kill()


def started(process: "subprocess.Popen[bytes]", directory: Path) -> Started:
    found = Started(directory=directory, pid=process.pid, start_time=start_time(process.pid))
    found.note()
    return found


def test_one_that_runs_is_found_from_anywhere_also_without_its_files(
    process: "subprocess.Popen[bytes]", tmp_path: Path
) -> None:
    noted = started(process, tmp_path / "gone")
    assert Started.running() == [noted]
    assert Started.at(tmp_path / "gone") == noted
    assert not noted.has_files
    assert Started.at(tmp_path) is None


def test_what_is_ended_ends_and_is_forgotten(process: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    noted = started(process, tmp_path)
    noted.end()
    assert not noted.runs
    assert Started.running() == []


def test_the_pid_of_another_process_is_no_cluster(process: "subprocess.Popen[bytes]", tmp_path: Path) -> None:
    old = Started(directory=tmp_path, pid=process.pid, start_time=PAST)
    old.note()
    assert Started.running() == []
    old.end()
    assert process.poll() is None


def test_what_another_version_has_noted_is_left_alone(tmp_path: Path) -> None:
    noted = tmp_path / "cache" / "up" / "1.json"
    noted.parent.mkdir(parents=True)
    noted.write_text("{}")
    assert Started.running() == []
    assert noted.exists()
