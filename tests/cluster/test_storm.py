"""All nodes of a pool change at once: what is written about it does not grow with their number (P7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.report import Report
from bench.storm import run_storm

NODES = 12
REST_SECONDS = 5.0
"""The controller manager takes its taints off some two seconds after kubelets report Ready. A write of that
in between would have a node be written twice."""


@pytest.mark.nightly
def test_a_storm_over_twelve_nodes_misses_no_bound(tmp_path: Path) -> None:
    """``make bench-storm`` without its waits for repetitions of events, which come up to 30 s later."""
    figures = run_storm(
        nodes=NODES, directory=tmp_path / "storm", report=Report(), quiet_seconds=0, rest_seconds=REST_SECONDS
    )
    assert figures["missed"] == []
    # The bench's own bounds are for thousands of nodes. What is made for each node shows with twelve by this.
    assert figures["metric_series_after"] - figures["metric_series_before"] < NODES
    assert figures["status_writes"] < figures["node_changes"]
