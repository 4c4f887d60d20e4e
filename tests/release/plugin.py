"""Writes what the plugin is installed from: ``python -m release.plugin DIRECTORY``.

The wheel of winpool, an archive for each system that krew and people install from, and the manifest for krew.
An archive has the wheels of winpool and of ``requirements/plugin.txt`` for each Python, and the launcher in
``launcher/``: no compiler and no single binary (``docs/adr/0049``). pip finds the wheels by their hashes.
The same commit gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import yaml

from release.addresses import Addresses
from release.install import ROOT, ReleaseError
from winpool import __version__

NAME: Final = "kubectl-winpool"
LAUNCHER: Final = Path(__file__).parent / "launcher"
PINS: Final = ROOT / "requirements" / "plugin.txt"

MINORS: Final = (11, 12, 13, 14)
"""Of Python 3: those that the archives have packages for."""

MANIFEST: Final = "winpool.yaml"

DESCRIPTION: Final = """\
Show the pools of Windows nodes in a cluster, find why nodes do not work, and
check manifests and pods before you apply them. It works with the winpool
operator; audit, diagnose, matrix and validate also work without it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A system to make an archive for. ``os`` and ``arch`` are the words of Go, which krew selects by."""

    os: str
    arch: str
    tags: tuple[str, ...]
    """Which wheels run there, as pip names platforms."""
    minors: tuple[int, ...] = MINORS

    @property
    def file(self) -> str:
        """Name of the archive."""
        return f"{NAME}-{self.os}-{self.arch}.{'zip' if self.os == 'windows' else 'tar.gz'}"

    @property
    def command(self) -> str:
        """Name of what starts the plugin."""
        return f"{NAME}.cmd" if self.os == "windows" else NAME

    @property
    def completing(self) -> str:
        """Name of what completes its command lines, by which kubectl finds it."""
        return self.command.replace("-", "_complete-", 1)


TARGETS: Final = (
    Target(os="linux", arch="amd64", tags=("manylinux_2_17_x86_64", "manylinux2014_x86_64")),
    Target(os="linux", arch="arm64", tags=("manylinux_2_17_aarch64", "manylinux2014_aarch64")),
    Target(os="darwin", arch="amd64", tags=("macosx_11_0_x86_64",)),
    Target(os="darwin", arch="arm64", tags=("macosx_11_0_arm64",)),
    Target(os="windows", arch="amd64", tags=("win_amd64",)),
    # PyYAML has no wheel for Python 3.11 there.
    Target(os="windows", arch="arm64", tags=("win_arm64",), minors=(12, 13, 14)),
)


def moment() -> int:
    """Return the time that files in archives get: ``SOURCE_DATE_EPOCH``, or the earliest of a zip."""
    return int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))


def run_pip(*arguments: str) -> None:
    """Run pip. Raises ReleaseError with what it printed where it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(moment())},
        check=False,
    )
    if done.returncode != 0:
        raise ReleaseError(f"pip {arguments[0]} failed:\n{done.stderr}")


def build_wheel(folder: Path) -> Path:
    """Build the wheel of winpool into a folder, and return it. Raises ReleaseError like ``run_pip``."""
    run_pip("wheel", "--no-deps", "--no-build-isolation", f"--wheel-dir={folder}", str(ROOT))
    return folder / f"winpool-{__version__}-py3-none-any.whl"


def download(target: Target, minor: int, folder: Path) -> list[Path]:
    """Download what the plugin needs, checked by its hashes, and return the wheels.

    Raises ReleaseError like ``run_pip``, also where a package has no wheel for the system.
    """
    pins = PINS.read_text()
    if ";" in pins:
        raise ReleaseError(f"{PINS} has a marker, and pip would judge it by the Python that it runs on")
    run_pip(
        "download",
        *("--require-hashes", "--no-deps", "--only-binary=:all:", "--implementation=cp"),
        *(f"--platform={tag}" for tag in target.tags),
        f"--python-version=3.{minor}",
        f"--dest={folder}",
        f"--requirement={PINS}",
    )
    found = sorted(folder.iterdir())
    if len(found) != len(re.findall("(?m)^[^ ]+==", pins)):
        raise ReleaseError(f"pip has downloaded {len(found)} files for {PINS}: {found}")
    return found


