"""What may be done about the evictions of a pool, and what a pass is to do about those of one node."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.memory.situation import Aside

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.api.evictions import EvictionLimits
    from winpool.memory.breaker import Breaker
    from winpool.memory.intents import Intent
    from winpool.memory.victims import Choice
    from winpool.objects.acts import Eviction
    from winpool.objects.node import Node
    from winpool.objects.pressure import KnownMemory
    from winpool.ownership.goals import Wish
    from winpool.pods.evicted import KnownEvictions
    from winpool.pods.node_pods import VictimLook

UNSEEN_SECONDS: Final = 5.0
"""Between two looks at whether enough nodes have been sampled: a twelfth of the interval of calm nodes."""


class Course(Enum):
    """What may be done for the pool about evictions."""

    EVICT = "evict"
    STAND = "stand"
    """The pool is paused or in a dry run: everything stays as it is, and nothing new begins."""
    WITHDRAW = "withdraw"
    """The pool does not evict, or its spec cannot be acted on: intents that were not carried out are removed
    at their deadline, and the others are watched to their end."""


class Stage(Enum):
    """The stage of the evictions of a node."""

    NONE = "none"
    STANDING = "standing"
    """Intents stay as they are, since the pool is paused or the node is held."""
    UNREADABLE = "unreadable"
    """The annotation cannot be read, so nothing is evicted."""
    ASIDE = "aside"
    LISTING = "listing"
    """A list of the pods is awaited."""
    LIMITED = "limited"
    """The node has had as many evictions as are permitted."""
    WAITING = "waiting"
    """Other nodes come first."""
    BEGINNING = "beginning"
    """The intent is to be written."""
    EVICTING = "evicting"
    """The pod is evicted, or being deleted."""
    SETTLING = "settling"
    BLOCKED = "blocked"
    """No pod may be evicted."""
    STUCK = "stuck"
    """A pod is still there after its deadline."""


@dataclass(frozen=True, slots=True)
class Step:
    """What to do about a node.

    ``annotation`` is what ``winpool.dev/memory`` is to be; None for no annotation. ``eviction`` is the pod to
    evict now. ``look`` is the list of pods that is needed. ``intent`` is the one that is not finished, or
    that is Stuck. ``choice`` is which pod is next, and why. At ``again_at`` time alone may change this.
    """

    node: Node
    stage: Stage
    annotation: Wish
    eviction: Eviction | None = None
    look: VictimLook | None = None
    intent: Intent | None = None
    choice: Choice | None = None
    aside: Aside | None = None
    again_at: datetime | None = None


def stepped_aside(step: Step, aside: Aside, *, now: datetime) -> Step:
    """Return ``step`` where the operator stands aside.

    Samples of calm nodes wake no pool, so what waits for them looks again by itself.
    """
    again_at = step.again_at
    if aside is Aside.UNSEEN:
        soon = now + timedelta(seconds=UNSEEN_SECONDS)
        again_at = soon if again_at is None else min(again_at, soon)
    return replace(step, stage=Stage.ASIDE, aside=aside, again_at=again_at)


@dataclass(frozen=True, slots=True)
class Pass:
    """What all nodes of a pool have in common in one pass."""

    memory: KnownMemory
    known: KnownEvictions
    limits: EvictionLimits
    course: Course
    breaker: Breaker
    now: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """Whether a node may begin a new eviction now; if not, ``again_at`` is when that may change.

    ``has_place`` says whether it is one of the ``maxNodes`` nodes that may evict at once. Without a place an
    intent that is on the node is not carried out either.
    """

    is_given: bool
    again_at: datetime | None = None
    has_place: bool = True
