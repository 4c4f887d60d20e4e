"""The files of the Helm chart, without helm: generated, whole, and with a place for each value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from harness.every import every
from harness.manifests import DEPLOY, kustomization_of
from release import chart
from release.edits import EDITS, NO_TEMPLATE, Edit
from release.shapes import SET_BY_VALUES
from release.templates import ChartError, annotating, edited
from release.values import GROUPS, values
from release.values_files import grouped
from testbed.pins import all_pins, minor_of
from winpool import __version__
from winpool.settings import Settings

FILES: Final = chart.files()
VALUES: Final = values()
TEMPLATES: Final = chart.CHART / "templates"
TEXTS: Final = {path: path.read_text() for path in TEMPLATES.rglob("*") if path.is_file()}


@every("path", FILES, ids=lambda path: path.name)
def test_generated_file_is_what_the_manifests_and_values_say(path: Path) -> None:
    assert path.read_text() == FILES[path], f"run: {chart.COMMAND}"


def test_every_other_file_of_the_chart_is_known_to_be_written_by_hand() -> None:
    assert chart.stale(FILES) == []
    assert [path for path in chart.BY_HAND if not path.is_file()] == []


def test_every_file_of_the_operator_is_a_template_but_the_namespace() -> None:
    applied = {*kustomization_of(DEPLOY / "operator")["resources"]}
    assert applied >= NO_TEMPLATE
    assert {path.name for path in FILES if path.parent == TEMPLATES} == {
        *(applied - NO_TEMPLATE),
        *("crd.yaml", "metrics-auth.yaml", "podmonitor.yaml", "prometheusrule.yaml"),
        *("memory-rights.yaml", "kubelet-reader.yaml", "kubelet-egress.yaml"),
        *("rollout-rights.yaml", "force-rights.yaml"),
    }


def test_the_chart_has_the_version_of_the_operator_and_its_oldest_kubernetes() -> None:
    found = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert found["version"] == found["appVersion"] == __version__
    minors = [minor_of(pins.kubernetes) for pins in all_pins()]
    assert min(minors, key=lambda each: int(each.partition(".")[2])) == chart.OLDEST
    assert found["kubeVersion"] == f">={chart.OLDEST}.0-0"


# Values.


@every("value", VALUES, ids=lambda each: each.path)
def test_a_value_is_used_in_a_template(value: Any) -> None:
    leaf = value.path.rpartition(".")[2]
    used = re.compile(rf"\.Values\.{re.escape(value.path)}\b")
    assert [path for path, text in TEXTS.items() if used.search(text)] or (
        value.path.startswith("image.") and f".{leaf}" in TEXTS[TEMPLATES / "_helpers.tpl"]
    )


def test_a_template_uses_no_value_that_does_not_exist() -> None:
    used = {name for text in TEXTS.values() for name in re.findall(r"\.Values\.([A-Za-z.]+)", text)}
    assert used - {value.path for value in VALUES} == {"image"}


def test_values_have_the_defaults_of_the_table_and_the_groups_are_those_with_a_dot() -> None:
    found = yaml.safe_load((chart.CHART / "values.yaml").read_text())
    for value in VALUES:
        top, _, leaf = value.path.partition(".")
        assert (found[top][leaf] if leaf else found[top]) == value.default
    assert {top for top, _ in grouped(VALUES)} == found.keys()
    assert [top for top, members in grouped(VALUES) if "." in members[0].path] == [*GROUPS]


def test_the_schema_names_and_describes_every_value_and_closes_every_object_of_the_chart() -> None:
    schema = json.loads((chart.CHART / "values.schema.json").read_text())
    assert schema["additionalProperties"] is False
    for value in VALUES:
        top, _, leaf = value.path.partition(".")
        found = schema["properties"][top]
        if leaf:
            assert found["additionalProperties"] is False
            found = found["properties"][leaf]
        assert found["description"] == value.text
    assert all(each["description"] for each in schema["properties"].values())


def test_flags_that_values_set_are_settings_and_all_that_the_deployment_sets_are_among_them() -> None:
    names = {flag.replace("-", "_") for flag in SET_BY_VALUES}
    assert names <= Settings.model_fields.keys()
    text = (TEMPLATES / "deployment.yaml").read_text()
    assert {name.lower() for name in re.findall(r"name: WINPOOL_(\w+)", text)} == names


# How templates are made.


def test_an_edit_of_a_text_that_is_not_there_says_which_file_and_which_edit() -> None:
    with pytest.raises(ChartError, match=r"deployment.yaml has 0 times.*\n  replicas: 3"):
        edited("  replicas: 2\n", [Edit("  replicas: 3\n", "")], name="deployment.yaml")


def test_an_edit_of_a_text_that_is_there_twice_is_refused() -> None:
    with pytest.raises(ChartError, match="has 2 times, not 1 times"):
        edited("a\na\n", [Edit("a\n", "b\n")], name="any.yaml")


def test_what_is_meant_for_prometheus_is_not_read_by_helm() -> None:
    assert edited("{{ $labels.pool }}", [], name="any.yaml") == '{{ "{{" }} $labels.pool }}'


def test_a_patch_of_the_kustomization_that_does_more_than_annotate_is_refused() -> None:
    patch = "- op: replace\n  path: /spec/replicas\n  value: 1\n"
    with pytest.raises(ChartError, match="does more than add annotations"):
        annotating({"patches": [{"target": {"kind": "Deployment", "name": "winpool"}, "patch": patch}]})


def test_edits_are_of_files_that_are_applied() -> None:
    sources = {path.name for path in FILES} | {"windowsnodepools.winpool.dev.yaml"}
    assert EDITS.keys() <= sources
