"""A release: what is refused, its notes and checksums, and that it is the same when it is made again."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness.documents import ROOT
from release import __main__ as making
from release import plugin
from release.addresses import Addresses
from release.chart import chart_files
from release.install import COPIED, FOLDERS, ReleaseError, file_of
from release.layout import digest_of
from release.notes import notes, section
from release.packing import (
    SUMS,
    checksums,
    main,
    packed,
    replace,
    require_checksums,
    require_replaceable,
)
from release.ready import Checkout, faults, require_digest
from winpool import __version__

DIGEST: Final = f"sha256:{'ab' * 32}"
REACHED: Final = Addresses(
    image="registry.example/winpool", repository="https://git.example/winpool", docs="https://docs.example"
)
CHANGELOG: Final = """\
# Changelog

## Unreleased

Not yet.

## 1.2.3 (2027-01-02)

It [warns](docs/operator.md#run) and [tells](https://other.example/page).

### Fixed
- A thing.

## 1.2.2

Older.
"""
TAGGED: Final = Checkout(changed=(), tags=("v1.2.3",), seconds=1_800_000_000)


def refused(
    checkout: Checkout = TAGGED,
    *,
    addresses: Addresses = REACHED,
    changelog: str = CHANGELOG,
    digest: str = DIGEST,
) -> list[str]:
    return faults(checkout, addresses=addresses, changelog=changelog, digest=digest, version="1.2.3")


# What is refused.


def test_a_commit_that_has_all_of_it_is_a_release() -> None:
    assert refused() == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"addresses": dataclasses.replace(REACHED, docs="https://docs.invalid/winpool")}, "DOCS in deploy/"),
        ({"checkout": dataclasses.replace(TAGGED, changed=["Makefile"])}, "Makefile is not as in the commit"),
        (
            {"checkout": dataclasses.replace(TAGGED, changed=["a", "b", "c"])},
            "a and 2 more files are not as in the commit",
        ),
        ({"checkout": dataclasses.replace(TAGGED, tags=["v1.2.2"])}, "git tag v1.2.3"),
        ({"changelog": CHANGELOG.replace("## 1.2.3", "## 1.2.30")}, "'## 1.2.3'"),
        ({"digest": ""}, "make image-layout"),
    ],
)
def test_what_is_missing_is_one_sentence_that_says_what_to_do(changed: dict[str, Any], said: str) -> None:
    [sentence] = refused(**changed)
    assert said in sentence
    assert "\n" not in sentence


def test_a_refused_release_writes_nothing_and_names_all_that_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "dist"
    monkeypatch.setattr(Addresses, "read", lambda: dataclasses.replace(REACHED, image="a.invalid/b"))
    assert making.main([str(there)]) == 1
    said = capsys.readouterr().err
    assert "nothing was written" in said
    assert "IMAGE in deploy/release.env" in said
    assert "make image-layout" in said
    assert "LOCAL=1" in said
    assert not there.exists()


@pytest.mark.parametrize("digest", ["sha256:abc", "ab" * 32, f"{DIGEST}0"])
def test_a_digest_that_is_none_is_refused(
    digest: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match="is no digest"):
        require_digest(digest)
    assert making.main([str(tmp_path), "--local", "--digest", digest]) == 1
    assert f"{digest} is no digest" in capsys.readouterr().err


def test_git_says_what_has_changed_which_tags_a_commit_has_and_when_it_was_made(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, check=True)

    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "First", "--date", "2027-01-02T03:04:05Z")
    git("tag", "v1")
    clean = Checkout.read(tmp_path)
    assert (clean.changed, clean.tags) == ([], ["v1"])
    assert clean.seconds > 0
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("new")
    assert Checkout.read(tmp_path) == dataclasses.replace(clean, changed=["a", "b"])
    (tmp_path / ".git" / "ignored").write_text("b\n")
    for setting in (("status.showUntrackedFiles", "no"), ("core.excludesFile", ".git/ignored")):
        git("config", *setting)
        assert Checkout.read(tmp_path).changed == ["a", "b"], setting


# The notes.


def test_the_notes_are_the_section_of_the_version_and_no_other() -> None:
    found = section(CHANGELOG, "1.2.3")
    assert found.startswith("It [warns]")
    assert found.endswith("- A thing.")
    assert section(CHANGELOG, "1.2") == ""


def test_links_of_the_notes_lead_to_the_files_of_that_version() -> None:
    found = notes(CHANGELOG, version="1.2.3", digest=DIGEST, addresses=REACHED)
    assert "[warns](https://git.example/winpool/blob/v1.2.3/docs/operator.md#run)" in found
    assert "[tells](https://other.example/page)" in found
    assert f"`registry.example/winpool:1.2.3@{DIGEST}`" in found
    assert "(https://docs.example/1.2.3/install.html)" in found


def test_before_a_version_has_its_section_the_notes_are_what_is_not_released() -> None:
    found = notes(CHANGELOG, version="2.0.0", digest="", addresses=REACHED)
    assert "Not yet." in found
    assert "`registry.example/winpool:2.0.0`" in found


def test_the_notes_of_this_version_have_no_relative_link() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    found = notes(changelog, version=__version__, digest=DIGEST, addresses=REACHED)
    links = re.findall(r"\]\(([^)]+)\)", found)
    assert len(links) > 10
    assert [each for each in links if not each.startswith(("https://", "#"))] == []


# Archives, checksums, digests.


def test_an_archive_of_the_same_files_is_the_same() -> None:
    files = {"a/b": b"1", "a/c": b"22"}
    first = packed(files, seconds=1_800_000_000)
    assert first == packed(files, seconds=1_800_000_000)
    assert gzip.decompress(first) != gzip.decompress(packed(files, seconds=1_800_000_001))
    with tarfile.open(fileobj=io.BytesIO(first)) as tar:
        members = tar.getmembers()
    assert [(each.name, each.size, each.mtime, each.uid, each.mode) for each in members] == [
        ("a/b", 1, 1_800_000_000, 0, 0o644),
        ("a/c", 2, 1_800_000_000, 0, 0o644),
    ]


def test_the_chart_of_a_release_pins_its_image() -> None:
    files = chart_files(image=REACHED.image, digest=DIGEST)
    assert next(iter(files)) == "winpool/Chart.yaml"
    values = yaml.safe_load(files["winpool/values.yaml"])
    assert (values["image"]["repository"], values["image"]["digest"]) == (REACHED.image, DIGEST)
    before = yaml.safe_load((ROOT / "deploy" / "chart" / "values.yaml").read_text())
    assert {**values, "image": before["image"]} == before
    assert "winpool/templates/_helpers.tpl" in files


def test_checksums_are_those_of_sha256sum_and_a_changed_byte_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    (tmp_path / "image").mkdir()
    assert main([str(tmp_path)]) == 0
    done = subprocess.run(
        ["sha256sum", "--check", SUMS], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "a: OK\nb: OK\n")
    require_checksums(tmp_path)
    (tmp_path / "b").write_text("3")
    (tmp_path / "c").write_text("new")
    with pytest.raises(ReleaseError, match=r"b, c in .* not as make release left it"):
        require_checksums(tmp_path)


def test_without_checksums_there_is_no_release(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match="make release"):
        require_checksums(tmp_path)
    assert checksums(tmp_path) == ""


def test_a_release_takes_the_place_of_an_earlier_one_and_of_nothing_else(tmp_path: Path) -> None:
    there, made = tmp_path / "dist", tmp_path / "made"
    for name in ("first", "second"):
        made.mkdir()
        (made / name).write_text(name)
        require_replaceable(there)
        replace(there, made)
        made.rmdir()
        (there / "image").mkdir(exist_ok=True)
    assert {path.name for path in there.iterdir()} == {"second", SUMS, "image"}
    (there / "letter.txt").write_text("of a person")
    with pytest.raises(ReleaseError, match=r"letter\.txt.*DIST="):
        require_replaceable(there)


def layout(folder: Path, *names: str) -> Path:
    manifests = [
        {"digest": DIGEST, "annotations": {"org.opencontainers.image.ref.name": name}} for name in names
    ]
    (folder / "index.json").write_text(json.dumps({"manifests": manifests}))
    return folder


def test_the_digest_is_that_of_the_image_with_the_name_of_the_version(tmp_path: Path) -> None:
    assert digest_of(tmp_path, "1.2.3") == ""
    assert digest_of(layout(tmp_path, "1.2.3"), "1.2.3") == DIGEST


def test_a_layout_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"has no image 1\.2\.3"):
        digest_of(layout(tmp_path, "1.2.2"), "1.2.3")


# What is in it.


def test_each_kustomization_that_people_apply_has_its_file() -> None:
    names = [file_of(folder) for folder in FOLDERS]
    assert names[0] == "install.yaml"
    assert "install-memory.yaml" in names
    assert len(set(names) | set(COPIED)) == len(names) + len(COPIED)
    assert all(path.is_file() for path in COPIED.values())


@pytest.mark.slow
def test_two_wheels_of_one_commit_are_equal_to_the_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1800000000")
    first, second = (plugin.build_wheel(tmp_path / name) for name in ("first", "second"))
    assert first.name == f"winpool-{__version__}-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
def test_each_step_of_the_plugin_is_said_and_why_it_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    said: list[str] = []
    with pytest.raises(ReleaseError, match=r"the plugin cannot be made: pip download failed"):
        making.build_plugin(tmp_path, seconds=1_800_000_000, report=said.append)
    assert said == ["Building the wheel", "Downloading the packages of the plugin for linux-amd64"]
