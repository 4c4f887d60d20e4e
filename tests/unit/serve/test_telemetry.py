"""The operator's own numbers about its passes over all pods."""

from __future__ import annotations

from collections import Counter

from winpool.control.pod_pass import PodPassStats
from winpool.serve import definitions
from winpool.telemetry import of_pod_passes


def test_passes_over_pods_are_served_as_they_count_themselves() -> None:
    stats = PodPassStats(
        Counter({"success": 3, "error": 1}), seconds=2.5, pods=150_000, finished=1767323045.5
    )
    assert of_pod_passes(stats) == {
        definitions.POD_PASSES: {("success",): 3, ("error",): 1},
        definitions.POD_PASS_SECONDS: {(): 2.5},
        definitions.PODS_SEEN: {(): 150_000},
        definitions.LAST_POD_PASS: {(): 1767323045.5},
    }


def test_both_results_are_served_from_the_start() -> None:
    assert of_pod_passes(PodPassStats())[definitions.POD_PASSES] == {("success",): 0, ("error",): 0}
