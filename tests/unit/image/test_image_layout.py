"""``make image-layout``: the commands for buildah; ``make test-release`` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest

from layout import main

ASKED = (
    "--name",
    "example.com/winpool:1.2",
    "--version",
    "1.2",
    "--revision",
    "abc",
    "--source",
    "https://a.b",
)


def a_buildah(folder: Path) -> Path:
    """Put a buildah into a folder that writes down what it is asked, and return where."""
    log = folder / "log"
    program = folder / "buildah"
    program.write_text(f'#!/bin/sh\necho "$*" >> {log}\n')
    program.chmod(0o755)
    return log


def test_the_image_is_built_and_written_into_the_layout_by_the_name_of_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    log = a_buildah(tmp_path)
    layout = tmp_path / "dist" / "image"
    assert main([*ASKED, "--platform", "linux/arm64", str(layout)]) == 0
    build, push = log.read_text().splitlines()
    assert build.startswith("build --file Dockerfile --tag example.com/winpool:1.2 ")
    assert "--platform linux/arm64" in build
    assert push == f"push --quiet --format=oci example.com/winpool:1.2 oci:{layout}:1.2"


def test_layouts_are_put_together_and_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    monkeypatch.chdir(tmp_path)
    log = a_buildah(tmp_path)
    assert main([*ASKED, "--join", "amd64", "arm64", "--", "image"]) == 0
    create, first, second, push = log.read_text().splitlines()
    assert create.startswith("manifest create ")
    assert (first.split()[-1], second.split()[-1]) == (
        f"oci:{tmp_path}/amd64:1.2",
        f"oci:{tmp_path}/arm64:1.2",
    )
    assert push.split()[:5] == ["manifest", "push", "--quiet", "--all", "--rm"]
    assert push.endswith(f" oci:{tmp_path}/image:1.2")


def test_an_earlier_layout_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    a_buildah(tmp_path)
    (tmp_path / "image").mkdir()
    (tmp_path / "image" / "index.json").write_text("{}")
    assert main([*ASKED, str(tmp_path / "image")]) == 0
    assert not (tmp_path / "image").exists(), "this buildah writes none"


def test_where_buildah_is_missing_a_sentence_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main([*ASKED, str(tmp_path / "image")]) == 1
    assert "needs buildah: install the package" in capsys.readouterr().err


def test_what_buildah_fails_at_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    log = a_buildah(tmp_path)
    (tmp_path / "buildah").write_text(f'#!/bin/sh\necho "$*" >> {log}\nexit 125\n')
    assert main([*ASKED, str(tmp_path / "image")]) == 125
    assert len(log.read_text().splitlines()) == 1
