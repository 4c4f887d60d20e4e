"""Which labels the series of windows_exporter must have, and how that is written in PromQL."""

from __future__ import annotations

import ast
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kubelet.exporter import DEFAULT_MATCHERS, MAX_LENGTH, MAX_MATCHERS, faults_of, selector_of

ONE_MATCHER = re.compile(r'\{([a-zA-Z_][a-zA-Z0-9_]*)=("(?:[^"\\\n]|\\["\\])*")\}')
"""One matcher, whose value is one string of PromQL. Only quotes and backslashes are escaped in it."""


def test_the_default_is_the_job_of_kube_prometheus_stack() -> None:
    assert faults_of(DEFAULT_MATCHERS) == []
    assert selector_of(DEFAULT_MATCHERS) == '{job="windows-exporter"}'


def test_several_matchers_are_written_in_the_order_of_their_labels() -> None:
    matchers = {"namespace": "monitoring", "job": "windows-exporter"}
    assert selector_of(matchers) == '{job="windows-exporter",namespace="monitoring"}'


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ('a"b', r'"a\"b"'),
        ("a\\b", r'"a\\b"'),
        ('\\"', r'"\\\""'),
        ('"} or up{job="x', r'"\"} or up{job=\"x"'),
        ("a.*|{}", '"a.*|{}"'),
        ("Überwachung", '"Überwachung"'),
    ],
)
def test_a_value_stays_a_value_whatever_it_has_in_it(value: str, written: str) -> None:
    assert faults_of({"job": value}) == []
    assert selector_of({"job": value}) == "{job=" + written + "}"


@pytest.mark.parametrize(
    "label",
    ["", "1job", "job name", "job-name", "job{", 'job="a",x', "__name__", "__tmp", "jöb", "x\n", "a" * 129],
)
def test_what_is_no_label_is_refused(label: str) -> None:
    [fault] = faults_of({label: "windows-exporter"})
    assert "is not the name of a label" in fault
    assert fault.isprintable()


@pytest.mark.parametrize("value", ["", "a\nb", "a\tb", "\x00", "\ud800", "a" * (MAX_LENGTH + 1)])
def test_a_value_that_no_label_of_a_target_has_is_refused(value: str) -> None:
    """An empty one would match all series without the label."""
    assert faults_of({"job": value}) == ["the value of 'job' must have 1 to 128 printable characters"]


def test_every_fault_is_told() -> None:
    assert len(faults_of({"1": "", "job": "", "namespace": "monitoring"})) == 3


def test_no_matcher_and_too_many_are_refused() -> None:
    many = {f"label{number}": "a" for number in range(MAX_MATCHERS + 1)}
    assert faults_of({})[0].startswith("it is empty")
    assert faults_of(many) == ["there are 9, and at most 8 are possible"]
    assert faults_of(dict(list(many.items())[:MAX_MATCHERS])) == []


VALUES = st.text(
    st.characters(exclude_categories=("C", "Z")) | st.sampled_from('"\\{}, '), min_size=1, max_size=12
)


@given(label=st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True), value=VALUES)
def test_every_printable_value_makes_one_matcher_for_exactly_that_value(label: str, value: str) -> None:
    matchers = {label: value}
    assert faults_of(matchers) == []
    found = ONE_MATCHER.fullmatch(selector_of(matchers))
    assert found is not None
    assert (found[1], ast.literal_eval(found[2])) == (label, value)
