"""Signals memory pressure on the nodes of a pool: taint, condition, upgrade request, evictions and issues.

It steps no detector: that happens when a sample arrives. A pass reads what is known (``snapshot.memory``),
and wants the same as long as nothing has changed there.

========== ================= ==========================================
Known      taint             condition WindowsMemoryPressure
========== ================= ==========================================
pressured  is set            True, with the numbers of the transition
calm       is removed        False where ours stands
undecided  stays as it is    stays as it is
silent     stays as it is    Unknown (MetricsStale) where ours stands
========== ================= ==========================================

In the mode Observe nothing is written to nodes, and pods are evicted in the mode Evict only. A node that
never was under pressure gets no condition: False on each of thousands of nodes would be thousands of writes
that say nothing. One that was keeps it as False, since its transition time says when the pressure ended, and
since removing it would take a write more: the record names a condition until it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from winpool.api.issues import IssueReason
from winpool.api.keys import (
    MEMORY_ANNOTATION,
    MEMORY_PRESSURE_TAINT,
    PRESSURE_CONDITION,
    PRESSURE_TAINT,
    UPGRADE_REQUESTED_ANNOTATION,
)
from winpool.api.memory_pressure import (
    EvictionLimits,
    MemoryMode,
    MemoryPressure,
    OnUnattributed,
    SourceType,
)
from winpool.api.status import WindowsNodePoolStatus
from winpool.features.feature import AllowedActions, FeatureResult
from winpool.features.memory.eviction import EvictionState, Pass, Step, earliest, steps_of
from winpool.features.memory.findings import eviction_findings, memory_findings
from winpool.features.memory.overview import Breaker, Known, Overview, all_numbers, worst_axis
from winpool.model.node import Node, NodeCondition, is_held
from winpool.model.pressure import Axis, NodePressure
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP, NOTHING_DESIRED, Desired, DesiredValue
from winpool.ownership.members import Member, Members
from winpool.ownership.record import Record, TaintIdentity
from winpool.ownership.trust import RecordTrust

REQUEST: Final = "winpool: most of the memory that was committed belongs to no pod"
"""The value of ``winpool.dev/upgrade-requested`` on a node whose memory no eviction brings back
(``onUnattributed: RequestUpgrade``): who asks, and why. It is the same for all nodes, and while it lasts.

