"""Tests that share what is made once run on one worker: where xdist does not group, it says nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CASES = 8


@pytest.mark.slow
@pytest.mark.timeout(120)  # three Python processes, on a machine that may be busy
def test_one_worker_runs_all_tests_of_a_group(tmp_path: Path) -> None:
    (tmp_path / "test_group.py").write_text(
        "import os, pathlib, pytest\n"
        "pytestmark = pytest.mark.xdist_group('one')\n"
        f"@pytest.mark.parametrize('case', range({CASES}))\n"
        "def test(case):\n"
        "    pathlib.Path(f'{case}.worker').write_text(os.environ['PYTEST_XDIST_WORKER'])\n",
        encoding="utf-8",
    )
    options = ["-q", "-n", "2", "--dist", "loadgroup", "-c", "/dev/null", "--rootdir", "."]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=tmp_path,
        env=environment,
        check=True,
        capture_output=True,
        timeout=100,
    )
    workers = [path.read_text(encoding="utf-8") for path in tmp_path.glob("*.worker")]
    assert len(workers) == CASES
    assert len(set(workers)) == 1, "the tests of one group were spread: see docs/dependencies.md on pytest"
