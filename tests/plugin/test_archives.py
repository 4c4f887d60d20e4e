"""The archives of a release: installed by krew on Linux; for the other systems, what they have."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pytest
import yaml

from harness.installed_plugin import Installation
from plugin import offline
from release.plugin import MINORS, TARGETS, Target, build_wheel
from testbed.build import ensure_binary
from testbed.krew import ensure_krew
from winpool import __version__

ARCH: Final = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
HERE: Final = next(target for target in TARGETS if (target.os, target.arch) == ("linux", ARCH))

KINDS: Final = {"linux": r"manylinux", "darwin": r"macosx_(10_\d+|11_0)_", "windows": r"win_"}
MACHINES: Final = {
    "linux": {"amd64": "x86_64", "arm64": "aarch64"},
    "darwin": {"amd64": "x86_64", "arm64": "arm64"},
    "windows": {"amd64": "amd64", "arm64": "arm64"},
}


@pytest.fixture
def installed(released: Path, tmp_path: Path) -> Installation:
    """The plugin as krew installs it, and a user whose PATH has kubectl, krew's folder and no Python yet."""
    root, path, home = tmp_path / "krew", tmp_path / "bin", tmp_path / "home"
    path.mkdir()
    home.mkdir()
    (path / "kubectl").symlink_to(ensure_binary())
    manifest, archive = released / "winpool.yaml", released / HERE.file
    done = subprocess.run(
        [ensure_krew(), "install", f"--manifest={manifest}", f"--archive={archive}"],
        env={"KREW_ROOT": str(root), "HOME": str(home), "PATH": f"{path}:/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (path / "kubectl-winpool").symlink_to(root / "bin" / "kubectl-winpool")
    return Installation(root / "store" / "winpool" / f"v{__version__}", home, path)


def test_every_verb_works_as_a_plugin_of_kubectl(installed: Installation, python: Path) -> None:
    (installed.path / "python3").symlink_to(python)
    environment = {"HOME": str(installed.home), "PATH": f"{installed.path}:/usr/bin:/bin"}
    offline.check([str(installed.path / "kubectl"), "winpool"], environment=environment)
    [kept] = installed.kept
    assert kept.name.endswith(f"-cpython-{python.name.removeprefix('python').replace('.', '')}")
    # Nothing is compiled later: all of it was compiled when it was unpacked.
    before = {path: path.stat().st_mtime_ns for path in kept.rglob("*")}
    offline.check([str(installed.folder / "kubectl-winpool")], environment=environment)
    assert {path: path.stat().st_mtime_ns for path in kept.rglob("*")} == before


def test_kubectl_completes_its_verbs(installed: Installation) -> None:
    (installed.path / "python3").symlink_to(os.path.realpath(sys.executable))
    (installed.path / "kubectl_complete-winpool").symlink_to(installed.folder / "kubectl_complete-winpool")
    ended = installed.run("__complete", "winpool", "runt", command=installed.path / "kubectl")
    assert (ended.code, ended.out.partition("\t")[0]) == (0, "runtimeclass"), ended.err


def test_it_works_where_home_can_only_be_read(installed: Installation, python: Path, tmp_path: Path) -> None:
    (installed.path / "python3").symlink_to(python)
    inside = (
        f"mount -t tmpfs -o ro none {installed.home} && exec {installed.folder / 'kubectl-winpool'} matrix"
    )
    done = subprocess.run(
        ["unshare", "--map-root-user", "--mount", "sh", "-c", inside],
        env={
            "HOME": str(installed.home),
            "PATH": f"{installed.path}:/usr/bin:/bin:/sbin",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, "END-OF-SUPPORT" in done.stdout) == (0, True), done.stderr
    assert "Read-only file system" in done.stderr
    assert [*tmp_path.glob("kubectl-winpool.*")] == []


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: f"{target.os}-{target.arch}")
def test_each_archive_has_wheels_for_its_system_and_each_python(released: Path, target: Target) -> None:
    """Of macOS and Windows this is all that is tested: nothing runs there."""
    files = content_of(released / target.file)
    index = json.loads(files["wheels/index.json"])
    assert list(index) == [f"3.{minor}" for minor in target.minors]
    for version, wheels in index.items():
        assert len(wheels) == len(next(iter(index.values())))
        compiled = [name for name in wheels if not name.endswith("-none-any.whl")]
        assert sorted(name.partition("-")[0] for name in compiled) == ["msgspec", "pydantic_core", "pyyaml"]
        for name in compiled:
            python, _, tags = name.removesuffix(".whl").split("-")[2:5]
            assert python == f"cp{version.replace('.', '')}"
            for tag in tags.split("."):
                assert re.match(KINDS[target.os], tag)
                assert tag.endswith(MACHINES[target.os][target.arch])
    assert {target.command, target.completing} <= files.keys()
    assert {name.split("/")[1] for name in files if name.startswith("licenses/")} == {
        "README.txt",
        *(name.partition("-")[0].replace("_", "-") for name in index[f"3.{MINORS[-1]}"]),
    }


def content_of(archive: Path) -> dict[str, bytes]:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened_tar:
        found = {entry.name: opened_tar.extractfile(entry) for entry in opened_tar.getmembers()}
        return {name: (file or io.BytesIO()).read() for name, file in found.items()}


def test_the_manifest_has_the_checksum_of_each_archive(released: Path) -> None:
    platforms = yaml.safe_load((released / "winpool.yaml").read_text())["spec"]["platforms"]
    assert len(platforms) == 4
    for each in platforms:
        archive = released / each["uri"].rpartition("/")[2]
        assert each["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_the_wheel_is_the_same_each_time_it_is_built(released: Path, tmp_path: Path) -> None:
    again = build_wheel(tmp_path)
    assert again.read_bytes() == (released / again.name).read_bytes()
