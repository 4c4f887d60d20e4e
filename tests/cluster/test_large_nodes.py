"""Nodes as large as a kubelet can make them: nobody else waits for them."""

from __future__ import annotations

import pytest

from harness.identity import Caller
from harness.nodes import labels_of
from harness.waiting import eventually
from harness.world import World
from testbed.winsim.wire import STRATEGIC_MERGE

pytestmark = pytest.mark.timeout(300)

TEAM = "example.com/team"
ESCAPED = "<" * 1_200_000
"""JSON has six bytes for each of these characters, so the node is longer than what etcd accepts."""


@pytest.mark.nightly
def test_a_kubelet_that_reports_all_that_etcd_takes_breaks_no_watch(world: World) -> None:
    loud, other = world.fleet(windows=2)
    world.operator.start()
    world.wait_up_to_date(world.apply(world.pool(labels={TEAM: "payments"})), nodes=2)
    lists = world.operator.metric("winpool_node_lists_total")
    with Caller.kubelet(world.testbed, loud) as kubelet:
        for number in range(5):
            ready = {"type": "Ready", "message": f"{number}{ESCAPED}"}
            path, body = f"/api/v1/nodes/{loud}/status", {"status": {"conditions": [ready]}}
            code, answer = kubelet.ask("PATCH", path, body, kind=STRATEGIC_MERGE)
            assert code == 200, answer
            world.kubectl("label", "node", other, f"{TEAM}-")
            eventually(lambda: TEAM in labels_of(world.node(other)), what="the other node is repaired")
    assert world.operator.metric("winpool_node_lists_total") == lists
