"""The files that are made from the models are what the models say today."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from winpool.api import crd, fence_file, guard_file, rbac_file, rbac_reference, reference
from winpool.api.rbac import INSTALLED, METRICS, WITH_MEMORY
from winpool.api.v1alpha1 import WindowsNodePool

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("file", "command", "render"),
    [
        pytest.param(crd.FILE, crd.COMMAND, crd.render, id="crd"),
        pytest.param(fence_file.FILE, fence_file.COMMAND, fence_file.render, id="fence"),
        pytest.param(guard_file.FILE, guard_file.COMMAND, guard_file.render, id="guard"),
        pytest.param(rbac_file.FILE, rbac_file.COMMAND, rbac_file.render, id="rbac"),
        pytest.param(
            rbac_file.METRICS_FILE, rbac_file.METRICS_COMMAND, rbac_file.render_metrics, id="rbac of metrics"
        ),
        pytest.param(
            rbac_file.MEMORY_FILE, rbac_file.MEMORY_COMMAND, rbac_file.render_memory, id="rbac of memory"
        ),
        pytest.param(rbac_reference.FILE, rbac_reference.COMMAND, rbac_reference.render, id="rbac page"),
        pytest.param(reference.FILE, reference.COMMAND, reference.render, id="reference"),
    ],
)
def test_file_is_what_the_models_say(file: str, command: str, render: Callable[[], str]) -> None:
    stored = (ROOT / file).read_text()
    assert stored == render(), f"{file} is not what the models in operator/winpool/api say; run: {command}"


def test_yaml_reads_back_as_the_definition() -> None:
    assert yaml.safe_load(crd.render()) == crd.definition()
    assert list(yaml.safe_load_all(guard_file.render())) == guard_file.documents()
    assert list(yaml.safe_load_all(fence_file.render())) == fence_file.documents()
    assert list(yaml.safe_load_all(rbac_file.render())) == rbac_file.documents(*INSTALLED)
    assert list(yaml.safe_load_all(rbac_file.render_metrics())) == rbac_file.documents(METRICS)
    assert list(yaml.safe_load_all(rbac_file.render_memory())) == rbac_file.documents(*WITH_MEMORY)


GUARDED_ANNOTATIONS = {"applied", "upgrade", "memory"}
GUARDED_LABELS = {"pool", "os-version", "os-revision", "upgrade-state"}
REQUESTS = {"hold", "upgrade-requested"}


def test_the_guard_names_every_label_and_annotation_of_ours_and_no_other() -> None:
    """Typed here: one that is not in the table of ``api/node_keys.py`` would be missing in the guard too."""
    policy, _ = yaml.safe_load_all((ROOT / guard_file.FILE).read_text())
    found: dict[str, set[str]] = {"annotations": set(), "labels": set(), "requests": set()}
    for rule in policy["spec"]["validations"]:
        expression = rule["expression"]
        map_read = "labels" if "variables.labels[" in expression else "annotations"
        place = "requests" if "authorizer" in expression else map_read
        found[place] |= set(re.findall(r'"winpool\.dev/([a-z-]+)"', expression))
    assert found == {"annotations": GUARDED_ANNOTATIONS, "labels": GUARDED_LABELS, "requests": REQUESTS}


@pytest.mark.parametrize("place", ["crds", "deploy/operator"])
def test_kustomization_has_every_file_of_its_folder(place: str) -> None:
    folder = ROOT / place
    listed = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == sorted(
        path.name for path in folder.glob("*.yaml") if path.name != "kustomization.yaml"
    )


@pytest.mark.parametrize(
    "sample", sorted((ROOT / "deploy" / "samples").glob("*.yaml")), ids=lambda path: path.stem
)
def test_sample_can_be_read(sample: Path) -> None:
    pool = WindowsNodePool.from_object(yaml.safe_load(sample.read_text()))
    assert pool.metadata.name == sample.stem
    assert sample.read_text().startswith("# "), "no line that says what it is for"
