"""Everything that is in the image to be run, runs there: read-only, as 65532, without a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder import ROOT
from image.building import Image
from image.conftest import Measured
from image.container import SHELLS, Container
from winpool import __version__

PYTHON = "/opt/winpool/bin/python"

IMPORT_ALL = """
import importlib, pkgutil, sys, winpool
names = [module.name for module in pkgutil.walk_packages(winpool.__path__, "winpool.")]
for name in names:
    importlib.import_module(name)
print(len(names))
"""

START = """
import sys, time
from _frozen_importlib_external import SourceLoader
import _frozen_importlib_external as machinery
compiled = []
compiles, place = SourceLoader.source_to_code, machinery.cache_from_source
def counted(loader, data, path, **rest):
    compiled.append(path)
    return compiles(loader, data, path, **rest)
def nowhere(path, *rest, **more):
    if path.startswith(sys.prefix):
        raise NotImplementedError  # what the machinery takes for: there is no byte code
    return place(path, *rest, **more)
SourceLoader.source_to_code = counted
if sys.argv[1] == "without":
    machinery.cache_from_source = nowhere
began = time.process_time()
import winpool.app
ours = [path for path in compiled if path.startswith(sys.prefix)]
print(len(ours), time.process_time() - began)
"""
"""Imports what the operator is made of. Prints how many of our modules were compiled, and seconds of CPU."""

SELF = """
import json, os, subprocess, sys
PLACES = ("", "/tmp", "/opt/winpool", "/root", "/var/run")
def fault(act):
    try:
        act()
    except OSError as error:
        return error.strerror
print(json.dumps({
    "user": [os.getuid(), os.getgid(), os.getgroups()],
    "writing": [fault(lambda: open(f"{place}/x", "w")) for place in PLACES],
    "shells": [fault(lambda: subprocess.run([shell, "-c", "true"])) for shell in sys.argv[1:]],
    "path": sys.path,
}))
"""


def said(image: Image, directory: Path, *arguments: str) -> str:
    done = Container(image, directory=directory, arguments=arguments).run()
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_of_winpool_can_be_imported(image: Image, directory: Path) -> None:
    imported = int(said(image, directory, PYTHON, "-W", "error", "-c", IMPORT_ALL))
    folder = ROOT / "operator" / "winpool"
    here = {each for each in folder.rglob("*.py") if folder / "cli" not in each.parents}  # no plugin
    assert imported == len(here) - 1


def test_nothing_is_compiled_when_the_operator_starts(
    image: Image, directory: Path, measured: Measured
) -> None:
    with_it = said(image, directory, PYTHON, "-c", START, "with").split()
    without = said(image, directory, PYTHON, "-c", START, "without").split()
    measured(
        f"import winpool.app: {float(with_it[1]):.1f} s of CPU; "
        f"{float(without[1]):.1f} s where {without[0]} modules have no byte code"
    )
    assert int(with_it[0]) == 0
    assert int(without[0]) > 500, "the count counts"


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        pytest.param(["--help"], "{run,crd,version}", id="help"),
        pytest.param(["run", "--help"], "--health-port", id="help of run"),
        pytest.param(["version"], f"winpool {__version__}\n", id="version"),
        pytest.param(["crd"], (ROOT / "crds" / "windowsnodepools.winpool.dev.yaml").read_text(), id="crd"),
    ],
)
def test_the_entry_point_takes_the_commands_of_the_operator(
    image: Image, directory: Path, arguments: list[str], part: str
) -> None:
    assert part in said(image, directory, *image.config["Entrypoint"], *arguments)


def test_the_process_can_write_nowhere_and_finds_no_shell(image: Image, directory: Path) -> None:
    found: dict[str, Any] = json.loads(said(image, directory, PYTHON, "-c", SELF, *SHELLS))
    assert found["user"] == [65532, 65532, []]
    assert set(found["writing"]) <= {"Read-only file system", "Permission denied"}
    assert found["writing"][0] == "Read-only file system"
    assert None not in found["shells"]
    assert "" not in found["path"], "modules of the working directory would be imported"
