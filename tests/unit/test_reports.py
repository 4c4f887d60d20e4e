"""The corpus of public reports has its shape, and its README judges exactly its files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

REPORTS: Final = Path(__file__).parents[1] / "reports"
FILES: Final = sorted(REPORTS.glob("*.yaml"))
JUDGED: Final = re.compile(r"^\| \d+ \| (\S+) \| included: (\S+) \|$", re.MULTILINE)


class Named(BaseModel):
    """The part of the metadata that every object has."""

    name: str
    namespace: str | None = None


class Held(BaseModel):
    """A Kubernetes object; its other fields are as the report shows them."""

    model_config = ConfigDict(extra="allow")

    api_version: Annotated[str, Field(alias="apiVersion")]
    kind: Literal["Node", "Pod", "Event", "DaemonSet", "ConfigMap"]
    metadata: Named


class Report(BaseModel):
    """One public report: what an API client sees there, and the cause that its thread found."""

    model_config = ConfigDict(extra="forbid")

    source: Annotated[str, Field(pattern=r"^https://")]
    found: Annotated[str, Field(min_length=1)]
    expects: list[Annotated[str, Field(pattern=r"^N(1?[1-9]|10|20)$")]]
    node: str
    objects: list[Held]
    logs: dict[Literal["kubelet", "containerd", "kube-proxy", "flannel"], list[str]] = {}
    configz: dict[str, Any] = {}


def read(path: Path) -> Report:
    return Report.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_report_shows_something_and_its_objects_hang_together(path: Path) -> None:
    """An event about a pod that is not there, or a pod on another node, would never reach a rule."""
    report = read(path)
    assert report.objects or report.logs or report.configz
    held = [each.model_dump(exclude_none=True) for each in report.objects]
    assert {each["metadata"]["name"] for each in held if each["kind"] == "Node"} <= {report.node}
    pods = [each for each in held if each["kind"] == "Pod"]
    assert {each["spec"]["nodeName"] for each in pods} <= {report.node}
    about = [each["involvedObject"] for each in held if each["kind"] == "Event"]
    known = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in pods}
    assert {(each["namespace"], each["name"]) for each in about if each["kind"] == "Pod"} <= known


def test_the_readme_includes_exactly_the_files() -> None:
    rows = JUDGED.findall((REPORTS / "README.md").read_text(encoding="utf-8"))
    assert sorted(rows) == sorted((read(path).source, path.name) for path in FILES)
