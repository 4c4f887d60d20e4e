"""Runs a program of the bench as a process of its own, so that what it costs is its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from testbed.errors import tail
from testbed.process import start_bound

Result = dict[str, Any]


def run_tool(module: str, *arguments: str, directory: Path, seconds: float) -> Result:
    """Run ``python -m module`` to its end and return the JSON object of its last line.

    It dies with this process. Raises BenchError where it fails or takes longer than ``seconds``.
    """
    log = directory / f"{module}.log"
    log.unlink(missing_ok=True)
    process = start_bound(
        [sys.executable, "-m", module, *arguments], environment=os.environ, log=log, cwd=directory
    )
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise BenchError(f"{module} did not end within {seconds:.0f} s:\n{tail(log)}") from None
    finally:
        process.kill()
        process.wait()
    if code != 0:
        raise BenchError(f"{module} ended with exit code {code}:\n{tail(log)}")
    result: Result = json.loads(log.read_text().splitlines()[-1])
    return result
