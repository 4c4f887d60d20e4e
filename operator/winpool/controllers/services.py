"""Holds what the loops of one operator share, and takes of it the snapshot that a pass decides on.

These are caches of the cluster, writers, and the loops themselves, and what this process alone has seen.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.crd import FieldPath
from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_ANNOTATION
from winpool.api.spec import Mode
from winpool.api.status import MAX_SLOTS, Slot
from winpool.controllers.evictions import Evictor
from winpool.controllers.machines import ObservedMachines
from winpool.controllers.memory import MemoryCollector
from winpool.controllers.node_pods import NodePodLists, TaintAbsentSince
from winpool.controllers.pod_pass import PodPass
from winpool.controllers.pools import Pools, Relister
from winpool.controllers.rollout_facts import RolloutFacts
from winpool.controllers.writes import ConditionApplier, NodePatcher
from winpool.decide import FEATURES
from winpool.features.feature import Feature
from winpool.kube.control_plane import ControlPlane, Guard
from winpool.kube.events import EventRecorder
from winpool.kube.watch import ListWatch
from winpool.kube.writer import Writer
from winpool.loops import Clock, Durations, PassResult
from winpool.model.node import Keys, Node, NodeCondition, is_held
from winpool.model.pool import Attempts, GuardState, KnownIssue, OtherPools, Pool
from winpool.model.pressure import NOTHING_KNOWN
from winpool.model.rollout import FORCE_WAITS_SECONDS, NO_FORCE, ForceTerms
from winpool.model.snapshot import Snapshot
from winpool.model.survey import KnownPods
from winpool.ownership.leftovers import strays_of
from winpool.ownership.members import Selections
from winpool.ownership.record import Record, parse
from winpool.ownership.trust import RecordTrust
from winpool.status.status import Figures
from winpool.support.judge import Basis
from winpool.support.rows import Row

DRAIN_BUCKETS: Final = (30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0)
"""Seconds. A pod has a grace of 30 s by default, a drain one hour, and one that was blocked has no limit."""


class ControlStats(msgspec.Struct):
    """Passes by result, their time (seconds) in total, and when the last one succeeded (Unix seconds).

    ``figures`` are what the last pass of each pool has found, by the name of the pool, ``drains`` how long
    the drains of nodes took.
    """

    passes: Counter[PassResult] = msgspec.field(default_factory=Counter)
    seconds: float = 0.0
    last_success: float = 0.0
    figures: dict[str, Figures] = msgspec.field(default_factory=dict)
    drains: Durations = msgspec.field(default_factory=lambda: Durations(DRAIN_BUCKETS))

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Count one pass: a success unless it raises."""
        started = time.perf_counter()
        result: PassResult = "Error"
        try:
            yield
            result = "Success"
            self.last_success = time.time()
        finally:
            self.passes[result] += 1
            self.seconds += time.perf_counter() - started


@dataclass(slots=True)
class NodesInWork:
    """Counts the slots of all pools against ``limit``, which holds within this process; None for no limit.

    What a pass has decided counts from that moment on: the pass of another pool may come before the status
    that has it is written.
    """

    pools: Pools
    limit: int | None = None
    _decided: dict[str, frozenset[str]] = field(default_factory=dict, init=False)

    def most_slots(self, pool: Pool) -> int:
        """Return how many slots ``pool`` may have."""
        if self.limit is None:
            return MAX_SLOTS
        others = [each for each in self.pools.all() if each.uid != pool.uid]
        self._decided = {each.uid: self._decided.get(each.uid, frozenset()) for each in (*others, pool)}
        taken = (in_work(each.status.slots) | self._decided[each.uid] for each in others)
        return max(self.limit - sum(map(len, taken)), 0)

    def note(self, pool: Pool, slots: Iterable[Slot]) -> None:
        """Note the slots that a pass has decided on."""
        if self.limit is not None:
            self._decided[pool.uid] = in_work(slots)


def in_work(slots: Iterable[Slot]) -> frozenset[str]:
    """Return the names of the nodes that have a slot."""
    return frozenset([each.node for each in slots if each.is_held])


