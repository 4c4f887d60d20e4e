"""How a node stands with its evictions, before anything new is decided about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.api.keys import MEMORY_ANNOTATION
from winpool.memory.intent_text import read
from winpool.memory.intents import (
    LONGEST_SECONDS,
    NO_INTENTS,
    Intent,
    Intents,
    Unreadable,
    is_ahead,
    is_invented,
)
from winpool.memory.progress import UNFINISHED, Progress, progress_of
from winpool.objects.pressure import Axis
from winpool.pods.evicted import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from winpool.memory.breaker import Breaker
    from winpool.objects.node import Node
    from winpool.objects.pressure import AxisView, NodeView
    from winpool.pods.evicted import KnownEvictions
    from winpool.pods.node_pods import NodePods

REQUEST_SECONDS: Final = 60
"""As long as the API server works on a request at most."""

_TRUE: Final = "True"


class Aside(Enum):
    """Why the operator stands aside on a node, whatever its memory. The first that is true."""

    DELETING = "the node is being deleted"
    NOT_READY = "the node is not Ready"
    """An eviction would hang: the kubelet has to end the containers."""
    CORDONED = "the node is cordoned"
    """By anyone: a drain or an upgrade may be under way."""
    SYSTEMIC = "more of the pool is in trouble than maxPressuredNodes allows"
    """Evicted pods would only move the pressure to other nodes."""
    UNSEEN = "too many nodes of the pool were not sampled since the eviction became right"
    """They may be in trouble as well, and it is not seen yet."""
    KUBELET = "the kubelet reports MemoryPressure and evicts pods itself"
    """On COMMIT, the one axis that it knows."""


@dataclass(frozen=True, slots=True)
class Situation:
    """A node with what its annotation says. ``progress`` is of the intents that count, by UID."""

    node: Node
    view: NodeView | None
    pods: NodePods | None
    intents: Intents
    unreadable: str = ""
    progress: Mapping[str, Progress] = field(default_factory=dict)

    def first(self, *of: Progress) -> Intent | None:
        """Return the oldest intent with one of these progresses."""
        return next((each for each in self.intents.entries if self.progress.get(each.uid) in of), None)

    def uids(self, *of: Progress) -> frozenset[str]:
        """Return the UIDs of all intents with one of these progresses."""
        return frozenset(uid for uid, progress in self.progress.items() if progress in of)

    def is_unfinished(self, now: datetime) -> bool:
        """Whether the node counts for ``maxNodes``: an eviction is not finished, or that is not known (P4).

        At its deadline each is finished, or a minute later if its pod went unseen. A deadline is at most
        LONGEST_SECONDS after the intent. Only an unreadable annotation counts until a person removes it.
        """
        return bool(self.unreadable) or any(
            self.progress.get(each.uid) in UNFINISHED
            or (self.progress.get(each.uid) is Progress.UNKNOWN and now < each.until)
            for each in self.intents.entries
        )


def situation_of(
    node: Node,
    view: NodeView | None,
    known: KnownEvictions,
    *,
    now: datetime,
    under_way: AbstractSet[str] = frozenset(),
) -> Situation:
    """Return how ``node`` stands ``now``.

    An intent whose time is to come counts nowhere, unless this process knows its eviction: then the clock may
    have been set back. ``under_way`` are the UIDs of pods there that this process has evicted. Where someone
    has removed their intents, they are still watched to their end: the detector waits for it.
    """
    found = read(node.annotations.get(MEMORY_ANNOTATION))
    pods = known.pods.get(node.uid)
    if isinstance(found, Unreadable):
        return Situation(node, view, pods, NO_INTENTS, unreadable=found.problem)
    if lost := under_way - {each.uid for each in found.entries}:
        again = (_remembered(uid, known, now=now) for uid in lost)
        found = Intents(tuple(sorted((*found.entries, *again), key=lambda each: (each.at, each.uid))))
    answers = {each.uid: known.answer_on(node.uid, each.uid) for each in found.entries}
    progress = {
        each.uid: progress_of(each, pods=pods, answered=answers[each.uid], now=now, read_at=known.read_at)
        for each in found.entries
        if not is_ahead(each, now=now) or (answers[each.uid] is not None and not is_invented(each, now=now))
    }
    return Situation(node, view, pods, found, progress=progress)


def _remembered(uid: str, known: KnownEvictions, *, now: datetime) -> Intent:
    """Return an intent for a pod that was evicted, with the latest deadline that it can have had."""
    age = timedelta(seconds=max(0.0, known.read_at - known.answers[uid].at))
    at = (now - age).replace(microsecond=0)
    return Intent("", "", uid, at, at + timedelta(seconds=LONGEST_SECONDS))


def aside_of(situation: Situation, *, breaker: Breaker) -> Aside | None:
    """Return why nothing is evicted on the node, whatever its memory; None where something may be."""
    node, view, axis = situation.node, situation.view, ready_axis(situation)
    reasons = {
        Aside.DELETING: node.deleting,
        Aside.NOT_READY: node.ready != _TRUE,
        Aside.CORDONED: node.unschedulable,
        Aside.SYSTEMIC: breaker.is_open,
        Aside.UNSEEN: axis is not None and breaker.is_open_for(axis.ready_since),
        Aside.KUBELET: bool(view and view.evictable) and axis is None,
    }
    return next((aside for aside, is_true in reasons.items() if is_true), None)


def ready_axis(situation: Situation) -> AxisView | None:
    """Return the worst axis for which an eviction is right now; None where there is none.

    Not COMMIT while the kubelet reports MemoryPressure: it evicts pods there itself.
    """
    if situation.view is None:
        return None
    is_kubelets = situation.node.kubelet_pressure == _TRUE
    axes = (each for each in situation.view.evictable if not (is_kubelets and each.axis is Axis.COMMIT))
    return next(axes, None)


def asked_at(situation: Situation, known: KnownEvictions, uid: str) -> float | None:
    """Return when this process last asked to evict that pod; None where no such request can be under way.

    It may be until the pods were listed after it was certainly over.
    """
    answered = known.answer_on(situation.node.uid, uid)
    if answered is None or answered.answer is not Answer.ASKED:
        return None
    pods = situation.pods
    is_over = pods is not None and pods.began >= answered.at + REQUEST_SECONDS
    return None if is_over else answered.at
