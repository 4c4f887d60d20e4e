"""Pages that describe the source are held to it: what they name is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

import winpool
from harness.documents import ROOT
from harness.every import every
from harness.sources import tree_of

SOURCE = Path(winpool.__file__).parent
FLOWS = (ROOT / "docs" / "reference" / "flows.md").read_text()
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
GUIDE = ARCHITECTURE + (ROOT / "docs" / "how-to-add.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()

_SPAN = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w/]+\.py")
_FUNCTION = re.compile(r"([\w.]+)\(\)")
_RECORD = re.compile(r"[A-Z][A-Za-z]*[a-z](\.\w+)?")


@cache
def names_in(path: Path) -> frozenset[str]:
    """Return what a module defines: functions, classes, and what classes have, with their class before."""
    tree = tree_of(path)
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


FUNCTIONS = sorted({*named_functions(FLOWS), *named_functions(GUIDE)})


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
    named = {path for line in GUIDE.splitlines() for path in _PATH.findall(line)}
    sources = [*modules(), *(ROOT / "tests").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]
    known = [f"/{path.relative_to(ROOT).as_posix()}" for path in sources]
    assert named
    assert not [path for path in sorted(named) if not any(each.endswith(f"/{path}") for each in known)]


def test_every_folder_and_module_has_its_line_in_the_table() -> None:
    rows = [line for line in ARCHITECTURE.splitlines() if line.startswith("| `")]
    table = {span for row in rows for span in _SPAN.findall(row)}
    packages = [path.parent for path in SOURCE.rglob("*/__init__.py") if path.parent != SOURCE]
    folders = {f"{each.relative_to(SOURCE).as_posix()}/" for each in packages}
    files = {path.name for path in SOURCE.glob("*.py")} - {"__init__.py"}
    assert not (folders | files) - table


def test_the_layers_are_those_of_the_import_rules() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    wanted = [line.replace("winpool.", "").replace(".", "/") for line in layers]
    picture = re.search(r"^```\n(__main__ .*?)^```", ARCHITECTURE, re.MULTILINE | re.DOTALL)
    assert picture
    shown = [[name.strip("/") for name in line.split()] for line in picture[1].splitlines()]
    assert shown == [re.split(r" [:|] ", line) for line in wanted]


def test_each_step_of_the_picture_is_taken_by_decide() -> None:
    steps = re.findall(r"^ │ (\w+) ", ARCHITECTURE, re.MULTILINE)
    assert steps
    source = (SOURCE / "decide.py").read_text()
    assert not [step for step in steps if not re.search(rf"\b{step}\b", source)]


def test_the_picture_has_twelve_folders_at_most() -> None:
    picture = ARCHITECTURE.partition("## A pass\n")[2].partition("\n## ")[0].partition("\n- [")[0]
    folders = {name for name in re.findall(r"\b(\w+)/", picture) if (SOURCE / name).is_dir()}
    assert 0 < len(folders) <= 12


# The trips: a row of a table is a function, with the records in which the thing goes in and comes out.

LIMITS = {"the taint": 5, "the sample": 12, "the evicted pod": 7}
"""Record types of a trip, from the wire or the spec to the status or the request."""

MOST_FILES = 10

CARRIERS = {
    *("WindowsNodePoolSpec", "Pool", "Snapshot", "WatchedNode", "KnownMemory", "KnownEvictions", "Pass"),
    *("PodPage", "NodePods", "Step", "ContractResult", "MemoryResult", "UpgradeResult", "View", "Decision"),
}
"""Lists, and records of a node, a pool or a pass as a whole: they do not count as records of one thing."""

Records = frozenset[str]


class Row(NamedTuple):
    """A row of a trip, or a function: ``gives`` are the records that it returns, ``takes`` those it gets."""

    path: str
    function: str
    takes: Records
    gives: Records


def named_records(text: str) -> Records:
    return frozenset(re.findall(r"`(_?[A-Z]\w*[a-z])`", text))


def trips() -> dict[str, tuple[list[Row], str]]:
    """Return the rows of each trip by its heading, and the text below its table."""
    found = {}
    for section in re.split(r"^## ", FLOWS, flags=re.MULTILINE)[1:]:
        lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
        rows = [
            Row(path.strip(" `"), function.strip("`()"), named_records(takes), named_records(gives))
            for path, function, takes, gives, _ in lines
        ]
        if rows:
            found[section.partition("\n")[0]] = (rows, section.rpartition("|\n")[2])
    return found


TRIPS = trips()
ROWS = [row for rows, _ in TRIPS.values() for row in rows]
CHAINS = re.findall(r"^Records of ([\w ]+): (.+)\.$", FLOWS, re.MULTILINE)


@cache
def classes() -> dict[str, list[Path]]:
    """Return the modules of each class of the operator; some names are in two."""
    found: dict[str, list[Path]] = {}
    for path in modules():
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            found.setdefault(name, []).append(path)
    return found


def records(annotations: Iterable[ast.AST | None]) -> Records:
    """Return the classes that these annotations name."""
    parts = [each for node in annotations if node for each in ast.walk(node)]
    names = {each.id for each in parts if isinstance(each, ast.Name)}
    names |= {each.attr for each in parts if isinstance(each, ast.Attribute)}
    return frozenset(names & classes().keys())


@cache
def fields(name: str) -> Records:
    """Return the records in the fields of a class, also of its bases."""
    found: Records = frozenset()
    for cls in (node for path in classes()[name] for node in tree_of(path).body):
        if isinstance(cls, ast.ClassDef) and cls.name == name:
            found |= records(part.annotation for part in cls.body if isinstance(part, ast.AnnAssign))
            found = found.union(*(fields(base) for base in records(cls.bases) - {name}))
    return found


@cache
def spread(names: Records) -> Records:
    """Return ``names`` with all that the carriers among them carry."""
    more = names.union(*(fields(name) for name in names & CARRIERS))
    return more if more == names else spread(more)


@cache
def functions_in(path: Path) -> dict[str, Row]:
    """Return the functions of a module by their names. What an object has, its methods take."""
    found = {}
    for node in tree_of(path).body:
        held = frozenset[str]()
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        for each in parts:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                taken = records(part.annotation for part in (*each.args.args, *each.args.kwonlyargs))
                if isinstance(node, ast.ClassDef) and each.name == "__init__":
                    inner = [part for part in ast.walk(each) if isinstance(part, ast.AnnAssign)]
                    held = taken | records(part.annotation for part in inner)
                    found[node.name] = Row(path.name, node.name, taken, frozenset({node.name}))
                if isinstance(node, ast.ClassDef):
                    taken |= held | fields(node.name) | {node.name}
                name = f"{node.name}.{each.name}" if isinstance(node, ast.ClassDef) else each.name
                found[name] = Row(path.name, name, taken, records([each.returns]))
    return found


@every("row", ROWS, ids=lambda row: row.function)
def test_each_row_of_a_trip_is_as_its_annotations_say(row: Row) -> None:
    found = functions_in(SOURCE / row.path)[row.function]
    assert row.gives == found.gives
    assert row.takes <= found.takes


@every("title", TRIPS)
def test_a_trip_has_few_files_and_no_gap(title: str) -> None:
    rows, below = TRIPS[title]
    assert len({row.path for row in rows}) <= MOST_FILES
    known: Records = frozenset()
    for row in rows:
        is_method = "." in row.function
        known |= row.gives
        held = functions_in(SOURCE / row.path)[row.function].takes if is_method else frozenset[str]()
        gaps = [each for each in row.takes - known - held if not spread(frozenset({each})) & known]
        assert not gaps, f"no earlier row returns what {row.function} takes"
        known = spread(known).union(*(fields(each) for each in row.gives))
    assert not frozenset().union(*(row.takes | row.gives for row in rows)) - named_records(below)


@pytest.mark.slow
@every("what, chain", CHAINS)
def test_each_record_of_a_trip_is_made_of_the_one_before(what: str, chain: str) -> None:
    names = [name.strip("`") for name in chain.split(" → ")]
    assert len(names) <= LIMITS.get(what, MOST_FILES)
    made = [each for path in modules() for each in functions_in(path).values()]
    for before, after in pairwise(names):
        assert (
            after in fields(before)
            or before in fields(after)
            or any(after in spread(each.gives) and before in spread(each.takes) for each in made)
        ), f"no function makes {after} of {before}"


def test_the_records_of_three_things_are_counted() -> None:
    assert {what for what, _ in CHAINS} >= LIMITS.keys()


def test_the_architecture_names_the_files_of_each_trip() -> None:
    shown = [re.findall(r"`([\w/]+\.py)`", line) for line in ARCHITECTURE.splitlines() if "flows.md#" in line]
    assert shown == [list(dict.fromkeys(row.path for row in rows)) for rows, _ in TRIPS.values()]


def test_the_carriers_carry_a_record_of_their_trip() -> None:
    carriers: Records = frozenset()
    for _, below in TRIPS.values():
        chained = named_records(" ".join(re.findall(r"^Records of .*$", below, re.MULTILINE)))
        carried = named_records(" ".join(re.findall(r"^Carried by: [^.]*", below, re.MULTILINE)))
        assert not [each for each in sorted(carried) if not fields(each) & (chained | carried)]
        carriers |= carried
    assert carriers == CARRIERS
