"""Runs the plugin in this process, far from any cluster."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pytest

from winpool.cli.__main__ import main

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: exit code, and the lines that it printed."""

    code: int
    out: list[str]
    err: list[str]


class Plugin(Protocol):
    """Runs the plugin with these arguments; ``stdin`` is what is piped in."""

    def __call__(self, *arguments: str, stdin: str = "") -> Ended: ...


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Plugin:
    """Give the test a plugin that works in a folder of its own and finds no kubectl."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: str = "") -> Ended:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(str(end.code))
        printed = capsys.readouterr()
        return Ended(code, printed.out.splitlines(), printed.err.splitlines())

    return run
