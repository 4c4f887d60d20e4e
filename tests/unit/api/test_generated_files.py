"""The files that are made from the models are what the models say today."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from gen.api_reference import COMMAND as REFERENCE_COMMAND
from gen.api_reference import FILE as REFERENCE_FILE
from gen.api_reference import render as reference_render
from gen.fence_file import COMMAND as FENCE_FILE_COMMAND
from gen.fence_file import FILE as FENCE_FILE_FILE
from gen.fence_file import documents
from gen.fence_file import render as fence_file_render
from gen.guard_file import COMMAND as GUARD_FILE_COMMAND
from gen.guard_file import FILE as GUARD_FILE_FILE
from gen.guard_file import documents as guard_file_documents
from gen.guard_file import render as guard_file_render
from gen.rbac_file import COMMAND as RBAC_FILE_COMMAND
from gen.rbac_file import FILE as RBAC_FILE_FILE
from gen.rbac_file import (
    FORCE_COMMAND,
    FORCE_FILE,
    MEMORY_COMMAND,
    MEMORY_FILE,
    METRICS_COMMAND,
    METRICS_FILE,
    ROLLOUT_COMMAND,
    ROLLOUT_FILE,
    render_force,
    render_memory,
    render_metrics,
    render_rollout,
)
from gen.rbac_file import documents as rbac_file_documents
from gen.rbac_file import render as rbac_file_render
from gen.rbac_reference import COMMAND as RBAC_REFERENCE_COMMAND
from gen.rbac_reference import FILE as RBAC_REFERENCE_FILE
from gen.rbac_reference import render as rbac_reference_render
from gen.rights import FORCE, INSTALLED, METRICS, ROLLOUT, WITH_MEMORY
from winpool.api.crd import COMMAND, FILE, definition
from winpool.api.crd import render as crd_render
from winpool.api.spec import WindowsNodePool

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("file", "command", "render"),
    [
        pytest.param(FILE, COMMAND, crd_render, id="crd"),
        pytest.param(FENCE_FILE_FILE, FENCE_FILE_COMMAND, fence_file_render, id="fence"),
        pytest.param(GUARD_FILE_FILE, GUARD_FILE_COMMAND, guard_file_render, id="guard"),
        pytest.param(RBAC_FILE_FILE, RBAC_FILE_COMMAND, rbac_file_render, id="rbac"),
        pytest.param(METRICS_FILE, METRICS_COMMAND, render_metrics, id="rbac of metrics"),
        pytest.param(MEMORY_FILE, MEMORY_COMMAND, render_memory, id="rbac of memory"),
        pytest.param(ROLLOUT_FILE, ROLLOUT_COMMAND, render_rollout, id="rbac of a rollout"),
        pytest.param(FORCE_FILE, FORCE_COMMAND, render_force, id="rbac of force"),
        pytest.param(RBAC_REFERENCE_FILE, RBAC_REFERENCE_COMMAND, rbac_reference_render, id="rbac page"),
        pytest.param(REFERENCE_FILE, REFERENCE_COMMAND, reference_render, id="reference"),
    ],
)
def test_file_is_what_the_models_say(file: str, command: str, render: Callable[[], str]) -> None:
    stored = (ROOT / file).read_text()
    assert stored == render(), f"{file} is not what the models in operator/winpool/api say; run: {command}"


@pytest.mark.slow
def test_yaml_reads_back_as_the_definition() -> None:
    assert yaml.safe_load(crd_render()) == definition()
    assert list(yaml.safe_load_all(guard_file_render())) == guard_file_documents()
    assert list(yaml.safe_load_all(fence_file_render())) == documents()
    assert list(yaml.safe_load_all(rbac_file_render())) == rbac_file_documents(*INSTALLED)
    assert list(yaml.safe_load_all(render_metrics())) == rbac_file_documents(METRICS)
    assert list(yaml.safe_load_all(render_memory())) == rbac_file_documents(*WITH_MEMORY)
    assert list(yaml.safe_load_all(render_rollout())) == rbac_file_documents(ROLLOUT)
    assert list(yaml.safe_load_all(render_force())) == rbac_file_documents(FORCE)


GUARDED_ANNOTATIONS = {"applied", "upgrade", "memory"}
GUARDED_LABELS = {"pool", "os-version", "os-revision", "upgrade-state"}
REQUESTS = {"hold", "upgrade-requested", "upgrade-done", "upgrade-retry"}


def test_the_guard_names_every_label_and_annotation_of_ours_and_no_other() -> None:
    """Typed here: one that is not in the table of ``api/keys.py`` would be missing in the guard too."""
    policy, _ = yaml.safe_load_all((ROOT / GUARD_FILE_FILE).read_text())
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