def files_of(target: Target, wheels: Mapping[int, Sequence[Path]], licences: Path) -> dict[str, bytes]:
    """Return the files of an archive, by their names in it.

    ``wheels`` are those for each minor version of Python; a wheel for several is in the archive once.
    """
    index = {
        f"3.{minor}": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
        for minor, paths in wheels.items()
    }
    content = json.dumps(index, indent=1).encode()
    return {
        **dict.fromkeys(
            (target.command, target.completing), filled(LAUNCHER / target.command, tuple(wheels))
        ),
        "start.py": (LAUNCHER / "start.py").read_bytes(),
        "wheels/digest": hashlib.sha256(content).hexdigest().encode(),
        "wheels/index.json": content,
        **{f"wheels/{path.name}": path.read_bytes() for paths in wheels.values() for path in paths},
        "LICENSE": (ROOT / "LICENSE").read_bytes(),
        **{
            f"licenses/{path.relative_to(licences).as_posix()}": path.read_bytes()
            for path in licences.rglob("*")
            if path.is_file()
        },
    }


def filled(launcher: Path, minors: Sequence[int]) -> bytes:
    """Return a launcher for these versions of Python; ``py -3.14`` is how Windows calls one."""
    is_windows = launcher.suffix == ".cmd"
    names = [f'"py -3.{minor}"' if is_windows else f"python3.{minor}" for minor in reversed(minors)]
    words = {"OLDEST": str(min(minors)), "NEWEST": str(max(minors)), "NAMES": " ".join(names)}
    text = re.sub("@([A-Z]+)@", lambda found: words[found[1]], launcher.read_text())
    return (text.replace("\n", "\r\n") if is_windows else text).encode()


def packed(target: Target, files: Mapping[str, bytes]) -> bytes:
    """Return the archive with these files: sorted, of nobody, all of one time."""
    return (
        zipped(files)
        if target.os == "windows"
        else tarred(files, executable={target.command, target.completing})
    )


def zipped(files: Mapping[str, bytes]) -> bytes:
    """Return a zip of files."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, time.gmtime(moment())[:6]), content)
    return out.getvalue()


def tarred(files: Mapping[str, bytes], *, executable: Collection[str]) -> bytes:
    """Return a tar.gz of files, of which some can be executed."""
    out = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=out, mode="wb", mtime=moment()) as packing,
        tarfile.open(fileobj=packing, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = (
                len(content),
                moment(),
                0o755 if name in executable else 0o644,
            )
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def licences_of(wheels: Iterable[Path], folder: Path) -> Path:
    """Write the licences of packages into a folder of ``folder``, and return it.

    Raises ReleaseError where a package has none.
    """
    site = folder / "lib" / "python3" / "site-packages"
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as unpacked:
            unpacked.extractall(site)  # noqa: S202 - their hashes are ours
    command = [sys.executable, str(ROOT / "image" / "licenses.py"), str(folder), str(folder / "licenses")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(done.stderr.strip())
    return folder / "licenses"


def manifest(repository: str, digests: Mapping[Target, str]) -> str:
    """Return the manifest for krew. ``digests`` has the SHA-256 of each archive.

    On Windows krew starts a plugin by a link that ends with ``.exe``, which cannot lead to a script: people
    unpack the archive there.
    """
    return yaml.safe_dump(
        {
            "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
            "kind": "Plugin",
            "metadata": {"name": "winpool"},
            "spec": {
                "version": f"v{__version__}",
                "homepage": repository,
                "shortDescription": "Show, check and debug pools of Windows nodes",
                "description": DESCRIPTION,
                "caveats": f"Needs Python 3.{min(MINORS)} to 3.{max(MINORS)} on the PATH, as python3.\n",
                "platforms": [
                    {
                        "selector": {"matchLabels": {"os": target.os, "arch": target.arch}},
                        "uri": f"{repository}/releases/download/v{__version__}/{target.file}",
                        "sha256": digest,
                        "bin": target.command,
                    }
                    for target, digest in digests.items()
                    if target.os != "windows"
                ],
            },
        },
        sort_keys=False,
    )


def write(to: Path, *, repository: str, report: Callable[[str], None]) -> list[Path]:
    """Write the wheel, the archives and the manifest into a folder, and return them.

    ``report`` gets each step. Raises ReleaseError where a package cannot be had, or brings no licence.
    """
    to.mkdir(parents=True, exist_ok=True)
    report("Building the wheel")
    own = build_wheel(to)
    digests = {}
    for target in TARGETS:
        report(f"Downloading the packages of the plugin for {target.os}-{target.arch}")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            wheels = {minor: [*download(target, minor, folder / str(minor)), own] for minor in target.minors}
            licences = licences_of(wheels[max(wheels)], folder / "unpacked")
            archive = packed(target, files_of(target, wheels, licences))
        (to / target.file).write_bytes(archive)
        digests[target] = hashlib.sha256(archive).hexdigest()
    (to / MANIFEST).write_text(manifest(repository, digests))
    return [own, *(to / target.file for target in TARGETS), to / MANIFEST]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point: write the files and print each step; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release.plugin", description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    given = parser.parse_args(arguments)
    try:
        write(
            given.directory,
            repository=Addresses.read().repository,
            report=partial(print, flush=True),
        )
    except ReleaseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
