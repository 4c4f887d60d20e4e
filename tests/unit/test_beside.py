"""What ``make test`` runs at once: all of it runs to its end, and one target that failed fails the whole."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from beside import FAILED, main
from harness.documents import ROOT

MAKE = """\
#!/bin/sh
# The second argument is the target. What waits goes on once all that runs beside it has ended.
case $2 in
  waits) until test -e {folder}/last; do sleep 0.01; done; echo "3 passed in 1.00s";;
  fails) echo "1 failed in 1.00s"; exit 2;;
  last) echo "5 passed in 1.00s, nice $(nice)"; touch {folder}/last;;
esac
"""


@pytest.fixture
def make(tmp_path: Path) -> str:
    """Return a command that stands in for make."""
    path = tmp_path / "make"
    path.write_text(MAKE.format(folder=tmp_path))
    path.chmod(0o755)
    return str(path)


def test_both_run_at_once_and_after_one_that_failed_the_rest_runs(
    make: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logs = tmp_path / "results"
    code = main(["--make", make, "--logs", str(logs), "waits", "--beside", "fails", "last"])
    assert code == FAILED
    out = capfd.readouterr().out
    first, *rest = re.findall(r"^=== (.*) in \d+ s$", out, re.MULTILINE)
    assert (first, sorted(rest)) == ("fails: FAILED (exit 2)", ["last: passed", "waits: passed"])
    first, *rest = re.findall(r"^\d \w+ in 1\.00s", out, re.MULTILINE)
    assert (first, sorted(rest)) == ("1 failed in 1.00s", ["3 passed in 1.00s", "5 passed in 1.00s"])
    assert f"nice {min(19, os.nice(0) + 10)}" in out
    assert (logs / "fails.log").read_text() == "1 failed in 1.00s\n"
    assert out.splitlines()[-3].startswith("fails: FAILED (exit 2) in ")


def test_where_all_passed_it_passes(make: str, tmp_path: Path) -> None:
    assert main(["--make", make, "--logs", str(tmp_path), "waits", "--beside", "last"]) == 0


def test_make_test_runs_all_that_make_check_runs() -> None:
    rules = dict(
        re.findall(r"^([a-z-]+):[^\n]*\n\t(.*(?:\n\t.*)*)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    assert {"test-cluster", "test-unit", "test-alerts"} <= set(rules["test"].split())
    checked = {each for each in rules["check"].split() if each.startswith("check-")}
    assert checked - set(rules["test"].split()) == {"check-unit"}
