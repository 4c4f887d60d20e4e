"""What pages, docstrings and comments name as code is there: modules, folders, classes and functions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from harness.documents import ROOT

FOLDERS: Final = ("operator", "tools", "image", "tests")
ROOTS: Final = ("operator/", "operator/winpool/", "tests/", "tools/", "image/")
"""Where a dotted name begins."""

OF_OTHERS: Final = re.compile(r"(status|image)\..*|.*\.(dev|go|shop|yaml)")
"""Dotted names that begin as ours do: fields of pools, values of the chart, keys, hosts and files."""

SPAN: Final = re.compile(r"(`{1,2})([^`\n]+)\1")
PLACE: Final = re.compile(r"[\w./-]+\.py|([a-z_]+/)+")
NAME: Final = re.compile(r"([A-Za-z_]\w*)((?:\.\w+)*)(\(\))?")
DEFINITION: Final = re.compile(
    r"^ *(?:async def |def |class )(\w+)|^ *(?:self\.)?([A-Za-z_]\w*)(?=:[ \n]| = )", re.MULTILINE
)


@cache
def files() -> list[Path]:
    tops = [top for top in ROOT.iterdir() if not top.name.startswith(".")]
    return [path.relative_to(ROOT) for top in tops for path in (top, *top.rglob("*"))]


@cache
def places(*, of_tests: bool) -> set[str]:
    """Return all files and folders, as short as a text may name them: those of tests only in their texts."""
    return {
        "/".join(path.parts[start:])
        for path in files()
        for start in range(1 if path.parts[0] == "tests" and not of_tests else len(path.parts))
    }


@cache
def texts() -> dict[str, str]:
    """Return the modules, without the patches of breaks, and the pages, by their paths."""
    found = [path for path in files() if path.suffix == ".py" and path.parts[0] in FOLDERS]
    found += [path for path in files() if path.suffix == ".md" and path.parts[0] == "docs"]
    found += [Path("README.md"), Path("CONTRIBUTING.md")]
    return {path.as_posix(): (ROOT / path).read_text() for path in found if "breaks" not in path.parts}


@cache
def defined_in(module: str) -> frozenset[str]:
    """Return what a module defines at any depth: functions, classes, constants and fields."""
    return frozenset(one or other for one, other in DEFINITION.findall(texts()[module]))


def homes_of(name: str) -> list[str]:
    return [path for path in texts() if path.endswith(".py") and name in defined_in(path)]


def is_in(module: str, name: str) -> bool:
    """Return whether a module, which may be named in short, defines all parts of a name."""
    named = [each for each in texts() if f"/{each}".endswith(f"/{module}")]
    return any(set(name.split(".")) <= defined_in(each) for each in named)


def is_there(dotted: str) -> bool:
    """Return whether a package, a module or what it defines, or a part of a class is there, if it is ours."""
    first, second, *_ = parts = dotted.split(".")
    if first[0].isupper() and not first.isupper() and second[0].islower():
        return any(second in defined_in(module) for module in homes_of(first))
    roots = [
        root for root in ROOTS if root + first in places(of_tests=True) and not OF_OTHERS.fullmatch(dotted)
    ]
    for root in roots:
        for end in range(len(parts), 0, -1):
            place = root + "/".join(parts[:end])
            for module in (f"{place}.py", f"{place}/__init__.py"):
                if module in texts():
                    return end == len(parts) or parts[end] in defined_in(module)
    homes = homes_of(second) if "_" in second and not roots else []
    return not roots and (not homes or any(first in {Path(each).stem, *defined_in(each)} for each in homes))


def missing_in(text: str, *, is_of_tests: bool = False) -> Iterator[str]:
    """Yield each name of a text that is not there, with its line."""
    module, end = "", 0
    for span in SPAN.finditer(text):
        what, between, end = span[2], text[end : span.start()], span.end()
        if "\n\n" in between or "\n|" in between:
            module = ""
        name, is_named = NAME.fullmatch(what), True
        if PLACE.fullmatch(what):
            is_named = what.rstrip("/") in places(of_tests=is_of_tests)
            module = what if what.endswith(".py") else ""
        elif name and module and (name[3] or between == ": "):
            is_named = is_in(module, name[1] + name[2])
        elif name and name[2]:
            is_named = is_there(name[1] + name[2])
        elif name and (name[3] or between.endswith("see ")):
            is_named = bool(homes_of(name[1])) or f"{name[1]}.py" in places(of_tests=True)
        if not is_named:
            yield f"{text[: span.start()].count(chr(10)) + 1}: {what}"


@pytest.mark.slow
def test_each_name_in_a_text_is_there() -> None:
    found = {path: list(missing_in(text, is_of_tests="tests/" in path)) for path, text in texts().items()}
    assert not [f"{path}:{each}" for path, names in found.items() for each in names]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("'features/', 'kube.lists', 'Pager.collect', 'status.slots', ''fields.is_key'', see 'Pager'", []),
        ("'rooms/', 'kube.answers'\n'Pager.walk'", ["1: rooms/", "1: kube.answers", "2: Pager.walk"]),
        ("''syntax.is_key'', see ''ListReader''", ["1: syntax.is_key", "1: ListReader"]),
        ("'kube/lists.py': 'Pager', 'Pager.collect()' and 'unheld()'", ["1: unheld()"]),
        ("'kube/lists.py': 'NodePatch'", ["1: NodePatch"]),
        ("'allowed.py'", ["1: allowed.py"]),
    ],
)
def test_a_name_that_is_not_there_is_found(text: str, found: list[str]) -> None:
    """The examples have another mark than texts, since this file is one of them."""
    assert list(missing_in(text.replace("'", "`"))) == found
