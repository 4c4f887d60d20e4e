"""Observe: the snapshot that a pass decides on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from winpool.api.crd import FieldPath
from winpool.controllers.backoff import Patience
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.pod_pass import PodPass
from winpool.controllers.pools import Pools
from winpool.kube.control_plane import ControlPlane
from winpool.kube.guard import Guard
from winpool.kube.watch import ListWatch
from winpool.model.node import Keys, Node, NodeCondition
from winpool.model.pool import (
    NOTHING_SEEN_OF_UPGRADES,
    GuardState,
    KnownIssue,
    KnownUpgrades,
    OtherPools,
    Pool,
)
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory
from winpool.model.snapshot import Snapshot
from winpool.model.survey import KnownPods
from winpool.ownership.record import Record, record_of
from winpool.ownership.trust import Rights
from winpool.support.judge import Basis
from winpool.support.rows import Row


def _none_written(_uid: str) -> None:
    return None


def _no_strays(_pool: Pool) -> tuple[Node, ...]:
    return ()


def _no_other(_pool: Pool) -> str:
    return ""


def _none_lacking() -> tuple[FieldPath, ...]:
    return ()


class Observer:
    """Takes snapshots of the nodes in the reflector and the pools in the pool store."""

    def __init__(
        self,
        *,
        pools: Pools,
        nodes: ListWatch[Node],
        control_plane: ControlPlane,
        guard: Guard,
        pods: PodPass,
        node_pods: NodePodLists,
        taint_absent_since: TaintAbsentSince,
        now: Callable[[], datetime],
        written_conditions: Callable[[str], tuple[NodeCondition, ...] | None] = _none_written,
        strays_of: Callable[[Pool], tuple[Node, ...] | None] = _no_strays,
        other_operator: Callable[[Pool], str | None] = _no_other,
        lacking_fields: Callable[[], tuple[FieldPath, ...] | None] = _none_lacking,
        memory_of: Callable[[Pool], KnownMemory] | None = None,
        upgrades_of: Callable[[Pool], KnownUpgrades] | None = None,
        cluster_rows: tuple[Row, ...] = (),
    ) -> None:
        """Make an observer. ``written_conditions`` returns what was last written to the node of a UID.

        ``strays_of`` returns what is known of strays of a pool, None before they were listed.
        ``other_operator`` returns what the snapshot of a pool is to say of another operator,
        ``lacking_fields`` what the CRD lacks, None where no one has looked yet. ``memory_of`` returns what is
        known of the memory of its nodes, ``upgrades_of`` of machines.
        """
        self._other_operator = other_operator
        self._lacking_fields = lacking_fields
        self._memory_of = memory_of
        self._upgrades_of = upgrades_of
        self._written_conditions = written_conditions
        self._strays_of = strays_of
        self._pools = pools
        self._nodes = nodes
        self._control_plane = control_plane
        self._guard = guard
        self._pods = pods
        self._node_pods = node_pods
        self._taint_absent_since = taint_absent_since
        self._cluster_rows = cluster_rows
        self._now = now

    @property
    def complete(self) -> bool:
        """Whether all nodes and pools have been listed once, and the guard and the CRD were looked at.

        A pass before that would guess (P4).
        """
        return (
            self._pools.synced
            and self._nodes.synced
            and self._guard.known
            and self._lacking_fields() is not None
        )

    def snapshot(
        self,
        pool_name: str,
        *,
        patience: Patience,
        written_generation: int,
        missing_permission: str,
        known_issues: Mapping[str, tuple[KnownIssue, ...]] | None = None,
    ) -> Snapshot | None:
        """Return the snapshot for a pass of that pool, or None where there is no such pool.

        ``known_issues`` are by the UIDs of pools: another pool may have had this name.
        """
        pool = self._pools.get(pool_name)
        if pool is None:
            return None
        known = self._nodes.objects
        nodes = tuple(known.values())
        owners = owners_of(nodes)
        vanished = frozenset(uid for uid in owners if self._pools.is_vanished(uid))
        survey = self._pods.survey_of(pool.uid)
        return Snapshot(
            pool=pool,
            nodes=nodes,
            now=self._now(),
            others=OtherPools(
                rivals=tuple(other for other in self._pools.all() if other.uid != pool.uid),
                vanished=vanished,
                decided_at={
                    uid: moment for uid in owners if (moment := self._pools.absences.decided_at(uid))
                },
                seen=self._seen_pools(owners),
            ),
            pods=KnownPods(
                survey=survey,
                problem=self._pods.problem,
                forbidden=self._pods.forbidden,
                node_surveys=self._node_pods.surveys_of(pool.uid, since=survey),
                pod_list_problems=self._node_pods.problems(),
                taint_absent_since=self._taint_absent_since.moments(),
                budgets_forbidden=self._pods.budgets_forbidden,
            ),
            support=Basis(control_plane=self._control_plane.version, cluster_rows=self._cluster_rows),
            guard=GuardState(
                identity=self._guard.identity,
                problem=self._guard.problem,
                is_unknown=self._guard.is_unknown,
            ),
            other_operator=self._other_operator(pool),
            lacking_fields=self._lacking_fields() or (),
            memory=NOTHING_KNOWN if self._memory_of is None else self._memory_of(pool),
            evictions=self._node_pods.evictions_of(pool),
            upgrades=NOTHING_SEEN_OF_UPGRADES if self._upgrades_of is None else self._upgrades_of(pool),
            strays=self._strays_of(pool),
            attempts=patience.attempts(known, written_generation=written_generation),
            written_conditions={
                node.uid: written
                for node in nodes
                if node.conditions and (written := self._written_conditions(node.uid)) is not None
            },
            missing_permission=missing_permission,
            known_issues=(known_issues or {}).get(pool.uid, ()),
        )

    def rights_over(self, nodes: Iterable[Node]) -> Rights:
        """Return the rights that decide which records on ``nodes`` are believed."""
        return Rights(
            guard=self._guard.identity,
            pools=self._seen_pools(owners_of(nodes)),
            is_unknown=self._guard.is_unknown,
        )

    def _seen_pools(self, owners: Iterable[str]) -> dict[str, Keys]:
        """Return what those of ``owners`` (UIDs) have set that were seen as pools, by UID."""
        found = ((uid, self._pools.keys_of(uid)) for uid in owners)
        return {uid: keys for uid, keys in found if keys is not None}


def owners_of(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the UIDs of pools that records on ``nodes`` name."""
    records = (record_of(node) for node in nodes)
    return frozenset(record.pool_uid for record in records if isinstance(record, Record))
