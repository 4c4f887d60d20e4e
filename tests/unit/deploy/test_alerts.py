"""The alerts: rendered from one source, about metrics that exist, each with a runbook and cases."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from alerts import render
from alerts.promql import Selector, grouping_labels, selectors
from harness.every import every
from winpool.serve.definitions import DEFINITIONS

RUNBOOKS: Final = render.ROOT / "docs" / "runbooks"
HEADINGS: Final = ["Meaning", "Impact", "Diagnosis", "Mitigation"]

METRICS: Final = {f"{each.name}{'_total' if each.kind == 'counter' else ''}": each for each in DEFINITIONS}

CASES: Final = sorted((render.ROOT / "tests" / "alerts" / "cases").glob("*.test.yaml"))
ALERT_TESTS: Final = [
    alert_test
    for path in CASES
    for test in yaml.safe_load(path.read_text())["tests"]
    for alert_test in test["alert_rule_test"]
]
SOURCE: Final = render.Source.read()
RULES: Final = [rule for group in SOURCE.groups for rule in group["rules"]]
ALERTS: Final = sorted({rule["alert"] for rule in RULES})


def _name(rule: dict[str, Any]) -> str:
    return f"{rule['alert']}-{rule['labels']['severity']}"


def _firing(rule: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the cases say of this rule when it fires; rules of one name differ in their severity."""
    return [
        case
        for test in ALERT_TESTS
        if test["alertname"] == rule["alert"]
        for case in test["exp_alerts"]
        if case["exp_labels"]["severity"] == rule["labels"]["severity"]
    ]


every_rule = every("rule", RULES, ids=_name)
every_alert = every("alert", ALERTS)


@pytest.mark.parametrize("file", render.FILES)
def test_rendered_file_is_what_the_source_says(file: str) -> None:
    name, make = render.FILES[file]
    assert (render.FOLDER / name).read_text() == make(SOURCE), f"run: {render.COMMAND}"


def test_both_files_have_the_same_groups() -> None:
    rules = yaml.safe_load(render.rules(SOURCE))
    manifest = yaml.safe_load(render.prometheusrule(SOURCE))
    assert (manifest["apiVersion"], manifest["kind"]) == ("monitoring.coreos.com/v1", "PrometheusRule")
    assert rules["groups"] == manifest["spec"]["groups"] == SOURCE.published()


def test_rendering_adds_the_runbook_and_changes_nothing_else() -> None:
    published = [rule for group in SOURCE.published() for rule in group["rules"]]
    for rule, mine in zip(published, RULES, strict=True):
        assert rule["annotations"].pop("runbook_url") == render.runbook(rule["alert"])
        assert rule == mine


@every_rule
def test_a_rule_has_all_that_people_need_and_no_other_label(rule: dict[str, Any]) -> None:
    assert rule.keys() == {"alert", "expr", "for", "labels", "annotations"}
    assert re.fullmatch(r"(Windows|WinPool)[A-Z]\w+", rule["alert"])
    assert re.fullmatch(r"[1-9]\d*[mhd]", rule["for"])
    assert rule["labels"].keys() == {"severity"}, "what else a label would say belongs into the metric"
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    assert rule["annotations"].keys() == {"summary", "description"}
    assert all(text.endswith(".") for text in rule["annotations"].values())


@every_rule
def test_texts_name_every_label_that_the_alert_is_told_apart_by(rule: dict[str, Any]) -> None:
    shown = _firing(rule)
    assert shown
    for case in shown:
        by = {label: value for label, value in case["exp_labels"].items() if label != "severity"}
        assert by.keys() <= {"pool", "os_version", "gate"}, (
            "labels of the scrape would be another alert after a restart"
        )
        for text in ("summary", "description"):
            assert all(value in case["exp_annotations"][text] for value in by.values())


@every_rule
def test_an_expression_asks_only_for_what_the_operator_serves(rule: dict[str, Any]) -> None:
    found = list(selectors(rule["expr"]))
    assert found
    for selector in found:
        assert selector.metric in METRICS
        for label, value in selector.matchers:
            assert set(value.split("|")) <= set(METRICS[selector.metric].values[label])
    known = {label for selector in found for label in METRICS[selector.metric].labels}
    assert grouping_labels(rule["expr"]) <= known


@every_alert
def test_an_alert_has_a_page_with_all_four_parts(alert: str) -> None:
    text = (RUNBOOKS / f"{alert}.md").read_text()
    assert text.startswith(f"# {alert}\n")
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == HEADINGS
    parts = re.split(r"^## .+$", text, flags=re.MULTILINE)[1:]
    assert all(part.strip() for part in parts)


def test_every_page_is_of_an_alert_and_in_the_index() -> None:
    pages = sorted(path.stem for path in RUNBOOKS.glob("*.md") if path.name != "README.md")
    assert pages == ALERTS
    assert re.findall(r"\]\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text()) == [
        *dict.fromkeys(rule["alert"] for rule in RULES)
    ]


@every_rule
def test_the_index_says_the_severity(rule: dict[str, Any]) -> None:
    rows = (RUNBOOKS / "README.md").read_text().splitlines()
    row = next(line for line in rows if f"({rule['alert']}.md)" in line)
    assert rule["labels"]["severity"] in row


@every_rule
def test_cases_show_a_rule_silent_before_its_time_and_firing_after(rule: dict[str, Any]) -> None:
    assert [] in [test["exp_alerts"] for test in ALERT_TESTS if test["alertname"] == rule["alert"]]
    assert _firing(rule)


def test_there_are_cases_for_alerts_that_exist_only() -> None:
    assert {test["alertname"] for test in ALERT_TESTS} == set(ALERTS)


@pytest.mark.parametrize(
    ("expression", "found", "labels"),
    [
        ("absent(up == 1)", [Selector("up")], set()),
        (
            'sum(rate(a_total{result="x", pool!="y z"}[5m])) / sum by (pool) (b) > 0.1',
            [Selector("a_total", (("result", "x"), ("pool", "y z"))), Selector("b")],
            {"pool"},
        ),
        ("time() - max(a) > 1e3 and on () count(b offset 5m)", [Selector("a"), Selector("b")], set()),
        ("a * on (x, y) group_right () group by (z) (b > bool 0)", [Selector("a"), Selector("b")], {*"xyz"}),
    ],
)
def test_what_is_read_from_an_expression(expression: str, found: list[Selector], labels: set[str]) -> None:
    assert list(selectors(expression)) == found
    assert grouping_labels(expression) == labels


def test_a_source_with_another_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "alerts.yaml"
    path.write_text("groups: []\nrecords: []\n")
    with pytest.raises(TypeError, match="records"):
        render.Source.read(path)
