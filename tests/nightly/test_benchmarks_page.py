"""The commands of the page on benchmarks: each brings up a cluster of its own and measures for minutes."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

from harness.documents import NIGHTLY, ROOT, documents, outside_make

COMMANDS = [command for document in documents() if document.path in NIGHTLY for command in document.commands]


@pytest.mark.timeout(900)  # a try takes one to three minutes on two cores; the guard is for one that hangs
@pytest.mark.parametrize("command", COMMANDS)
def test_the_bench_runs_as_the_page_says_and_ends(command: str) -> None:
    done = subprocess.run(
        ["bash", "-ec", command],
        cwd=ROOT,
        env=outside_make(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    said = f"$ {command}\n{done.stdout}{done.stderr}"
    if missed := re.search(r"^missed: (.+)$", done.stderr, re.MULTILINE):
        pytest.fail(f"missed: {missed[1]}\n{said}")
    assert done.returncode == 0, said
    assert json.loads(done.stdout.splitlines()[-1]), said
