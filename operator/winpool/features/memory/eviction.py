"""The eviction on one node: where it stands, what may be done, and what comes next.

The progress of an intended eviction, by the pods of the node and by the answers to this process.

::

    Intended ─► Evicting ─► Settling ─► Gone
        │           └─► Stuck, at the deadline
        ├─► Refused, by a PodDisruptionBudget
        └─► Expired, at the deadline

The pods show what an earlier process has done (P8). Without a list of them that is young enough nothing is
concluded (P4).

How a node stands with its evictions, before anything new is decided about it.

What may be done about the evictions of a pool, and what a pass is to do about those of one node.

What to do next about the evictions of one node. At most one is outstanding on it (P5).

The order makes it safe to be killed between any two writes:

1. The intent is written to the node, with the UID of the pod, its time and its deadline.
2. Once the node, as the API server reports it, has the intent, the pod is evicted, with the UID as
   precondition. It is chosen again for that, so that no annotation decides which pod is evicted.
3. The pods of the node show the progress, whichever process has evicted the pod.

Killed after 1, the pod is not evicted. The next process evicts it if it would choose it, after a new intent
for it, or the intent is removed at its deadline. Killed after 2, the pods of the node show it, and the intent
counts as long as it would have.

Whether what an eviction was decided on is still so, right before it is sent.

Between the decision and the request lie the other writes of the pass, the wait for a place among all
evictions, and the wait for a connection. This costs no request: it compares with the nodes as the watch last
reported them, and with the last samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import EvictionLimits
from winpool.features.memory.breaker import Breaker, Share
from winpool.features.memory.intents import (
    AHEAD_SECONDS,
    DEADLINE_SECONDS,
    LONGEST_SECONDS,
    NO_INTENTS,
    Intent,
    Intents,
    Unreadable,
    begun,
    cleared,
    deadline,
    is_ahead,
    is_invented,
    next_change,
    read,
    room_left,
    without,
    written,
)
from winpool.features.memory.settings import SETTLE_SECONDS
from winpool.features.memory.victims import Choice, Protection, candidates_of, choose
from winpool.model.node import Eviction, Node, Premise
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods, PodListRequest
from winpool.model.pods import Pod
from winpool.model.pressure import Axis, AxisView, KnownMemory, NodeView
from winpool.ownership.desired import LEAVE, Wish


class Progress(Enum):
    """How far an intent is."""

    UNKNOWN = "unknown"
    """The pods of the node have to be listed."""
    INTENDED = "intended"
    """The pod is there and is not being deleted."""
    EVICTING = "evicting"
    """The pod is being deleted."""
    SETTLING = "settling"
    """The pod is gone, and its memory has not had the time to come back."""
    GONE = "gone"
    STUCK = "stuck"
    """The pod is still being deleted after the deadline."""
    REFUSED = "refused"
    """It was not evicted, since a budget does not permit it."""
    EXPIRED = "expired"
    """It was not evicted before the deadline."""


UNFINISHED: Final = frozenset({Progress.INTENDED, Progress.EVICTING, Progress.SETTLING})
"""Those that count for ``maxNodes``, and UNKNOWN before the deadline."""
MAY_BE_UNDER_WAY: Final = (Progress.UNKNOWN, Progress.EVICTING, Progress.SETTLING)
"""Those of which nothing keeps the pod from being deleted."""
OVER: Final = frozenset({Progress.REFUSED, Progress.EXPIRED})
"""Those that are removed, since they were no evictions."""
STANDING: Final = frozenset({*UNFINISHED, Progress.UNKNOWN, Progress.STUCK})
"""Those that must not be cleared, however old they are."""


def progress_of(
    intent: Intent, *, pods: NodePods | None, answered: Answered | None, now: datetime, read_at: float
) -> Progress:
    """Return how far ``intent`` is ``now``, which is ``read_at`` on the clock of the answers.

    ``pods`` is the last list of the node's pods.
    """
    answer = None if answered is None else answered.answer
    settle = timedelta(seconds=SETTLE_SECONDS)
    pod = None if pods is None else pods.of(intent.uid)
    if answered is not None and answer is Answer.GONE and not _is_listed_since(pod, pods, answered):
        is_over = read_at - answered.at >= SETTLE_SECONDS or now - intent.until >= settle
        return Progress.GONE if is_over else Progress.SETTLING
    if answer is Answer.REFUSED:
        return Progress.REFUSED
    if pods is None:
        return Progress.EVICTING if answer is Answer.ACCEPTED and now < intent.until else Progress.UNKNOWN
    if pod is None and pods.started < intent.at:
        return Progress.UNKNOWN
    if pod is None or pod.is_finished:
        return Progress.GONE if now - intent.until >= settle else Progress.SETTLING
    if now >= intent.until and pods.started < intent.until:
        return Progress.UNKNOWN
    is_late = now >= intent.until
    if pod.is_terminating or answer is Answer.ACCEPTED:
        return Progress.STUCK if is_late else Progress.EVICTING
    return Progress.EXPIRED if is_late else Progress.INTENDED


def _is_listed_since(pod: Pod | None, pods: NodePods | None, answered: Answered) -> bool:
    """Whether a list that is younger than the answer has the pod: then it is not gone.

    The API server has been restored from a backup, or the answer was about something else.
    """
    return pods is not None and pod is not None and not pod.is_finished and pods.began > answered.at


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
    look: PodListRequest | None = None
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


LOOK_SECONDS: Final = 30.0
"""How old a list of pods may be that an eviction is decided on, if no newer sample has come. A list without a
victim counts as long: until then it is not made again."""

WATCH_SECONDS: Final = 15.0
"""Between two lists of the pods of a node where one is being deleted: two within the usual grace period."""

STUCK_SECONDS: Final = 60.0
"""The same after its deadline: only a person can help, and the operator notices within a minute."""

VALID_SECONDS: Final = REQUEST_SECONDS - AHEAD_SECONDS
"""How long after an intent its pod may be evicted. So every request is over two minutes after the intent
(DEADLINE_SECONDS), by the clock of any operator, and whatever an operator with an old state of the node does.
"""


def step_of(situation: Situation, of: Pass, turn: Turn, *, is_held: bool) -> Step:
    """Return what to do next about a node."""
    node = situation.node
    text = node.annotations.get(MEMORY_ANNOTATION)
    if situation.unreadable:
        return Step(node, Stage.UNREADABLE, LEAVE)
    if is_held or of.course is Course.STAND:
        return Step(node, Stage.NONE if text is None else Stage.STANDING, LEAVE)
    # Where evictions end, an intent stays until its deadline too: another operator that does not know of the
    # end yet may evict the pod, and only the intent shows that later.
    over = situation.uids(*OVER)
    left = cleared(
        without(situation.intents, over),
        now=of.now,
        period_seconds=of.limits.period_seconds,
        unfinished=situation.uids(*STANDING),
    )
    # One write removes those that count no longer: when none is left, or with another change.
    changes = bool(over) or not left.entries
    step = Step(node, Stage.NONE, written(left) if changes else text)
    under_way = _under_way(situation, of, step)
    if under_way is not None:
        return under_way
    if (intent := situation.first(Progress.INTENDED)) is None:
        step = replace(step, again_at=_next_change(left, of))
    elif of.course is Course.EVICT:
        step = replace(step, stage=Stage.WAITING, intent=intent, again_at=intent.until)
    else:
        step = replace(step, again_at=intent.until)
    return step if of.course is Course.WITHDRAW else _next_eviction(situation, of, turn, step, left=left)


def _next_change(intents: Intents, of: Pass) -> datetime | None:
    return next_change(intents, now=of.now, period_seconds=of.limits.period_seconds)


def _under_way(situation: Situation, of: Pass, step: Step) -> Step | None:
    """Return ``step`` for an eviction that is not finished; None where none is under way."""
    if (intent := situation.first(Progress.STUCK)) is not None:
        return _watched(situation, of, replace(step, stage=Stage.STUCK, intent=intent), every=STUCK_SECONDS)
    if (intent := situation.first(Progress.UNKNOWN)) is not None:
        return _watched(situation, of, replace(step, stage=Stage.LISTING, intent=intent), every=0.0)
    if (intent := situation.first(Progress.EVICTING)) is not None:
        return _watched(
            situation, of, replace(step, stage=Stage.EVICTING, intent=intent), every=WATCH_SECONDS
        )
    if (intent := situation.first(Progress.SETTLING)) is not None:
        again_at = _settled_at(situation, intent, of)
        return replace(step, stage=Stage.SETTLING, intent=intent, again_at=again_at)
    return None


def _watched(situation: Situation, of: Pass, step: Step, *, every: float) -> Step:
    """Return ``step`` with a list of the pods where the last one is older than ``every`` seconds."""
    age = _age(situation.pods, of)
    if age is not None and age < every:
        return replace(step, again_at=_in(every - age, of))
    return replace(step, look=_look(situation, with_budgets=False))


def _look(situation: Situation, *, with_budgets: bool) -> PodListRequest:
    return PodListRequest(situation.node, situation.uids(*STANDING), with_budgets=with_budgets)


def _age(pods: NodePods | None, of: Pass) -> float | None:
    """Return how old a list of pods is, in seconds; None where there is none."""
    return None if pods is None else of.known.read_at - pods.began


def _in(seconds: float, of: Pass) -> datetime:
    return of.now + timedelta(seconds=seconds)


def _settled_at(situation: Situation, intent: Intent, of: Pass) -> datetime:
    answered = of.known.answer_on(situation.node.uid, intent.uid)
    if answered is None or answered.answer is not Answer.GONE:
        return intent.until + timedelta(seconds=SETTLE_SECONDS)
    return _in(max(0.0, answered.at + SETTLE_SECONDS - of.known.read_at), of)


def _next_eviction(situation: Situation, of: Pass, turn: Turn, step: Step, *, left: Intents) -> Step:
    """Return the next eviction of a node where none is under way; ``step`` is what to do without one.

    ``left`` are the intents that count.
    """
    aside, axis = aside_of(situation, breaker=of.breaker), ready_axis(situation)
    if aside is not None or axis is None:
        return step if aside is None else stepped_aside(step, aside, now=of.now)
    # What is not finished counts as well: others may have written intents beyond the limits.
    others = left if step.intent is None else without(left, {step.intent.uid})
    most, period = of.limits.max_pods_per_node, of.limits.period_seconds
    if room_left(others, now=of.now, period_seconds=period, most=most) == 0:
        return replace(step, stage=Stage.LIMITED)
    if step.intent is None and not turn.is_given:
        return replace(step, stage=Stage.WAITING, again_at=turn.again_at)
    if not turn.has_place:
        return replace(step, stage=Stage.WAITING)
    listing = replace(step, stage=Stage.LISTING, look=_look(situation, with_budgets=True))
    pods, age = situation.pods, _age(situation.pods, of)
    if pods is None or age is None or not (pods.has_budgets and 0 <= age <= LOOK_SECONDS):
        return listing
    choice = _choice(pods, axis, situation, of)
    if choice.victim is None:
        return replace(step, stage=Stage.BLOCKED, choice=choice, again_at=_in(LOOK_SECONDS - age + 1, of))
    if axis.sampled_at is None or pods.began < axis.sampled_at:
        # A list that began before the sample says nothing of the pods that the sample is about (P4).
        return listing
    if step.intent is None:
        return _begin(step, choice, axis, of, left=left)
    asked = asked_at(situation, of.known, step.intent.uid)
    if asked is not None:
        over_in = asked + REQUEST_SECONDS - of.known.read_at
        return replace(step, again_at=_in(over_in, of)) if over_in > 0 else listing
    return _carried_out(step, step.intent, choice, axis, of, left=left)


def _choice(pods: NodePods, axis: AxisView, situation: Situation, of: Pass) -> Choice:
    """Return which of the pods is next."""
    candidates = candidates_of(
        pods,
        usage=of.memory.pods.get(situation.node.uid, {}),
        rules=of.limits.pod_rules,
        answers=of.known.answers,
        now=of.now,
    )
    protection = Protection(of.known.protected, of.limits.min_pod_age_seconds)
    return choose(candidates, axis=axis.axis, missing=axis.missing, protection=protection)


def _begin(step: Step, choice: Choice, axis: AxisView, of: Pass, *, left: Intents) -> Step:
    """Return the write of a new intent beside those that are ``left``."""
    assert choice.victim is not None, "the caller has checked it"
    pod, grace = choice.victim.pod, choice.victim.facts.grace_seconds
    intent = Intent(
        pod.namespace,
        pod.name,
        pod.uid,
        at=of.now.replace(microsecond=0),
        until=deadline(now=of.now, grace_seconds=grace),
        why=f"{axis.axis.value}, {axis.held.name.capitalize()}",
    )
    return replace(
        step,
        stage=Stage.BEGINNING,
        annotation=written(begun(left, intent)),
        intent=intent,
        choice=choice,
        again_at=None,
    )


def _carried_out(
    step: Step, intent: Intent, choice: Choice, axis: AxisView, of: Pass, *, left: Intents
) -> Step:
    """Return the eviction of the pod whose intent is on the node, if it is chosen again and in time.

    If it is not in time, or of a time to come, its intent is written again. If another pod is chosen, that
    has to wait until no operator can evict the first one any more.
    """
    assert choice.victim is not None, "the caller has checked it"
    pod, age = choice.victim.pod, (of.now - intent.at).total_seconds()
    if pod.uid != intent.uid:
        if age < DEADLINE_SECONDS:
            return replace(step, choice=choice, again_at=_in(DEADLINE_SECONDS - age, of))
        return _begin(step, choice, axis, of, left=without(left, {intent.uid}))
    if not -AHEAD_SECONDS <= age <= VALID_SECONDS:
        return _begin(step, choice, axis, of, left=left)
    eviction = Eviction(
        pod.namespace,
        pod.name,
        pod.uid,
        node=step.node.name,
        why=choice.reason,
        node_uid=step.node.uid,
        share=choice.usage,
        premise=Premise(step.node, axis.axis, intent.at, of.limits.max_pressured_nodes),
    )
    return replace(step, stage=Stage.EVICTING, eviction=eviction, choice=choice)


def objection(
    eviction: Eviction, *, node: Node | None, pool: Mapping[str, tuple[Node, NodeView]], now: datetime
) -> str:
    """Return why ``eviction`` is not right any more, for the log; empty where it is.

    ``node`` is the one that has the name now. Any difference counts, since it is not known here what the
    decision used of the node: a hold, a cordon, another owner, the kubelet's own MemoryPressure. A node that
    changed wakes its pool. ``pool`` has all nodes of the pool by their UIDs, with what is known of their
    memory ``now``; nothing where that is not watched.
    """
    premise = eviction.premise
    if premise is None:
        return ""
    if node is None:
        return "the node is gone"
    if node.uid != premise.node.uid:
        return "another machine has the name of the node"
    if node != premise.node:
        return "the node has changed"
    evictable = pool[node.uid][1].evictable if node.uid in pool else ()
    axis = next((each for each in evictable if each.axis is premise.axis), None)
    if axis is None:
        return "no fresh sample shows that the node needs it"
    if (now - premise.intended_at).total_seconds() > VALID_SECONDS:
        return f"its intent is older than {VALID_SECONDS} s"
    # This is the last, since it looks at each node: some 15 ms in a pool of 5,000.
    views = {uid: view for uid, (_, view) in pool.items()}
    breaker = Breaker([each for each, _ in pool.values()], views, Share.of(premise.max_pressured_nodes))
    if breaker.is_open_for(axis.ready_since):
        return "too much of the pool may be under pressure"
    return ""
