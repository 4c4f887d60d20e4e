"""The pages about memory pressure: their manifests are accepted, and their numbers are those of the code."""

from __future__ import annotations

import re
from typing import Any, Final

import pytest
import yaml

from cluster.admission.tables import SMALLEST
from harness.documents import ROOT
from winpool.api.memory_pressure import (
    CommitThresholds,
    EvictionLimits,
    MemoryMode,
    MemoryPressure,
    PageFileType,
    PhysicalThresholds,
    SourceType,
)
from winpool.api.model import descriptions
from winpool.api.spec import WindowsNodePool
from winpool.cli.manifests import faults_of
from winpool.features.memory.settings import DetectorSettings

PAGES: Final = ("memory.md", "memory-sources.md", "memory-evictions.md")
TEXT: Final = "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)
SAMPLE: Final = yaml.safe_load((ROOT / "deploy" / "samples" / "memory-pressure.yaml").read_text())

BLOCKS: Final[list[dict[str, Any]]] = [
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_manifest_of_the_page_is_accepted(number: int) -> None:
    block = BLOCKS[number]
    pool = {
        "apiVersion": "winpool.dev/v1alpha1",
        "kind": "WindowsNodePool",
        "metadata": {"name": "page"},
        **block,
        "spec": {**SMALLEST, **block["spec"]},
    }
    assert faults_of(pool) == ()


def test_the_whole_manifest_of_the_page_is_the_sample() -> None:
    assert BLOCKS[0] == SAMPLE


def test_the_sample_has_every_field_with_the_values_of_the_operator() -> None:
    pressure = WindowsNodePool.from_object(SAMPLE).spec.memory_pressure
    assert pressure is not None
    assert pressure.model_fields_set == set(MemoryPressure.model_fields)
    assert pressure.eviction.model_fields_set == set(EvictionLimits.model_fields)
    assert (pressure.commit, pressure.physical) != (None, None)
    assert pressure.eviction.model_copy(update={"pod_rules": ()}) == EvictionLimits()
    own = DetectorSettings()
    assert (pressure.soft_grace_seconds, pressure.clear_after_seconds) == (
        own.soft_grace_seconds,
        own.clear_after_seconds,
    )


def test_absent_thresholds_are_described_with_the_values_of_the_detector() -> None:
    """The API cannot import the detector, so its descriptions and the sample repeat the numbers."""
    block = SAMPLE["spec"]["memoryPressure"]
    commit, physical = block["commit"], block["physical"]
    own = DetectorSettings()
    assert own.commit == CommitThresholds.model_validate(commit)
    assert own.physical == PhysicalThresholds.model_validate(physical)
    described = descriptions(MemoryPressure)
    assert described["commit"].endswith("{} and {} %, {}, {} s.".format(*commit.values()))
    assert described["physical"].endswith(
        "{}, {} and {} %, {} and {} reads per second.".format(*physical.values())
    )


def test_a_block_without_times_has_those_of_the_detector() -> None:
    own, pressure = DetectorSettings(), MemoryPressure()
    assert (pressure.soft_grace_seconds, pressure.clear_after_seconds) == (
        own.soft_grace_seconds,
        own.clear_after_seconds,
    )
    assert [source.name for source in pressure.sources] == list(own.sources)


def test_the_page_has_every_value_that_a_field_can_have() -> None:
    named = set(re.findall(r"`(\w+)`", TEXT))
    assert {*MemoryMode, *SourceType, *PageFileType} <= named


def test_the_page_names_every_number_of_the_table_of_levels() -> None:
    """A number in parentheses follows its field, and is the one of the sample."""
    block = SAMPLE["spec"]["memoryPressure"]
    fields = {**block, **block["commit"], **block["physical"]}
    shown = re.findall(r"`(\w+)` \((\d\w*)\)", TEXT)
    assert {name for name, _ in shown} == {*block["commit"], *block["physical"], "softGraceSeconds"}
    assert [(name, text) for name, text in shown if str(fields[name]) != text] == []
