"""What operator and plugin tell people to do can be done without a checkout of this repository."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

import winpool
from harness.documents import ROOT
from harness.every import every
from harness.sources import tree_of

OF_GENERATED_FILES = {"FILE", "HEADER", "COMMAND"}
"""Constants about files that ``make generate`` writes: nobody reads them on a cluster."""

KUSTOMIZE = re.compile(r"(?:apply|delete|diff) -k\b")
PAGE = re.compile(r'"([^"]+)"\s+in\s+the\s+docs')
"""How a text names a page, or a section of one. Its file may move, and a cluster has no docs folder."""

MODULES = sorted(Path(winpool.__file__).parent.rglob("*.py"))


def texts_of(path: Path) -> Iterator[str]:
    """Yield what a module may show to people, with {} for the values of f-strings."""
    tree = tree_of(path)
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in OF_GENERATED_FILES:
            skipped |= {id(each) for each in ast.walk(node)}
        elif isinstance(node, ast.JoinedStr) and id(node) not in skipped:
            skipped |= {id(each) for each in node.values}
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "{}" for each in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.value


def descriptions_of(node: object) -> Iterator[str]:
    """Yield what ``kubectl explain`` shows of a CRD, and the messages of its rules."""
    match node:
        case dict():
            for key, value in node.items():
                if key in {"description", "message", "messageExpression"} and isinstance(value, str):
                    yield value
                yield from descriptions_of(value)
        case list():
            for value in node:
                yield from descriptions_of(value)


def shown() -> Iterator[tuple[str, str]]:
    """Yield all texts, each with where it is from."""
    for path in MODULES:
        for text in texts_of(path):
            yield str(path.relative_to(ROOT)), text
    for crd in (ROOT / "crds").glob("*.winpool.dev.yaml"):
        for text in descriptions_of(yaml.safe_load(crd.read_text())):
            yield crd.name, text
    notes = ROOT / "deploy" / "chart" / "templates" / "NOTES.txt"
    yield notes.name, notes.read_text()


def paths_in(text: str) -> list[str]:
    """Return what of a text is a file or folder of the repository, or a kustomization to apply."""
    words = re.findall(r"[\w.-]+(?:/[\w.-]+)+", text)
    named = [word for word in words if (ROOT / word.rstrip(".")).exists()]
    return [*named, *KUSTOMIZE.findall(text)]


@every(
    ("text", "found"),
    [
        ("Apply deploy/operator/guard.yaml.", ["deploy/operator/guard.yaml."]),
        ("Read docs/guard.md, and apply it", ["docs/guard.md"]),
        ("kubectl apply -k crds", ["apply -k"]),
        ("kubectl winpool audit deploy/web", []),
        ("https://kubernetes.io/docs/concepts", []),
        ("kubectl apply -f guard.yaml", []),
    ],
)
def test_a_path_is_told_from_what_looks_like_one(text: str, found: list[str]) -> None:
    assert paths_in(text) == found


def test_no_text_for_people_names_a_path_of_the_repository() -> None:
    assert not [f"{where}: {found}" for where, text in shown() if (found := paths_in(text))]


def test_a_page_that_a_text_names_is_a_heading_of_the_docs() -> None:
    headings = {
        heading
        for page in (ROOT / "docs").rglob("*.md")
        for heading in re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    }
    named = [(where, " ".join(name.split())) for where, text in shown() for name in PAGE.findall(text)]
    assert len(named) > 5
    assert not [each for each in named if each[1] not in headings]