class Services(msgspec.Struct, kw_only=True):
    """What the passes of all pools use.

    ``wake`` asks for a pass of the pool of a name. ``other_operator`` says who else writes, see
    ``Elector.other``, ``lacking_fields`` which fields the CRD lacks, None before it was looked at.
    ``list_labelled`` asks the API server which Windows nodes have the label of a pool, ``list_strays`` which
    nodes with our label have no Windows. ``memory`` is None where no source of samples is set.
    ``operator_node`` is as in ``Snapshot``.
    ``allows_force``: pods may be deleted that a drain could not evict in time.
    """

    clock: Clock
    writer: Writer
    recorder: EventRecorder
    pools: Pools
    nodes: ListWatch[Node]
    control_plane: ControlPlane
    guard: Guard
    relister: Relister
    wake: Callable[[str], None]
    other_operator: Callable[[], str | None]
    lacking_fields: Callable[[], tuple[FieldPath, ...] | None]
    list_labelled: Callable[[str], Awaitable[Sequence[Node]]]
    list_strays: Callable[[], Awaitable[tuple[Node, ...]]]
    patches: NodePatcher
    conditions: ConditionApplier
    evictions: Evictor
    pod_pass: PodPass
    node_pods: NodePodLists
    memory: MemoryCollector | None
    rollout_facts: RolloutFacts
    upgrades: ObservedMachines
    taint_absent_since: TaintAbsentSince
    nodes_in_work: NodesInWork
    allows_force: bool = False
    features: Sequence[Feature] = FEATURES
    cluster_rows: tuple[Row, ...] = ()
    operator_node: str = ""
    stats: ControlStats = msgspec.field(default_factory=ControlStats)
    strays: tuple[Node, ...] | None = None
    """Nodes that were in a pool, do not run Windows, and are not released; None before the first list."""


KEPT_SECONDS: Final = 600.0
"""How long the issue of another operator stays, from when this process has first seen it. If each removed at
once what the other adds, both would write every status once a second. If it stayed for ever, no one would
remove it when the operator that has added it is gone. After this time the list of pools, every five minutes,
makes the pass that removes it, and an operator that still runs adds it once more."""


def is_complete(services: Services) -> bool:
    """Whether all nodes and pools have been listed once, and the guard and the CRD were looked at.

    A pass before that would guess (P4).
    """
    return (
        services.pools.synced
        and services.nodes.synced
        and services.guard.known
        and services.lacking_fields() is not None
    )


@dataclass(slots=True)
class Interruptions:
    """Knows since when this process acts on pools, and on nodes that someone has held (``onTimeout: Force``).

    It knows of what its passes have seen, as long as that matters.
    """

    monotonic: Callable[[], float]
    _began: float | None = field(default=None, init=False)
    _standing: set[str] = field(default_factory=set, init=False)
    """UIDs of pools that are paused or in a dry run, and of nodes that are held."""
    _ended: dict[str, float] = field(default_factory=dict, init=False)
    """When that ended, by UID."""

    def terms(self, pool: Pool, nodes: Collection[Node], *, now: datetime) -> ForceTerms:
        """Return since when it acts on ``pool``, and on those of ``nodes`` that were held; all else as usual.

        Call it with each snapshot, so that no end is missed. Holds of nodes without a claim do not matter.
        """
        read_at, spec = self.monotonic(), pool.spec
        if self._began is None:
            self._began = read_at
        self._ended = {uid: at for uid, at in self._ended.items() if read_at - at < FORCE_WAITS_SECONDS}
        if spec is not None and (spec.upgrade is None or not spec.upgrade.is_ours):
            return NO_FORCE
        self._note(pool.uid, stands=spec is None or spec.mode is not Mode.ACTIVE, read_at=read_at)
        claimed = [each for each in nodes if UPGRADE_ANNOTATION in each.annotations]
        for node in claimed:
            self._note(node.uid, stands=is_held(node, now=now), read_at=read_at)

        def moment(at: float) -> datetime:
            return now - timedelta(seconds=read_at - at)

        since = None if pool.uid in self._standing else moment(self._ended.get(pool.uid, self._began))
        freed = {each.uid: moment(self._ended[each.uid]) for each in claimed if each.uid in self._ended}
        return ForceTerms(acts_since=since, freed=freed)

    def keep(self, known: Callable[[], Iterable[str]]) -> None:
        """Forget all UIDs but those that are ``known``."""
        if self._standing:
            self._standing.intersection_update(known())

    def _note(self, uid: str, *, stands: bool, read_at: float) -> None:
        if stands:
            self._standing.add(uid)
        elif uid in self._standing:
            self._standing.remove(uid)
            self._ended[uid] = read_at


