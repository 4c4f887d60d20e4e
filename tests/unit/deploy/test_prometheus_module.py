"""The module that Prometheus and promtool are built from, and what decides on their binaries."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from testbed import prometheus, promtool
from testbed.build import control_plane
from testbed.gobuild import Program
from testbed.pins import default_pins
from testbed.prometheus import MODULE_DIRECTORY
from testbed.toolchain import MINIMUM

GO_MOD = (MODULE_DIRECTORY / "go.mod").read_text()
PROGRAMS = {"prometheus": prometheus.PROGRAM, "promtool": promtool.PROGRAM}


def test_the_module_asks_for_the_same_go_as_the_control_plane_and_names_no_toolchain() -> None:
    asked = re.search(r"^go (\d+)\.(\d+)\.0$", GO_MOD, re.MULTILINE)
    assert asked is not None
    assert (int(asked[1]), int(asked[2])) == MINIMUM
    assert not re.search(r"^toolchain ", GO_MOD, re.MULTILINE)


def test_its_tools_are_the_two_programs_and_their_version_is_exact_and_has_a_checksum() -> None:
    [tools] = re.findall(r"^tool \(\n((?:\t\S+\n)+)\)$", GO_MOD, re.MULTILINE)
    assert tools.split() == [each.package for each in PROGRAMS.values()]
    version = re.search(r"\bgithub\.com/prometheus/prometheus (v\d+\.\d+\.\d+)\b", GO_MOD)
    assert version is not None
    sums = (MODULE_DIRECTORY / "go.sum").read_text()
    assert f"github.com/prometheus/prometheus {version[1]} h1:" in sums


def test_nothing_is_replaced() -> None:
    assert "replace" not in GO_MOD


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_binary_lies_beside_the_control_plane(tmp_path: Path, name: str) -> None:
    binary = PROGRAMS[name].binary(cache=tmp_path)
    assert binary == tmp_path / name / PROGRAMS[name].key / name
    assert control_plane(default_pins()).binary(cache=tmp_path).parts[-3] == "controlplane"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replace(promtool.PROGRAM, linker_flags="-s"), id="linker flags"),
        pytest.param(replace(promtool.PROGRAM, tags="another"), id="tags"),
    ],
)
def test_every_choice_of_the_build_decides_its_key(other: Program) -> None:
    assert other.key != promtool.PROGRAM.key
