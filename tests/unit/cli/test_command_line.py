"""The plugin as a program: help, version, and what it loads."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

import pytest

from winpool import __version__
from winpool.cli.__main__ import main

if TYPE_CHECKING:
    from unit.cli.conftest import Plugin


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("-h",), *((verb, "--help") for verb in ("check", "join-config", "matrix", "validate"))],
)
def test_help_fits_a_terminal_and_names_the_program_as_it_is_called(
    plugin: Plugin, arguments: tuple[str, ...]
) -> None:
    ended = plugin(*arguments)
    assert (ended.code, ended.err) == (0, [])
    assert ended.out[0].startswith("usage: kubectl winpool ")
    assert max(map(len, ended.out)) <= 80
    assert ("examples:" in ended.out) is (len(arguments) == 2)


def test_the_version_is_that_of_the_package(plugin: Plugin) -> None:
    assert plugin("--version").out == [f"kubectl winpool {__version__}"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "VERB"),
        (("judge",), "invalid choice: 'judge'"),
        (("validate",), "-f/--filename"),
        (("validate", "pool.yaml"), "-f/--filename"),
        (("validate", "-f", "x", "--serv"), "unrecognized arguments: --serv"),
    ],
)
def test_a_command_line_without_sense_ends_with_2(
    plugin: Plugin, arguments: tuple[str, ...], word: str
) -> None:
    ended = plugin(*arguments)
    assert (ended.code, ended.out) == (2, [])
    assert word in ended.err[-1]


def test_kubectl_finds_it_by_its_name() -> None:
    """Plugins are programs on the PATH whose names begin with ``kubectl-``."""
    (script,) = [each for each in entry_points(group="console_scripts") if each.name == "kubectl-winpool"]
    assert script.load() is main


@pytest.mark.parametrize("arguments", [["validate", "-f", "-"], ["check", "-f", "-", "--host-build", "2022"]])
def test_offline_nothing_is_loaded_that_could_reach_a_cluster(arguments: list[str]) -> None:
    program = (
        "import sys\n"
        "from winpool.cli.__main__ import main\n"
        f"code = main({arguments})\n"
        "assert code == 1, code\n"
        "sys.exit(len({'aiohttp', 'kopf', 'kubernetes', 'asyncio'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input="", text=True, timeout=60, check=False)
    assert done.returncode == 0


def test_a_reader_that_goes_away_gets_no_traceback() -> None:
    text = "kind: WindowsNodePool\n---\n" * 20_000
    command = [sys.executable, "-m", "winpool.cli", "validate", "-f", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.write(text)
        process.stdin.close()
        assert process.stderr.read() == ""
        assert process.wait(timeout=60) == 1
