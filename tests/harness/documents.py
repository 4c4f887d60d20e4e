"""The commands in the documentation: fenced blocks marked ``console``, one command per line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

NEVER_RUN_HERE = ("make test",)
"""It is what runs this."""

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


NIGHTLY = ("docs/benchmarks.md",)
"""Pages whose commands measure for minutes: ``make nightly`` types them, ``make test`` does not."""


@dataclass(frozen=True, slots=True)
class Document:
    """A page with its commands, in order."""

    path: str
    commands: tuple[str, ...]


def documents() -> Iterator[Document]:
    """Yield every page that has commands a reader is to type."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        commands = tuple(commands_of(page.read_text()))
        if commands:
            yield Document(str(page.relative_to(ROOT)), commands)


def commands_of(text: str) -> Iterator[str]:
    """Yield the commands of a page: without trailing comments, and without what cannot run here."""
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            command = re.sub(r"\s+# .*$", "", line).strip()
            if command and command not in NEVER_RUN_HERE:
                yield command


def links_of(text: str) -> Iterator[str]:
    """Yield the relative links of a page; what stands in code is none."""
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`]*`", "", text)):
        if "://" not in target:
            yield target
