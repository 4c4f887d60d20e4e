"""SIGTERM in the first seconds of the operator, while Python still imports its modules."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

import winpool

SOURCE: Final = Path(winpool.__file__).parents[1]
GUARD_SECONDS: Final = 120.0
"""A process that does not end would be waited for; one that ends needs no time."""

_AS_ROOT: Final = () if os.geteuid() == 0 else ("--user", "--map-root-user")
AS_FIRST: Final = ("unshare", *_AS_ROOT, "--pid", "--fork", "--kill-child")
"""Runs a command as the first process of a PID namespace, as in a container."""


@contextmanager
def importing(module: str, folder: Path, *, prefix: tuple[str, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run the operator, whose import of ``module`` does not end; return when it has begun."""
    stub = "import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(3600)\n"
    (folder / f"{module}.py").write_text(stub)
    with subprocess.Popen(
        [*prefix, sys.executable, "-m", "winpool", "run"],
        env={**os.environ, "PYTHONPATH": f"{folder}:{SOURCE}", "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("module", ["argparse", "pydantic"])
def test_it_ends_at_once_as_it_does_later(module: str, tmp_path: Path) -> None:
    with importing(module, tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"{process.pid}\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(GUARD_SECONDS) == 0


@pytest.mark.usefixtures("private_network")
def test_it_ends_at_once_as_the_first_process_of_a_container_too(tmp_path: Path) -> None:
    with importing("pydantic", tmp_path, prefix=AS_FIRST) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        (first,) = psutil.Process(process.pid).children()
        first.terminate()
        assert process.wait(GUARD_SECONDS) == 0


@pytest.mark.slow
@pytest.mark.usefixtures("private_network")
def test_without_a_handler_the_first_process_of_a_container_would_not_end(tmp_path: Path) -> None:
    """Or the test before would prove nothing."""
    program = "import time; print('begun', flush=True); time.sleep(3600)"
    with subprocess.Popen(
        [*AS_FIRST, sys.executable, "-c", program], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        (first,) = psutil.Process(process.pid).children()
        first.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        process.kill()
