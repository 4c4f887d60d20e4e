"""The breaks keep up with the code: ``make breaks`` itself takes many minutes, and tells so late."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from breaks.edits import Edit, MisfitError, broken, read_all

ROOT = Path(__file__).parents[2]
BREAKS = read_all()

MODULE = """\
LIMIT: Final = 4


class Lister:
    @property
    def limit(self) -> int:
        return LIMIT

    def more(self) -> int:
        if self.limit:
            return LIMIT
        return 0
"""


def functions_of(file: str) -> set[str]:
    """Return the names of the functions that a file of tests has."""
    tree = ast.parse((ROOT / file).read_text())
    return {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.slow
def test_each_break_fits_the_code_and_names_a_test_that_is_there() -> None:
    faults = []
    for each in BREAKS:
        if not each.name.startswith(f"{each.promise.split()[0]}-"):
            faults.append(f"{each.name}: its name begins with another promise")
        file, _, test = each.test.partition("::")
        if not (ROOT / file).is_file() or test not in functions_of(file):
            faults.append(f"{each.name}: there is no test {each.test}")
        try:
            broken(ROOT, each.edits)
        except MisfitError as error:
            faults.append(f"{each.name}: {error}")
    assert not faults, "\n\n".join(faults)


@pytest.mark.slow
def test_a_break_fails_by_what_it_does_and_not_by_a_name_that_is_not_there(tmp_path: Path) -> None:
    """A NameError or an AttributeError fails the test of each promise, and shows nothing of it."""
    faults = []
    for each in BREAKS:
        for path, text in broken(ROOT, each.edits).items():
            if path.suffix == ".py":
                (tmp_path / f"{each.name}.{path.name}").write_text(text)
                before = path.read_text()
                added = attributes_of_self(text) - attributes_of_self(before)
                faults += [
                    f"{each.name}: self.{name} is not in {path.name}"
                    for name in added
                    if not re.search(rf"\b{name}\b", before)
                ]
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--quiet", "--select", "F821"]
    done = subprocess.run(
        [*command, "--output-format", "concise", tmp_path], capture_output=True, text=True, check=False
    )
    assert not faults + done.stdout.splitlines(), "\n".join((*faults, done.stdout, done.stderr))


def attributes_of_self(text: str) -> set[str]:
    """Return the names that stand behind ``self.``."""
    return set(re.findall(r"\bself\.(\w+)", text))


def test_each_promise_has_a_break() -> None:
    found = {each.name.partition("-")[0] for each in BREAKS}
    assert found == {*(f"P{number}" for number in range(1, 10)), "Gate", "Lease", "Windows"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a repository with one module, and a manifest."""
    source = tmp_path / "operator" / "winpool" / "kube"
    source.mkdir(parents=True)
    (source / "lists.py").write_text(MODULE)
    (tmp_path / "rbac.yaml").write_text("rules:\n- verbs: [list]\n")
    return tmp_path


def the_one(texts: dict[Path, str]) -> str:
    """Return the text of the one file that was changed."""
    (text,) = texts.values()
    return text


def test_a_block_is_replaced_in_the_function_that_is_named_and_indented_as_it_was(root: Path) -> None:
    edits = [
        Edit("return LIMIT", "limit = LIMIT\n\nreturn limit", within="Lister.more"),
        Edit("LIMIT: Final = 4", "LIMIT: Final = 5", within="LIMIT"),
    ]
    text = MODULE.replace(
        "            return LIMIT", "            limit = LIMIT\n\n            return limit"
    ).replace("= 4", "= 5")
    assert the_one(broken(root, edits)) == text


def test_a_block_may_go_and_a_decorator_belongs_to_its_function(root: Path) -> None:
    assert the_one(broken(root, [Edit("@property", "", within="Lister.limit")])) == MODULE.replace(
        "    @property\n", ""
    )


def test_a_file_that_is_not_python_is_named(root: Path) -> None:
    edit = Edit("- verbs: [list]", "- verbs: [list, get]", file="rbac.yaml")
    assert the_one(broken(root, [edit])) == "rules:\n- verbs: [list, get]\n"


def test_a_block_that_is_not_there_or_twice_is_told(root: Path) -> None:
    with pytest.raises(MisfitError, match=r"Lister.more: the block is in no place"):
        broken(root, [Edit("return LIMITS", "", within="Lister.more")])
    with pytest.raises(MisfitError, match=r"Lister.less: the block is in no place"):
        broken(root, [Edit("return LIMIT", "", within="Lister.less")])
    with pytest.raises(MisfitError, match=r"lists.py and .*lists.py, not in one"):
        broken(root, [Edit("return LIMIT", "", within="Lister")])


def test_of_two_modules_the_one_with_the_block_is_changed(root: Path) -> None:
    other = root / "operator" / "winpool" / "limits.py"
    other.write_text("LIMIT: Final = 3\n")
    edit = Edit("LIMIT: Final = 3", "LIMIT: Final = 9", within="LIMIT")
    assert broken(root, [edit]) == {other: "LIMIT: Final = 9\n"}
