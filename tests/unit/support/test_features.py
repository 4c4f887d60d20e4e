"""What of Windows works in which minor. The table is written by hand, from the sources, not read."""

from __future__ import annotations

import json

import pytest

from harness.every import every
from winpool.cli.matrix import render_features
from winpool.support.matrix import FeatureStage, built_in, stage_in
from winpool.support.versions import Minor

# Of each feature the minors in which its stage changes, and the stage from there on.
STAGES = {
    "containerd": "1.14 absent 1.18 alpha 1.19 beta 1.20 stable",  # KEP-1001
    "HostProcess containers": "1.21 absent 1.22 alpha 1.23 beta 1.26 stable",  # KEP-1981
    "gMSA": "1.14 alpha 1.16 beta 1.18 stable",  # feature gate WindowsGMSA
    "RunAsUserName": "1.15 absent 1.16 alpha 1.17 beta 1.18 stable",  # feature gate WindowsRunAsUserName
    "port-forward": "1.14 absent 1.15 stable",  # release notes of 1.15
    "CSI": "1.17 absent 1.18 alpha 1.19 beta 1.22 stable",  # KEP-1122
    "kubeadm join": "1.15 absent 1.16 alpha 1.36 alpha",  # KEP-995
    "Hyper-V isolation": "1.14 alpha 1.20 alpha 1.21 removed 1.36 removed",  # release notes of 1.21
    "dual stack": "1.18 absent 1.19 alpha 1.21 beta 1.23 stable",  # docs of 1.19, feature gate IPv6DualStack
    "node log query": "1.26 absent 1.27 alpha 1.30 beta 1.36 stable",  # KEP-2258
    "memory eviction": "1.30 absent 1.31 stable",  # release notes of 1.31
    "graceful shutdown": "1.31 absent 1.32 alpha 1.34 beta 1.36 beta",  # KEP-4802
}
CELLS = [
    (name, int(words[index].removeprefix("1.")), words[index + 1])
    for name, text in STAGES.items()
    for words in [text.split()]
    for index in range(0, len(words), 2)
]


def test_the_table_has_every_feature_of_the_data_and_no_other() -> None:
    assert [each.name for each in built_in().file.features] == list(STAGES)


def stages_in(minor: Minor) -> dict[str, FeatureStage]:
    matrix = built_in()
    return {each.name: stage_in(minor, each, matrix=matrix)[0] for each in matrix.file.features}


@every(("name", "minor", "stage"), CELLS)
def test_stage(name: str, minor: int, stage: str) -> None:
    assert stages_in(Minor(1, minor))[name] == stage


@pytest.mark.parametrize("minor", [Minor(1, 13), Minor(1, 99)])
def test_of_a_minor_that_is_not_in_the_data_nothing_is_known(minor: Minor) -> None:
    assert {*stages_in(minor).values()} == {"unknown"}


def test_the_command_prints_a_stage_and_since_when() -> None:
    head, *rows = render_features("text", kubernetes=Minor(1, 33)).splitlines()
    assert head.split() == ["FEATURE", "IN", "1.33", "SINCE", "NOTE"]
    assert [row.split()[:4] for row in rows if row.startswith("graceful")] == [
        ["graceful", "shutdown", "alpha", "1.32"]
    ]
    assert len(rows) == len(STAGES)


def test_without_a_minor_all_stages_are_printed() -> None:
    rows = {row[:22].strip(): row[22:].split() for row in render_features("text").splitlines()}
    assert rows["HostProcess containers"][:4] == ["1.22", "1.23", "1.26", "-"]
    assert rows["Hyper-V isolation"][:4] == ["1.10", "-", "-", "1.21"]


def test_a_program_gets_the_sources_too() -> None:
    found = json.loads(render_features("json", kubernetes=Minor(1, 36)))
    by_name = {each["name"]: each for each in found["features"]}
    assert by_name["CSI"]["stages"] == {"alpha": "1.18", "beta": "1.19", "stable": "1.22"}
    assert by_name["CSI"]["stage"] == "stable"
    assert all(found["sources"][each].startswith("https://") for each in by_name["CSI"]["sources"])


def test_the_page_has_every_feature() -> None:
    text = render_features("markdown")
    assert [name for name in STAGES if f"| {name} |" not in text] == []
