"""Pools with ``spec.upgrade``, their nodes and what runs there: for tests of the feature of upgrades."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import CONTROL_PLANE, NOON, a_node, a_pool, a_snapshot, a_survey, with_status
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.quantity import GIB
from winpool.features.feature import AllowedActions
from winpool.features.upgrade.feature import upgrade
from winpool.features.upgrade.records import GateFinding, NodeUpgrade, UpgradeOverview, UpgradeResult
from winpool.model.node import Allocatable, Node, NodeMemory, NodeVersions
from winpool.model.pods import NO_WORKLOAD, Workload
from winpool.model.pool import KnownUpgrades, Pool, Surprise
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import DesiredValue
from winpool.ownership.members import divide

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
TARGET: Final = 5000
"""A revision that the nodes of ``settled_node`` do not have."""

BEHIND: Final[Mapping[str, Any]] = {"version": "2022", "targetRevision": TARGET}

W2019: Final = "10.0.17763.7000"
W2022: Final = "10.0.20348.4052"
W2025: Final = "10.0.26100.7000"


def upgrade_pool(
    upgrade: Mapping[str, Any] | None = None,
    *,
    os: Mapping[str, Any] = BEHIND,
    more: Mapping[str, Any] | None = None,
    **pool: Any,
) -> Pool:
    """Return a pool with ``spec.upgrade``; its nodes are due by their revision, by default."""
    return a_pool(more={"os": dict(os), "upgrade": dict(upgrade or {}), **(more or {})}, **pool)


def settled_node(
    name: str = "w1",
    *,
    kernel: str = W2022,
    kubelet: str = CONTROL_PLANE,
    state: str | None = None,
    labels: Mapping[str, str] | None = None,
    **more: Any,
) -> Node:
    """Return a node that is Ready for a day, with the label ``state``; ``more`` is as for ``a_node``."""
    own = {} if state is None else {UPGRADE_STATE_LABEL: state}
    return replace(
        a_node(
            name,
            labels={**own, **(labels or {})},
            versions=NodeVersions(kernel=kernel, kubelet=kubelet, runtime="containerd://2.3.0"),
            **more,
        ),
        created=NOON - 2 * DAY,
        ready_since=NOON - DAY,
        memory=NodeMemory(capacity=16 * GIB, allocatable=14 * GIB),
        allocatable=Allocatable(cpu_milli=4000, pods=110),
    )


def settled_nodes(number: int = 3, **more: Any) -> list[Node]:
    """Return as many nodes, w1 and so on."""
    return [settled_node(f"w{place}", **more) for place in range(1, number + 1)]


def upgrade_snapshot(
    pool: Pool,
    nodes: Iterable[Node],
    *,
    workloads: Mapping[str, Workload] | None = None,
    looked: timedelta | None = timedelta(),
    settled: timedelta | None = HOUR,
    surprises: Iterable[Surprise] = (),
    now: datetime = NOON,
    **more: Any,
) -> Snapshot:
    """Return what a pass sees: nothing runs on the nodes, and the control plane is settled.

    ``workloads`` are by name of the node, in place of nothing. The list of all pods is ``looked`` ago, None:
    there is none. The control plane has its version for ``settled``, None: that is not known.
    """
    listed = list(nodes)
    found = {node.name: NO_WORKLOAD for node in listed} | dict(workloads or {})
    survey = None if looked is None else a_survey(pool, listed, now=now - looked, workloads=found)
    snapshot = a_snapshot(pool, listed, survey=survey, now=now, **more)
    known = KnownUpgrades(
        control_plane_since=None if settled is None else now - settled,
        surprises=tuple(surprises),
    )
    return replace(snapshot, upgrades=known)


def passed(snapshot: Snapshot, allowed: AllowedActions = AllowedActions.ACT) -> UpgradeResult:
    """Return what the feature finds and wants."""
    return upgrade(snapshot, divide(snapshot), allowed)


def reserved(snapshot: Snapshot) -> Snapshot:
    """Return what the next pass sees: the slots of this one are in the status."""
    overview = passed(snapshot).overview
    if overview is None:
        return snapshot
    status = snapshot.pool.status.model_copy(update={"slots": overview.slots})
    return replace(snapshot, pool=with_status(snapshot.pool, status))


def overview_of(snapshot: Snapshot, allowed: AllowedActions = AllowedActions.ACT) -> UpgradeOverview:
    """Return what the feature knows of the upgrades of the pool."""
    overview = passed(snapshot, allowed).overview
    assert overview is not None
    return overview


def wishes(snapshot: Snapshot, allowed: AllowedActions = AllowedActions.ACT) -> dict[str, DesiredValue | str]:
    """Return what the feature wants of the label, by name of the node; "" where it does not name it.

    The slots that it gives are in the status already.
    """
    desired = passed(reserved(snapshot), allowed).desired
    return {
        node.name: desired[node.uid].labels.get(UPGRADE_STATE_LABEL, "") if node.uid in desired else ""
        for node in snapshot.nodes
    }


def due_node(snapshot: Snapshot, name: str = "w1") -> NodeUpgrade:
    """Return what is known of the upgrade of one node, which is due."""
    return next(each for each in overview_of(snapshot).due if each.node.name == name)


def gates_of(snapshot: Snapshot, name: str = "w1") -> dict[str, GateFinding]:
    """Return all gates of one node that is due, the pool's and its own, by name."""
    overview = overview_of(snapshot)
    node = next(each for each in overview.due if each.node.name == name)
    return {each.gate: each for each in (*overview.gates, *node.gates)}
