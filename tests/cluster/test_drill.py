"""The drill of ``docs/drill.md``: five broken nodes, and the commands that name each cause."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.documents import ROOT


@pytest.mark.nightly
@pytest.mark.usefixtures("private_network")
def test_the_page_names_each_cause_in_three_commands_and_heals_all(tmp_path: Path) -> None:
    inside = [sys.executable, "-m", "testbed", "exec", "--netns", "--", sys.executable]
    folders = [str(ROOT), str(ROOT / "tests"), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [*inside, "-m", "cluster.drilled", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "win-w05: connections reach the wrong pod: after 1 of 3" in done.stdout
