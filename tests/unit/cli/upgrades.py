"""Clusters as one reading has them, for tests of ``plan`` and ``why``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from harness.builders import CONTROL_PLANE, NOON, a_node, a_pool
from winpool.cli.upgrades import Cluster
from winpool.features.contract.taints import question_of
from winpool.model.node import Allocatable, Node, NodeMemory, NodeVersions
from winpool.model.pods import PodShape, Requests, Workload
from winpool.model.pool import Pool
from winpool.model.survey import Survey

Object = dict[str, Any]

TARGET = 4052
BEHIND = NodeVersions(kernel="10.0.20348.1607", kubelet=CONTROL_PLANE, runtime="containerd://2.3.0")
OLDER_RELEASE = replace(BEHIND, kernel="10.0.17763.6189")

WHOLE_DAY_OFF: Object = {"start": "2026-11-01T00:00:00Z", "end": "2026-11-02T00:00:00Z", "reason": "audit"}
"""An exclusion that closes the gate MaintenanceWindow at NOON."""

SMALL = PodShape(Requests(cpu_milli=100, memory=2**20, pods=1))
LARGE = PodShape(Requests(cpu_milli=64_000, memory=2**20, pods=1))


def upgrade_pool(name: str = "win-2022", *, upgrade: Object | None = None, **more: Any) -> Pool:
    """Return a pool that asks for a revision, with ``spec.upgrade``."""
    os = {"version": "2022", "targetRevision": TARGET}
    return a_pool(name, more={"os": os, "upgrade": {"maxUnavailable": 2, **(upgrade or {})}}, **more)


def a_machine(name: str, *, behind: bool = True, **more: Any) -> Node:
    """Return a healthy node of such a pool, with room for pods, below the target or not."""
    shows: Object = {**({"versions": BEHIND} if behind else {}), **more}
    return replace(
        a_node(name, **shows),
        created=NOON - timedelta(days=9),
        ready_since=NOON - timedelta(days=8),
        memory=NodeMemory(capacity=2**34, allocatable=2**34),
        allocatable=Allocatable(cpu_milli=8000, pods=110),
    )


def a_cluster(
    *pools: Pool,
    nodes: Iterable[Node] = (),
    workloads: Mapping[str, Workload] | None = None,
    pods_known: bool = True,
    **more: Any,
) -> Cluster:
    """Return what a reading finds; nodes without a workload run nothing."""
    listed = tuple(nodes)
    found = Cluster(pools=pools, nodes=listed, version=CONTROL_PLANE, now=NOON, **more)
    if not pods_known:
        return found
    surveys = (a_look(pool, listed, workloads or {}) for pool in pools)
    return dataclasses.replace(found, surveys={each.pool_uid: each for each in surveys if each is not None})


def a_look(pool: Pool, nodes: Iterable[Node], workloads: Mapping[str, Workload]) -> Survey | None:
    question = question_of(pool, nodes, now=NOON)
    if question is None or not question.workloads:
        return None
    return Survey(
        pool_uid=pool.uid,
        generation=pool.generation,
        started=NOON - timedelta(seconds=2),
        finished=NOON,
        nodes=question.nodes,
        intolerant={},
        workloads={name: workloads.get(name, Workload()) for name in question.nodes},
    )
