"""The module that cosign is built from, and what decides on its binary."""

from __future__ import annotations

import re
from pathlib import Path

from testbed.cosign import GO_MOD, MODULE, PACKAGE, program
from testbed.helm import required_version
from testbed.toolchain import MINIMUM

TEXT = GO_MOD.read_text()


def test_the_module_asks_for_the_same_go_as_the_control_plane_and_names_no_toolchain() -> None:
    asked = re.search(r"^go (\d+)\.(\d+)\.0$", TEXT, re.MULTILINE)
    assert asked is not None
    assert (int(asked[1]), int(asked[2])) == MINIMUM
    assert not re.search(r"^toolchain ", TEXT, re.MULTILINE)


def test_cosign_is_the_one_tool_and_its_version_is_exact_and_has_a_checksum() -> None:
    assert re.findall(r"^tool (\S+)$", TEXT, re.MULTILINE) == [PACKAGE]
    version = required_version(MODULE, go_mod=GO_MOD)
    assert re.fullmatch(r"v3\.\d+\.\d+", version)
    assert f"{MODULE} {version} h1:" in GO_MOD.with_suffix(".sum").read_text()
    assert "replace" not in TEXT


def test_its_binary_is_beside_the_control_plane(tmp_path: Path) -> None:
    built = program()
    assert built.binary(cache=tmp_path) == tmp_path / "cosign" / built.key / "cosign"
