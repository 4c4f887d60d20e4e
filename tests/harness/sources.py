"""The source as trees, for the tests that hold it to its rules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the tree of a module, which is parsed once for all tests: change nothing in it."""
    return ast.parse(path.read_text())
