"""Makes the whole status of a pool from one snapshot, its history, and the figures that metrics report.

The history follows from the history as it stands and from what is due now. So it needs no memory of this
process, and alone it never causes a write: an entry changes only where the nodes that are due change, the
target, or an override.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.api.keys import OS_LABEL, OS_VERSION_LABEL, OS_WINDOWS, POOL_LABEL, WINDOWS_BUILD_LABEL
from winpool.api.selector import SelectorOperator
from winpool.api.spec import Mode
from winpool.api.status import (
    HELD_STATES,
    MAX_HISTORY,
    HistoryEntry,
    HistoryResult,
    Issue,
    NodeTemplate,
    SetKeys,
    Slot,
    SlotState,
    TemplateTaint,
    WindowsNodePoolStatus,
)
from winpool.api.upgrade import Gate, Trigger, UpgradeState
from winpool.features.contract.feature import Refusal
from winpool.features.feature import FeatureResult, Finding, Stage
from winpool.features.judge import layers_of
from winpool.features.memory.feature import MemoryResult
from winpool.features.memory.overview import Overview
from winpool.features.reserved_memory import MISMATCHES
from winpool.features.upgrade.drain import DrainBlock
from winpool.features.upgrade.records import (
    MOST_UNHEALTHY,
    NOTHING_ROLLED,
    VOLUMES,
    RolloutResult,
    UpgradeOverview,
)
from winpool.model.node import Keys
from winpool.model.pool import Pool, SurpriseKind
from winpool.model.pressure import Axis, Level
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import NONE
from winpool.ownership.members import Claim
from winpool.status.assessment import Assessed, tally
from winpool.status.conditions import conditions, memory_capabilities
from winpool.status.findings import (
    findings_of_reserved,
    node_findings,
    owner_findings,
    pool_findings,
    readiness_findings,
    stray_findings,
)
from winpool.status.issues import Issues, carried_issues, issues
from winpool.status.os_support import builds, findings, groups_of
from winpool.status.plan import plan
from winpool.status.pods import (
    Blind,
    WorkloadFigures,
    blind,
    misplaced_pods,
    overdue_at,
    pod_findings,
    workload_findings,
)
from winpool.status.upgrade import PLACES, control_plane_of, slots_in, upgrades_of
from winpool.status.view import NO_ROLLOUT, View, failed_nodes, rollout_progress


def status(
    snapshot: Snapshot,
    nodes: Assessed,
    results: Sequence[FeatureResult],
    *,
    refusal: Refusal,
    set_keys: Keys,
) -> tuple[WindowsNodePoolStatus, Issues]:
    """Return what is to stand in ``status``, all of it, for one write; and all issues."""
    pool, now = snapshot.pool, snapshot.now
    memory, upgrades = overview_of(results), upgrades_of(results)
    groups, unlisted = groups_of(nodes), blind(snapshot, nodes.notable)
    judged = findings(groups, today=now.date())
    found = _all_findings(snapshot, nodes, results, judged=judged, unlisted=unlisted)
    carried = tuple(carried_issues(snapshot, memory, found))
    standing = issues(found, carried=carried, pool=pool, now=now, known=snapshot.known_issues)
    overdue = overdue_at((*standing.shown, *(each.issue for each in standing.all)))
    block = pool.spec.upgrade if pool.spec else None
    view = View(
        pool=pool,
        tally=tally(nodes, results),
        refusal=refusal,
        missing_permission=snapshot.missing_permission,
        blind=unlisted,
        is_overdue=overdue is not None and overdue <= now,
        groups=groups,
        judged=judged,
        found=frozenset([*(each.reason for each in found), *(each.reason for each in carried)]),
        memory=memory,
        pressured=_pressured(memory, carried),
        upgrades=upgrades,
        rollout=NO_ROLLOUT if pool.deleting else rollout_progress(upgrades, block, now=now),
    )
    return _reported(snapshot, nodes, results, view, standing, set_keys), standing


def _all_findings(
    snapshot: Snapshot,
    nodes: Assessed,
    results: Iterable[FeatureResult],
    *,
    judged: Iterable[Finding],
    unlisted: Blind,
) -> tuple[Finding, ...]:
    """Return all that is found of a pool and its nodes; ``judged`` is what the support matrix says."""
    return (
        *pool_findings(snapshot, nodes),
        *node_findings(nodes.notable),
        *readiness_findings(nodes.notable, now=snapshot.now),
        *stray_findings(snapshot),
        *owner_findings(snapshot, nodes.notable),
        *judged,
        *pod_findings(snapshot, nodes, unlisted),
        *workload_findings(snapshot),
        *findings_of_reserved(snapshot.pool, nodes),
        *(finding for result in results for finding in result.findings),
    )


def _reported(
    snapshot: Snapshot,
    nodes: Assessed,
    results: Sequence[FeatureResult],
    view: View,
    standing: Issues,
    set_keys: Keys,
) -> WindowsNodePoolStatus:
    """Return the status that says what is in the view, with its issues."""
    pool, counts, rollout = view.pool, view.tally, view.rollout
    known = memory_capabilities(pool, snapshot.memory.capabilities) if view.memory else ""
    is_planned = view.mode is Mode.DRY_RUN and not pool.deleting
    return WindowsNodePoolStatus(
        observed_generation=pool.generation,
        nodes=counts.nodes,
        ready_nodes=counts.ready,
        up_to_date_nodes=counts.up_to_date,
        up_to_date_and_ready_nodes=counts.up_to_date_and_ready,
        available_nodes=counts.available,
        draining_nodes=rollout.draining,
        blocked_nodes=rollout.blocked,
        failed_nodes=rollout.failed,
        held_nodes=counts.held,
        pressured_nodes=view.pressured,
        memory_capabilities=known or None,
        misplaced_pods=misplaced_pods(snapshot, nodes),
        builds=builds(view.groups),
        issues=standing.shown,
        issue_count=standing.count,
        set_keys=_written_keys(set_keys) if set_keys else None,
        node_template=_node_template(snapshot) if view.accepted and not pool.deleting else None,
        plan=plan(snapshot, nodes, view.upgrades) if is_planned else None,
        control_plane=control_plane_of(view),
        slots=slots_in(view, results),
        next_action_time=rollout.next_at,
        history=history(pool, view.upgrades, now=snapshot.now),
        conditions=conditions(view, now=snapshot.now),
    )


def overview_of(results: Iterable[FeatureResult]) -> Overview | None:
    """Return what is known of the memory of the nodes; None where memory is not watched."""
    return next((each.overview for each in results if isinstance(each, MemoryResult)), None)


def _pressured(memory: Overview | None, carried: Iterable[Issue]) -> int:
    """Return how many nodes are under pressure, as far as that is known, or were before the last start."""
    if memory is None:
        return 0
    said = sum(each.node_count for each in carried if each.reason == IssueReason.MEMORY_PRESSURE)
    return len(memory.pressured) + min(said, len(memory.undecided))


def _written_keys(keys: Keys) -> SetKeys:
    return SetKeys(
        labels=tuple(sorted(keys.labels)),
        taints=tuple(f"{key}:{effect}" for key, effect in sorted(keys.taints)),
    )


def _node_template(snapshot: Snapshot) -> NodeTemplate | None:
    """Return labels and taints of a new node of the pool, as far as the spec tells them.

    An autoscaler reads them before there is a node. A requirement that a label has one value of several
    leaves the label open. Startup taints are left out: they come off again, and an autoscaler that counted
    them would think that no pod fits. https://github.com/kubernetes/autoscaler/issues/2888
    """
    spec = snapshot.pool.spec
    if spec is None:
        return None
    layers = layers_of(snapshot, spec)
    release = layers.matrix.judged_as(spec.os.version)
    build = layers.build_of(release)
    labels = {
        **({OS_VERSION_LABEL: release, WINDOWS_BUILD_LABEL: f"10.0.{build}"} if build is not None else {}),
        **{
            each.key: each.values[0]
            for each in spec.node_selector.match_expressions
            if each.operator is SelectorOperator.IN and len(each.values) == 1
        },
        **spec.node_selector.match_labels,
        **spec.labels,
        OS_LABEL: OS_WINDOWS,
        POOL_LABEL: snapshot.pool.name,
    }
    taints = (TemplateTaint(key=each.key, value=each.value, effect=each.effect) for each in spec.taints)
    return NodeTemplate(labels=dict(sorted(labels.items())), taints=tuple(taints))


REOPENED: Final = timedelta(hours=1)
"""One node whose kubelet reports another version now and then must not push ten upgrades out of the history,
nor begin the clock of the alert about upgrades that are due for too long again."""


def history(pool: Pool, overview: UpgradeOverview | None, *, now: datetime) -> tuple[HistoryEntry, ...]:
    """Return the history, the newest entry first.

    An entry begins when nodes are due, and ends when none is, or when the target is another one. While it is
    not known of a node whether it is due, an entry goes on (P4). Its ``nodes`` is the most that were due at
    once, and ``failed_nodes`` the most that had failed: which these were is not kept. An entry that ended
    less than an hour ago goes on where nodes are due for the same target again.

    Without an ``overview`` nothing is known, and it stays as it is; but where the spec asks for no upgrades
    any more, no one goes on with the target.
    """
    before = pool.status.history
    first = before[0] if before else None
    standing = first if first and first.result is HistoryResult.IN_PROGRESS else None
    ended = before[1:] if standing else before
    if overview is None:
        if standing is None or pool.deleting or pool.spec is None or pool.spec.upgrade is not None:
            return before
        return (_ended(standing, HistoryResult.SUPERSEDED, now), *ended)
    found = _found(overview, now)  # with the target as the status keeps it: a long one is cut
    begun = (found,) if overview.due else ()
    if standing is None:
        if begun and first and _goes_on(first, found.target, now):
            return (_continued(first, found), *before[1:])
        return (*begun, *before)[:MAX_HISTORY]
    if found.target != standing.target:
        return (*begun, _ended(standing, HistoryResult.SUPERSEDED, now), *ended)[:MAX_HISTORY]
    if begun:
        return (_continued(standing, found), *ended)
    return before if overview.unknown else (_ended(standing, HistoryResult.SUCCEEDED, now), *ended)


def _goes_on(ended: HistoryEntry, target: str, now: datetime) -> bool:
    """Whether nodes that are due for ``target`` go on with an entry that has just ended."""
    end, is_done = ended.end_time, ended.result is HistoryResult.SUCCEEDED
    return ended.target == target and is_done and end is not None and end <= now < end + REOPENED


def _found(overview: UpgradeOverview, now: datetime) -> HistoryEntry:
    return HistoryEntry(
        target=overview.target,
        start_time=now,
        nodes=len(overview.due),
        failed_nodes=failed_nodes(overview),
        result=HistoryResult.IN_PROGRESS,
        overrides=_in_order(each.gate for each in overview.in_force),
    )


def _continued(standing: HistoryEntry, found: HistoryEntry) -> HistoryEntry:
    """Return ``standing`` as it goes on, also where it had ended."""
    names = _in_order((*standing.overrides, *found.overrides))
    update = {"end_time": None, "result": HistoryResult.IN_PROGRESS, "overrides": names}
    most = {
        "nodes": max(standing.nodes, found.nodes),
        "failed_nodes": max(standing.failed_nodes, found.failed_nodes),
    }
    return standing.model_copy(update={**update, **most})


def _ended(standing: HistoryEntry, result: HistoryResult, now: datetime) -> HistoryEntry:
    """Return ``standing`` as it ended: not before it began, whatever the clock says."""
    at = max(now.replace(microsecond=0), standing.start_time)
    return standing.model_copy(update={"end_time": at, "result": result})


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, those of gates in their order, what an editor of the status wrote after them."""
    return tuple(sorted({str(each) for each in names}, key=lambda name: (PLACES.get(name, len(Gate)), name)))


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes of one pool have trouble of a kind, as its last pass has seen them.

    ``reserved_memory_mismatched`` counts nodes whose kubelet is known to hold back another amount of memory
    than the pool declares. ``taint_missing`` counts nodes of the pool on which a taint of ``spec.taints``
    is missing or has another value, also where it is held back on purpose, and in every mode: whoever alerts
    on it looks at the mode too. ``overlapping`` counts nodes that the pool selects and another pool
    selects too, or has. ``upgrade_due`` counts nodes that are known to run another release, or an older
    revision, than ``spec.os`` asks for. ``memory_levels`` counts nodes by the level of each axis, None where
    it is not known, and ``is_memory_systemic`` says whether more nodes are under pressure than the pool
    allows; empty and None where memory is not watched. ``workloads`` is None until pods have been listed,
    ``upgrades`` where the spec asks for none.

    A pool that is being deleted wants nothing of its nodes: all of them are 0.
    """

    reserved_memory_mismatched: int = 0
    taint_missing: int = 0
    overlapping: int = 0
    upgrade_due: int = 0
    memory_levels: Mapping[tuple[Axis, Level | None], int] = msgspec.field(default_factory=lambda: NONE)
    is_memory_systemic: bool | None = None
    workloads: WorkloadFigures | None = None
    upgrades: UpgradeFigures | None = None


def figures_of(
    nodes: Assessed,
    memory: Overview | None,
    upgrades: UpgradeFigures | None = None,
    workloads: WorkloadFigures | None = None,
) -> Figures:
    """Count the nodes of a pool that is not being deleted.

    ``memory`` is None where it is not watched, ``upgrades`` where the spec asks for none, ``workloads`` until
    pods have been listed.
    """
    mismatched = missing = due = 0
    for found, alike in nodes.by_finding():
        if found.reserved is not None and found.reserved.verdict in MISMATCHES:
            mismatched += len(alike)
        if found.lacks_taints:
            missing += len(alike)
        if found.release.stage is Stage.DUE:
            due += len(alike)
    overlapping = sum(bool(each.rival) and each.claim in _SELECTED for each in nodes.notable)
    return Figures(
        reserved_memory_mismatched=mismatched,
        taint_missing=missing,
        overlapping=overlapping,
        upgrade_due=due,
        memory_levels=memory.levels if memory else NONE,
        is_memory_systemic=memory.is_systemic if memory else None,
        workloads=workloads,
        upgrades=upgrades,
    )


_SELECTED: Final = (Claim.OURS, Claim.RIVAL)

UNKNOWN: Final = "Unknown"
"""Stands for the state of nodes of which it is not known whether they are due."""

_SURPRISES: Final = {
    SurpriseKind.REBOOT: IssueReason.SURPRISE_REBOOT,
    SurpriseKind.OS_CHANGE: IssueReason.SURPRISE_OS_CHANGE,
}


class UpgradeFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass has found of the upgrades of a pool.

    ``states`` counts nodes by what is known of them now: their labels follow at once. Under Manual a node
    whose upgrade has begun stays Required. ``slots`` counts those that count for maxUnavailable, by their
    states. ``due`` counts them by trigger, and a node may have several. ``closed`` are gates that keep all
    nodes, or at least one that is due. ``surprised`` counts nodes of which something unannounced was seen
    within the last hour. ``blocked`` counts nodes that could not be drained in time by what keeps their pods,
    and a node may count for several; ``stalled`` those that stop the others after their own upgrade.
    ``disruptions_left`` is how many more nodes may be unavailable.
    """

    states: Mapping[str, int]
    due: Mapping[Trigger, int]
    closed: frozenset[Gate]
    slots: Mapping[str, int]
    overrides_in_force: int
    overrides_expired: int
    surprised: Mapping[SurpriseKind, int]
    blocked: Mapping[str, int]
    stalled: Mapping[str, int]
    disruptions_left: int


