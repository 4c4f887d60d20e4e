"""What is read from the operator's metrics, also where they do not tell."""

from __future__ import annotations

import pytest

from bench.scraping import PodPasses, Scrape

TEXT = """\
# HELP winpool_pod_passes_total Passes over all pods, by result.
# TYPE winpool_pod_passes_total counter
winpool_pod_passes_total{result="Success"} 3.0
winpool_pod_passes_total{result="Error"} 1.0
# HELP winpool_pod_pass_seconds_total Seconds spent in them.
# TYPE winpool_pod_pass_seconds_total counter
winpool_pod_pass_seconds_total 8.0
# HELP winpool_pods_seen Pods in the last pass.
# TYPE winpool_pods_seen gauge
winpool_pods_seen 150000.0
"""


def test_passes_are_read_by_result() -> None:
    passes = PodPasses.read(Scrape.parse(TEXT))
    assert passes == PodPasses(passes=3.0, errors=1.0, seconds=8.0, pods_seen=150_000.0)
    assert passes.seconds_each == 2.0


@pytest.mark.parametrize("text", ["", "# TYPE winpool_ready gauge\nwinpool_ready 1.0\n"])
def test_an_operator_without_these_metrics_has_told_nothing(text: str) -> None:
    passes = PodPasses.read(Scrape.parse(text))
    assert passes == PodPasses(None, None, None, None)
    assert passes.seconds_each is None


def test_seconds_without_a_pass_are_of_none() -> None:
    assert PodPasses(passes=0.0, errors=None, seconds=0.0, pods_seen=None).seconds_each is None


def test_series_are_counted_one_by_one_and_summed_by_labels() -> None:
    scrape = Scrape.parse(TEXT)
    assert scrape.series == 4
    assert scrape.total("winpool_pod_passes_total") == 4.0
    assert scrape.total("winpool_pod_passes_total", result="timeout") is None
