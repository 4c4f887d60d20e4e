"""How often an operator that runs looks for garbage."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import gc
from winpool import start
from winpool.__main__ import main

async def run(settings):
    print(gc.get_threshold(), gc.get_freeze_count() > 10_000)
    return 0

start.run = run
raise SystemExit(main(["run"]))
"""


@pytest.mark.slow
def test_it_looks_rarely_and_never_in_what_was_imported() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == "(20000, 20, 20) True\n"