def upgrade_figures(results: Sequence[FeatureResult]) -> UpgradeFigures | None:
    """Return them; None without ``spec.upgrade``."""
    overview = upgrades_of(results)
    if overview is None:
        return None
    due = Counter(trigger for node in overview.due for trigger in {each.trigger for each in node.due})
    named: defaultdict[IssueReason, set[str]] = defaultdict(set)
    for result in results:
        for finding in result.findings:
            named[finding.reason].update(finding.nodes)
    rolled = overview.rollout or NOTHING_ROLLED
    return UpgradeFigures(
        states=_states(overview, rolled),
        due={trigger: due[trigger] for trigger in Trigger},
        closed=frozenset(
            gate.gate
            for gates in (overview.closed, *(node.closed for node in overview.due))
            for gate in gates
        ),
        slots={each: sum(_held(slot) == each for slot in overview.slots) for each in HELD_STATES},
        overrides_in_force=len(overview.in_force),
        overrides_expired=len(overview.expired),
        surprised={kind: len(named[reason]) for kind, reason in _SURPRISES.items()},
        blocked=_blocked(rolled),
        stalled={
            Reason.SETTLE_TIMED_OUT: len(named[IssueReason.SETTLE_TIMED_OUT]),
            Reason.NODES_UNHEALTHY: len(rolled.unhealthy) if len(rolled.unhealthy) >= MOST_UNHEALTHY else 0,
        },
        disruptions_left=overview.disruptions_left,
    )


