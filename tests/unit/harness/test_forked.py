"""Operators of tests are forked: what each has of its own, and when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from harness.forked import Forked
from harness.waiting import eventually

pytestmark = pytest.mark.slow

STARTS = """
import os, sys
from pathlib import Path
from harness.forked import Forked
process = Forked("winpool.__main__", ["run"], environment=dict(os.environ), output=Path(sys.argv[1]))
Path(sys.argv[2]).write_text(str(process.pid))
os._exit(0)
"""
"""Dies as a process does that is killed: nothing is cleaned up."""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """What an operator needs to stay: an address at which nobody listens."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        "{current-context: x, contexts: [{name: x, context: {cluster: c, user: u}}],"
        " clusters: [{name: c, cluster: {server: 'https://127.0.0.1:9'}}],"
        " users: [{name: u, user: {token: t}}]}"
    )
    return {"WINPOOL_KUBECONFIG": str(kubeconfig), "WINPOOL_HOST": "127.0.0.1", "WINPOOL_PORT": "0"}


@pytest.mark.timeout(120)  # it imports the operator, on a machine that may be busy
def test_it_has_arguments_output_and_an_exit_code_of_its_own(tmp_path: Path) -> None:
    output = tmp_path / "output"
    said = {
        name: Forked("winpool.__main__", [name], environment={}, output=output).wait(60)
        for name in ("version", "nonsense")
    }
    assert said == {"version": 0, "nonsense": 2}
    lines = output.read_text().splitlines()
    assert lines[0].startswith("winpool ")
    assert any("nonsense" in line for line in lines[1:])


@pytest.mark.timeout(120)
def test_each_thread_that_asks_is_told_the_same_exit_code(tmp_path: Path) -> None:
    process = Forked("winpool.__main__", ["nonsense"], environment={}, output=tmp_path / "output")

    def ask(_: int) -> int:
        while (code := process.poll()) is None:
            pass
        return code

    with ThreadPoolExecutor(max_workers=16) as threads:
        assert set(threads.map(ask, range(16))) == {2}
    assert process.wait(1) == 2


@pytest.mark.timeout(120)
def test_it_can_be_killed(tmp_path: Path, environment: dict[str, str]) -> None:
    output = tmp_path / "output"
    output.touch()
    process = Forked("winpool.__main__", ["run"], environment=environment, output=output)
    eventually(lambda: "serving on port" in output.read_text(), what="it runs")
    assert process.poll() is None
    process.kill()
    assert process.wait(10) == -signal.SIGKILL


@pytest.mark.timeout(120)
def test_it_ends_with_the_process_that_runs_the_tests_however_that_ends(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    output, pid = tmp_path / "output", tmp_path / "pid"
    subprocess.run(
        [sys.executable, "-c", STARTS, str(output), str(pid)],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
    )
    eventually(lambda: not psutil.pid_exists(int(pid.read_text())), what="the operator gone")
