"""The pages on security: each statement has a name and tests by that name, and each of these tests exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from gen.security_tests import FILE, TEXT, render, shown_by, statements
from harness.documents import ROOT
from harness.every import every
from harness.sources import tree_of

TESTS: Final = shown_by()
NAMED: Final = sorted({test for tests in TESTS.values() for test in tests})
ATTACKERS: Final = ("node", "pool editor", "scraper", "pod owner")


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    found = tree_of(ROOT / file).body
    functions = (each for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(each.name for each in functions if each.name.startswith("test_"))


@every("test", NAMED, ids=lambda text: text.rpartition("/")[2])
def test_a_test_of_a_statement_exists(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in names_in(file)


def test_every_statement_has_a_name_of_its_own() -> None:
    shown = TEXT.partition("\n## Not shown yet\n")[0]
    named = [name for names in statements().values() for name in names]
    assert len(named) > 30
    assert len(named) == len(set(named)) == len(re.findall(r"^- ", shown, re.MULTILINE))


def test_every_statement_has_tests_and_no_test_is_of_a_statement_that_is_gone() -> None:
    assert TESTS.keys() == {name for names in statements().values() for name in names}
    assert all(TESTS.values())


def test_tests_are_named_in_one_place() -> None:
    assert "::" not in TEXT


def test_the_page_of_the_tests_is_as_generated() -> None:
    assert (ROOT / FILE).read_text(encoding="utf-8") == render(), "run: make generate"


def test_every_attacker_has_what_it_can_and_what_it_cannot_do() -> None:
    found = re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    sections: dict[str, str] = dict(found)
    for heading in (
        *(f"Hostile {who}" for who in ATTACKERS),
        *("Stolen operator token", "Holder of rights to the Lease"),
    ):
        assert "### What it cannot do\n" in sections[heading]
        assert "### What it can do\n" in sections[heading]
    assert "- " in sections["Not shown yet"]
