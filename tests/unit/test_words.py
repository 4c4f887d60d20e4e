"""Plain words: the phrases that CONTRIBUTING bans, over the pages and over the messages in the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

import winpool
from harness.documents import ROOT

SOURCE: Final = Path(winpool.__file__).parent

BANNED: Final = {
    r"\b(take|takes|took|taken|taking)( \w+){0,3} off\b": "remove",
    r"\b(come|comes|came|coming) off\b": "is removed",
    r"\b(hold|holds|held|holding)( \w+){0,3} back\b": "reserve (memory), hold (a taint)",
    r"\bputs? (on|back|there)\b": "add, restore, set",
    r"\b(stands?|stood|standing) (there|on|in)\b": "is on, is in, has",
    r"\b(tells|told|telling)\b": "report, say",
    r"\banew\b": "again, new; recreate",
    r"\b(see|sees|seen) to\b": "check, fix",
    r"\b(go|goes|gone|going|went) on\b": "continue",
    r"\b(look|looks|looked) at\b|\ba look\b": "list, read, check",
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\b(nobody|somebody|whoever)\b": "no one, someone, anyone who; or name the actor",
    r"\bmostly\b": "usually",
    r"\ball the same\b": "anyway, still",
    r"\bfor want of\b": "because … is missing",
    r"(?m)(?:^|(?<=[.:] ))Else\b": "Otherwise",
    r"\bMind (?:that|the)\b": "Note",
    r"\bthe house\b": "the code, the project",
    r"\bManual care\b": "there is no such thing: name the field and its value",
}
"""What is not written, as a pattern, and what to say instead. A pattern with a capital minds capitals."""

PAGES: Final = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "runbooks").glob("*.md")),
    *sorted((ROOT / "deploy" / "samples").rglob("*.yaml")),
]

MESSAGES: Final = [
    path
    for place in (
        "report",
        "contract",
        "cli",
        "api/events.py",
        "api/condition_table.py",
        "api/issues.py",
    )
    for path in (sorted((SOURCE / place).glob("*.py")) if (SOURCE / place).is_dir() else [SOURCE / place])
]
"""Modules with sentences that people read: messages, events, the meanings of reasons, the texts of verbs."""

TO_DO: Final = frozenset(
    {
        "api/condition_table.py",
        "api/issues.py",
        "cli/kubelet_files.py",
        "cli/kubelet_settings.py",
        "contract/progress.py",
        "contract/validate.py",
        "report/blind.py",
        "report/conditions.py",
        "report/deletions.py",
        "report/lost_keys.py",
        "report/node_events.py",
        "report/node_findings.py",
        "report/progress.py",
    }
)
"""Modules whose messages are still to be rewritten. One that is clean leaves the set; none joins it."""


def banned_in(text: str) -> Iterator[str]:
    """Yield each banned phrase of a text, with what to say instead."""
    for pattern, instead in BANNED.items():
        has_capital = re.search("[A-Z]", pattern) is not None
        for found in re.finditer(pattern, text, re.NOFLAG if has_capital else re.IGNORECASE):
            yield f"{found[0]!r}: say {instead}"


def prose_of(text: str) -> str:
    """Return a page without code, commands and quoted messages: what stands between backticks or fences."""
    without_blocks = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`]*`", "", without_blocks)


def new_changes() -> str:
    """Return the section of the changelog that is not released yet."""
    text = (ROOT / "CHANGELOG.md").read_text()
    return text.partition("## Unreleased")[2].partition("\n## ")[0]


def messages_of(path: Path) -> Iterator[str]:
    """Yield the texts in a module that have a space in them, without its docstrings."""
    tree = ast.parse(path.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_plain_words(page: Path) -> None:
    assert list(banned_in(prose_of(page.read_text()))) == []


def test_the_new_changes_have_plain_words() -> None:
    assert list(banned_in(prose_of(new_changes()))) == []


@pytest.mark.parametrize("path", MESSAGES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_messages_have_plain_words_or_are_still_to_do(path: Path) -> None:
    found = [each for message in messages_of(path) for each in banned_in(message)]
    if path.relative_to(SOURCE).as_posix() in TO_DO:
        assert found, f"it is clean: remove it from TO_DO in {Path(__file__).name}"
    else:
        assert found == []


def test_what_is_to_do_is_there() -> None:
    assert not TO_DO - {path.relative_to(SOURCE).as_posix() for path in MESSAGES}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("the pool takes its labels off", 1),
        ("the taint is held back", 1),
        ("Nobody knows.", 1),
        ("Else it waits. Nothing else happens.", 1),
        ("the flag is not `taken off` here", 0),
        ("```\ntaken off\n```\n", 0),
        ("the operator removes the taint", 0),
    ],
)
def test_a_banned_phrase_is_found(text: str, found: int) -> None:
    assert len(list(banned_in(prose_of(text)))) == found
