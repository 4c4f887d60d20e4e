"""How a testbed ends, in good order or not: nothing of it may be left, and nothing else may be touched."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from cluster.processes import GUARD_SECONDS, NAMES, processes_of, wait_for_none_of
from testbed.cli import main
from testbed.cluster import Testbed
from testbed.errors import TestbedError
from testbed.paths import Layout
from testbed.state import State
from testbed.waiting import wait_until


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a testbed whose supervisor was killed."""
    directory = tmp_path_factory.mktemp("crashed")
    with Testbed.up(directory=directory, windows=1) as testbed:
        before = len(processes_of(directory))
        os.kill(testbed.supervisor_pid, signal.SIGKILL)
        wait_for_none_of(directory)
        assert before == len(NAMES) + 2  # the supervisor and the simulated nodes
        with pytest.raises(TestbedError, match="does not answer"):
            testbed.components()
    return directory


def test_nothing_outlives_a_killed_supervisor(crashed: Path) -> None:
    assert processes_of(crashed) == []
    with pytest.raises(TestbedError, match="no testbed runs in"):
        Testbed.attach(crashed)


@pytest.mark.nightly
def test_a_testbed_from_the_shell_stays_until_down(crashed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["--dir", str(crashed)]
    run = [sys.executable, "-m", "testbed"]
    up = [*run, "up", *place, "--windows", "0", "--linux", "0"]
    subprocess.run(up, check=True, capture_output=True)
    try:
        assert main(["status", *place]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in NAMES)
        assert main(["up", *place]) == 1
        assert "runs in" in capsys.readouterr().err
        shell = f'eval "$({sys.executable} -m testbed env --dir {crashed})" && kubectl get nodes -o name'
        assert subprocess.run(["bash", "-c", shell], check=True, capture_output=True).stdout == b""
        kubectl = [*run, "kubectl", *place, "--", "get", "--raw", "/no-such-path"]
        assert subprocess.run(kubectl, check=False, capture_output=True).returncode == 1
        Testbed.attach(crashed).component("scheduler").kill()
        assert main(["status", *place]) == 1
        assert "SIGKILL" in capsys.readouterr().out
    finally:
        assert main(["down", *place]) == 0
    wait_for_none_of(crashed)
    assert main(["status", *place]) == 1


def started_children(directory: Path) -> list[str]:
    """What the supervisor of a directory has started so far."""
    state = State.read(Layout(directory))
    if state is None:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        return [name for child in psutil.Process(state.pid).children() for name in child.cmdline()[:1]]
    return []


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15), (signal.SIGKILL, -9)]
)
def test_nothing_is_left_of_a_start_that_was_broken_off(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    command = [sys.executable, "-m", "testbed", "up", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as starting:
        wait_until(
            lambda: "etcd" in started_children(tmp_path),
            what="etcd to start",
            timeout_seconds=GUARD_SECONDS,
        )
        starting.send_signal(number)
        starting.communicate(timeout=GUARD_SECONDS)
    assert starting.returncode == code
    wait_for_none_of(tmp_path)
