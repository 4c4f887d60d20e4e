"""Decides one pass of one pool, as a pure function: what is written, what is reported, what is asked for.

The snapshot is the only input and the decision the only output. The same snapshot always leads to the same
writes, and a snapshot in which they have been made leads to none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.conditions import ConditionType, Reason
from winpool.api.crd import SLOTS
from winpool.api.events import EventReason
from winpool.api.keys import APPLY_GUARD
from winpool.api.spec import Mode
from winpool.api.status import WindowsNodePoolStatus
from winpool.features.contract.feature import (
    ACCEPTABLE,
    ContractResult,
    Refusal,
    contract,
    contract_refusal_of,
)
from winpool.features.contract.taints import taints_of
from winpool.features.feature import AllowedActions, Feature, FeatureResult
from winpool.features.judge import layers_of
from winpool.features.memory.feature import memory, missing_permission
from winpool.features.upgrade.feature import lacking_permission, unusable, upgrade
from winpool.features.upgrade.slots import secured
from winpool.model.node import Node
from winpool.model.node_pods import PodListRequest
from winpool.model.pool import KnownIssue, Pool
from winpool.model.snapshot import MOST_NODE_LISTS, Snapshot, current_survey, is_too_slow
from winpool.ownership.diff import NodeDiff, diffs_of
from winpool.ownership.members import Claim, Members, divide, held_nodes
from winpool.ownership.trust import keys_to_remember, remembered_keys
from winpool.plan_writes import Writes, contract_result, plan_writes
from winpool.status import events
from winpool.status.assessment import Assessed, Assessment, assessed
from winpool.status.events import Announcement, NodeEvent
from winpool.status.findings import holds_end_at, ripens_at, unreported_nodes
from winpool.status.pods import Deletions, deletions_of, is_unreported, overdue_at, workload_figures
from winpool.status.status import Figures, figures_of, overview_of, status, upgrade_figures

FEATURES: Final[tuple[Feature, ...]] = (contract, memory, upgrade)
"""All features. No two of them know each other, or name the same key of a node."""


class Decision(msgspec.Struct, frozen=True):
    """What one pass is to do.

    ``writes`` are what it writes beside the status. ``node_events`` are emitted, by node, once the patch of
    that node was written, and ``repaired`` names what someone had undone there; ``deletions`` knows which
    pods their taints have deleted, and what to warn of before that. ``status`` is what the pool is to report
    and ``issues`` are all of its issues; ``pool_events`` are emitted once it was written. With
    ``keeps_status`` the present status stays until more is known. ``needs_pods`` asks for a list of all pods,
    soon, ``node_lists`` for a list of the pods of each of these nodes alone, ``pod_list_requests`` for those
    that evictions need, ``reads_attachments`` and ``reads_workloads`` for lists of VolumeAttachments and of
    the controllers of pods, ``drains`` for a watch of PodDisruptionBudgets, ``sampled`` are the nodes whose
    memory is to be watched. At ``look_again`` time alone may lead to another decision. ``has_nodes`` says
    whether the pool has nodes, also those that it releases, and ``figures`` are for the metrics.
    """

    writes: Writes
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
    reads_attachments: bool
    reads_workloads: bool
    drains: bool
    look_again: datetime | None
    has_nodes: bool
    figures: Figures


def decide(snapshot: Snapshot, features: Sequence[Feature] = FEATURES) -> Decision:
    """Decide one pass of one pool. Raises FeaturesDisagreeError, which is a bug of a feature."""
    pool = snapshot.pool
    has_taints = pool.spec is not None and bool(taints_of(pool.spec))
    pods_permission = snapshot.pods.forbidden if has_taints else ""
    snapshot = replace(snapshot, missing_permission=_missing_permission(snapshot, of_pods=pods_permission))
    members = divide(snapshot)
    held = held_nodes(snapshot, members)
    refusal = refusal_of(snapshot, members)
    allowed = allowed_actions(pool, is_accepted=not refusal and not pods_permission)

    results = tuple(feature(snapshot, members, allowed) for feature in features)
    diffs = diffs_of(snapshot, members, [result.desired for result in results])
    writes = plan_writes(snapshot, members, results, diffs, allowed=allowed, held=held)

    found, acts = contract_result(results), allowed is AllowedActions.ACT
    nodes = assessed(snapshot, members, found, diffs, held=held)
    owned = (each.node for each in members.all)
    set_keys = keys_to_remember(pool, nodes=owned) if acts else remembered_keys(pool)
    reported, issues = status(snapshot, nodes, results, refusal=refusal, set_keys=set_keys)
    free = [each for each in nodes.notable if acts and not each.is_held]
    deletions = deletions_of(snapshot, writes.patches, free)
    writes = _with_status_first(snapshot, writes, nodes, reported, deletions, allowed=allowed)
    node_ends = (holds_end_at(nodes.notable), ripens_at(nodes.notable, now=snapshot.now))
    looks = tuple([each for result in results for each in result.pod_list_requests])
    return Decision(
        writes=writes,
        node_events=_node_events(snapshot, writes, nodes.notable),
        repaired=_repaired(writes, diffs),
        deletions=deletions,
        status=reported,
        issues=issues.all,
        pool_events=_pool_events(snapshot, writes, reported, issues.all, nodes, results),
        keeps_status=(bool(pool.status_problem) or not writes.status_first)
        and _keeps_status(snapshot, found, results, held=held),
        needs_pods=needs_all_pods(snapshot, writes, results),
        node_lists=nodes_to_list(snapshot, writes, results),
        sampled=tuple(node for result in results for node in result.sampled),
        pod_list_requests=looks[:MOST_NODE_LISTS],
        reads_attachments=any(each.reads_attachments for each in results),
        reads_workloads=any(each.reads_workloads for each in results),
        drains=any(each.drains for each in results),
        look_again=look_again_at(results, reported, of_nodes=node_ends, now=snapshot.now),
        has_nodes=any(each.claim in (Claim.OURS, Claim.LEFT) for each in members.all),
        figures=_figures(snapshot, nodes, results),
    )


def _missing_permission(snapshot: Snapshot, *, of_pods: str) -> str:
    """Return which right is missing, empty for none: the API server has said so, or a feature needs it."""
    return (
        snapshot.missing_permission or of_pods or missing_permission(snapshot) or lacking_permission(snapshot)
    )


def _figures(snapshot: Snapshot, nodes: Assessed, results: Sequence[FeatureResult]) -> Figures:
    """Return the numbers for the metrics; none of a pool that is being deleted."""
    if snapshot.pool.deleting:
        return Figures()
    workloads = workload_figures(snapshot, nodes)
    return figures_of(nodes, overview_of(results), upgrade_figures(results), workloads)


def _with_status_first(
    snapshot: Snapshot,
    writes: Writes,
    nodes: Assessed,
    reported: WindowsNodePoolStatus,
    deletions: Deletions,
    *,
    allowed: AllowedActions,
) -> Writes:
    """Return ``writes`` after the status, where people must be able to read something before them.

    Which pods the taints will affect, that the operator acts on the spec before it has pods deleted, and what
    stays on a node of a deleted pool. A node that gets a slot is permitted in the next pass, so that the
    status is also written first where no node is.
    """
    standing = snapshot.pool.status
    if writes.takes_permissions:
        return writes
    if has_new_slots(snapshot, reported):
        return replace(writes, status_first=True)
    if not writes.patches:
        return writes
    if allowed is AllowedActions.RELEASE:
        unreported = unreported_nodes(nodes.notable, reported, standing, now=snapshot.now)
        return writes.once_reported(unreported) if unreported else writes
    if allowed is AllowedActions.ACT and (
        is_unreported(reported, standing)
        or (deletions.on_nodes and not _says_that_nodes_are_written(standing))
    ):
        return replace(writes, status_first=True)
    return writes


def has_new_slots(snapshot: Snapshot, reported: WindowsNodePoolStatus) -> bool:
    """Whether a node gets a slot, which the status has to have before the node is permitted."""
    can_write = SLOTS not in snapshot.lacking_fields
    return can_write and not secured(reported.slots) <= secured(snapshot.pool.status.slots)


def _says_that_nodes_are_written(status: WindowsNodePoolStatus) -> bool:
    """Whether people who read the status know that the operator acts on the spec."""
    accepted, paused = status.condition(ConditionType.ACCEPTED), status.condition(ConditionType.PAUSED)
    is_accepted = accepted is not None and accepted.status == "True"
    return is_accepted and status.plan is None and not (paused is not None and paused.status == "True")


def _keeps_status(
    snapshot: Snapshot, contract: ContractResult, results: Iterable[FeatureResult], *, held: frozenset[str]
) -> bool:
    """Whether the first list of all pods is about to show more, and the status can wait for it.

    A status for this very spec waits: otherwise each start of the operator would remove, for a moment, what
    it says of pods that block taints, or would close gates that pods keep open. So does that of a dry run:
    its plan would omit what waits for the list. One that cannot be read is not rebuilt without the list
    either: it may have reported pods.
    """
    pool = snapshot.pool
    is_coming = snapshot.pods.survey is None and not snapshot.pods.problem
    if pool.status_problem:
        return is_coming and pool.spec is not None and not pool.deleting
    is_dry_run = pool.spec is not None and pool.spec.mode is Mode.DRY_RUN
    is_known = is_dry_run or pool.status.observed_generation == pool.generation
    if not is_known or not is_coming or pool.deleting:
        return False
    waiting = (each for each in contract.node_lists if contract.nodes[each.uid].needs_pods)
    return any(each.name not in held for each in waiting) or any(each.awaits_pods for each in results)


def nodes_to_list(snapshot: Snapshot, writes: Writes, results: Iterable[FeatureResult]) -> tuple[Node, ...]:
    """Return the nodes whose pods are listed for each node alone: all that wait for it, where they are few.

    Of many nodes, the first ones, where a list of all pods takes too long to be used.
    """
    waiting = writes.awaiting_pods
    if len(waiting) > MOST_NODE_LISTS and not is_too_slow(current_survey(snapshot)):
        waiting = ()
    also = (
        node for result in results if not isinstance(result, ContractResult) for node in result.node_lists
    )
    return tuple({each.uid: each for each in (*waiting, *also)}.values())[:MOST_NODE_LISTS]


def needs_all_pods(snapshot: Snapshot, writes: Writes, results: Sequence[FeatureResult]) -> bool:
    """Whether all pods have to be listed soon: a feature needs it, or many nodes wait.

    This is also so where a node waits whose own list keeps failing: a list of all pods is used instead.
    """
    if snapshot.pool.spec is None or snapshot.pool.deleting:
        return False
    if any(result.needs_all_pods for result in results):
        return True
    nodes = contract_result(results).nodes
    waiting = [each.uid for each in writes.awaiting_pods if nodes[each.uid].needs_pods]
    problems = (snapshot.pods.pod_list_problems.get(uid) for uid in waiting)
    are_many = len(writes.awaiting_pods) > MOST_NODE_LISTS
    return (are_many and bool(waiting)) or any(each and each.lasts for each in problems)


def look_again_at(
    results: Iterable[FeatureResult],
    reported: WindowsNodePoolStatus,
    *,
    of_nodes: Iterable[datetime | None] = (),
    now: datetime,
) -> datetime | None:
    """Return the next moment that a rule names. One that has passed was part of this decision.

    ``of_nodes`` are when the first hold of a node ends, and when the state of one has lasted long enough.
    """
    moments = (*(result.requeue_at for result in results), overdue_at(reported.issues), *of_nodes)
    return min((moment for moment in moments if moment and moment > now), default=None)


def _node_events(snapshot: Snapshot, writes: Writes, nodes: Iterable[Assessment]) -> dict[str, NodeEvent]:
    if not writes.patches:
        return {}
    found = (
        (each.node.name, events.about_node(each, pool=snapshot.pool))
        for each in nodes
        if each.diff.patch and each.node.name not in writes.withdrawn
    )
    return {name: event for name, event in found if event}


def _repaired(writes: Writes, diffs: Mapping[str, NodeDiff]) -> dict[str, tuple[str, ...]]:
    patched = ((each.node.name, diffs.get(each.node.uid)) for each in writes.patches)
    return {
        name: (*diff.drifted, *diff.undone)
        for name, diff in patched
        if diff and (diff.drifted or diff.undone) and name not in writes.withdrawn
    }


def _pool_events(
    snapshot: Snapshot,
    writes: Writes,
    reported: WindowsNodePoolStatus,
    found: Sequence[KnownIssue],
    nodes: Iterable[Assessment],
    results: Sequence[FeatureResult],
) -> tuple[Announcement, ...]:
    pool = snapshot.pool
    if pool.deleting and writes.finalizers is not None:
        note = events.released(_released_nodes(snapshot))
        return (Announcement(EventReason.NODES_RELEASED, note, pool.name, pool.uid),)
    if pool.status_problem:
        return ()  # it is not known which events were emitted
    before = _with_all(pool.status, snapshot.known_issues)
    after = _with_all(reported, found)
    issues = events.of_issues(pool, before, after, nodes, known=(*snapshot.known_issues, *found))
    if pool.deleting:
        return tuple(issues)
    of_pool = (
        Announcement(reason, note, pool.name, pool.uid)
        for reason, note in events.on_transition(
            before=before,
            after=after,
            wrote=snapshot.attempts.written_generation == pool.generation,
        )
    )
    return (*of_pool, *issues, *events.cleared(pool, before, after, overview_of(results), nodes))


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


def refusal_of(snapshot: Snapshot, members: Members) -> Refusal:
    """Say why the spec cannot be acted on, with the fix: the first reason that there is.

    Each feature says it of what CEL cannot check. A pool that is being deleted upgrades no node.
    """
    if refusal := contract_refusal_of(snapshot, members):
        return refusal
    spec = snapshot.pool.spec
    if spec is None or spec.upgrade is None or snapshot.pool.deleting:
        return ACCEPTABLE
    if spec.upgrade.is_ours and not snapshot.guard.identity and not snapshot.guard.is_unknown:
        return Refusal(
            f"spec.upgrade.strategy is {spec.upgrade.strategy}, and the guard is not in force, so kubelets "
            f"could make the operator drain nodes. {APPLY_GUARD}, or set the strategy to Manual.",
            Reason.GUARD_MISSING,
        )
    if spec.upgrade.forces and not snapshot.force.is_allowed:
        return Refusal(
            "spec.upgrade.drain.onTimeout is Force, and the operator was started without --allow-force, so "
            "it deletes no pods. Start it with that flag, or set onTimeout to Wait, Restore or Quarantine."
        )
    wrong = unusable(spec.upgrade, spec.os, layers=layers_of(snapshot, spec), now=snapshot.now)
    said = next(wrong, "")
    return Refusal(said) if said else ACCEPTABLE


def allowed_actions(pool: Pool, *, is_accepted: bool) -> AllowedActions:
    """Return what may be written for ``pool``; ``is_accepted`` says whether its spec can be acted on.

    A deletion releases the nodes in every mode. A mode in which nothing is written has precedence over all
    else.
    """
    if pool.deleting:
        return AllowedActions.RELEASE
    if pool.spec is not None and pool.spec.mode is not Mode.ACTIVE:
        return AllowedActions.NOTHING
    return AllowedActions.ACT if is_accepted else AllowedActions.FINISH
