"""The model is used where there is no fleet and no cluster, and judges a detector that it must not know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import testbed.memory

FOLDER = Path(testbed.memory.__file__).parent
MODULES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
FORBIDDEN = {"winpool", "asyncio", "socket", "ssl", "http", "subprocess", "random", "aiohttp", "kubernetes"}
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


def test_it_loads_nothing_of_the_operator_the_fleet_or_a_network() -> None:
    """What pydantic loads by itself is not the model's."""
    own = loaded_after(*(f"testbed.memory.{name}" for name in MODULES)) - loaded_after("pydantic", "json")
    ours = {name for name in own if name.startswith("testbed")}
    assert ours == {"testbed", "testbed.memory", *(f"testbed.memory.{name}" for name in MODULES)}
    assert not {name.partition(".")[0] for name in own} & FORBIDDEN


def test_a_reading_says_nothing_of_what_really_happened() -> None:
    """Ground truth is for tests; an endpoint is made of the reading."""
    assert "testbed.memory.truth" not in loaded_after("testbed.memory.reading")


def test_its_modules_are_short_enough_to_be_read_at_once() -> None:
    lines = {name: len((FOLDER / f"{name}.py").read_text().splitlines()) for name in MODULES}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}
