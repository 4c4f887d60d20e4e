"""``make image`` takes whichever tool works, and says why where none does."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

import builder
from builder import PIP_SETTINGS, NoBuilderError, choose, command, main, probe


def test_the_first_tool_that_works_is_taken() -> None:
    faults = {"docker": "the daemon does not run", "podman": None, "buildah": None}
    assert choose(lambda tool: faults[tool]) == "podman"


def test_where_none_works_each_is_named_with_its_fault() -> None:
    faults = {"docker": "the daemon does not run", "podman": "not installed", "buildah": "not installed"}
    with pytest.raises(NoBuilderError) as caught:
        choose(lambda tool: faults[tool])
    for tool, fault in faults.items():
        assert f"{tool}: {fault}" in str(caught.value)
    assert "Install" in str(caught.value)


def test_a_machine_without_any_gets_one_sentence_and_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (
        main(
            ["--name", "winpool:1", "--version", "1", "--revision", "abc", "--source", "https://example.com"]
        )
        == 1
    )
    assert "docker: not installed; podman: not installed; buildah: not installed" in capsys.readouterr().err


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_a_tool_whose_daemon_is_away_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    fake(tmp_path, "docker", 'echo "half of it"; echo "Cannot connect to the daemon" >&2; exit 1')
    assert probe("docker") == "Cannot connect to the daemon"
    assert probe("podman") == "not installed"


def test_the_tool_builds_at_the_root_of_the_repository_with_all_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    log = tmp_path / "log"
    fake(tmp_path, "podman", f'echo "$PWD $*" >> {log}')
    asked = [
        "--name",
        "example.com/winpool:1.2",
        "--version",
        "1.2",
        "--revision",
        "abc",
        "--source",
        "https://example.com",
    ]
    assert main([*asked, "--base", "python:x@sha256:1", "--platform", "linux/arm64"]) == 0
    line = log.read_text().splitlines()[-1]
    assert line.startswith(f"{builder.ROOT} build --file Dockerfile --tag example.com/winpool:1.2 ")
    for part in ("VERSION=1.2", "REVISION=abc", "SOURCE=https://example.com", "BASE=python:x@sha256:1"):
        assert f"--build-arg {part} " in line
    assert "--platform linux/arm64" in line
    assert line.endswith(" .")


def test_settings_of_pip_are_handed_on_by_name_only() -> None:
    secret = "https://user:password@index.example.com/simple"
    found = command(
        "docker",
        name="a:1",
        version="1",
        revision="b",
        source="c",
        environment={"PIP_INDEX_URL": secret, "PIP_CERT": ""},
    )
    assert found[found.index("PIP_INDEX_URL") - 1] == "--build-arg"
    assert "PIP_CERT" not in found
    assert [each for each in found if "password" in each] == []


def test_without_a_base_the_dockerfile_decides() -> None:
    found = command("docker", name="a:1", version="1", revision="b", source="c", environment={})
    assert [each for each in found if each.startswith(("BASE", "--platform"))] == []


def test_the_dockerfile_takes_every_setting_of_pip_that_is_handed_on() -> None:
    text = (builder.ROOT / "Dockerfile").read_text()
    assert [name for name in PIP_SETTINGS if f"\nARG {name}\n" not in text] == []
