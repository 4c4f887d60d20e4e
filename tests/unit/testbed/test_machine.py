"""What a machine lacks is said in a sentence; what CI lacks is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.documents import ROOT, outside_make
from testbed import cli, machine
from testbed.errors import TestbedError

SAID = "the kernel forbids it"


def reason(
    environment: Mapping[str, str] | None = None, *, may_always: bool = False, refused: bool = True
) -> str | None:
    return machine.reason_to_skip(
        may_always=may_always, environment=environment or {}, refusal=lambda: SAID if refused else None
    )


def test_where_the_kernel_forbids_a_namespace_the_tests_of_it_are_skipped_with_its_sentence() -> None:
    assert reason() == f"{SAID} (WINPOOL_DEMAND_NETNS=1 makes this a failure)"


@pytest.mark.parametrize("environment", [{"WINPOOL_DEMAND_NETNS": "1"}, {"CI": "true"}, {"CI": "1"}])
def test_ci_demands_them(environment: dict[str, str]) -> None:
    assert reason(environment) is None


@pytest.mark.parametrize(
    "environment", [{"CI": ""}, {"CI": "false"}, {"WINPOOL_DEMAND_NETNS": "0", "CI": "true"}]
)
def test_a_ci_that_cannot_have_one_may_say_so(environment: dict[str, str]) -> None:
    assert reason(environment) is not None


def test_who_has_the_capability_skips_nothing_whatever_is_set() -> None:
    assert reason({"WINPOOL_DEMAND_NETNS": "0"}, may_always=True) is None


def test_where_there_is_one_they_run() -> None:
    assert reason(refused=False) is None


def test_a_typing_error_in_the_demand_is_told() -> None:
    with pytest.raises(TestbedError, match="WINPOOL_DEMAND_NETNS is 'yes'; it may be 1 or 0"):
        reason({"WINPOOL_DEMAND_NETNS": "yes"})


@pytest.mark.parametrize(
    ("capabilities", "may"),
    [("000001ffffffffff", True), ("0000000000200000", True), ("00000000a80425fb", False), ("0", False)],
    ids=["root", "SYS_ADMIN alone", "root in a Docker container", "nobody"],
)
def test_the_capability_is_read_from_the_status_of_the_process(
    tmp_path: Path, capabilities: str, *, may: bool
) -> None:
    file = tmp_path / "status"
    file.write_text(f"Name:\tpython\nCapPrm:\t000001ffffffffff\nCapEff:\t{capabilities}\nCapBnd:\t0\n")
    assert machine.may_enter_namespaces(file) is may


def test_another_system_is_refused_with_what_to_do() -> None:
    machine.require_linux("Linux")
    with pytest.raises(TestbedError, match=r"Linux only, and this is Darwin.*devcontainer"):
        machine.require_linux("Darwin")


@pytest.mark.parametrize("command", ["build", "status"])
def test_every_command_refuses_it_first(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    assert cli.main([command]) == 1
    assert "testbed: the testbed runs on Linux only" in capsys.readouterr().err


def made(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Return what our Makefile says with these arguments, and with other programs first on the path."""
    make = shutil.which("make")
    assert make is not None
    environment = outside_make(os.environ)
    if path is not None:
        environment["PATH"] = f"{path}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [make, "--no-print-directory", *arguments, "help"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_a_make_that_is_too_old_is_refused_with_what_to_do() -> None:
    assert made().returncode == 0
    done = made(".FEATURES=target-specific order-only", "MAKE_VERSION=3.81")  # as Apple's says of itself
    assert done.returncode == 2
    assert "winpool needs GNU make 4 or newer, and this is 3.81" in done.stderr


def test_make_on_another_system_is_refused_with_what_to_do(tmp_path: Path) -> None:
    uname = tmp_path / "uname"
    uname.write_text("#!/bin/sh\necho Darwin\n")
    uname.chmod(0o755)
    done = made(path=str(tmp_path))
    assert done.returncode == 2
    assert "winpool is built and tested on Linux, and this is Darwin" in done.stderr
