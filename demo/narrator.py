"""Prints each step: what happens, the command a person would type, and its real output."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from testbed.cluster import Testbed

ROOT = Path(__file__).parents[1]

PATIENCE_SECONDS = 60.0
"""How long a step may take on a machine that is busy with other things."""


class StepFailedError(Exception):
    """A command of the story did not do what the story says."""


class Narrator:
    """Tells a story about one testbed. Commands run in a shell of the repository's root, as for a person."""

    def __init__(self, testbed: Testbed) -> None:
        environment = {**os.environ, **testbed.environment}
        # kubectl finds the plugin, which is installed beside the interpreter.
        environment["PATH"] += f"{os.pathsep}{Path(sys.executable).parent}"
        self._environment = environment
        self._console = Console(highlight=False, soft_wrap=True)

    def chapter(self, title: str) -> None:
        """Begin a part of the story."""
        self._console.print(f"\n== {title}", style="bold")

    def say(self, text: str) -> None:
        """Say something between two commands."""
        self._console.print(f"   {text}", style="dim", markup=False)

    def run(self, command: str, *, refused: bool = False) -> str:
        """Print and run a command; return what it printed. ``refused``: it is expected to fail.

        Raises StepFailedError where it fails, or does not fail, against expectation.
        """
        self._print_command(command)
        done = self._execute(command)
        output = done.stdout.rstrip("\n")
        if output:
            self._console.print(output, markup=False)
        if (done.returncode != 0) != refused:
            self._fail(command, f"ended with exit code {done.returncode}")
        return output

    def quiet(self, command: str) -> str:
        """Run a command that only the story needs, and return what it printed."""
        return self._execute(command).stdout

    def wait(
        self, command: str, *, until: Callable[[str], bool], patience_seconds: float = PATIENCE_SECONDS
    ) -> str:
        """Run a command until its output is as wanted, and print both once; return the output."""
        deadline = time.monotonic() + patience_seconds
        while not until(output := self._execute(command).stdout.rstrip("\n")):
            if time.monotonic() > deadline:
                self._fail(command, f"did not show what was expected; the last it showed:\n{output}")
            time.sleep(0.1)
        self._print_command(command)
        self._console.print(output, markup=False)
        return output

    def _print_command(self, command: str) -> None:
        self._console.print(f"$ {command}", style="cyan", markup=False)

    def _execute(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            env=self._environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def _fail(self, command: str, what: str) -> NoReturn:
        raise StepFailedError(f"the command {command!r} {what}")
