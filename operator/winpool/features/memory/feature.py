"""Memory pressure of a pool: taint, condition, evictions and findings of its nodes, from the snapshot.

The request to upgrade a node whose memory no eviction brings back (``onUnattributed: RequestUpgrade``).

The request is the annotation ``winpool.dev/upgrade-requested``, which people and other programs write, too.
One of theirs stays as it is. Ours is named in the ownership record, so it is removed with the pressure, and
with the pool. It is written as the other marks are: not in the mode Observe.

What is on a node because of memory pressure: a NoSchedule taint, and the condition.

========== ================= ==========================================
Known      taint             condition WindowsMemoryPressure
========== ================= ==========================================
pressured  is set            True, with the numbers of the transition
calm       is removed        False where ours stands
undecided  stays as it is    stays as it is
silent     stays as it is    Unknown (MetricsStale) where ours stands
========== ================= ==========================================

A node that never was under pressure gets no condition: False on each of thousands of nodes would be thousands
of writes that say nothing. One that was keeps it as False, since its transition time says when the pressure
ended, and since removing it would take a write more: the record names a condition until it is gone.

Which nodes of a pool may begin an eviction now, and what to do about the evictions of each.

``maxNodes`` limits the nodes with an eviction that is not finished. What counts is on the nodes, so it holds
over a crash and a change of leader. A pass begins one eviction at most, and none within six seconds of the
last in the pool. So every operator knows of it before it begins the next.

Two operators that both take themselves for the leader can each write an intent to another node before they
know of that of the other: then ``maxNodes`` is exceeded by one node for each of them, at most. On one node
they cannot both write: the patch has the resourceVersion that was read.

The part of the room that evicts: intents on nodes, evictions, the lists of pods for them, and findings.

The room of memory pressure: what is signalled on nodes that run out of memory, and what people read of it.

It judges no samples: the detector steps when a sample arrives. A pass reads what the detector has found
(``snapshot.memory``), and wants the same as long as nothing has changed there.

- Observe: nothing is written to nodes.
- Signal, Evict: nodes under pressure get a taint and a condition (``marks``).
- Evict: pods are evicted, after their intent is on the node (``room_evictions``).
- Without the block, and where the spec cannot be acted on: taint and condition are removed.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from winpool.api.issues import IssueReason
from winpool.api.keys import (
    MEMORY_ANNOTATION,
    MEMORY_PRESSURE_TAINT,
    PRESSURE_CONDITION,
    UPGRADE_REQUESTED_ANNOTATION,
)
from winpool.api.memory_pressure import EvictionLimits, MemoryMode, MemoryPressure, OnUnattributed
from winpool.api.node_keys import PRESSURE_TAINT
from winpool.api.status import WindowsNodePoolStatus
from winpool.features.feature import Finding, Mandate, RoomResult
from winpool.features.memory.breaker import Breaker, Share, max_evicting_nodes
from winpool.features.memory.eviction import (
    MAY_BE_UNDER_WAY,
    Course,
    Pass,
    Progress,
    Situation,
    Stage,
    Step,
    Turn,
    ready_axis,
    situation_of,
    step_of,
)
from winpool.features.memory.findings import eviction_findings, memory_findings
from winpool.features.memory.intents import is_ahead
from winpool.features.memory.overview import Known, Overview, Tally, all_numbers, worst_axis
from winpool.model.node import Eviction, Node, NodeCondition, is_held
from winpool.model.node_pods import PodListRequest
from winpool.model.pressure import Axis, NodeView
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import LEAVE, NO_GOALS, Goals, Wish
from winpool.ownership.members import Member, Members
from winpool.ownership.record import Record, TaintIdentity
from winpool.ownership.trust import Rights

REQUEST: Final = "winpool: most of the memory that was committed belongs to no pod"
"""The value of the annotation: who asks, and why. It is the same for all nodes, and while it lasts."""

_ASKED: Final[Mapping[str, Wish]] = MappingProxyType({UPGRADE_REQUESTED_ANNOTATION: REQUEST})
_REQUEST_KEPT: Final[Mapping[str, Wish]] = MappingProxyType({UPGRADE_REQUESTED_ANNOTATION: LEAVE})


def with_request(goals: Goals, member: Member, known: Known, view: NodeView | None) -> Goals:
    """Return ``goals`` with the request, where the node is to have it, or is to keep the one it has.

    Where it is not known whether the pressure lasts, the request stays as it is (P4).
    """
    standing = member.node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)
    if standing is not None and not _is_ours(member, standing):
        return goals
    if known is Known.PRESSURED and view is not None and view.guard is not None:
        return replace(goals, annotations=_ASKED)
    if standing is not None and known in (Known.UNDECIDED, Known.SILENT):
        return replace(goals, annotations=_REQUEST_KEPT)
    return goals


def _is_ours(member: Member, standing: str) -> bool:
    record = member.record
    return (
        isinstance(record, Record)
        and (own := record.annotations.get(UPGRADE_REQUESTED_ANNOTATION)) is not None
        and own.set == standing
    )


_SET: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: ""})
_TAINT_KEPT: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: LEAVE})
_OFF: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: None})

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
CALM: Final = Goals(conditions=(_ENDED,))
UNDECIDED: Final = Goals(taints=_TAINT_KEPT)
SILENT: Final = Goals(taints=_TAINT_KEPT, conditions=(_STALE,))
OFF: Final = Goals(taints=_OFF)
"""Where all that no room names stays (``Mandate.FINISH``), what is to be removed has to be named."""


def marks_of(known: Known, view: NodeView | None, standing: NodeCondition | None) -> Goals:
    """Return what a node is to have. ``standing`` is our condition as it is there.

    A calm node without it is to have nothing, which is what a room says by naming no goals.
    """
    if known is Known.PRESSURED and view is not None:
        return Goals(taints=_SET, conditions=(_condition(view),))
    if known is Known.CALM:
        return NO_GOALS if standing is None else CALM
    if standing is None:
        return UNDECIDED
    return SILENT if known is Known.SILENT else Goals(taints=_TAINT_KEPT, conditions=(standing,))


def condition_on(
    member: Member, *, pool_uid: str, rights: Rights, written: tuple[NodeCondition, ...]
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


def taken_back(ours: Iterable[Member]) -> dict[str, Goals]:
    """Return what to want where the spec cannot be acted on: nothing, of the nodes that have any of it."""
    return {
        member.node.uid: OFF
        for member in ours
        if PRESSURE_TAINT in member.taints
        or any(each.type == PRESSURE_CONDITION for each in member.node.conditions)
    }


def _condition(view: NodeView) -> NodeCondition:
    return NodeCondition(PRESSURE_CONDITION, "True", _reason(view), all_numbers(view))


def _reason(view: NodeView) -> str:
    if view.guard is not None:
        return "UnattributedMemory"
    axis = worst_axis(view)
    if axis.axis is Axis.COMMIT:
        return "CommitExhaustionImminent"
    is_estimate = axis.reading is not None and axis.reading.is_estimate
    return "LowAvailableMemory" if is_estimate else "PhysicalThrashing"


SPACING_SECONDS: Final = 6
"""Between two evictions that begin in a pool: ten a minute. A watch brings what another operator has written
within a second or two, and the pods of the last one have begun to move."""

GIVEN: Final = Turn(is_given=True)
NO_PLACE: Final = Turn(is_given=False, has_place=False)

_TAKING: Final = (Stage.LISTING, Stage.BEGINNING)
"""The stages of a node that may begin next: it has a place."""


def steps_of(nodes: Sequence[Node], of: Pass, *, held: Container[str] = ()) -> dict[str, Step]:
    """Return what to do about each of the ``nodes`` of a pool, by their UIDs.

    Nodes without an intent for which no eviction is right are not among them. ``held`` are the UIDs of nodes
    that are left alone.
    """
    concerned = list(_concerned(nodes, of))
    most = max_evicting_nodes(nodes=len(nodes), max_nodes=Share.of(of.limits.max_nodes))
    unfinished = sorted((each for each in concerned if each.is_unfinished(of.now)), key=_seniority)
    placed = {each.node.uid for each in unfinished[:most]}
    places = most - len(unfinished)
    turn = _turn(concerned, of)
    found: dict[str, Step] = {}
    for each in sorted(concerned, key=_urgency):
        uid = each.node.uid
        has_place = places > 0 or uid in placed
        step = step_of(each, of, turn if has_place else NO_PLACE, is_held=uid in held)
        found[uid] = step
        if step.stage in _TAKING and not each.is_unfinished(of.now):
            places -= 1
        if step.stage is Stage.BEGINNING:
            turn = Turn(is_given=False, again_at=of.now + timedelta(seconds=SPACING_SECONDS))
    return found


def _concerned(nodes: Iterable[Node], of: Pass) -> Iterable[Situation]:
    """Yield those with an intent or an eviction, and those for which an eviction is right now."""
    views, evicts = of.memory.views, of.course is Course.EVICT
    under_way = of.known.under_way()
    for node in nodes:
        view, ending = views.get(node.uid), under_way.get(node.uid, set())
        is_ready = evicts and view is not None and bool(view.evictable)
        if is_ready or ending or MEMORY_ANNOTATION in node.annotations:
            yield situation_of(node, view, of.known, now=of.now, under_way=ending)


def _seniority(situation: Situation) -> tuple[bool, float, str]:
    """Return what orders the nodes that count: where an eviction may be under way, then by their intents.

    Others can have written intents too. However many there are, no more nodes evict than there are places.
    """
    uid, intended = situation.node.uid, situation.first(Progress.INTENDED)
    if intended is None or situation.first(*MAY_BE_UNDER_WAY) is not None:
        return (False, 0.0, uid)
    return (True, intended.at.timestamp(), uid)


def _turn(situations: Iterable[Situation], of: Pass) -> Turn:
    """Return whether an eviction may begin in the pool now."""
    began = [
        intent.at
        for each in situations
        for intent in each.intents.entries
        if not is_ahead(intent, now=of.now)
    ]
    again_at = max(began) + timedelta(seconds=SPACING_SECONDS) if began else of.now
    return GIVEN if again_at <= of.now else Turn(is_given=False, again_at=again_at)


def _urgency(situation: Situation) -> tuple[int, float, str]:
    """Return what comes first: the worst level, and then who is short of most."""
    axis = ready_axis(situation)
    if axis is None:
        return (0, 0.0, situation.node.uid)
    return (
        -axis.held,
        -_shortage(axis.missing, axis.reading.whole if axis.reading else 0.0),
        situation.node.uid,
    )


def _shortage(missing: float, whole: float) -> float:
    return missing / whole if whole else 0.0


def earliest(steps: Iterable[Step], *, now: datetime) -> datetime | None:
    """Return when time alone may change one of ``steps``; None for never."""
    return min((each.again_at for each in steps if each.again_at and each.again_at > now), default=None)


_TAINTED: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: ""})

_LEFT: Final[Mapping[TaintIdentity, Wish]] = MappingProxyType({PRESSURE_TAINT: LEAVE})

_KEEPING_AWAY: Final = (Stage.BEGINNING, Stage.WAITING, Stage.EVICTING)
"""The stages of an intent during which the taint keeps pods away, whatever is signalled: the evicted one must
not come back at once."""

_STILL_KEEPING_AWAY: Final = (Stage.LISTING, Stage.SETTLING)
"""The stages in which the taint is not removed. It is not set either: the settling of an earlier process
begins again, also where that one has removed the taint."""

_DEFAULT: Final = EvictionLimits()
"""For pools that have no limits any more: evictions count as long as they would by default."""


@dataclass(frozen=True, slots=True)
class EvictionsWanted:
    """What evictions need. ``steps`` are by the UIDs of the nodes that they are about."""

    course: Course = Course.WITHDRAW
    steps: Mapping[str, Step] = field(default_factory=dict)
    evictions: tuple[Eviction, ...] = ()
    looks: tuple[PodListRequest, ...] = ()
    findings: tuple[Finding, ...] = ()
    requeue_at: datetime | None = None

    def joined(self, goals: Mapping[str, Goals]) -> dict[str, Goals]:
        """Return ``goals`` with the intents, and with the taint where one is to be carried out."""
        return {
            **goals,
            **{uid: _goals(step, goals.get(uid, NO_GOALS), self.course) for uid, step in self.steps.items()},
        }


NO_EVICTIONS_WANTED: Final = EvictionsWanted()


def evictions_wanted(
    snapshot: Snapshot,
    nodes: Sequence[Node],
    *,
    block: MemoryPressure | None,
    mandate: Mandate,
) -> EvictionsWanted:
    """Return what to do about evictions on the ``nodes`` of the pool, those with an intent among them."""
    course = course_of(block, mandate)
    if course is not Course.EVICT and not any(MEMORY_ANNOTATION in node.annotations for node in nodes):
        return NO_EVICTIONS_WANTED
    limits = _DEFAULT if block is None else block.eviction
    steps = steps_of(
        nodes,
        Pass(
            memory=snapshot.memory,
            known=snapshot.evictions,
            limits=limits,
            course=course,
            breaker=Breaker(nodes, snapshot.memory.views, Share.of(limits.max_pressured_nodes)),
            now=snapshot.now,
        ),
        held=frozenset(node.uid for node in nodes if is_held(node, now=snapshot.now)),
    )
    every = steps.values()
    ends = (earliest(every, now=snapshot.now), snapshot.evictions.forbidden_until)
    return EvictionsWanted(
        course=course,
        steps=steps,
        evictions=tuple(each.eviction for each in every if each.eviction is not None),
        looks=tuple(each.look for each in every if each.look is not None),
        findings=tuple(eviction_findings(every, snapshot.evictions)),
        requeue_at=min((each for each in ends if each is not None), default=None),
    )


def course_of(block: MemoryPressure | None, mandate: Mandate) -> Course:
    """Return what may be done about evictions."""
    if mandate is Mandate.NOTHING:
        return Course.STAND
    evicts = block is not None and block.mode is MemoryMode.EVICT
    return Course.EVICT if evicts and mandate is Mandate.ACT else Course.WITHDRAW


def _goals(step: Step, goals: Goals, course: Course) -> Goals:
    """Return ``goals`` with what ``step`` wants: the annotation, and with an intent the taint."""
    if step.annotation is None and MEMORY_ANNOTATION not in step.node.annotations:
        return goals
    taints = goals.taints
    if step.intent is not None and course is Course.EVICT:
        if step.stage in _KEEPING_AWAY:
            taints = _TAINTED
        elif step.stage in _STILL_KEEPING_AWAY and PRESSURE_TAINT not in taints:
            taints = _LEFT
    return replace(goals, annotations={MEMORY_ANNOTATION: step.annotation}, taints=taints)


@dataclass(frozen=True, slots=True)
class MemoryResult(RoomResult):
    """What the room wants and finds; ``overview`` is None where memory is not watched."""

    overview: Overview | None = None


NOT_WATCHED: Final = MemoryResult()


def memory(snapshot: Snapshot, members: Members, mandate: Mandate) -> MemoryResult:
    """Return what is signalled on the nodes of the pool, and what is known of their memory."""
    if mandate is Mandate.RELEASE:
        return NOT_WATCHED
    nodes = [member.node for member in members.ours]
    is_finishing = mandate is Mandate.FINISH
    spec = snapshot.pool.spec
    block = spec.memory_pressure if spec else None
    if block is not None:
        return _watched(snapshot, members, block, mandate)
    wanted = evictions_wanted(snapshot, nodes, block=None, mandate=mandate)
    if not is_finishing and wanted is NO_EVICTIONS_WANTED:
        return NOT_WATCHED
    return MemoryResult(
        goals=wanted.joined(taken_back(members.ours) if is_finishing else {}),
        pod_list_requests=wanted.looks,
        requeue_at=wanted.requeue_at,
        finishes=is_finishing,
    )


def _watched(snapshot: Snapshot, members: Members, block: MemoryPressure, mandate: Mandate) -> MemoryResult:
    is_finishing = mandate is Mandate.FINISH
    signals = block.mode is not MemoryMode.OBSERVE
    requests = signals and block.on_unattributed is OnUnattributed.REQUEST_UPGRADE
    status = snapshot.pool.status
    tally, goals = _counted(
        snapshot, members, was_pressured=status.pressured_nodes > 0, signals=signals, requests=requests
    )
    if tally.was_pressured and not _may_be_pressured(tally, status):
        # What the status counted has ended, and nothing that it says stays for any other node. The next pass
        # would find that in the status of this one, and the status would be written twice.
        tally, goals = _counted(snapshot, members, was_pressured=False, signals=signals, requests=requests)
    overview = tally.overview(block.eviction.max_pressured_nodes)
    nodes = [member.node for member in members.ours]
    wanted = evictions_wanted(snapshot, nodes, block=block, mandate=mandate)
    return MemoryResult(
        goals=wanted.joined(taken_back(members.ours) if is_finishing else goals),
        evictions=wanted.evictions,
        findings=(*memory_findings(overview, tally, mode=block.mode), *wanted.findings),
        sampled=tuple(nodes),
        pod_list_requests=wanted.looks,
        requeue_at=wanted.requeue_at,
        finishes=is_finishing,
        overview=overview,
    )


def _counted(
    snapshot: Snapshot, members: Members, *, was_pressured: bool, signals: bool, requests: bool
) -> tuple[Tally, dict[str, Goals]]:
    """Return what is known of all nodes of the pool, and what is wanted on those that are to be signalled."""
    pool_uid, written = snapshot.pool.uid, snapshot.written_conditions
    told, problems = snapshot.memory.told, snapshot.memory.problems
    tally = Tally(was_pressured=was_pressured)
    goals: dict[str, Goals] = {}
    for member in members.ours:
        node = member.node
        view, problem = told.get(node.uid), problems.get(node.uid, "")
        standing = (
            condition_on(member, pool_uid=pool_uid, rights=members.rights, written=written.get(node.uid, ()))
            if node.conditions
            else None
        )
        is_tainted = PRESSURE_TAINT in member.taints
        known = tally.add(
            node.name,
            view,
            problem,
            is_marked=is_tainted or standing is not None,
            is_signalled=is_tainted or (standing is not None and standing.status == "True"),
        )
        if signals and (known is not Known.CALM or standing is not None):
            marks = marks_of(known, view, standing)
            goals[node.uid] = with_request(marks, member, known, view) if requests else marks
    return tally, goals


def _may_be_pressured(tally: Tally, status: WindowsNodePoolStatus) -> bool:
    """Return whether a node is under pressure, or the status says so of one that is not judged yet.

    Where neither is so, the new status counts no node under pressure (``report.memory``).
    """
    if tally.names[Known.PRESSURED]:
        return True
    undecided = frozenset(tally.names[Known.UNDECIDED])
    return any(
        not undecided.isdisjoint(each.nodes)
        for each in status.issues
        if each.reason == IssueReason.MEMORY_PRESSURE
    )
