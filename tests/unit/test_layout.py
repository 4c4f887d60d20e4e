"""The shape of the source: where its root is, what may be loaded by what, which small modules are a seam."""

from __future__ import annotations

import ast
import json
import operator
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import winpool
from harness.sources import tree_of

PACKAGE = Path(winpool.__file__).parent
SOURCE = PACKAGE.parent
PURE = ("api", "features", "model", "ownership", "status", "support")
ENGINES = ("kopf", "aiohttp", "kubernetes")
"""What opens sockets or runs loops: only `kube/`, `kubelet/`, `serve/` and `app.py` know it."""

PURE_OF_KUBELET = ("addresses", "exporter", "samples", "schedule")

MODULES = sorted(PACKAGE.rglob("*.py"))

SEAM_LINES: Final = 60
SEAMS: Final[dict[str, str]] = {}
"""Modules of fewer lines that one module imports, each with the reason why it is not a part of that one."""


def test_the_source_root_is_no_package() -> None:
    """The standard library has a module called operator."""
    assert SOURCE.name == "operator"
    assert not (SOURCE / "__init__.py").exists()


def test_operator_is_the_standard_library() -> None:
    assert operator.__file__ is not None
    assert SOURCE not in Path(operator.__file__).parents
    assert operator.add(1, 2) == 3


def loaded_after(*modules: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after importing ``modules``."""
    program = "\n".join(
        [
            "import importlib, json, sys",
            f"sys.path.insert(0, {str(SOURCE)!r})",
            f"for name in {modules!r}: importlib.import_module(name)",
            "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))",
        ]
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    found: list[str] = json.loads(done.stdout)
    return set(found)


def dotted(path: Path) -> str:
    name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    return name.removesuffix(".__init__")


@pytest.mark.slow
def test_deciding_needs_no_client_and_no_framework() -> None:
    """A pure feature that could reach the network would not be one."""
    pure = [dotted(path) for path in MODULES if path.relative_to(PACKAGE).parts[0] in PURE]
    loaded = loaded_after(*pure, "winpool.decide", "winpool.model.snapshot", "winpool.kube.lease_rules")
    assert "winpool" in loaded
    assert loaded.isdisjoint(ENGINES)


@pytest.mark.slow
def test_reading_samples_and_planning_polls_needs_no_client_either() -> None:
    loaded = loaded_after(*(f"winpool.kubelet.{name}" for name in PURE_OF_KUBELET))
    assert "winpool" in loaded
    assert loaded.isdisjoint(ENGINES)


def test_operator_is_the_standard_library_in_a_fresh_interpreter_too() -> None:
    """Also where the source root is first in the path, as it is for ``python -m winpool`` from there."""
    program = "import sys; import operator; print(operator.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=SOURCE, capture_output=True, text=True, timeout=60, check=True
    )
    assert SOURCE not in Path(done.stdout.strip()).parents


def imported_in(tree: ast.Module, path: Path) -> set[str]:
    """Return the modules that a module names in its imports, also in those for types alone."""
    package = dotted(path).split(".") if path.name == "__init__.py" else dotted(path).split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            whole = ".".join([*above, *([node.module] if node.module else [])])
            found |= {whole, *(f"{whole}.{alias.name}" for alias in node.names)}
    return found - {dotted(path)}


def has_code(tree: ast.Module) -> bool:
    """Return whether a module has more than docstrings."""
    return not all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in tree.body)


@pytest.mark.slow
def test_a_small_module_with_one_importer_is_a_seam() -> None:
    trees = {path: tree_of(path) for path in MODULES}
    importers: dict[str, set[str]] = {}
    for path, tree in trees.items():
        for name in imported_in(tree, path):
            importers.setdefault(name, set()).add(dotted(path))
    small = {
        dotted(path): importers.get(dotted(path), set())
        for path, tree in trees.items()
        if has_code(tree) and len(path.read_text().splitlines()) < SEAM_LINES
    }
    found = {name: next(iter(by)) for name, by in small.items() if len(by) == 1}
    faults = [f"{name}: why is it no part of {by}?" for name, by in found.items() if name not in SEAMS]
    faults += [f"{name}: no such module any more" for name in SEAMS if name not in found]
    assert not faults, "\n".join(faults)
    assert all(SEAMS.values()), "a seam has a reason"
