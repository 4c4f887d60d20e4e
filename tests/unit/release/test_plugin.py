"""The archives of the plugin and the manifest for krew, made of wheels that are there already."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from harness.documents import ROOT
from harness.installed_plugin import wheel
from release import plugin
from release.install import ReleaseError
from release.plugin import LAUNCHER, MINORS, PINS, TARGETS, Target
from winpool import __version__

LINUX = Target(os="linux", arch="amd64", tags=(), minors=(11, 12))
WINDOWS = Target(os="windows", arch="arm64", tags=(), minors=(12, 13))


@pytest.fixture
def wheels(tmp_path: Path) -> list[Path]:
    """One for each of two versions of Python, and one for both."""
    return [wheel(tmp_path, name, {f"{name}.py": ""}) for name in ("eleven", "twelve", "both")]


@pytest.fixture
def files(wheels: list[Path], tmp_path: Path) -> dict[str, bytes]:
    """The files of an archive with licences."""
    eleven, twelve, both = wheels
    (tmp_path / "licenses" / "a").mkdir(parents=True)
    (tmp_path / "licenses" / "a" / "COPYING").write_text("free")
    return plugin.files_of(LINUX, {11: [eleven, both], 12: [twelve, both]}, tmp_path / "licenses")


def test_an_archive_has_each_wheel_once_and_all_licences(files: dict[str, bytes]) -> None:
    assert files.keys() == {
        *(
            "LICENSE",
            "kubectl-winpool",
            "kubectl_complete-winpool",
            "licenses/a/COPYING",
            "start.py",
            "wheels/digest",
            "wheels/index.json",
        ),
        *(f"wheels/{name}-1-py3-none-any.whl" for name in ("both", "eleven", "twelve")),
    }
    assert files["LICENSE"] == (ROOT / "LICENSE").read_bytes()


def test_the_digest_is_of_the_index_which_has_the_digest_of_every_wheel(files: dict[str, bytes]) -> None:
    assert files["wheels/digest"].decode() == hashlib.sha256(files["wheels/index.json"]).hexdigest()
    index = json.loads(files["wheels/index.json"])
    assert {version: list(names) for version, names in index.items()} == {
        f"3.{minor}": [f"{name}-1-py3-none-any.whl" for name in (own, "both")]
        for minor, own in ((11, "eleven"), (12, "twelve"))
    }
    for names in index.values():
        for name, digest in names.items():
            assert hashlib.sha256(files[f"wheels/{name}"]).hexdigest() == digest


def test_a_tar_has_files_of_nobody_in_order_of_the_time_that_is_set(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    with tarfile.open(fileobj=io.BytesIO(plugin.packed(LINUX, files))) as archive:
        entries = archive.getmembers()
    assert [entry.name for entry in entries] == sorted(files)
    assert {(entry.mtime, entry.uid, entry.uname) for entry in entries} == {(1700000000, 0, "")}
    assert [entry.name for entry in entries if entry.mode != 0o644] == [
        *("kubectl-winpool", "kubectl_complete-winpool"),
    ]
    assert {entry.mode for entry in entries} == {0o644, 0o755}


def test_a_zip_has_files_in_order_of_the_earliest_time_where_none_is_set(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    with zipfile.ZipFile(io.BytesIO(plugin.packed(WINDOWS, files))) as archive:
        entries = archive.infolist()
        assert archive.read("LICENSE") == files["LICENSE"]
    assert [entry.filename for entry in entries] == sorted(files)
    assert {entry.date_time for entry in entries} == {(1980, 1, 1, 0, 0, 0)}


@pytest.mark.parametrize("target", [LINUX, WINDOWS], ids=lambda target: target.os)
def test_the_same_files_give_the_same_bytes(target: Target, files: dict[str, bytes]) -> None:
    backwards = dict(reversed(files.items()))
    assert plugin.packed(target, backwards) == plugin.packed(target, files)


def test_a_gzip_says_no_time_of_its_own_and_no_name(
    files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    packed = plugin.packed(LINUX, files)
    assert packed[3] == 0
    assert int.from_bytes(packed[4:8], "little") == 1700000000
    assert gzip.decompress(packed)


def test_a_launcher_names_the_versions_that_there_are_packages_for() -> None:
    shell = plugin.filled(LAUNCHER / "kubectl-winpool", (11, 12)).decode()
    assert "(3, 11) <= sys.version_info[:2] <= (3, 12)" in shell
    assert "for python in python3 python3.12 python3.11 python; do" in shell
    batch = plugin.filled(LAUNCHER / "kubectl-winpool.cmd", (12, 13)).decode()
    assert "(3, 12) <= sys.version_info[:2] <= (3, 13)" in batch
    assert '("py -3" "py -3.13" "py -3.12" "python" "python3")' in batch
    assert re.findall("@[A-Z]+@", shell + batch) == []
    assert batch.count("\n") == batch.count("\r\n")


def test_there_is_an_archive_for_each_system_and_architecture() -> None:
    assert [target.file for target in TARGETS] == [
        *(f"kubectl-winpool-{system}-{arch}.tar.gz" for system in ("linux", "darwin") for arch in ARCHES),
        *(f"kubectl-winpool-windows-{arch}.zip" for arch in ARCHES),
    ]
    assert all(set(target.minors) <= set(MINORS) for target in TARGETS)


ARCHES = ("amd64", "arm64")


def test_the_manifest_is_one_that_krew_takes() -> None:
    """By ``internal/index/validation`` of krew; ``make test-plugin`` installs with krew itself."""
    digests = {target: hashlib.sha256(target.file.encode()).hexdigest() for target in TARGETS}
    found = yaml.safe_load(plugin.manifest("https://example.org/winpool", digests))
    assert (found["apiVersion"], found["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert found["metadata"] == {"name": "winpool"}
    assert found["spec"]["version"] == f"v{__version__}"
    assert "\n" not in found["spec"]["shortDescription"]
    assert len(found["spec"]["shortDescription"]) <= 50
    assert max(len(line) for line in found["spec"]["description"].splitlines()) <= 80
    assert found["spec"]["platforms"] == [
        {
            "selector": {"matchLabels": {"os": target.os, "arch": target.arch}},
            "uri": f"https://example.org/winpool/releases/download/v{__version__}/{target.file}",
            "sha256": digests[target],
            "bin": "kubectl-winpool",
        }
        for target in TARGETS
        if target.os != "windows"
    ]


def test_on_windows_no_program_is_taken_from_the_current_folder() -> None:
    lines = plugin.filled(LAUNCHER / "kubectl-winpool.cmd", (12, 13)).decode().split("\r\n")
    setting = lines.index("set NoDefaultCurrentDirectoryInExePath=1")
    assert lines.index("setlocal") < setting < next(at for at, each in enumerate(lines) if "%%P" in each)


def test_a_package_without_a_licence_is_not_published(wheels: list[Path], tmp_path: Path) -> None:
    bare = wheel(tmp_path, "bare", {"bare-1.dist-info/METADATA": "Name: bare\nVersion: 1\n"})
    with pytest.raises(ReleaseError, match="bare: there is no text of its licence"):
        plugin.licences_of([bare], tmp_path / "unpacked")


def test_the_licences_are_those_that_the_packages_bring(tmp_path: Path) -> None:
    named = {"good-1.dist-info/METADATA": "Name: good\nVersion: 1\nLicense: MIT\n"}
    good = wheel(tmp_path, "good", {**named, "good-1.dist-info/LICENSE": "as is"})
    found = plugin.licences_of([good], tmp_path / "unpacked")
    assert (found / "good" / "LICENSE").read_text() == "as is"
    assert (found / "README.txt").read_text().endswith("\ngood 1: MIT (good/LICENSE)\n")


def test_the_pins_need_no_marker_which_pip_would_judge_by_the_wrong_python() -> None:
    assert [line for line in PINS.read_text().splitlines() if ";" in line] == []
