"""The page on troubleshooting is about what there is: every STATE has its row, every quote is in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

import winpool
from harness.documents import ROOT
from harness.every import every
from harness.sources import tree_of
from winpool.api.conditions import STATES

PAGE: Final = (ROOT / "docs" / "troubleshooting.md").read_text()
BY_KUBECTL: Final = {"ensure CRDs are installed first"}
"""Quoted messages that are not ours."""


def rows_of(heading: str) -> list[str]:
    """Return the first cell of each row of the tables under a heading."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return [row[1] for row in re.finditer(r"^\| (.*?) \|", section, re.MULTILINE) if "`" in row[1]]


@cache
def texts() -> frozenset[str]:
    """Return every text in the source, with `…` for what differs."""
    return frozenset(_texts())


def _texts() -> Iterator[str]:
    for path in Path(winpool.__file__).parent.rglob("*.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.JoinedStr):
                parts = (each.value if isinstance(each, ast.Constant) else "…" for each in node.values)
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield re.sub(r"\{\w*\}", "…", node.value)


QUOTES: Final = sorted({quote for row in rows_of("By message") for quote in re.findall(r"`([^`]+)`", row)})


def test_every_state_has_its_row() -> None:
    states = [state.strip("`") for state in rows_of("By STATE")]
    assert states
    assert len(set(states)) == len(states)
    assert not set(STATES) - set(states)


def test_messages_are_quoted() -> None:
    assert len(QUOTES) > 15


@pytest.mark.slow
@every("quote", QUOTES)
def test_a_quoted_message_is_in_the_code(quote: str) -> None:
    assert quote in BY_KUBECTL or any(quote in text for text in texts())