def _states(overview: UpgradeOverview, rolled: RolloutResult) -> dict[str, int]:
    """Count the nodes by state, each once: those in work by the step that they are at."""
    permitted, due = frozenset(overview.permitted), {each.node.name: each for each in overview.due}
    stepped = {name: each.state for name, each in rolled.steps.items() if each.state is not None}
    found = Counter[str](stepped.values())
    required = sum(
        each.state is UpgradeState.REQUIRED or name in permitted
        for name, each in due.items()
        if name not in stepped
    )
    others = sum(name not in stepped for name in due) - required
    unknown = [name for name in overview.unknown if name not in stepped]
    current = sum(name not in due and name not in overview.unknown for name in stepped)
    found.update(
        {
            UpgradeState.UP_TO_DATE: overview.up_to_date - current,
            UpgradeState.REQUIRED: required,
            UpgradeState.GATED: others,
            UNKNOWN: len(unknown),
        }
    )
    return {each: found[each] for each in (*UpgradeState, UNKNOWN)}


def _held(slot: Slot) -> str:
    """Return the state of a slot: where the operator drains nodes, one with a claim has begun."""
    return slot.state if slot.state in [*SlotState] else SlotState.BEGUN


VOLUME_ATTACHED: Final = "VolumeAttached"
BLOCKED_BY: Final = (*DrainBlock, VOLUME_ATTACHED, UNKNOWN)
"""What keeps nodes from being drained in time: pods, volumes, or what is not known."""


def _blocked(rolled: RolloutResult) -> dict[str, int]:
    found = Counter[str]()
    for step in rolled.steps.values():
        if step.state is UpgradeState.DRAIN_BLOCKED and step.claim is not None:
            no_pod = VOLUME_ATTACHED if step.claim.reason == VOLUMES else UNKNOWN
            found.update({each.why.value for each in step.drain.blockers} or {no_pod})
    return {each: found[each] for each in BLOCKED_BY}
