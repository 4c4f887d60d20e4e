"""How often an operator that runs looks for garbage."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import gc, runpy, sys
from winpool import app

async def run(settings):
    print(gc.get_threshold(), gc.get_freeze_count() > 10_000, gc.isenabled())
    return 0

app.run = run
sys.argv[1:] = ["run"]
runpy.run_module("winpool", run_name="__main__", alter_sys=True)
"""


@pytest.mark.slow
def test_it_looks_rarely_and_never_in_what_was_imported() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == "(20000, 20, 20) True True\n"
