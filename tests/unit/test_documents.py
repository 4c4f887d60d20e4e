"""Pages hang together: links lead somewhere, and what the house rules promise is on a page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from harness.documents import (
    MAY_BE_SILENT,
    NEVER_RUN_HERE,
    ROOT,
    anchored_links_of,
    anchors_of,
    documents,
    links_of,
)
from harness.every import every
from testbed.pins import all_pins, minor_of

PAGES = [
    ROOT / "README.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

MOST_WORDS: Final = 2500
"""What a person reads in ten minutes, and still finds something in."""

REFERENCES: Final = {"adr", "reference"}
"""Folders whose pages someone looks something up in, and does not read."""


@every("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    missing = [target for target in links_of(page.read_text()) if not (page.parent / target).exists()]
    assert not missing


@every("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_leads_to_a_heading(page: Path) -> None:
    text = page.read_text()
    missing = [
        f"{target}#{anchor}"
        for target, anchor in anchored_links_of(text)
        if anchor
        and (not target or target.endswith(".md"))
        and anchor not in anchors_of((page.parent / target).read_text() if target else text)
    ]
    assert not missing


def test_no_page_that_is_read_is_long() -> None:
    words = {page: len(page.read_text().split()) for page in PAGES if page.parent.name not in REFERENCES}
    long = {str(page.relative_to(ROOT)): count for page, count in words.items() if count > MOST_WORDS}
    assert not long, (
        f"split by what a reader wants to do, or move what is looked up into docs/reference: {long}"
    )


def test_the_readme_says_first_what_works_and_what_does_not() -> None:
    text = (ROOT / "README.md").read_text().partition("\n## ")[0]
    assert 0 < text.find("\n**What works today**") < text.find("\n**What does not**")


def test_every_direct_dependency_has_its_line() -> None:
    text = (ROOT / "docs" / "dependencies.md").read_text().lower()
    named = [
        line.strip().strip('",').partition("==")[0].lower()
        for pyproject in ("pyproject.toml", "tests/testbed/pyproject.toml")
        for line in (ROOT / pyproject).read_text().splitlines()
        if line.startswith('  "') and "==" in line
    ]
    assert named
    assert not [name for name in named if name not in text]


def test_lock_files_have_hashes_and_no_index() -> None:
    for lock in (ROOT / "requirements").glob("*.txt"):
        lines = lock.read_text().splitlines()
        pins = [line for line in lines if "==" in line and not line.startswith(" ")]
        assert pins
        assert all(line.endswith("\\") for line in pins), "a pin without a hash"
        assert not [line for line in lines if "://" in line or line.startswith("--index")]


def test_the_commands_of_the_readme_are_found() -> None:
    found = {document.path: document.commands for document in documents()}
    assert "make demo" in found["README.md"]
    assert "kubectl get wnp" in found["README.md"]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_people_are_told_of_the_tests_of_the_night(page: str) -> None:
    assert "`make nightly`" in (ROOT / page).read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/README.md"])
def test_where_any_vendor_is_named_it_says_what_is_not_proven(page: str) -> None:
    _, named, after = (ROOT / page).read_text().partition("any vendor's cluster")
    assert named
    assert "No real Windows kubelet has met it yet" in after[:80]


@pytest.mark.parametrize("page", ["README.md", "docs/README.md", "docs/getting-started.md"])
def test_the_kubernetes_that_a_page_names_is_what_the_tests_run_on(page: str) -> None:
    """The oldest one by night, the newest one always."""
    minors = [minor_of(pins.kubernetes) for pins in all_pins()]
    ends = [min(minors, key=_order), max(minors, key=_order)]
    assert len(minors) == 2, "one that is neither the oldest nor the newest"
    assert re.findall(r"\bKubernetes (1\.\d+) to (1\.\d+)", (ROOT / page).read_text()) == [tuple(ends)]


def _order(minor: str) -> tuple[int, ...]:
    return tuple(int(number) for number in minor.split("."))


def test_what_may_be_silent_is_on_a_page() -> None:
    typed = {command for document in documents() for command in document.commands}
    assert not MAY_BE_SILENT.keys() - typed


def test_what_is_never_run_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in PAGES)
    assert not [command for command in NEVER_RUN_HERE if command not in pages]


def test_every_decision_is_in_the_index() -> None:
    folder = ROOT / "docs" / "adr"
    index = (folder / "README.md").read_text()
    pages = sorted(page.name for page in folder.glob("0*.md"))
    assert pages
    assert not [page for page in pages if f"({page})" not in index]
