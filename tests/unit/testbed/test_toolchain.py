"""Which Go is good enough, and what the one we install is pinned to."""

import re
from pathlib import Path

import pytest

from testbed import toolchain
from testbed.pins import Pins, all_pins


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go1.26.6\n", (1, 26)),
        ("go1.26rc1", (1, 26)),
        ("devel go1.27-abcdef Mon Jan 5", (1, 27)),
        ("go1.9.7", (1, 9)),
        ("", None),
        ("gccgo 14", None),
    ],
)
def test_versions_as_go_prints_them(text: str, version: tuple[int, int] | None) -> None:
    assert toolchain.parse_version(text) == version


def script(directory: Path, content: str) -> Path:
    go = directory / "go"
    go.write_text(f"#!/bin/sh\n{content}\n")
    go.chmod(0o755)
    return go


@pytest.mark.parametrize(
    ("content", "good"),
    [
        ("echo go1.26.0", True),
        ("echo go2.0.1", True),
        ("echo go1.25.9", False),
        ("exit 3", False),
        ("true", False),
    ],
)
def test_a_go_is_asked_for_its_version(tmp_path: Path, content: str, *, good: bool) -> None:
    assert toolchain.is_new_enough(script(tmp_path, content)) is good


def test_a_go_that_cannot_run_is_no_go(tmp_path: Path) -> None:
    assert not toolchain.is_new_enough(tmp_path / "missing")


@pytest.mark.parametrize("pins", all_pins(), ids=lambda pins: pins.kubernetes)
def test_the_minimum_is_what_go_mod_asks_for(pins: Pins) -> None:
    asked = re.search(r"^go (\d+)\.(\d+)", pins.go_mod.read_text(), re.MULTILINE)
    assert asked is not None
    assert (int(asked[1]), int(asked[2])) == toolchain.MINIMUM
    pinned = toolchain.parse_version(f"go{toolchain.pinned_version()}")
    assert pinned is not None
    assert pinned >= toolchain.MINIMUM


def test_the_environment_fetches_no_toolchain_and_changes_no_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOROOT", "/elsewhere")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOCACHE", "/my/cache")
    monkeypatch.setenv("PATH", "/usr/bin")
    environment = toolchain.environment_for(Path("/go/bin/go"))
    assert "GOROOT" not in environment
    chosen = {
        name: environment[name] for name in ("GOFLAGS", "GOTOOLCHAIN", "CGO_ENABLED", "GOCACHE", "PATH")
    }
    assert chosen == {
        "GOFLAGS": "-mod=readonly",
        "GOTOOLCHAIN": "local",
        "CGO_ENABLED": "0",
        "GOCACHE": "/my/cache",
        "PATH": "/go/bin:/usr/bin",
    }
