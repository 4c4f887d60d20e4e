"""The model is used where there is no fleet and no cluster, and judges a detector that it must not know."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import testbed.memory

FOLDER = Path(testbed.memory.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
ALLOWED = {
    *(
        "__future__",
        "collections",
        "dataclasses",
        "enum",
        "fractions",
        "hashlib",
        "json",
        "math",
        "re",
        "typing",
    ),
    *("pydantic", "testbed"),
}
MAX_LINES = 250


def loaded_after(*modules: str) -> set[str]:
    """Return what a fresh interpreter has loaded after importing ``modules``."""
    program = "\n".join(
        [
            "import importlib, json, sys",
            f"sys.path.insert(0, {str(FOLDER.parents[1])!r})",
            f"for name in {modules!r}: importlib.import_module(name)",
            "print(json.dumps(sorted(sys.modules)))",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    return set(json.loads(done.stdout))


def imported_by(module: str) -> set[str]:
    """Return the top-level packages that the text of a module names."""
    found = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.slow
def test_it_loads_nothing_else_of_the_testbed() -> None:
    ours = {
        name for name in loaded_after(*(f"testbed.memory.{name}" for name in MODULES)) if "testbed" in name
    }
    assert ours == {"testbed", "testbed.memory", *(f"testbed.memory.{name}" for name in MODULES)}


@pytest.mark.parametrize("module", MODULES)
def test_it_knows_no_operator_no_clock_no_random_numbers_and_no_network(module: str) -> None:
    assert imported_by(module) <= ALLOWED


def test_a_reading_says_nothing_of_what_really_happened() -> None:
    """Ground truth is for tests; an endpoint is made of the reading."""
    assert "testbed.memory.truth" not in loaded_after("testbed.memory.reading")


def test_its_modules_are_short_enough_to_be_read_at_once() -> None:
    lines = {name: len((FOLDER / f"{name}.py").read_text().splitlines()) for name in MODULES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}
