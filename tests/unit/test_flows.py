"""Pages that describe the source are held to it: what they name is there."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

import winpool
from harness.documents import ROOT
from harness.every import every

SOURCE = Path(winpool.__file__).parent
FLOWS = (ROOT / "docs" / "flows.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()

_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w/]+\.py")
_FUNCTION = re.compile(r"([\w.]+)\(\)")
_RECORD = re.compile(r"[A-Z][A-Za-z]*[a-z](\.\w+)?")


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return what a module defines: functions, classes, and what classes have, as ``Class.name``."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found.add(node.name)
            for part in node.body:
                if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                    found.add(f"{node.name}.{part.name}")
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    found.add(f"{node.name}.{part.target.id}")
    return frozenset(found)


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def named_functions(text: str) -> list[tuple[str, str]]:
    """Return each function that a page names, with the file that it names last before it."""
    path, found = "", []
    for span in _SPAN.findall(text):
        if _PATH.fullmatch(span):
            path = span
        elif match := _FUNCTION.fullmatch(span):
            found.append((path, match[1]))
    return found


FUNCTIONS = sorted(set(named_functions(FLOWS)))


def test_the_flows_name_functions() -> None:
    assert len(FUNCTIONS) > 50


@every(("path", "function"), FUNCTIONS)
def test_each_function_of_a_flow_is_in_its_file(path: str, function: str) -> None:
    assert (SOURCE / path).is_file()
    assert function in names_in(SOURCE / path)


def test_each_file_of_a_flow_is_there() -> None:
    paths = {span for span in _SPAN.findall(FLOWS) if _PATH.fullmatch(span)}
    assert paths
    assert not [path for path in sorted(paths) if not (SOURCE / path).is_file()]


@pytest.mark.slow
def test_each_record_of_a_flow_is_a_class() -> None:
    records = {span for span in _SPAN.findall(FLOWS) if _RECORD.fullmatch(span)}
    assert records
    assert not records - frozenset().union(*map(names_in, modules()))


def test_each_file_of_the_picture_is_there() -> None:
    """Within the picture a file is named as short as the place allows."""
    named = {path for line in CONTRIBUTING.splitlines() for path in _PATH.findall(line)}
    sources = [*modules(), *(ROOT / "tests").rglob("*.py")]
    known = [f"/{path.relative_to(ROOT).as_posix()}" for path in sources]
    assert named
    assert not [path for path in sorted(named) if not any(each.endswith(f"/{path}") for each in known)]


def test_every_folder_and_module_has_its_line_in_the_table() -> None:
    rows = [line for line in CONTRIBUTING.splitlines() if line.startswith("| `")]
    table = {span for row in rows for span in _SPAN.findall(row)}
    packages = [path.parent for path in SOURCE.rglob("*/__init__.py") if path.parent != SOURCE]
    folders = {f"{each.relative_to(SOURCE).as_posix()}/" for each in packages}
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert not (folders | files) - table


def test_the_layers_are_those_of_the_import_rules() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    wanted = [line.replace("winpool.", "").replace(".", "/") for line in layers]
    picture = re.search(r"^```\n(__main__ .*?)^```", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    assert picture
    shown = [[name.strip("/") for name in line.split()] for line in picture[1].splitlines()]
    assert shown == [re.split(r" [:|] ", line) for line in wanted]


def test_each_step_of_the_picture_is_taken_by_decide() -> None:
    steps = re.findall(r"^ │ (\w+) ", CONTRIBUTING, re.MULTILINE)
    assert steps
    source = (SOURCE / "decide.py").read_text()
    assert not [step for step in steps if not re.search(rf"\b{step}\b", source)]
