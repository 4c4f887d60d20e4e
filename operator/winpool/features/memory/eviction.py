"""Evicts pods for memory pressure: says the state of each eviction, and what is next on each node of a pool.

At most one is outstanding on a node (P5). The order makes it safe to be killed between any two writes (P8):

1. The intent is written to the node, with the UID of the pod, its time and its deadline.
2. Once the node, as the API server reports it, has the intent, the pod is evicted, with the UID as
   precondition. It is chosen again for that, so that no annotation decides which pod is evicted.
3. The pods of the node show the progress, whichever process has evicted the pod.

Killed after 1, the pod is not evicted: the next process evicts it if it would choose it, after a new intent
for it, or the intent is removed at its deadline. Killed after 2, the pods of the node show it, and the intent
counts as long as it would have. Without a list of the pods that is young enough nothing is concluded (P4).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import EvictionLimits
from winpool.features.memory import intents
from winpool.features.memory.intents import Intent, Intents
from winpool.features.memory.overview import Breaker, max_evicting_nodes
from winpool.features.memory.settings import SETTLE_SECONDS
from winpool.features.memory.victims import Choice, Protection, candidates_of, choose
from winpool.model.memory_report import level_name
from winpool.model.node import Eviction, Node, Premise
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods, PodListRequest
from winpool.model.pods import Pod
from winpool.model.pressure import Axis, AxisPressure, KnownMemory, Level, NodePressure, UsageSinceCalm
from winpool.ownership.desired import KEEP, DesiredValue

SPACING_SECONDS: Final = 6
"""Between two evictions that begin in a pool: ten a minute. A watch brings what another operator has written
within a second or two, and the pods of the last one have begun to move."""

LISTED_SECONDS: Final = 30.0
"""How old a list of pods may be that an eviction is decided on, if no newer sample has come. A list without a
victim counts as long: until then it is not made again."""

WATCH_SECONDS: Final = 15.0
"""Between two lists of the pods of a node where one is being deleted: two within the usual grace period."""

STUCK_SECONDS: Final = 60.0
"""The same after its deadline: only a person can help, and the operator notices within a minute."""

UNSEEN_SECONDS: Final = 5.0
"""Between two checks whether enough nodes have been sampled: a twelfth of the interval of calm nodes."""

REQUEST_SECONDS: Final = 60
"""As long as the API server works on a request at most."""

VALID_SECONDS: Final = REQUEST_SECONDS - intents.AHEAD_SECONDS
"""How long after an intent its pod may be evicted. So every request is over two minutes after the intent
(DEADLINE_SECONDS), by the clock of any operator, and whatever an operator with an old state of the node does.
"""

_SETTLE: Final = timedelta(seconds=SETTLE_SECONDS)
_TRUE: Final = "True"


class EvictionState(Enum):
    """The state of an eviction, which is that of its intent, and of a node by the intent that comes first.

    ::

        Waiting ─► Beginning ─► Waiting ─► Evicting ─► Settling ─► Gone
                   (intent)        │          └─► Stuck, at the deadline
                                   ├─► Refused, by a PodDisruptionBudget
                                   └─► Expired, at the deadline
    """

    NONE = "none"
    WAITING = "waiting"
    """Other nodes come first; with an intent, its pod is there and is not being deleted."""
    LISTING = "listing"
    """The pods of the node have to be listed: what has become of the intent is not known until then."""
    BEGINNING = "beginning"
    """The intent is to be written."""
    EVICTING = "evicting"
    """The pod is evicted, or being deleted."""
    SETTLING = "settling"
    """The pod is gone, and its memory has not had the time to come back."""
    GONE = "gone"
    STUCK = "stuck"
    """The pod is still being deleted after the deadline."""
    REFUSED = "refused"
    """It was not evicted, since a budget does not permit it."""
    EXPIRED = "expired"
    """It was not evicted before the deadline."""

    # The guards: what keeps a node from its next eviction.
    STANDING = "standing"
    """Intents stay as they are, since the pool is paused or the node is held."""
    UNREADABLE = "unreadable"
    """The annotation cannot be read, so nothing is evicted."""
    LIMITED = "limited"
    """The node has had as many evictions as are permitted."""
    BLOCKED = "blocked"
    """No pod may be evicted."""
    DELETING = "the node is being deleted"
    NOT_READY = "the node is not Ready"
    """An eviction would hang: the kubelet has to end the containers."""
    CORDONED = "the node is cordoned"
    """By anyone: a drain or an upgrade may be under way."""
    SYSTEMIC = "more of the pool is in trouble than maxPressuredNodes allows"
    """Evicted pods would only move the pressure to other nodes."""
    UNSEEN = "too many nodes of the pool were not sampled since the eviction became right, or answer late too"
    """They may be in trouble as well, and it is not seen yet."""
    KUBELET = "the kubelet reports MemoryPressure and evicts pods itself"
    """On COMMIT, the one axis that it knows."""


UNFINISHED: Final = (EvictionState.WAITING, EvictionState.EVICTING, EvictionState.SETTLING)
"""The states of intents that count for ``maxNodes``, and LISTING before the deadline."""
MAY_BE_UNDER_WAY: Final = (EvictionState.LISTING, EvictionState.EVICTING, EvictionState.SETTLING)
"""Those of which nothing keeps the pod from being deleted."""
OVER: Final = (EvictionState.REFUSED, EvictionState.EXPIRED)
"""Those that are removed, since they were no evictions."""
KEPT: Final = (*UNFINISHED, EvictionState.LISTING, EvictionState.STUCK)
"""Those that must not be cleared, however old they are."""


def state_of(
    intent: Intent,
    *,
    pods: NodePods | None,
    answered: Answered | None,
    now: datetime,
    read_at: float,
    is_back: bool = False,
) -> EvictionState:
    """Return the state of ``intent`` ``now``, which is ``read_at`` on the clock of the answers.

    ``pods`` is the last list of the node's pods. ``is_back``: by what the detector has measured, the memory
    of the pod is back, or has had the time.
    """
    answer = None if answered is None else answered.answer
    pod = None if pods is None else pods.of(intent.uid)
    is_late = now >= intent.until
    if answered is not None and answer is Answer.GONE and not _is_listed_since(pod, pods, answered):
        is_over = is_back or read_at - answered.at >= SETTLE_SECONDS or now - intent.until >= _SETTLE
        return EvictionState.GONE if is_over else EvictionState.SETTLING
    if answer is Answer.REFUSED:
        return EvictionState.REFUSED
    if pods is None:
        is_accepted = answer is Answer.ACCEPTED and not is_late
        return EvictionState.EVICTING if is_accepted else EvictionState.LISTING
    if pod is None and pods.started < intent.at:
        return EvictionState.LISTING
    if pod is None or pod.is_finished:
        return EvictionState.GONE if now - intent.until >= _SETTLE else EvictionState.SETTLING
    if is_late and pods.started < intent.until:
        return EvictionState.LISTING
    if pod.is_terminating or answer is Answer.ACCEPTED:
        return EvictionState.STUCK if is_late else EvictionState.EVICTING
    return EvictionState.EXPIRED if is_late else EvictionState.WAITING


def _is_listed_since(pod: Pod | None, pods: NodePods | None, answered: Answered) -> bool:
    """Whether a list that is younger than the answer has the pod: then it is not gone.

    The API server has been restored from a backup, or the answer was about something else.
    """
    return pods is not None and pod is not None and not pod.is_finished and pods.began > answered.at


class Pass(msgspec.Struct, frozen=True):
    """What all nodes of a pool have in common in one pass.

    ``evicts``: evictions may begin. Otherwise intents that were not carried out are removed at their
    deadline, and the others are watched to their end.
    """

    memory: KnownMemory
    known: KnownEvictions
    limits: EvictionLimits
    evicts: bool
    breaker: Breaker
    now: datetime

    def after(self, seconds: float) -> datetime:
        """Return the time in so many seconds."""
        return self.now + timedelta(seconds=seconds)


class Step(msgspec.Struct, frozen=True):
    """What to do about a node.

    ``annotation`` is what ``winpool.dev/memory`` is to be; None for no annotation. ``eviction`` is the pod to
    evict now. ``look`` is the list of pods that is needed. ``intent`` is the one that is not finished, or
    that is Stuck. ``choice`` is which pod is next, and why. At ``again_at`` time alone may change this.
    """

    node: Node
    state: EvictionState
    annotation: DesiredValue
    eviction: Eviction | None = None
    look: PodListRequest | None = None
    intent: Intent | None = None
    choice: Choice | None = None
    again_at: datetime | None = None


def steps_of(nodes: Sequence[Node], of: Pass, *, held: Container[str] = ()) -> dict[str, Step]:
    """Return what to do about each of the ``nodes`` of a pool, by their UIDs.

    Nodes without an intent for which no eviction is right are not among them. ``held`` are the UIDs of nodes
    that are left alone.

    ``maxNodes`` limits the nodes with an eviction that is not finished. What counts is on the nodes, so it
    holds over a crash and a change of leader. A pass begins one eviction at most, and none within six seconds
    of the last in the pool, so every operator knows of it before it begins the next. Two operators that both
    take themselves for the leader can exceed ``maxNodes`` by one node each, but not write to the same node:
    the patch has the resourceVersion that was read.
    """
    concerned = list(_concerned(nodes, of))
    most = max_evicting_nodes(nodes=len(nodes), max_nodes=of.limits.max_nodes)
    unfinished = sorted((each for each in concerned if each.is_unfinished), key=NodeEvictions.seniority)
    slotted = {each.node.uid for each in unfinished[:most]}
    free = most - len(unfinished)
    begins_at = _begins_at(concerned, of)
    found: dict[str, Step] = {}
    for each in sorted(concerned, key=NodeEvictions.urgency):
        uid = each.node.uid
        has_slot = free > 0 or uid in slotted
        step = each.step(begins_at if has_slot else None, is_held=uid in held)
        found[uid] = step
        if step.state in (EvictionState.LISTING, EvictionState.BEGINNING) and not each.is_unfinished:
            free -= 1
        if step.state is EvictionState.BEGINNING:
            begins_at = of.after(SPACING_SECONDS)
    return found


def _concerned(nodes: Iterable[Node], of: Pass) -> Iterator[NodeEvictions]:
    """Yield those with an intent or an eviction, and those for which an eviction is right now."""
    under_way = of.known.under_way()
    for node in nodes:
        memory, ending = of.memory.views.get(node.uid), under_way.get(node.uid, set())
        is_ready = of.evicts and memory is not None and bool(memory.evictable)
        if is_ready or ending or MEMORY_ANNOTATION in node.annotations:
            yield NodeEvictions(node, of, under_way=ending)


def _begins_at(concerned: Iterable[NodeEvictions], of: Pass) -> datetime:
    """Return from when on an eviction may begin in the pool: in the past, or now, where one may."""
    known = (intent for each in concerned for intent in each.intents)
    last = max((each.at for each in known if not intents.is_ahead(each, now=of.now)), default=None)
    return of.now if last is None else last + timedelta(seconds=SPACING_SECONDS)


def earliest(steps: Iterable[Step], *, now: datetime) -> datetime | None:
    """Return when time alone may change one of ``steps``; None for never."""
    return min((each.again_at for each in steps if each.again_at and each.again_at > now), default=None)


class NodeEvictions:
    """The evictions of one node in a pass: its intents, their states, and the step that follows.

    An intent whose time is to come counts nowhere, unless this process knows its eviction: then the clock may
    have been set back. ``under_way`` are the UIDs of pods there that this process has evicted. Where someone
    has removed their intents, they are still watched to their end: the detector waits for it.
    """

    def __init__(self, node: Node, of: Pass, *, under_way: AbstractSet[str] = frozenset()) -> None:
        self.node = node
        self._of = of
        self._memory = of.memory.views.get(node.uid)
        self._pods = of.known.pods.get(node.uid)
        self._age = None if self._pods is None else of.known.read_at - self._pods.began
        """How old the list of pods is, in seconds."""
        found = intents.read(node.annotations.get(MEMORY_ANNOTATION))
        self.is_readable = not isinstance(found, intents.Unreadable)
        if isinstance(found, intents.Unreadable):
            found = intents.NO_INTENTS
        elif lost := under_way - {each.uid for each in found}:
            entries = (*found, *(self._remembered(uid) for uid in lost))
            found = tuple(sorted(entries, key=lambda each: (each.at, each.uid)))
        self.intents = found
        self._states: dict[str, EvictionState] = {}
        for each in found:
            answered = of.known.answer_on(node.uid, each.uid)
            is_known = answered is not None and not intents.is_invented(each, now=of.now)
            if is_known or not intents.is_ahead(each, now=of.now):
                self._states[each.uid] = state_of(
                    each,
                    pods=self._pods,
                    answered=answered,
                    now=of.now,
                    read_at=of.known.read_at,
                    is_back=self._memory is not None
                    and all(each.uid != pod.uid for pod in self._memory.evicted),
                )

    def _remembered(self, uid: str) -> Intent:
        """Return an intent for a pod that was evicted, with the latest deadline that it can have had."""
        known = self._of.known
        at = self._of.after(-max(0.0, known.read_at - known.answers[uid].at)).replace(microsecond=0)
        return Intent("", uid, at, at + timedelta(seconds=intents.LONGEST_SECONDS))

    @property
    def is_unfinished(self) -> bool:
        """Whether the node counts for ``maxNodes``: an eviction is not finished, or that is not known (P4).

        At its deadline each is finished, or a minute later if its pod went unseen. A deadline is at most
        LONGEST_SECONDS after the intent. Only an unreadable annotation counts until a person removes it.
        """
        return not self.is_readable or any(
            self._states.get(each.uid) in UNFINISHED
            or (self._states.get(each.uid) is EvictionState.LISTING and self._of.now < each.until)
            for each in self.intents
        )

    def seniority(self) -> tuple[bool, float, str]:
        """Return what orders the nodes that count: where an eviction may be under way, then by their intents.

        Others can have written intents too. However many there are, no more nodes evict than ``maxNodes``.
        """
        intended = self._first(EvictionState.WAITING)
        if intended is None or self._first(*MAY_BE_UNDER_WAY) is not None:
            return (False, 0.0, self.node.uid)
        return (True, intended.at.timestamp(), self.node.uid)

    def urgency(self) -> tuple[int, float, str]:
        """Return what comes first: the worst level, and then who is short of most."""
        axis = self._ready_axis()
        if axis is None:
            return (0, 0.0, self.node.uid)
        whole = axis.reading.whole if axis.reading else 0.0
        return (-(axis.level or Level.NORMAL), -axis.missing / whole if whole else 0.0, self.node.uid)

    def step(self, begins_at: datetime | None, *, is_held: bool) -> Step:
        """Return what to do next. A new eviction may begin from ``begins_at`` on.

        That is None for a node that is not one of the ``maxNodes`` nodes that may evict at once: then an
        intent that is on the node is not carried out either.
        """
        of, text = self._of, self.node.annotations.get(MEMORY_ANNOTATION)
        if not self.is_readable:
            return Step(self.node, EvictionState.UNREADABLE, KEEP)
        if is_held:
            state = EvictionState.NONE if text is None else EvictionState.STANDING
            return Step(self.node, state, KEEP)
        # Where evictions end, an intent stays until its deadline too: another operator that does not know of
        # the end yet may evict the pod, and only the intent shows that later.
        over = self._uids(*OVER)
        left = intents.cleared(
            intents.without(self.intents, over),
            now=of.now,
            period_seconds=of.limits.period_seconds,
            unfinished=self._uids(*KEPT),
        )
        # One write removes those that count no longer: when none is left, or with another change.
        changes = bool(over) or not left
        step = Step(self.node, EvictionState.NONE, intents.written(left) if changes else text)
        under_way = self._under_way(step)
        if under_way is not None:
            return under_way
        if (intent := self._first(EvictionState.WAITING)) is None:
            again_at = intents.next_change(left, now=of.now, period_seconds=of.limits.period_seconds)
            step = replace(step, again_at=again_at)
        elif of.evicts:
            step = replace(step, state=EvictionState.WAITING, intent=intent, again_at=intent.until)
        else:
            step = replace(step, again_at=intent.until)
        return self._next_eviction(begins_at, step, left=left) if of.evicts else step

    def _first(self, *states: EvictionState) -> Intent | None:
        """Return the oldest intent in one of these states."""
        return next((each for each in self.intents if self._states.get(each.uid) in states), None)

    def _uids(self, *states: EvictionState) -> frozenset[str]:
        """Return the UIDs of all intents in one of these states."""
        return frozenset(uid for uid, state in self._states.items() if state in states)

    def _under_way(self, step: Step) -> Step | None:
        """Return ``step`` for an eviction that is not finished; None where none is under way."""
        listed_every = {
            EvictionState.STUCK: STUCK_SECONDS,
            EvictionState.LISTING: 0.0,
            EvictionState.EVICTING: WATCH_SECONDS,
        }
        for state, seconds in listed_every.items():
            if (intent := self._first(state)) is not None:
                step = replace(step, state=state, intent=intent)
                if self._age is not None and self._age < seconds:
                    return replace(step, again_at=self._of.after(seconds - self._age))
                return replace(step, look=self._look(with_budgets=False))
        if (intent := self._first(EvictionState.SETTLING)) is not None:
            again_at = self._settled_at(intent)
            return replace(step, state=EvictionState.SETTLING, intent=intent, again_at=again_at)
        return None

    def _look(self, *, with_budgets: bool) -> PodListRequest:
        return PodListRequest(self.node, self._uids(*KEPT), with_budgets=with_budgets)

    def _settled_at(self, intent: Intent) -> datetime:
        answered = self._of.known.answer_on(self.node.uid, intent.uid)
        if answered is None or answered.answer is not Answer.GONE:
            return intent.until + _SETTLE
        return self._of.after(max(0.0, answered.at + SETTLE_SECONDS - self._of.known.read_at))

    def _ready_axis(self) -> AxisPressure | None:
        """Return the worst axis for which an eviction is right now; None where there is none.

        Not COMMIT while the kubelet reports MemoryPressure: it evicts pods there itself.
        """
        if self._memory is None:
            return None
        is_kubelets = self.node.kubelet_pressure == _TRUE
        axes = (each for each in self._memory.evictable if not (is_kubelets and each.axis is Axis.COMMIT))
        return next(axes, None)

    def _guard(self, axis: AxisPressure | None) -> EvictionState | None:
        """Return why nothing is evicted on the node, whatever its memory; None where something may be."""
        node, breaker = self.node, self._of.breaker
        guards = {
            EvictionState.DELETING: node.deleting,
            EvictionState.NOT_READY: node.ready != _TRUE,
            EvictionState.CORDONED: node.unschedulable,
            EvictionState.SYSTEMIC: breaker.is_open,
            EvictionState.UNSEEN: axis is not None and breaker.is_open_for(axis),
            EvictionState.KUBELET: bool(self._memory and self._memory.evictable) and axis is None,
        }
        return next((state for state, is_true in guards.items() if is_true), None)

    def _next_eviction(self, begins_at: datetime | None, step: Step, *, left: Intents) -> Step:
        """Return the next eviction of a node where none is under way; ``step`` is what to do without one.

        ``left`` are the intents that count.
        """
        of, axis = self._of, self._ready_axis()
        guard = self._guard(axis)
        if guard is EvictionState.UNSEEN:
            # Samples of calm nodes wake no pool, so what waits for them asks again by itself.
            soon = of.after(UNSEEN_SECONDS)
            step = replace(step, again_at=soon if step.again_at is None else min(step.again_at, soon))
        if guard is not None or axis is None:
            return step if guard is None else replace(step, state=guard)
        # What is not finished counts as well: others may have written intents beyond the limits.
        others = left if step.intent is None else intents.without(left, {step.intent.uid})
        most, period = of.limits.max_pods_per_node, of.limits.period_seconds
        if intents.evictions_left(others, now=of.now, period_seconds=period, most=most) == 0:
            return replace(step, state=EvictionState.LIMITED)
        if begins_at is None:
            again_at = None if step.intent is None else step.again_at
            return replace(step, state=EvictionState.WAITING, again_at=again_at)
        if step.intent is None and begins_at > of.now:
            return replace(step, state=EvictionState.WAITING, again_at=begins_at)
        return self._chosen(step, axis, left=left)

    def _chosen(self, step: Step, axis: AxisPressure, *, left: Intents) -> Step:
        """Return the intent, or the eviction, of the pod that is chosen by a list that is new enough."""
        of, pods, age = self._of, self._pods, self._age
        look = self._look(with_budgets=True)
        listing = replace(step, state=EvictionState.LISTING, look=look)
        if pods is None or age is None or age < 0 or not pods.has_budgets:
            return listing
        choice = self._choice(pods, axis)
        if choice.victim is None:
            blocked = replace(step, state=EvictionState.BLOCKED, choice=choice)
            if age <= LISTED_SECONDS:
                return replace(blocked, again_at=of.after(LISTED_SECONDS - age + 1))
            # It is reported until a newer list says something else: an issue lasts as long as its cause.
            return replace(blocked, look=look)
        if age > LISTED_SECONDS or axis.sampled_at is None or pods.began < axis.sampled_at:
            # A list that began before the sample says nothing of the pods that the sample is about (P4).
            return listing
        if step.intent is None:
            return self._begin(step, choice, axis, left=left)
        asked_at = self._asked_at(step.intent.uid)
        if asked_at is not None:
            over_in = asked_at + REQUEST_SECONDS - of.known.read_at
            return replace(step, again_at=of.after(over_in)) if over_in > 0 else listing
        return self._carry_out(step, step.intent, choice, axis, left=left)

    def _choice(self, pods: NodePods, axis: AxisPressure) -> Choice:
        """Return which of the pods is next."""
        of = self._of
        usage = of.memory.pods.get(self.node.uid, UsageSinceCalm())
        candidates = candidates_of(
            pods,
            usage=usage,
            rules=of.limits.pod_rules,
            answers=of.known.answers,
            now=of.now,
        )
        protection = Protection(of.known.protected, of.limits.min_pod_age_seconds)
        is_hard = axis.level is Level.HARD
        return choose(
            candidates,
            axis=axis.axis,
            missing=axis.missing,
            protection=protection,
            is_hard=is_hard,
            grown=usage.grown if axis.axis is Axis.COMMIT else None,
        )

    def _asked_at(self, uid: str) -> float | None:
        """Return when this process last asked to evict that pod; None where no such request can be under way.

        It may be until the pods were listed after it was certainly over.
        """
        answered = self._of.known.answer_on(self.node.uid, uid)
        if answered is None or answered.answer is not Answer.ASKED:
            return None
        is_over = self._pods is not None and self._pods.began >= answered.at + REQUEST_SECONDS
        return None if is_over else answered.at

    def _begin(self, step: Step, choice: Choice, axis: AxisPressure, *, left: Intents) -> Step:
        """Return the write of a new intent beside those that are ``left``."""
        assert choice.victim is not None, "the caller has checked it"
        pod, grace, now = choice.victim.pod, choice.victim.facts.grace_seconds, self._of.now
        intent = Intent(
            f"{pod.namespace}/{pod.name}",
            pod.uid,
            at=now.replace(microsecond=0),
            until=intents.deadline(now=now, grace_seconds=grace),
            why=f"{axis.axis.value}, {level_name(axis.level)}",
        )
        return replace(
            step,
            state=EvictionState.BEGINNING,
            annotation=intents.written(intents.begun(left, intent)),
            intent=intent,
            choice=choice,
            again_at=None,
        )

    def _carry_out(
        self, step: Step, intent: Intent, choice: Choice, axis: AxisPressure, *, left: Intents
    ) -> Step:
        """Return the eviction of the pod whose intent is on the node, if it is chosen again and in time.

        If it is not in time, or of a time to come, its intent is written again. If another pod is chosen,
        that has to wait until no operator can evict the first one any more.
        """
        assert choice.victim is not None, "the caller has checked it"
        of, pod = self._of, choice.victim.pod
        age = (of.now - intent.at).total_seconds()
        if pod.uid != intent.uid:
            if age < intents.DEADLINE_SECONDS:
                return replace(step, choice=choice, again_at=of.after(intents.DEADLINE_SECONDS - age))
            return self._begin(step, choice, axis, left=intents.without(left, {intent.uid}))
        if not -intents.AHEAD_SECONDS <= age <= VALID_SECONDS:
            return self._begin(step, choice, axis, left=left)
        eviction = Eviction(
            pod.namespace,
            pod.name,
            pod.uid,
            node=self.node.name,
            why=choice.reason,
            node_uid=self.node.uid,
            share=choice.usage,
            premise=Premise(self.node, axis.axis, intent.at, of.limits.max_pressured_nodes),
        )
        return replace(step, state=EvictionState.EVICTING, eviction=eviction, choice=choice)


def objection(
    eviction: Eviction, *, node: Node | None, pool: Mapping[str, tuple[Node, NodePressure]], now: datetime
) -> str:
    """Return why ``eviction`` is not right any more, for the log; empty where it is.

    It is asked right before the request: between the decision and that lie the other writes of the pass, the
    wait for a slot among all evictions, and the wait for a connection. ``node`` is the one that has the name
    now. Any difference counts, since it is not known here what the decision used of the node: a hold, a
    cordon, another owner, the kubelet's own MemoryPressure. A node that changed wakes its pool. ``pool`` has
    all nodes of the pool by their UIDs, with what is known of their memory ``now``; nothing where that is not
    watched.
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
    # This is the last, since it goes through all nodes: some 15 ms in a pool of 5,000.
    known = {uid: memory for uid, (_, memory) in pool.items()}
    breaker = Breaker([each for each, _ in pool.values()], known, premise.max_pressured_nodes)
    if breaker.is_open_for(axis):
        return "too much of the pool may be under pressure"
    return ""
