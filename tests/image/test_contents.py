"""What is in the image: how much, what of it, and whose it is."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement

from builder import ROOT
from image.building import Image
from image.conftest import Measured
from winpool import __version__

MOST_BYTES: Final = 45_000_000
"""Of all files and folders of the virtual environment. Every node that runs the operator downloads them."""

FLAGS: Final = slice(4, 8)
"""Of a file with byte code, by PEP 552: whether it is compared with its source, and how."""
UNCHECKED_HASH: Final = 0b01

CUT: Final = {"click"}
"""Distributions that are pinned, and that ``image/slim.py`` removes with all that belongs to them."""


def entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    yield folder, folder.lstat()
    for path in folder.rglob("*"):
        yield path, path.lstat()


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def test_the_virtual_environment_is_small(image: Image, measured: Measured) -> None:
    found = [status for _, status in entries(image.venv)]
    size = sum(status.st_size for status in found)
    on_disk = sum(status.st_blocks * 512 for status in found)
    whole = sum(status.st_size for _, status in entries(image.rootfs))
    measured(
        f"virtual environment: {megabytes(size)} in {len(found)} entries, {megabytes(on_disk)} on this disk"
    )
    measured(f"removed from it before byte code was added: {megabytes(image.removed_bytes)}")
    measured(f"image: {megabytes(whole)}, of which {megabytes(whole - size)} are the base")
    largest = sorted(
        (
            (sum(status.st_size for _, status in entries(path)), path.name)
            for path in image.site_packages.iterdir()
        ),
        reverse=True,
    )
    measured("largest: " + ", ".join(f"{name} {megabytes(bytes_)}" for bytes_, name in largest[:12]))
    assert size <= MOST_BYTES


def test_it_has_the_pinned_distributions_and_no_other(image: Image) -> None:
    lines = re.findall(r"^([\w.-]+==[^\\\n]+)", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE)
    pinned = [Requirement(line.strip()) for line in lines]
    wanted = {each.name: str(each.specifier).removeprefix("==") for each in pinned if each.name not in CUT}
    found = {}
    for metadata in image.site_packages.glob("*.dist-info/METADATA"):
        head = dict(re.findall(r"^(Name|Version): (.+)$", metadata.read_text(), re.MULTILINE))
        found[re.sub(r"[-_.]+", "-", head["Name"]).lower()] = head["Version"]
    assert found == {**wanted, "winpool": __version__}


def test_its_commands_are_python_and_the_plugin(image: Image) -> None:
    names = {path.name for path in (image.venv / "bin").iterdir()}
    assert {name for name in names if not name.startswith("python")} == {"kubectl-winpool"}
    assert {"python", "python3"} <= names


def test_only_root_may_change_what_runs(image: Image) -> None:
    foreign = [path for path, status in entries(image.venv) if status.st_uid or status.st_gid]
    assert foreign == []
    writable = [
        path
        for path, status in entries(image.venv)
        if not stat.S_ISLNK(status.st_mode) and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ]
    assert writable == []


def test_every_module_has_byte_code_that_needs_no_time_of_its_source(image: Image) -> None:
    [tag] = {path.name.split(".")[-2] for path in image.site_packages.rglob("*.pyc")}
    modules = sorted(image.site_packages.rglob("*.py"))
    assert len(modules) > 500
    checked = []
    for module in modules:
        compiled = Path(cache_from_source(str(module))).parent / f"{module.stem}.{tag}.pyc"
        if int.from_bytes(compiled.read_bytes()[FLAGS], "little") != UNCHECKED_HASH:
            checked.append(module)
    assert checked == []


def test_its_labels_say_what_it_is(image: Image) -> None:
    labels = {
        name.removeprefix("org.opencontainers.image."): value
        for name, value in image.config["Labels"].items()
    }
    assert labels["title"] == "winpool"
    assert labels["version"] == __version__
    assert labels["revision"] == "of a test"
    assert labels["licenses"] == "Apache-2.0"
    assert labels["base.name"] == image.base
    assert {"description", "source"} <= labels.keys()


def test_it_runs_as_65532_and_starts_the_operator_without_a_shell(image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["/opt/winpool/bin/python", "-m", "winpool"]
    assert image.config["Cmd"] == ["run"]