People and other programs write the annotation, too. One of theirs stays as it is. Ours is named in the
ownership record, so it is removed with the pressure, and with the pool."""

_ASKED: Final[Mapping[str, DesiredValue]] = MappingProxyType({UPGRADE_REQUESTED_ANNOTATION: REQUEST})
_REQUEST_KEPT: Final[Mapping[str, DesiredValue]] = MappingProxyType({UPGRADE_REQUESTED_ANNOTATION: KEEP})


def with_request(desired: Desired, member: Member, known: Known, memory: NodePressure | None) -> Desired:
    """Return ``desired`` with the request, where the node is to have it, or is to keep the one it has.

    Where it is not known whether the pressure lasts, the request stays as it is (P4).
    """
    standing = member.node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)
    if standing is not None and not _is_ours(member, standing):
        return desired
    if known is Known.PRESSURED and memory is not None and memory.guard is not None:
        return replace(desired, annotations=_ASKED)
    if standing is not None and known in (Known.UNDECIDED, Known.SILENT):
        return replace(desired, annotations=_REQUEST_KEPT)
    return desired


def _is_ours(member: Member, standing: str) -> bool:
    record = member.record
    return (
        isinstance(record, Record)
        and (own := record.annotations.get(UPGRADE_REQUESTED_ANNOTATION)) is not None
        and own.set == standing
    )


_SET: Final[Mapping[TaintIdentity, DesiredValue]] = MappingProxyType({PRESSURE_TAINT: ""})
_TAINT_KEPT: Final[Mapping[TaintIdentity, DesiredValue]] = MappingProxyType({PRESSURE_TAINT: KEEP})
_OFF: Final[Mapping[TaintIdentity, DesiredValue]] = MappingProxyType({PRESSURE_TAINT: None})

_ENDED: Final = NodeCondition(
    PRESSURE_CONDITION, "False", "NoPressure", "The node is not under memory pressure."
)
_STALE: Final = NodeCondition(
    PRESSURE_CONDITION,
    "Unknown",
    "MetricsStale",
    f"There is no fresh sample of the node's memory. The taint {MEMORY_PRESSURE_TAINT} stays as it is.",
)

# Nodes that are alike share one object, so that a pass compares them with one target.
CALM: Final = Desired(conditions=(_ENDED,))
UNDECIDED: Final = Desired(taints=_TAINT_KEPT)
SILENT: Final = Desired(taints=_TAINT_KEPT, conditions=(_STALE,))
OFF: Final = Desired(taints=_OFF)
"""Under ``AllowedActions.FINISH`` all that no feature names stays: what is to be removed has to be named."""


def marks_of(known: Known, memory: NodePressure | None, standing: NodeCondition | None) -> Desired:
    """Return what a node is to have. ``standing`` is our condition as it is there.

    A calm node without it is to have nothing, which is what a feature says by naming no desired.
    """
    if known is Known.PRESSURED and memory is not None:
        return Desired(taints=_SET, conditions=(_condition(memory),))
    if known is Known.CALM:
        return NOTHING_DESIRED if standing is None else CALM
    if standing is None:
        return UNDECIDED
    return SILENT if known is Known.SILENT else Desired(taints=_TAINT_KEPT, conditions=(standing,))


def condition_on(
    member: Member, *, pool_uid: str, rights: RecordTrust, written: tuple[NodeCondition, ...]
) -> NodeCondition | None:
    """Return our condition as it is on the node; None where there is none, or it is not known to be ours.

    Ours it is by a record that is believed, or because this process has ``written`` it: a kubelet can write
    any condition of its node.
    """
    standing = next((each for each in member.node.conditions if each.type == PRESSURE_CONDITION), None)
    if standing is None:
        return None
    record = member.record
    is_recorded = (
        isinstance(record, Record)
        and record.pool_uid == pool_uid
        and PRESSURE_CONDITION in rights.believed(record).conditions
    )
    is_ours = is_recorded or any(each.type == PRESSURE_CONDITION for each in written)
    return standing if is_ours else None


def taken_back(ours: Iterable[Member]) -> dict[str, Desired]:
    """Return what to want where the spec cannot be acted on: nothing, of the nodes that have any of it."""
    return {
        member.node.uid: OFF
        for member in ours
        if PRESSURE_TAINT in member.taints
        or any(each.type == PRESSURE_CONDITION for each in member.node.conditions)
    }


def _condition(memory: NodePressure) -> NodeCondition:
    return NodeCondition(PRESSURE_CONDITION, "True", _reason(memory), all_numbers(memory))


def _reason(memory: NodePressure) -> str:
    if memory.guard is not None:
        return "UnattributedMemory"
    axis = worst_axis(memory)
    if axis.axis is Axis.COMMIT:
        return "CommitExhaustionImminent"
    is_estimate = axis.reading is not None and axis.reading.is_estimate
    return "LowAvailableMemory" if is_estimate else "PhysicalThrashing"


_KEEPING_AWAY: Final = (EvictionState.BEGINNING, EvictionState.WAITING, EvictionState.EVICTING)
"""The states of an intent during which the taint keeps pods away, whatever is signalled: the evicted one must
not come back at once."""

_STILL_KEEPING_AWAY: Final = (EvictionState.LISTING, EvictionState.SETTLING)
"""The states in which the taint is not removed. It is not set either: the settling of an earlier process
begins again, also where that one has removed the taint."""

_DEFAULT: Final = EvictionLimits()
"""For pools that have no limits any more: evictions count as long as they would by default."""


def eviction_steps(
    snapshot: Snapshot, nodes: Sequence[Node], *, block: MemoryPressure | None, allowed: AllowedActions
) -> dict[str, Step]:
    """Return what to do about evictions on the ``nodes`` of the pool, by the UIDs of the nodes."""
    evicts = _evicts(block, allowed)
    if not evicts and not any(MEMORY_ANNOTATION in node.annotations for node in nodes):
        return {}
    now, limits = snapshot.now, _DEFAULT if block is None else block.eviction
    return steps_of(
        nodes,
        Pass(
            memory=snapshot.memory,
            known=snapshot.evictions,
            limits=limits,
            evicts=evicts,
            breaker=Breaker(nodes, snapshot.memory.views, limits.max_pressured_nodes),
            now=now,
        ),
        held={node.uid for node in nodes if allowed is AllowedActions.NOTHING or is_held(node, now=now)},
    )


def _evicts(block: MemoryPressure | None, allowed: AllowedActions) -> bool:
    return block is not None and block.mode is MemoryMode.EVICT and allowed is AllowedActions.ACT


def _with_steps(
    desired: Mapping[str, Desired], steps: Mapping[str, Step], *, evicts: bool
) -> dict[str, Desired]:
    """Return ``desired`` with the intents, and with the taint where one is to be carried out."""
    joined = {
        uid: _with_step(desired.get(uid, NOTHING_DESIRED), step, evicts=evicts) for uid, step in steps.items()
    }
    return {**desired, **joined}


def _with_step(desired: Desired, step: Step, *, evicts: bool) -> Desired:
    if step.annotation is None and MEMORY_ANNOTATION not in step.node.annotations:
        return desired
    taints = desired.taints
    if step.intent is not None and evicts:
        if step.state in _KEEPING_AWAY:
            taints = _SET
        elif step.state in _STILL_KEEPING_AWAY and PRESSURE_TAINT not in taints:
            taints = _TAINT_KEPT
    annotations = {**desired.annotations, MEMORY_ANNOTATION: step.annotation}
    return replace(desired, annotations=annotations, taints=taints)


class MemoryResult(FeatureResult, frozen=True):
    """What is wanted and found; ``overview`` is None where memory is not watched."""

    overview: Overview | None = None


NOT_WATCHED: Final = MemoryResult()


def memory(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> MemoryResult:
    """Return what is signalled on the nodes of the pool, and what is known of their memory."""
    spec = snapshot.pool.spec
    block = spec.memory_pressure if spec else None
    is_finishing = allowed is AllowedActions.FINISH
    if allowed is AllowedActions.RELEASE:
        return NOT_WATCHED
    nodes = [member.node for member in members.ours]
    steps, evicts = eviction_steps(snapshot, nodes, block=block, allowed=allowed), _evicts(block, allowed)
    if block is None and not is_finishing and not steps:
        return NOT_WATCHED
    desired: Mapping[str, Desired] = {}
    overview = None
    if block is not None:
        overview, desired = _overview_of(snapshot, members, block)
    if is_finishing:
        desired = taken_back(members.ours)
    ends = [earliest(steps.values(), now=snapshot.now)]
    if steps or evicts:
        ends.append(snapshot.evictions.forbidden_until)
    result = MemoryResult(
        desired=_with_steps(desired, steps, evicts=evicts),
        pod_list_requests=tuple(each.look for each in steps.values() if each.look is not None),
        requeue_at=min((each for each in ends if each is not None), default=None),
        finishes=is_finishing,
        overview=overview,
    )
    if block is None or overview is None:
        return result
    return replace(
        result,
        evictions=tuple(each.eviction for each in steps.values() if each.eviction is not None),
        findings=(
            *memory_findings(overview, mode=block.mode),
            *eviction_findings(steps.values(), snapshot.evictions),
        ),
        sampled=tuple(nodes),
    )


def _overview_of(
    snapshot: Snapshot, members: Members, block: MemoryPressure
) -> tuple[Overview, dict[str, Desired]]:
    """Return what is known of all nodes of the pool, and what is wanted on those that are to be signalled."""
    status = snapshot.pool.status
    overview, desired = _counted(snapshot, members, block, was_pressured=status.pressured_nodes > 0)
    if overview.was_pressured and not _may_be_pressured(overview, status):
        # What the status counted has ended, and nothing that it says stays for any other node. The next pass
        # would find that in the status of this one, and the status would be written twice.
        return _counted(snapshot, members, block, was_pressured=False)
    return overview, desired


def _counted(
    snapshot: Snapshot, members: Members, block: MemoryPressure, *, was_pressured: bool
) -> tuple[Overview, dict[str, Desired]]:
    signals = block.mode is not MemoryMode.OBSERVE
    requests = signals and block.on_unattributed is OnUnattributed.REQUEST_UPGRADE
    pool_uid, written = snapshot.pool.uid, snapshot.written_conditions
    told, problems = snapshot.memory.told, snapshot.memory.problems
    overview = Overview(block.eviction.max_pressured_nodes, was_pressured=was_pressured)
    desired: dict[str, Desired] = {}
    for member in members.ours:
        node = member.node
        known = told.get(node.uid)
        standing = (
            condition_on(member, pool_uid=pool_uid, rights=members.rights, written=written.get(node.uid, ()))
            if node.conditions
            else None
        )
        is_tainted = PRESSURE_TAINT in member.taints
        judged = overview.add(
            node.name,
            known,
            problems.get(node.uid, ""),
            is_marked=is_tainted or standing is not None,
            is_signalled=is_tainted or (standing is not None and standing.status == "True"),
        )
        if signals and (judged is not Known.CALM or standing is not None):
            marks = marks_of(judged, known, standing)
            desired[node.uid] = with_request(marks, member, judged, known) if requests else marks
    return overview, desired


def _may_be_pressured(overview: Overview, status: WindowsNodePoolStatus) -> bool:
    """Return whether a node is under pressure, or the status says so of one that is not judged yet.

    Where neither is so, the new status counts no node under pressure.
    """
    return bool(overview.pressured) or any(
        not overview.undecided.isdisjoint(each.nodes)
        for each in status.issues
        if each.reason == IssueReason.MEMORY_PRESSURE
    )


def missing_permission(snapshot: Snapshot) -> str:
    """Return the sentence with the rule that is missing, empty where none is.

    It is reported, and stops no writes. Without samples nothing is known of the nodes, and that must not
    remove the taints of those that are under pressure (P4). Without the right to choose a pod, or to evict
    it, nothing is evicted, and the operator tries again.
    """
    spec = snapshot.pool.spec
    block = None if spec is None else spec.memory_pressure
    if block is None:
        return ""
    polls = any(each.type is SourceType.KUBELET for each in block.sources)
    if polls and snapshot.memory.forbidden:
        return snapshot.memory.forbidden
    return snapshot.evictions.forbidden if block.mode is MemoryMode.EVICT else ""
