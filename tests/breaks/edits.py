"""What a break changes: lines of a function, class or constant that is named, in whichever module it is."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

SOURCE = "operator/winpool"


class MisfitError(Exception):
    """An edit does not fit the code: what it names, or the block in it, is not there once."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A block of lines and what stands in its place, in a definition of the operator or in a ``file``.

    ``within`` is the qualified name of a function, of a class, or of a name that is set outside functions.
    """

    replace: str
    by: str
    within: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class Break:
    """A promise, what breaks it, the edits that do, and the test that has to notice."""

    name: str
    promise: str
    what: str
    test: str
    edits: tuple[Edit, ...]


def read(path: Path) -> Break:
    """Read the file of a break."""
    found = yaml.safe_load(path.read_text())
    edits = tuple(
        Edit(each["replace"], each["with"], within=each.get("in", ""), file=each.get("file", ""))
        for each in found["edits"]
    )
    return Break(path.stem, found["promise"], found["break"], found["test"], edits)


def read_all() -> list[Break]:
    """Read all breaks, by name."""
    return [read(path) for path in sorted(Path(__file__).parent.glob("*.yaml"))]


def broken(root: Path, edits: Iterable[Edit]) -> dict[Path, str]:
    """Return the new text of each file that ``edits`` change in the repository at ``root``."""
    texts: dict[Path, str] = {}
    for edit in edits:
        found = list(_matches(edit, texts, root=root))
        if len(found) != 1:
            where = " and ".join(str(path.relative_to(root)) for path, _ in found) or "no place"
            raise MisfitError(
                f"{edit.file or edit.within}: the block is in {where}, not in one:\n{edit.replace}"
            )
        path, start = found[0]
        texts[path] = _edited(texts.get(path) or _text(path), start, edit)
    return texts


def _matches(edit: Edit, texts: dict[Path, str], *, root: Path) -> Iterator[tuple[Path, int]]:
    """Yield where the block of an edit begins: the file, and the index of its first line."""
    for path in [root / edit.file] if edit.file else _modules(root / SOURCE):
        text = texts.get(path) or _text(path)
        if edit.file:
            places = [range(len(text.splitlines()))]
        elif edit.within.rpartition(".")[-1] in text:
            places = _definitions(text).get(edit.within, [])
        else:
            continue
        for place in places:
            yield from (
                (path, start) for start in _starts(text.splitlines(), place, edit.replace.splitlines())
            )


def _starts(lines: list[str], place: range, block: list[str]) -> Iterator[int]:
    """Yield where ``block`` begins in those lines, however far it is indented there."""
    for start in range(place.start, place.stop - len(block) + 1):
        if textwrap.dedent("\n".join(lines[start : start + len(block)])).splitlines() == block:
            yield start


def _edited(text: str, start: int, edit: Edit) -> str:
    """Return ``text`` with the block that begins there replaced, indented as it was."""
    lines = text.splitlines()
    stop = start + len(edit.replace.splitlines())
    indent = min(len(line) - len(line.lstrip()) for line in lines[start:stop] if line)
    lines[start:stop] = textwrap.indent(edit.by, " " * indent).splitlines()
    return "\n".join(lines) + "\n"


@cache
def _modules(source: Path) -> tuple[Path, ...]:
    return tuple(sorted(source.rglob("*.py")))


@cache
def _text(path: Path) -> str:
    return path.read_text()


@cache
def _definitions(text: str) -> dict[str, list[range]]:
    """Return, by qualified name, the lines of all that a module defines: functions, classes and constants."""
    found: dict[str, list[range]] = {}
    for name, lines in _defined(ast.parse(text), ""):
        found.setdefault(name, []).append(lines)
    return found


def _defined(parent: ast.AST, prefix: str) -> Iterator[tuple[str, range]]:
    for each in ast.iter_child_nodes(parent):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            first = min([each.lineno, *(decorator.lineno for decorator in each.decorator_list)])
            yield prefix + each.name, range(first - 1, each.end_lineno or first)
            yield from _defined(each, f"{prefix}{each.name}.")
        elif isinstance(parent, ast.Module | ast.ClassDef) and isinstance(each, ast.Assign | ast.AnnAssign):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, range(each.lineno - 1, each.end_lineno or each.lineno)
