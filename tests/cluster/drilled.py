"""Plays the drill of ``docs/drill.md``: types all that stands there, and compares what is printed.

Run as a program by ``test_drill.py``, inside a private network namespace, where the API server asks kubelets.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from harness.documents import DRILL, ROOT
from harness.waiting import eventually

MOST_COMMANDS: Final = 3
"""Of a node, until its cause is named."""

GUARD_SECONDS: Final = 90.0
"""Against waiting for ever; every outcome here comes within some seconds."""

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_AGE: Final = re.compile(r"\b(?:\d+[dhms])+\b")
_CUT: Final = "…"


class Step(NamedTuple):
    """A command, and what it has to print at last; None: it has to work."""

    command: str
    prints: str | None = None


def steps_of(section: str) -> Iterator[Step]:
    """Yield the commands of a section: ``sh`` alone, ``console`` with the plain block that follows."""
    command = ""
    for kind, body in _BLOCK.findall(section):
        if kind == "sh":
            yield from map(Step, body.splitlines())
        elif kind == "console":
            (command,) = body.splitlines()
        elif command:
            yield Step(command, body)
            command = ""
    assert not command, f"nothing follows {command}"


def sections_of(page: str) -> dict[str, list[Step]]:
    """Return the steps of each section by its heading."""
    _, *parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    return {name: list(steps_of(body)) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def plain(text: str) -> str:
    """Return a text without what differs from run to run: ages, and how lines and columns are laid out."""
    return " ".join(_AGE.sub("1s", text).split())


def has_all(printed: str, wanted: str) -> bool:
    """Whether all that is wanted was printed, in this order; anything may stand where it was cut."""
    parts = [re.escape(part) for each in wanted.split(_CUT) if (part := plain(each))]
    return re.search(".*?".join(parts), plain(printed)) is not None


@dataclass(frozen=True, slots=True)
class Shell:
    """Where commands are typed: ``exports`` are the lines that ``make up`` prints for it."""

    directory: Path
    exports: tuple[str, ...]

    def type(self, step: Step) -> bool:
        """Type a command; it has to print what the page says, or to work."""
        done = subprocess.run(
            ["bash", "-c", "\n".join((*self.exports, step.command))],
            cwd=self.directory,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        said = f"$ {step.command}\n{done.stdout}"
        if step.prints is None:
            assert done.returncode == 0, said
        else:
            assert has_all(done.stdout, step.prints), said
        return True

    def play(self, name: str, steps: Sequence[Step]) -> None:
        """Type a section. What a broken node shows may take seconds, and so may its repair."""
        asked = [step for step in steps if step.prints is not None]
        assert len(asked) <= MOST_COMMANDS, name
        for step in steps:
            if step.prints is None:
                self.type(step)
            else:
                eventually(partial(self.type, step), what=step.command, seconds=GUARD_SECONDS)
        print(f"{name}: after {len(asked)} of {MOST_COMMANDS}", flush=True)


def main(directory: Path) -> None:
    """Start a cluster in the directory, as ``make up`` does; play all sections, and end it."""
    demo = [sys.executable, "-m", "demo"]
    place = ["--dir", str(directory / ".testbed")]
    for folder in ("demo", "deploy"):
        (directory / folder).symlink_to(ROOT / folder)
    started = subprocess.run([*demo, "up", *place], stdout=subprocess.PIPE, text=True, check=True)
    exports = tuple(line for line in started.stdout.splitlines() if line.startswith("export "))
    try:
        for name, steps in sections_of((ROOT / DRILL).read_text()).items():
            Shell(directory, exports).play(name, steps)
    finally:
        subprocess.run([*demo, "down", *place], check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
