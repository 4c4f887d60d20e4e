"""The modules that helm, cosign and krew are built from, and what decides on their binaries."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from testbed import cosign, helm, krew
from testbed.errors import TestbedError
from testbed.gobuild import required_version
from testbed.toolchain import MINIMUM

TOOLS = {"helm": (helm, "v3"), "cosign": (cosign, "v3"), "krew": (krew, r"v\d+")}


@pytest.mark.parametrize("name", TOOLS)
def test_the_module_asks_for_the_same_go_as_the_control_plane_and_names_no_toolchain(name: str) -> None:
    text = TOOLS[name][0].GO_MOD.read_text()
    asked = re.search(r"^go (\d+)\.(\d+)\.0$", text, re.MULTILINE)
    assert asked is not None
    assert (int(asked[1]), int(asked[2])) == MINIMUM
    assert not re.search(r"^toolchain ", text, re.MULTILINE)


@pytest.mark.parametrize("name", TOOLS)
def test_it_has_the_one_tool_and_its_version_is_exact_and_has_a_checksum(name: str) -> None:
    tool, major = TOOLS[name]
    text = tool.GO_MOD.read_text()
    assert re.findall(r"^tool (\S+)$", text, re.MULTILINE) == [tool.PACKAGE]
    version = required_version(tool.MODULE, go_mod=tool.GO_MOD)
    assert re.fullmatch(rf"{major}\.\d+\.\d+", version)
    assert f"{tool.MODULE} {version} h1:" in tool.GO_MOD.with_suffix(".sum").read_text()
    assert tool.program().full_title == f"{name} {version}"
    assert "replace" not in text


@pytest.mark.parametrize("name", TOOLS)
def test_its_binary_is_beside_the_control_plane(name: str, tmp_path: Path) -> None:
    built = TOOLS[name][0].program()
    assert built.binary(cache=tmp_path) == tmp_path / name / built.key / name


def test_helm_is_given_its_version_and_the_kubernetes_of_its_client() -> None:
    minor = required_version(helm.CLIENT, go_mod=helm.GO_MOD).split(".")[1]
    version = required_version(helm.MODULE, go_mod=helm.GO_MOD)
    assert f"-X {helm.MODULE}/internal/version.version={version}" in helm.linker_flags()
    assert helm.linker_flags().count(f"k8sVersionMinor={minor}") == 2


def test_a_module_that_is_not_required_is_named(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module example.com/other\n")
    with pytest.raises(TestbedError, match=f"does not require {helm.MODULE}"):
        required_version(helm.MODULE, go_mod=tmp_path / "go.mod")
