"""The part of the room that evicts: intents on nodes, evictions, the lists of pods for them, and findings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from winpool.api.evictions import EvictionLimits
from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import MemoryMode
from winpool.api.node_keys import PRESSURE_TAINT
from winpool.memory.breaker import Breaker, Share
from winpool.memory.eviction_findings import eviction_findings
from winpool.memory.steps import Course, Pass, Stage, Step
from winpool.memory.turns import earliest, steps_of
from winpool.objects.hold import is_held
from winpool.ownership.goals import LEAVE, NO_GOALS, Goals, Wish
from winpool.rooms import Mandate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from winpool.api.memory_pressure import MemoryPressure
    from winpool.objects.acts import Eviction
    from winpool.objects.node import Node
    from winpool.ownership.record import TaintIdentity
    from winpool.pods.node_pods import VictimLook
    from winpool.rooms import Finding
    from winpool.snapshot import Snapshot

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
    looks: tuple[VictimLook, ...] = ()
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
