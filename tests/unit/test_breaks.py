"""The breaks keep up with the code: ``make breaks`` itself takes many minutes, and tells so late."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATCHES = sorted((ROOT / "tests" / "breaks").glob("*.patch"))


@pytest.mark.parametrize("patch", PATCHES, ids=lambda patch: patch.stem)
def test_a_break_fits_the_code_and_names_a_test_that_is_there(patch: Path) -> None:
    head = dict(re.findall(r"^(Promise|Break|Test): (.+)$", patch.read_text(), re.MULTILINE))
    assert patch.stem.startswith(f"{head['Promise'].split()[0]}-")
    file, _, test = head["Test"].partition("::")
    tree = ast.parse((ROOT / file).read_text())
    functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert test in functions
    check = ["git", "apply", "--check", str(patch)]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}make the same change again, and replace the diff"


def test_each_promise_has_a_break() -> None:
    broken = {patch.stem.partition("-")[0] for patch in PATCHES}
    assert broken == {*(f"P{number}" for number in range(1, 10)), "Gate", "Lease", "Windows"}
