"""Programs of the bench that run as processes of their own, so that what they cost is their own."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from bench.errors import BenchError
from testbed.errors import tail
from testbed.process import start_bound

Result = dict[str, Any]


def finish(work: Coroutine[Any, Any, Mapping[str, object]]) -> int:
    """Do the work of such a program and print its result as the last line; return the exit code.

    A BenchError is said in one line on stderr, and makes the code 1.
    """
    try:
        result = asyncio.run(work)
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


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
