"""Everything that is in the image to be run, runs there: read-only, as 65532, without a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builder import ROOT
from image.building import Image
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
    assert imported == len(list((ROOT / "operator" / "winpool").rglob("*.py"))) - 1


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


def test_the_plugin_runs_by_its_name(image: Image, directory: Path) -> None:
    assert "usage: kubectl winpool" in said(image, directory, "kubectl-winpool", "--help")
    assert __version__ in said(image, directory, "kubectl-winpool", "--version")


def test_the_plugin_knows_the_support_matrix(image: Image, directory: Path) -> None:
    assert "2022" in said(image, directory, "kubectl-winpool", "matrix")


def test_the_process_can_write_nowhere_and_finds_no_shell(image: Image, directory: Path) -> None:
    found: dict[str, Any] = json.loads(said(image, directory, PYTHON, "-c", SELF, *SHELLS))
    assert found["user"] == [65532, 65532, []]
    assert set(found["writing"]) <= {"Read-only file system", "Permission denied"}
    assert found["writing"][0] == "Read-only file system"
    assert None not in found["shells"]
    assert "" not in found["path"], "modules of the working directory would be imported"
