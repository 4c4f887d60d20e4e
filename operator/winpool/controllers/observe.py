"""Takes the snapshot that a pass decides on, from the caches and from what this process has seen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from winpool.api.issues import IssueReason
from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_ANNOTATION
from winpool.api.spec import Mode
from winpool.controllers.services import Services
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
from winpool.support.judge import Basis

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
        found = ((node.uid, standing(node.uid)) for node in nodes if node.conditions)
        return {uid: written for uid, written in found if written is not None}

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
