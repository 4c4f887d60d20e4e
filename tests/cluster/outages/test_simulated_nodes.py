"""Simulated nodes whose API server goes away go on where they were."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from cluster.simulated import HEARTBEAT_SECONDS, condition, simulated
from testbed.cluster import Testbed
from testbed.waiting import wait_until


@pytest.mark.nightly
def test_nodes_outlive_an_outage_of_the_api_server(fragile: Testbed, tmp_path: Path) -> None:
    # Leases that are renewed every second, not every ten: the first after the outage is waited for.
    with simulated(fragile, tmp_path, "--lease-duration-seconds=4", windows=3) as nodes:
        server = fragile.component("apiserver")
        server.kill()
        wait_until(
            lambda: "does not answer" in nodes.log.read_text(),
            what="the simulator to notice",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        server.start()
        server.wait_ready()
        returned = datetime.now(UTC).isoformat()
        wait_until(
            lambda: all(lease["spec"]["renewTime"] > returned for lease in nodes.leases().values()),
            what="every Lease to be renewed after the outage",
            timeout_seconds=HEARTBEAT_SECONDS,
        )
        assert "answers again" in nodes.log.read_text()
        assert all(condition(node, "Ready")["status"] == "True" for node in nodes.all().values())
        assert nodes.process.poll() is None
