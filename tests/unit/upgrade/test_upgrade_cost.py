"""A node of 5,000 costs a pass as much as one of 1,000, also where all are due, or report what they like."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import pytest
from msgspec.structs import replace

from harness.gate_scenes import REPLACE, declares
from harness.upgrade_feature import settled_node, upgrade_pool, upgrade_snapshot
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.feature import upgrade
from winpool.features.upgrade.findings import CAUSES_KEPT
from winpool.features.upgrade.records import UpgradeResult
from winpool.model.node import Node
from winpool.model.pods import NO_WORKLOAD, Workload
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import divide

NODES: Final = 5000
FEWER: Final = 1000
NODE_RATIO: Final = 2.0
"""A node of many costs at most so much more than one of fewer. It is 1 where the cost is linear; a cost that
grows with the square would be 5."""


def many(count: int, *, is_alike: bool) -> list[Node]:
    first = settled_node("w0")
    nodes = [
        settled_node(
            f"w{place}",
            kernel=first.versions.kernel if is_alike else f"10.0.20348.{place % 4000}",
            annotations={} if is_alike else {UPGRADE_REQUESTED_ANNOTATION: f"{place}" * 50},
        )
        for place in range(count)
    ]
    if not is_alike:
        return nodes
    return [replace(each, versions=first.versions, memory=first.memory) for each in nodes]


def costs(*snapshots: Snapshot) -> tuple[UpgradeResult, list[float]]:
    """Return what the feature finds in the last, and the seconds of CPU that each takes, at best of five.

    They are taken in turn, so that a machine that is busy for a moment is so for all of them.
    """
    divided = [(each, divide(each)) for each in snapshots]
    rounds: list[list[float]] = []
    for _ in range(5):
        spent = []
        for snapshot, members in divided:
            begin = time.process_time()
            result = upgrade(snapshot, members, AllowedActions.ACT)
            spent.append(time.process_time() - begin)
        rounds.append(spent)
    return result, [min(each) for each in zip(*rounds, strict=True)]


def works(nodes: Sequence[Node], *, is_alike: bool) -> dict[str, Workload]:
    if is_alike:
        return {node.name: NO_WORKLOAD for node in nodes}
    return {node.name: declares(f"10.0.{place}") for place, node in enumerate(nodes)}


@pytest.mark.slow
@pytest.mark.parametrize("is_alike", [True, False], ids=["alike", "all different"])
@pytest.mark.parametrize("target", [1, 5000], ids=["as asked", "due"])
def test_a_pass_over_a_large_pool_is_cheap(target: int, *, is_alike: bool) -> None:
    pool = upgrade_pool(REPLACE, os={"version": "2022", "targetRevision": target})
    fewer, nodes = (many(count, is_alike=is_alike) for count in (FEWER, NODES))
    result, (few_seconds, seconds) = costs(
        *(upgrade_snapshot(pool, each, workloads=works(each, is_alike=is_alike)) for each in (fewer, nodes))
    )
    assert result.overview is not None
    assert len(result.overview.due) == (0 if is_alike and target == 1 else NODES)
    assert seconds / NODES < NODE_RATIO * few_seconds / FEWER
    assert len(result.findings) < 4 * (CAUSES_KEPT + 1)
    assert len({id(each) for each in result.desired.values()}) <= 3, (
        "nodes that are alike share their desired"
    )


@pytest.mark.slow
def test_a_pass_is_cheap_while_no_node_is_ready() -> None:
    pool = upgrade_pool({"strategy": "RollingUpdate"}, os={"version": "2022"})
    fewer, nodes = (
        [replace(each, ready="Unknown") for each in many(count, is_alike=True)] for count in (FEWER, NODES)
    )
    result, (few_seconds, seconds) = costs(*(upgrade_snapshot(pool, each) for each in (fewer, nodes)))
    assert result.overview is not None
    assert seconds / NODES < NODE_RATIO * few_seconds / FEWER
