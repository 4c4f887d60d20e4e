"""What the pace of permissions to upgrade goes by: by the real loops, on a cluster in memory."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Final

import pytest
from msgspec.structs import replace

from harness.builders import Object
from harness.loops import MemoryCluster, MemoryOperator
from harness.stage import on_stage, until
from harness.upgrade_feature import BEHIND, settled_node
from harness.writes import relabelled
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.features.upgrade.slots import REST_SECONDS
from winpool.model.node import Node

UPGRADED: Final[Object] = {"os": dict(BEHIND), "upgrade": {"maxUnavailable": 2}}
TWO_HOURS: Final = timedelta(hours=2)
SOON: Final = 2.0
"""Seconds in which a pass comes, its list of all pods too, and its write."""


class SettableCluster(MemoryCluster):
    """A cluster beside an operator whose wall clock someone can set; the monotonic one continues."""

    is_ahead: bool = True

    def now(self) -> datetime:
        return super().now() + (TWO_HOURS if self.is_ahead else timedelta())


def state_of(cluster: MemoryCluster) -> str | None:
    return cluster.nodes["w1"].labels.get(UPGRADE_STATE_LABEL)


def with_kubelet(cluster: MemoryCluster, version: str) -> Node:
    node = cluster.nodes["w1"]
    return replace(node, versions=replace(node.versions, kubelet=version))


def close(cluster: MemoryCluster) -> None:
    """Close a gate of w1 alone: its kubelet is newer than the control plane."""
    cluster.put_node(with_kubelet(cluster, "v1.37.0"))


def open_again(cluster: MemoryCluster) -> None:
    cluster.put_node(with_kubelet(cluster, cluster.nodes["w2"].versions.kubelet))


async def becomes(cluster: MemoryCluster, state: str, *, seconds: float = SOON) -> None:
    await until(lambda: state_of(cluster) == state, seconds=seconds)


@pytest.mark.parametrize("foreign", ["Required", "UpToDate", "Claimed", None])
def test_what_someone_else_writes_into_the_label_delays_no_giving(foreign: str | None) -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        await becomes(cluster, "Required", seconds=60)
        close(cluster)
        await asyncio.sleep(2 * REST_SECONDS)
        cluster.put_node(relabelled(cluster.nodes["w1"], **{UPGRADE_STATE_LABEL: foreign}))
        await becomes(cluster, "Gated")
        open_again(cluster)
        await becomes(cluster, "Required")

    on_stage(scene, settled_node("w1"), settled_node("w2"), spec=UPGRADED)


def test_a_clock_that_is_set_back_two_hours_keeps_no_permission_and_delays_none() -> None:
    async def scene(cluster: MemoryCluster, _: MemoryOperator) -> None:
        assert isinstance(cluster, SettableCluster)
        await becomes(cluster, "Required", seconds=60)
        cluster.is_ahead = False
        close(cluster)
        await becomes(cluster, "Gated")
        open_again(cluster)
        await becomes(cluster, "Required", seconds=REST_SECONDS + SOON)
        close(cluster)
        await becomes(cluster, "Gated")

    on_stage(scene, settled_node("w1"), settled_node("w2"), cluster_of=SettableCluster, spec=UPGRADED)
