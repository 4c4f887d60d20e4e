"""What is in the image: how much, what of it, and whose it is."""

from __future__ import annotations

import gzip
import io
import math
import os
import re
import stat
import tarfile
from collections.abc import Iterable, Iterator
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement

from builder import ROOT
from image.building import Image
from image.conftest import Measured
from release.addresses import Addresses
from winpool import __version__

MOST_BYTES: Final = 45_000_000
"""Of the virtual environment, as the sum of its sizes and on a disk. Every node with an operator has it."""

MOST_COMPRESSED_BYTES: Final = 15_000_000
"""Of the virtual environment. It is what a node downloads that has the base already."""

BLOCK_BYTES: Final = 4096
"""What a file or a folder takes on a usual disk is a multiple of it. That of the test may not be usual."""

FLAGS: Final = slice(4, 8)
"""Of a file with byte code, by PEP 552: whether it is compared with its source, and how."""
UNCHECKED_HASH: Final = 0b01

CUT: Final = {"click", "tzdata"}
"""Distributions that are pinned, and that ``image/slim.py`` removes with all that belongs to them."""


def entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    yield folder, folder.lstat()
    for path in folder.rglob("*"):
        yield path, path.lstat()


def on_disk(found: Iterable[os.stat_result]) -> int:
    """As ``du`` says it, on a file system with blocks of 4 KiB."""
    return sum(
        math.ceil(status.st_size / BLOCK_BYTES) * BLOCK_BYTES
        for status in found
        if not stat.S_ISLNK(status.st_mode)  # its target is in the entry of its folder
    )


class Counter(io.RawIOBase):
    """Takes what is written to it, and keeps only how much that was."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        self.size += len(data)
        return len(data)


def compressed(folder: Path, *, without: str = "") -> int:
    """Return the size of a layer with the files in ``folder``, as most tools compress it.

    ``without`` is a folder in it, as a path from there, that is left out.
    """
    counter = Counter()
    with (
        gzip.GzipFile(fileobj=counter, mode="wb", compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w|") as archive,
    ):
        archive.add(folder, arcname=".", filter=lambda each: None if each.name == f"./{without}" else each)
    return counter.size


def megabytes(size: float) -> str:
    return f"{size / 1e6:.1f} MB"


def test_the_virtual_environment_is_small(image: Image, measured: Measured) -> None:
    found = [status for _, status in entries(image.venv)]
    size = sum(status.st_size for status in found)
    blocks = on_disk(found)
    here = sum(status.st_blocks * 512 for status in found)
    measured(
        f"virtual environment: {megabytes(size)} in {len(found)} entries, "
        f"{megabytes(blocks)} in blocks of 4 KiB, {megabytes(here)} on this disk"
    )
    measured(f"removed from it before byte code was added: {megabytes(image.removed_bytes)}")
    largest = sorted(
        (
            (on_disk(status for _, status in entries(path)), path.name)
            for path in image.site_packages.iterdir()
        ),
        reverse=True,
    )
    measured("largest: " + ", ".join(f"{name} {megabytes(bytes_)}" for bytes_, name in largest[:12]))
    assert size <= MOST_BYTES
    assert blocks <= MOST_BYTES


def test_a_node_downloads_little_beside_the_base(image: Image, measured: Measured) -> None:
    venv = image.venv.relative_to(image.rootfs)
    base = sum(
        status.st_size for path, status in entries(image.rootfs) if image.venv not in (path, *path.parents)
    )
    own = sum(status.st_size for _, status in entries(image.venv))
    packed_base, packed_own = compressed(image.rootfs, without=str(venv)), compressed(image.venv)
    measured(f"image: {megabytes(base + own)}, of which {megabytes(base)} are the base")
    measured(
        f"image, compressed: {megabytes(packed_base + packed_own)}, "
        f"of which {megabytes(packed_base)} are the base"
    )
    assert packed_own <= MOST_COMPRESSED_BYTES


def test_it_has_the_pinned_distributions_and_no_other(image: Image) -> None:
    lines = re.findall(r"^([\w.-]+==[^\\\n]+)", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE)
    pinned = [Requirement(line.strip()) for line in lines]
    wanted = {each.name: str(each.specifier).removeprefix("==") for each in pinned if each.name not in CUT}
    found = {}
    for metadata in image.site_packages.glob("*.dist-info/METADATA"):
        head = dict(re.findall(r"^(Name|Version): (.+)$", metadata.read_text(), re.MULTILINE))
        found[re.sub(r"[-_.]+", "-", head["Name"]).lower()] = head["Version"]
    assert found == {**wanted, "winpool": __version__}


def test_it_has_the_licences_of_all_that_it_adds_and_those_of_its_base(image: Image) -> None:
    licences = image.rootfs / "licenses"
    added = {path.name.partition("-")[0].lower() for path in image.site_packages.glob("*.dist-info")}
    assert {path.name.replace("-", "_") for path in licences.iterdir() if path.is_dir()} == added
    assert (licences / "winpool" / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert "\nwinpool " in (licences / "README.txt").read_text()
    assert [*image.rootfs.glob("usr/share/doc/base-files/copyright")]
    assert {(status.st_uid, status.st_gid) for _, status in entries(licences)} == {(0, 0)}


def test_its_only_command_is_python_and_the_plugin_is_not_in_it(image: Image) -> None:
    names = {path.name for path in (image.venv / "bin").iterdir()}
    assert {name for name in names if not name.startswith("python")} == set()
    assert not (image.site_packages / "winpool" / "cli").exists()
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
    assert labels["source"] == Addresses.read().repository
    assert labels["licenses"] == "Apache-2.0"
    assert labels["base.name"] == image.base
    assert "description" in labels


def test_it_runs_as_65532_and_starts_the_operator_without_a_shell(image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["/opt/winpool/bin/python", "-m", "winpool"]
    assert image.config["Cmd"] == ["run"]