@dataclass(slots=True)
class Observer:
    """Takes the snapshots of all pools."""

    services: Services
    selections: Selections = field(default_factory=Selections)
    _reported_since: dict[str, float] = field(default_factory=dict, init=False)
    """Since when the status of a pool, by UID, names another operator that this one does not know."""
    _interruptions: Interruptions = field(init=False)

    def __post_init__(self) -> None:
        """Begin with no pass."""
        self._interruptions = Interruptions(self.services.clock.monotonic)

    def snapshot(
        self,
        pool: Pool,
        *,
        attempts: Attempts,
        missing_permission: str = "",
        known_issues: tuple[KnownIssue, ...] = (),
    ) -> Snapshot:
        """Return the snapshot for a pass of ``pool``; ``attempts`` are its earlier writes."""
        services, pools = self.services, self.services.pools
        nodes, now = tuple(services.nodes.objects.values()), services.clock.now()
        self._interruptions.keep(lambda: (*(node.uid for node in nodes), *(each.uid for each in pools.all())))
        return Snapshot(
            pool=pool,
            nodes=nodes,
            now=now,
            selected_by=self.selections.of_all(nodes, pools.all()),
            others=self._others(pool, owners_of(nodes)),
            pods=self._pods(pool),
            support=Basis(control_plane=services.control_plane.version, cluster_rows=services.cluster_rows),
            guard=GuardState(
                identity=services.guard.identity,
                problem=services.guard.problem,
                is_unknown=services.guard.is_unknown,
            ),
            other_operator=self.other_operator(pool),
            lacking_fields=services.lacking_fields() or (),
            memory=NOTHING_KNOWN if services.memory is None else services.memory.known(pool),
            evictions=services.node_pods.evictions_of(pool),
            rollout=services.rollout_facts.known(),
            force=self._force(pool, nodes, now=now),
            upgrades=services.upgrades.known(pool),
            strays=None if services.strays is None else strays_of(pool, services.strays),
            attempts=attempts,
            written_conditions=self._written_conditions(nodes),
            missing_permission=missing_permission,
            known_issues=known_issues,
            operator_node=services.operator_node,
            most_slots=services.nodes_in_work.most_slots(pool),
        )

    def _others(self, pool: Pool, owners: Collection[str]) -> OtherPools:
        """Return what is known of all other pools; ``owners`` are the UIDs that records on nodes name."""
        pools = self.services.pools
        return OtherPools(
            rivals=tuple(other for other in pools.all() if other.uid != pool.uid),
            vanished=frozenset(uid for uid in owners if pools.is_vanished(uid)),
            decided_at={uid: moment for uid in owners if (moment := pools.absences.decided_at(uid))},
            seen=self._seen_pools(owners),
        )

    def _pods(self, pool: Pool) -> KnownPods:
        """Return what lists of pods have found about ``pool``, and which rights are missing for them."""
        every, of_nodes = self.services.pod_pass, self.services.node_pods
        survey = every.survey_of(pool.uid)
        return KnownPods(
            survey=survey,
            problem=every.problem,
            forbidden=every.forbidden,
            node_surveys=of_nodes.surveys_of(pool.uid, since=survey),
            pod_list_problems=of_nodes.problems(),
            taint_absent_since=self.services.taint_absent_since.moments(),
            budgets_forbidden=every.budgets.forbidden,
            daemon_sets_forbidden=every.daemon_sets.forbidden,
            runtime_classes_forbidden=every.runtime_classes.forbidden,
        )

    def _force(self, pool: Pool, nodes: Collection[Node], *, now: datetime) -> ForceTerms:
        """Return whether pods may be deleted that could not be evicted in time."""
        return replace(
            self._interruptions.terms(pool, nodes, now=now),
            is_allowed=self.services.allows_force,
            forbidden=self.services.rollout_facts.deletions_forbidden,
        )

    def _written_conditions(self, nodes: Iterable[Node]) -> dict[str, tuple[NodeCondition, ...]]:
        """Return the conditions that this process last wrote, by the UIDs of the nodes that have any."""
        standing = self.services.conditions.standing
        if not standing:  # no pool has any
            return {}
        return {node.uid: standing[node.uid] for node in nodes if node.conditions and node.uid in standing}

    def trust_over(self, nodes: Iterable[Node]) -> RecordTrust:
        """Return the rights that decide which records on ``nodes`` are believed."""
        guard = self.services.guard
        return RecordTrust(
            guard=guard.identity,
            pools=self._seen_pools(owners_of(nodes)),
            is_unknown=guard.is_unknown,
        )

    def other_operator(self, pool: Pool) -> str | None:
        """Return who else writes to ``pool``, "" for none; None: what its status says is to stay.

        Another operator may have reported what this one cannot know: that stays for KEPT_SECONDS.
        """
        services, since = self.services, self._reported_since
        is_reported = any(issue.reason == IssueReason.SECOND_OPERATOR for issue in pool.status.issues)
        if (other := services.other_operator()) is not None or not is_reported:
            since.pop(pool.uid, None)
            return other or ""
        if pool.uid not in since:
            for uid in since.keys() - {each.uid for each in services.pools.all()}:
                del since[uid]
        now = services.clock.monotonic()
        return None if now - since.setdefault(pool.uid, now) < KEPT_SECONDS else ""

    def _seen_pools(self, owners: Iterable[str]) -> dict[str, Keys]:
        """Return what those of ``owners`` (UIDs) have set that were seen as pools, by UID."""
        found = ((uid, self.services.pools.keys_of(uid)) for uid in owners)
        return {uid: keys for uid, keys in found if keys is not None}


def owners_of(nodes: Iterable[Node]) -> frozenset[str]:
    """Return the UIDs of pools that records on ``nodes`` name."""
    texts = {node.annotations.get(APPLIED_ANNOTATION) for node in nodes}  # usually all nodes share a few
    records = (parse(text) for text in texts if text is not None)
    return frozenset(record.pool_uid for record in records if isinstance(record, Record))
