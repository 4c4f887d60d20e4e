"""The page on security: each statement names a test, and each test that it names exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from harness.documents import ROOT
from harness.every import every
from harness.sources import tree_of

PAGE: Final = (ROOT / "docs" / "security.md").read_text()
NAMED: Final = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
ATTACKERS: Final = ("node", "pool editor", "scraper", "pod owner")


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    found = tree_of(ROOT / file).body
    functions = (each for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


def statements() -> list[str]:
    """Return the entries of the lists above what is not shown yet."""
    shown = PAGE.partition("\n## Not shown yet\n")[0]
    return re.findall(r"^- .*(?:\n  .*)*", shown, re.MULTILINE)


@every(("file", "name"), NAMED, ids=lambda text: text.rpartition("/")[2])
def test_a_test_that_the_page_names_exists(file: str, name: str) -> None:
    assert name in names_in(file)


def test_every_statement_names_a_test() -> None:
    assert len(statements()) > 30
    assert not [each for each in statements() if "::test_" not in each]


def test_every_mention_of_a_test_is_read() -> None:
    assert PAGE.count("::") - PAGE.count("`file::test`") == len(re.findall(r"`tests/[\w/]+\.py::\w+`", PAGE))


def test_every_attacker_has_what_it_can_and_what_it_cannot_do() -> None:
    found = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    sections: dict[str, str] = dict(found)
    for heading in (
        *(f"Hostile {who}" for who in ATTACKERS),
        *("Stolen operator token", "Holder of rights to the Lease"),
    ):
        assert "### What it cannot do\n" in sections[heading]
        assert "### What it can do\n" in sections[heading]
    assert "- " in sections["Not shown yet"]
