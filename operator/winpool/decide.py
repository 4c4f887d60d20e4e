"""The whole pass in one function: from the snapshot to the decision.

The snapshot is the only input and the decision the only output: the same snapshot always leads
to the same writes, and a snapshot in which they have been made leads to none.

What a decision asks for: lists of pods, and when time alone may change it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from winpool.allowed import acts_of, allowed_actions, refusal_of
from winpool.api.events import EventReason
from winpool.api.keys import RELEASE_FINALIZER
from winpool.api.status import WindowsNodePoolStatus
from winpool.features.contract.feature import ContractResult, contract
from winpool.features.contract.taints import taints_of
from winpool.features.feature import AllowedActions, Feature, FeatureResult
from winpool.features.memory.feature import memory, missing_permission
from winpool.features.upgrade.feature import upgrade
from winpool.model.evidence import MOST_NODE_LISTS, current_survey, is_too_slow
from winpool.model.node import Acts, Node, NodePatch
from winpool.model.node_pods import PodListRequest
from winpool.model.pool import KnownIssue, Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.diff import diffs_of
from winpool.ownership.members import divide
from winpool.preconditions import Promise, keeps_status, promise_of, set_keys_of, without_unreported
from winpool.status.assessment import Assessment, assessed
from winpool.status.events import (
    Announcement,
    NodeEvent,
    about_node,
    cleared,
    of_issues,
    on_transition,
    released,
)
from winpool.status.findings import holds_end_at, unreported_nodes
from winpool.status.pods import Deletions, deletions_of, overdue_at
from winpool.status.status import Figures, figures_of, overview_of, status, upgrade_figures


def asking_nodes(snapshot: Snapshot, nodes: Iterable[Assessment]) -> tuple[Assessment, ...]:
    """Return the nodes whose pods have to be listed before they are written."""
    attempts = snapshot.attempts
    return tuple(
        [
            each
            for each in nodes
            if (each.needs_pods or (each.held.wants_own_look and not each.is_held))
            and not (
                attempts.holds_back(each.patch) if each.patch else attempts.holds_back_some(each.node.uid)
            )
        ]
    )


def nodes_to_list(
    snapshot: Snapshot, asking: Sequence[Assessment], results: Iterable[FeatureResult]
) -> tuple[Node, ...]:
    """Return the nodes whose pods are listed for each node alone: all that ask, where they are few.

    Of many nodes, the first ones, where a list of all pods takes too long to be used.
    """
    also = [
        node for result in results if not isinstance(result, ContractResult) for node in result.node_lists
    ]
    if len(asking) > MOST_NODE_LISTS and not is_too_slow(current_survey(snapshot)):
        return tuple(also[:MOST_NODE_LISTS])
    return tuple({each.uid: each for each in (*(one.node for one in asking), *also)}.values())[
        :MOST_NODE_LISTS
    ]


def needs_all_pods(
    snapshot: Snapshot, asking: Sequence[Assessment], results: Iterable[FeatureResult]
) -> bool:
    """Whether all pods have to be listed soon: a feature needs it, or many nodes wait.

    This is also so where a node waits whose own list keeps failing: a list of all pods is used instead.
    """
    if snapshot.pool.spec is None or snapshot.pool.deleting:
        return False
    if any(result.needs_all_pods for result in results):
        return True
    waiting = [each.node.uid for each in asking if each.needs_pods]
    problems = (snapshot.pods.pod_list_problems.get(uid) for uid in waiting)
    return (len(asking) > MOST_NODE_LISTS and bool(waiting)) or any(each and each.lasts for each in problems)


def look_again_at(
    results: Iterable[FeatureResult],
    reported: WindowsNodePoolStatus,
    *,
    hold_ends: datetime | None,
    now: datetime,
) -> datetime | None:
    """Return the next moment that a rule names. One that has passed was part of this decision.

    ``hold_ends`` is when the first hold of a node ends.
    """
    moments = (*(result.requeue_at for result in results), overdue_at(reported.issues), hold_ends)
    return min((moment for moment in moments if moment and moment > now), default=None)


FEATURES: Final[tuple[Feature, ...]] = (contract, memory, upgrade)
"""All features. No two of them know each other, or name the same key of a node."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass is to do: what ``promise`` says comes first, then ``acts``, then ``status``.

    ``node_events`` are emitted, by node, once the patch of that node was written, and ``repaired`` names what
    someone had undone there; ``deletions`` knows which pods their taints have deleted, and what to warn of
    before that. ``status`` is what the pool is to report and ``issues`` are all of its issues;
    ``pool_events`` are emitted once it was written. With ``keeps_status`` the present status stays until more
    is known. ``needs_pods`` asks for a list of all pods, soon, ``node_lists`` for a list of the pods of each
    of these nodes alone, ``pod_list_requests`` for those that evictions need, ``sampled`` are the nodes whose
    memory is to be watched. At ``look_again`` time alone may lead to another decision. ``figures`` are for
    the metrics.
    """

    promise: Promise
    acts: Acts
    node_events: Mapping[str, NodeEvent]
    repaired: Mapping[str, tuple[str, ...]]
    deletions: Deletions
    status: WindowsNodePoolStatus
    issues: tuple[KnownIssue, ...]
    pool_events: tuple[Announcement, ...]
    keeps_status: bool
    needs_pods: bool
    node_lists: tuple[Node, ...]
    sampled: tuple[Node, ...]
    pod_list_requests: tuple[PodListRequest, ...]
    look_again: datetime | None
    figures: Figures

    @property
    def patches(self) -> tuple[NodePatch, ...]:
        """The patches of nodes, at most one for each."""
        return self.acts.patches

    @property
    def finalizers(self) -> tuple[str, ...] | None:
        """The finalizers to write, from ``promise``."""
        return self.promise.finalizers

    @property
    def reports_first(self) -> bool:
        """Whether the status has to be written before any node."""
        return self.promise.status_first

    @property
    def releases_pool(self) -> bool:
        """Whether the pool is released: nothing of it is on any node, and the finalizer is removed."""
        return self.finalizers is not None and RELEASE_FINALIZER not in self.finalizers


def decide(snapshot: Snapshot, features: Sequence[Feature] = FEATURES) -> Decision:
    """Decide one pass of one pool. Raises FeaturesDisagreeError, which is a bug of a feature."""
    pool = snapshot.pool
    members = divide(snapshot)
    refusal = refusal_of(snapshot, members)
    pods_permission = _pods_permission(snapshot)
    allowed = allowed_actions(pool, is_accepted=not refusal and not pods_permission)
    results = tuple(feature(snapshot, members, allowed) for feature in features)
    diffs = diffs_of(snapshot, members, [result.desired for result in results])
    nodes = assessed(snapshot, members, results, diffs)
    may_write = allowed in (AllowedActions.ACT, AllowedActions.RELEASE)
    asking = asking_nodes(snapshot, nodes.notable) if may_write else ()
    free = tuple([each for each in nodes.notable if not each.is_held])
    acts, withdrawn = acts_of(
        snapshot, members, results, nodes.notable, allowed=allowed, looks_come=len(asking) <= MOST_NODE_LISTS
    )
    deletions = deletions_of(snapshot, acts.patches, free if allowed is AllowedActions.ACT else ())
    reported, found = status(
        snapshot,
        nodes,
        results,
        refusal=refusal,
        missing_permission=snapshot.missing_permission or pods_permission or missing_permission(snapshot),
        set_keys=set_keys_of(pool, members, may_write=may_write),
    )
    unreported: frozenset[str] = frozenset()
    if allowed is AllowedActions.RELEASE and acts.patches:
        unreported = unreported_nodes(nodes.notable, reported, pool.status, now=snapshot.now)
        acts = without_unreported(acts, unreported) if unreported else acts
    promise = promise_of(
        pool,
        members,
        reported,
        acts,
        allowed=allowed,
        is_due=may_write and any(each.patch is not None for each in free),
        unreported=unreported,
        deletes_pods=bool(deletions.on_nodes),
    )
    return Decision(
        promise=promise,
        acts=acts,
        node_events=_node_events(nodes.notable, pool, without=withdrawn) if acts.patches else {},
        repaired={
            each.node.name: (*each.drifted, *each.undone)
            for each in nodes.notable
            if acts.patches and (each.drifted or each.undone) and each.node.name not in withdrawn
        },
        deletions=deletions,
        status=reported,
        issues=found.all,
        pool_events=_pool_events(
            snapshot, reported, found.all, nodes, results, finalizers=promise.finalizers
        ),
        keeps_status=keeps_status(snapshot, nodes.notable, results)
        and (bool(pool.status_problem) or not promise.status_first),
        needs_pods=needs_all_pods(snapshot, asking, results),
        node_lists=nodes_to_list(snapshot, asking, results),
        sampled=tuple(node for result in results for node in result.sampled),
        pod_list_requests=tuple(look for result in results for look in result.pod_list_requests)[
            :MOST_NODE_LISTS
        ],
        look_again=look_again_at(results, reported, hold_ends=holds_end_at(nodes.notable), now=snapshot.now),
        figures=Figures()
        if pool.deleting
        else figures_of(nodes, overview_of(results), upgrade_figures(results)),
    )


def _pods_permission(snapshot: Snapshot) -> str:
    """Return which permission to list pods is missing, where the spec has taints, which need it."""
    spec = snapshot.pool.spec
    return snapshot.pods.forbidden if spec and taints_of(spec) else ""


def _node_events(
    nodes: Sequence[Assessment], pool: Pool, *, without: Collection[str]
) -> dict[str, NodeEvent]:
    events = (
        (each.node.name, about_node(each, pool=pool))
        for each in nodes
        if each.patch and each.node.name not in without
    )
    return {name: event for name, event in events if event}


def _pool_events(
    snapshot: Snapshot,
    reported: WindowsNodePoolStatus,
    found: Sequence[KnownIssue],
    nodes: Iterable[Assessment],
    results: Sequence[FeatureResult],
    *,
    finalizers: tuple[str, ...] | None,
) -> tuple[Announcement, ...]:
    pool = snapshot.pool
    if pool.deleting and finalizers is not None:
        note = released(_released_nodes(snapshot))
        return (Announcement(EventReason.NODES_RELEASED, note, pool.name, pool.uid),)
    if pool.status_problem:
        return ()  # it is not known which events were emitted
    before = _with_all(pool.status, snapshot.known_issues)
    after = _with_all(reported, found)
    issues = of_issues(pool, before, after, nodes, known=(*snapshot.known_issues, *found))
    if pool.deleting:
        return tuple(issues)
    of_pool = (
        Announcement(reason, note, pool.name, pool.uid)
        for reason, note in on_transition(
            before=before,
            after=after,
            wrote=snapshot.attempts.written_generation == pool.generation,
        )
    )
    return (*of_pool, *issues, *cleared(pool, before, after, overview_of(results), nodes))


def _with_all(status: WindowsNodePoolStatus, known: Iterable[KnownIssue]) -> WindowsNodePoolStatus:
    """Return ``status`` with those issues too that it has no room for."""
    shown = {(each.reason, each.message) for each in status.issues}
    more = [each.issue for each in known if (each.issue.reason, each.issue.message) not in shown]
    return status.model_copy(update={"issues": (*status.issues, *more)}) if more else status


def _released_nodes(snapshot: Snapshot) -> int | None:
    """Return how many nodes the deletion has written, None where an earlier process may have written some.

    No earlier process has, if these are as many as belonged to the pool before its deletion was first
    reported.
    """
    pool, attempts = snapshot.pool, snapshot.attempts
    is_known = attempts.is_from_start or (
        pool.status.observed_generation < pool.generation and pool.status.nodes == attempts.written_nodes
    )
    return attempts.written_nodes if is_known else None
