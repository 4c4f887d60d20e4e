"""Plain words: the phrases that CONTRIBUTING bans, over the pages and over the messages in the code."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final

import pytest

import winpool
from harness.documents import ROOT
from harness.every import every
from harness.sources import tree_of
from winpool.api.crd import definition

SOURCE: Final = Path(winpool.__file__).parent

A_LOOK: Final = r"\b(look|looks|looked) at\b|\ba look\b"
"""Not banned in docstrings and comments: there, a look is a list of pods, as in the names of the code."""

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
    A_LOOK: "list, read, check",
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
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "security-insights.yml",
    *sorted(path for path in (ROOT / ".github").rglob("*") if path.suffix in {".md", ".yml"}),
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name not in {"adr", "reference"}),
    *sorted((ROOT / "docs" / "upgrades" / "examples").iterdir()),
    ROOT / "docs" / "reference" / "audit-of-public-manifests.md",
    ROOT / "docs" / "reference" / "flows.md",
    ROOT / "docs" / "reference" / "gates.md",
    ROOT / "docs" / "reference" / "node-rules.md",
    ROOT / "docs" / "reference" / "workload-rules.md",
    *sorted((ROOT / "deploy" / "samples").rglob("*.yaml")),
    *sorted((ROOT / "deploy" / "query-proxies").glob("*.yaml")),
    ROOT / "deploy" / "chart" / "values.yaml",
    ROOT / "deploy" / "chart" / "templates" / "NOTES.txt",
]

MODULES: Final = sorted(SOURCE.rglob("*.py"))
"""Their sentences are read by people: messages, events, the meanings of reasons, the texts of verbs, logs."""

OLD_MESSAGES: Final = (
    "is a request of others, which is taken off once served",
    "Nodes of the pool on which a taint of its spec is missing or",
    "Times that the API server had forgotten where the watch or",
    "What was told of a node and was older than what was known",
    "Nodes of the pool whose kubelet holds back another amount of",
)
"""Texts from before these rules, by their beginnings. A text that changes is one of the rules again."""

OLD_DOCSTRINGS: Final = {"api", "cli", "status"}
"""Packages with docstrings and comments from before these rules."""

PROGRAMS: Final = [*sorted((ROOT / "demo").glob("*.py")), *sorted((ROOT / "tests" / "testbed").rglob("*.py"))]
"""What `make up`, `make demo` and `python -m testbed` print."""

LOGS: Final = frozenset({"debug", "info", "warning", "error", "exception", "critical"})
"""The methods of a logger."""


def banned_in(text: str, *, permitted: Container[str] = ()) -> Iterator[str]:
    """Yield each banned phrase of a text, except the ``permitted`` ones, with what to say instead."""
    for pattern, instead in BANNED.items():
        if pattern in permitted:
            continue
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
    tree = tree_of(path)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or id(node) in docstrings:
            continue
        if isinstance(node.value, str) and " " in node.value:
            yield node.value


def texts_of(node: object) -> Iterator[str]:
    """Yield the descriptions and the messages of rules in a CustomResourceDefinition."""
    match node:
        case dict():
            for key, value in node.items():
                if key in {"description", "message", "messageExpression"} and isinstance(value, str):
                    yield value
                yield from texts_of(value)
        case list():
            for value in node:
                yield from texts_of(value)


def texts_in(node: ast.AST) -> Iterator[str]:
    """Yield all texts in a part of a module, those of f-strings too."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def log_messages_of(tree: ast.Module) -> Iterator[str]:
    """Yield the texts that a module logs: the messages, and what its outages are called and do meanwhile."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute):
            is_log = called.attr in LOGS and ast.unparse(called.value).endswith(("log", "logger"))
        else:
            is_log = isinstance(called, ast.Name) and called.id == "Outage"
        if is_log:
            yield from texts_in(node)


def docs_of(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a module, without the code in them (``…``)."""
    docs = [node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Expr)]
    with path.open("rb") as file:
        comments = [each.string for each in tokenize.tokenize(file.readline) if each.type == tokenize.COMMENT]
    for text in (
        *(each for doc in docs for each in texts_in(doc) if isinstance(doc, ast.Constant)),
        *comments,
    ):
        yield re.sub(r"``[^`]*``", "", text)


@every("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_has_plain_words(page: Path) -> None:
    assert list(banned_in(prose_of(page.read_text()))) == []


def test_the_new_changes_have_plain_words() -> None:
    assert list(banned_in(prose_of(new_changes()))) == []


@pytest.mark.slow
@every("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_messages_have_plain_words(path: Path) -> None:
    messages = [each for each in messages_of(path) if not each.strip().startswith(OLD_MESSAGES)]
    assert [each for message in messages for each in banned_in(message)] == []


@pytest.mark.slow
def test_an_old_message_is_there_and_has_such_a_word() -> None:
    found = [each for path in MODULES for each in messages_of(path) if each.strip().startswith(OLD_MESSAGES)]
    assert all(any(banned_in(each)) for each in found)
    assert not [old for old in OLD_MESSAGES if not any(each.strip().startswith(old) for each in found)]


@pytest.mark.slow
@every("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_programs_for_developers_have_plain_words(path: Path) -> None:
    assert [each for message in messages_of(path) for each in banned_in(message)] == []


def test_the_crd_has_plain_words() -> None:
    """Descriptions and the messages of rules, also those that come from docstrings."""
    said = list(texts_of(definition()))
    assert len(said) > 100
    assert [each for text in said for each in banned_in(text)] == []


@pytest.mark.slow
@every("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_log_messages_have_plain_words(path: Path) -> None:
    messages = log_messages_of(tree_of(path))
    assert [each for message in messages for each in banned_in(message)] == []


@pytest.mark.slow
@every(
    "path",
    [path for path in MODULES if path.relative_to(SOURCE).parts[0] not in OLD_DOCSTRINGS],
    ids=lambda path: str(path.relative_to(SOURCE)),
)
def test_docstrings_and_comments_have_plain_words(path: Path) -> None:
    assert [each for text in docs_of(path) for each in banned_in(text, permitted={A_LOOK})] == []


def test_log_messages_are_found() -> None:
    code = (
        'log.warning("nobody %s", x)\nself._logger.info(f"{a} anew")\nOutage("pods", meanwhile="told")\n"x"'
    )
    assert list(log_messages_of(ast.parse(code))) == ["nobody %s", " anew", "pods", "told"]


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
