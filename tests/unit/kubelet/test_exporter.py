"""What is read of Prometheus: vectors, and what they say of each node together."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from winpool.kubelet.exporter import DEFAULT_MATCHERS, MOST_SERIES, Point, Query, parse_vector, samples_of
from winpool.kubelet.samples import Outcome, PollError
from winpool.model.pressure import LARGEST

NOW = 1_790_000_000.0


def a_series(name: str | None, value: Any, *, label: str = "node", **labels: str) -> dict[str, Any]:
    metric = labels if name is None else {label: name, **labels}
    return {"metric": {"__name__": "windows_memory_commit_limit", **metric}, "value": [NOW, value]}


def an_answer(*series: dict[str, Any], **changes: Any) -> bytes:
    whole = {"status": "success", "data": {"resultType": "vector", "result": list(series)}} | changes
    return json.dumps(whole).encode()


def values(body: bytes, *, label: str = "node") -> dict[str, float]:
    return {node: point.value for node, point in parse_vector(body, label=label).items()}


def test_each_node_has_its_value_and_the_time_of_the_query() -> None:
    body = an_answer(a_series("w1", "5781295104"), a_series("w2", "1e+10", job="exporter"))
    assert parse_vector(body, label="node") == {"w1": Point(5781295104.0, NOW), "w2": Point(1e10, NOW)}


def test_the_label_that_names_the_node_is_the_pools() -> None:
    body = an_answer(a_series("w1", "1", label="kubernetes_node", node="other"))
    assert values(body, label="kubernetes_node") == {"w1": 1.0}
    assert values(body, label="node") == {"other": 1.0}
    assert values(body, label="instance") == {}


@pytest.mark.parametrize("times", [2, 3])
def test_a_node_with_more_than_one_series_is_unknown(times: int) -> None:
    """As while the exporter moves, or if its labels change: which is right is not known."""
    body = an_answer(*[a_series("w1", "1", instance=str(each)) for each in range(times)], a_series("w2", "2"))
    assert values(body) == {"w2": 2.0}


def test_a_duplicate_without_a_number_makes_the_node_unknown_too() -> None:
    assert values(an_answer(a_series("w1", "1"), a_series("w1", "NaN"))) == {}
    assert values(an_answer(a_series("w1", "NaN"), a_series("w1", "1"))) == {}


@pytest.mark.parametrize(
    "value", ["NaN", "+Inf", "-Inf", "Inf", "", " 1", "1_000", "0x10", "٣", "1e999", "9" * 40, str(2**63)]
)
def test_what_is_no_finite_number_is_unknown(value: str) -> None:
    assert values(an_answer(a_series("w1", value), a_series("w2", "2"))) == {"w2": 2.0}


def test_a_series_without_the_label_or_with_a_histogram_is_no_value() -> None:
    histogram = {"metric": {"node": "w2"}, "histogram": [NOW, {"count": "1"}]}
    assert values(an_answer(a_series(None, "1"), a_series("", "1"), histogram)) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<html>",
        an_answer(status="error", errorType="bad_data", error="parse error"),
        an_answer(data={"resultType": "matrix", "result": []}),
        an_answer(data={"resultType": "scalar", "result": [NOW, "1"]}),
        an_answer(data={"resultType": "vector"}),
        an_answer(data={"resultType": "vector", "result": None}),
        an_answer({"metric": {"node": "w1"}, "value": [NOW, 1]}),
        an_answer({"metric": {"node": "w1"}, "value": [NOW]}),
        an_answer({"metric": {"node": "w1"}, "value": ["now", "1"]}),
        an_answer(a_series("x" * 1000, "1")),
        an_answer()[:-1],
    ],
)
def test_what_is_no_vector_is_unreadable(body: bytes) -> None:
    with pytest.raises(PollError) as raised:
        parse_vector(body, label="node")
    assert raised.value.outcome is Outcome.UNREADABLE


def test_an_answer_with_more_series_than_nodes_can_have_is_too_large() -> None:
    series = [a_series(f"w{number}", "1") for number in range(MOST_SERIES + 1)]
    assert len(values(an_answer(*series[:MOST_SERIES]))) == MOST_SERIES
    with pytest.raises(PollError) as raised:
        parse_vector(an_answer(*series), label="node")
    assert raised.value.outcome is Outcome.TOO_LARGE


def test_series_that_are_hidden_from_the_count_are_unreadable() -> None:
    body = an_answer(*[a_series("w1", "1")] * (MOST_SERIES + 1)).replace(b'"metric"', b'"metri\\u0063"')
    with pytest.raises(PollError) as raised:
        parse_vector(body, label="node")
    assert raised.value.outcome is Outcome.UNREADABLE


def test_a_label_that_quotes_the_word_that_is_counted_is_one_series() -> None:
    series = a_series("w1", "1", job=MOST_SERIES * '"metric"')
    assert values(an_answer(series)) == {"w1": 1.0}


def test_warnings_and_unknown_fields_change_nothing() -> None:
    assert values(an_answer(a_series("w1", "1"), warnings=["slow"], infos=[])) == {"w1": 1.0}


def answers(**by_query: float | None) -> dict[Query, dict[str, Point]]:
    """Return answers about the node w1: 1 to every query but TIME and those that are given."""
    told = {query.name: 1.0 for query in Query} | {"TIME": NOW - 7.0} | by_query
    return {
        query: {} if (value := told[query.name]) is None else {"w1": Point(value, NOW)} for query in Query
    }


def test_a_sample_has_its_own_time_and_its_age_by_the_clock_of_prometheus() -> None:
    sample = samples_of(answers())["w1"]
    assert (sample.taken_at, sample.age) == (NOW - 7.0, 7.0)
    assert samples_of(answers(TIME=NOW + 5.0))["w1"].age is None, "the clocks of a federation differ"


@pytest.mark.parametrize("time", [None, 0.0, -1.0])
def test_without_a_time_there_is_no_sample(time: float | None) -> None:
    assert samples_of(answers(TIME=time)) == {}


FIELDS = {
    "COMMITTED": "commit_total",
    "COMMIT_LIMIT": "commit_limit",
    "AVAILABLE": "physical_available",
    "PHYSICAL": "physical_total",
    "POOL_NONPAGED": "pool_nonpaged",
    "PAGE_READS": "hard_reads_per_second",
    "PAGES_WRITTEN": "write_out_per_second",
    "PAGES_REPURPOSED": "repurposed_per_second",
}


@pytest.mark.parametrize(("query", "field"), FIELDS.items())
def test_each_query_is_one_field_and_only_that_one(query: str, field: str) -> None:
    assert set(FIELDS) | {"TIME"} == {each.name for each in Query}
    for value in (2.0, None):
        sample = samples_of(answers(**{query: value}))["w1"]
        assert {name: getattr(sample, name) for name in FIELDS.values()} == {
            name: value if name == field else 1.0 for name in FIELDS.values()
        }


def test_a_rate_and_what_is_available_may_be_zero_and_another_amount_may_not() -> None:
    sample = samples_of(answers(PAGE_READS=0.0, AVAILABLE=0.0, COMMITTED=0.0))["w1"]
    assert (sample.hard_reads_per_second, sample.physical_available, sample.commit_total) == (0.0, 0, None)
    nothing = samples_of(answers(AVAILABLE=0.0, PHYSICAL=0.0))["w1"]
    assert (nothing.physical_total, nothing.physical_available) == (None, None)


def test_a_negative_rate_is_unknown() -> None:
    assert samples_of(answers(PAGE_READS=-1.0))["w1"].hard_reads_per_second is None


def test_rates_are_of_counters_and_amounts_of_gauges() -> None:
    for query in Query:
        text = query.of(DEFAULT_MATCHERS)
        assert ('_total{job="windows-exporter"}[5m]' in text) == text.startswith("irate("), query


def test_rates_are_of_series_that_have_not_ended() -> None:
    assert Query.PAGE_READS.of({"job": "exporter"}) == (
        'irate(windows_memory_swap_page_reads_total{job="exporter"}[5m]) '
        'and windows_memory_swap_page_reads_total{job="exporter"}'
    )


@pytest.mark.parametrize("query", Query)
def test_every_metric_of_a_query_has_the_matchers(query: Query) -> None:
    text = query.of({"namespace": "monitoring", "job": "exporter"})
    metrics = re.findall(r"windows_memory_\w+", text)
    assert metrics
    assert text.count('{job="exporter",namespace="monitoring"}') == len(metrics)


NODES = st.sampled_from(["w1", "w2", ""]) | st.text(max_size=5)
TEXTS = st.sampled_from(["NaN", "+Inf", "1", "0", "-1", str(2**63), "1e300"]) | st.text(max_size=30)
VALUES = TEXTS | st.floats().map(repr) | st.integers().map(str)


@given(rows=st.lists(st.tuples(NODES, VALUES), max_size=8))
def test_every_value_is_a_finite_number_of_a_node_that_has_one_series(rows: list[tuple[str, str]]) -> None:
    nodes = [node for node, _ in rows]
    for node, value in values(an_answer(*(a_series(*row) for row in rows))).items():
        assert nodes.count(node) == 1
        assert math.isfinite(value)
        assert abs(value) < LARGEST
        assert value == float(dict(rows)[node])


@given(body=st.binary(max_size=300))
def test_any_bytes_are_a_vector_or_the_one_error(body: bytes) -> None:
    def outcome() -> Outcome:
        try:
            parse_vector(body, label="node")
        except PollError as error:
            return error.outcome
        return Outcome.SAMPLED

    assert outcome() in {Outcome.SAMPLED, Outcome.UNREADABLE}


@given(points=st.fixed_dictionaries({query: st.none() | st.floats() for query in Query}))
def test_any_numbers_give_sane_samples(points: dict[Query, float | None]) -> None:
    told = {query: {} if value is None else {"w1": Point(value, NOW)} for query, value in points.items()}
    for sample in samples_of(told).values():
        for name in FIELDS.values():
            value = getattr(sample, name)
            assert value is None or 0 <= value < LARGEST
            assert value is None or value > 0 or name.endswith(("per_second", "available"))
