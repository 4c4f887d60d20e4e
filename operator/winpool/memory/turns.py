"""Which nodes of a pool may begin an eviction now, and what to do about the evictions of each.

``maxNodes`` limits the nodes with an eviction that is not finished. What counts is on the nodes, so it holds
over a crash and a change of leader. A pass begins one eviction at most, and none within six seconds of the
last in the pool. So every operator knows of it before it begins the next.

Two operators that both take themselves for the leader can each write an intent to another node before they
know of that of the other: then ``maxNodes`` is exceeded by one node for each of them, at most. On one node
they cannot both write: the patch has the resourceVersion that was read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.keys import MEMORY_ANNOTATION
from winpool.memory.breaker import Share, max_evicting_nodes
from winpool.memory.evicting import step_of
from winpool.memory.intents import is_ahead
from winpool.memory.progress import MAY_BE_UNDER_WAY, Progress
from winpool.memory.situation import ready_axis, situation_of
from winpool.memory.steps import Course, Stage, Step, Turn

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence
    from datetime import datetime

    from winpool.memory.situation import Situation
    from winpool.memory.steps import Pass
    from winpool.objects.node import Node

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
