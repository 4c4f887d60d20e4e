"""What to do next about the evictions of one node. At most one is outstanding on it (P5).

The order makes it safe to be killed between any two writes:

1. The intent is written to the node, with the UID of the pod, its time and its deadline.
2. Once the node, as the API server reports it, has the intent, the pod is evicted, with the UID as
   precondition. It is chosen again for that, so that no annotation decides which pod is evicted.
3. The pods of the node show the progress, whichever process has evicted the pod.

Killed after 1, the pod is not evicted. The next process evicts it if it would choose it, after a new intent
for it, or the intent is removed at its deadline. Killed after 2, the pods of the node show it, and the intent
counts as long as it would have.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.keys import MEMORY_ANNOTATION
from winpool.memory.candidacy import candidates_of
from winpool.memory.candidates import Protection
from winpool.memory.intent_text import written
from winpool.memory.intents import (
    AHEAD_SECONDS,
    DEADLINE_SECONDS,
    Intent,
    begun,
    cleared,
    deadline,
    next_change,
    room_left,
    without,
)
from winpool.memory.progress import OVER, STANDING, Progress
from winpool.memory.settings import SETTLE_SECONDS
from winpool.memory.situation import REQUEST_SECONDS, aside_of, asked_at, ready_axis
from winpool.memory.steps import Course, Pass, Stage, Step, Turn, stepped_aside
from winpool.memory.victims import choose
from winpool.objects.acts import Eviction, Premise
from winpool.ownership.goals import LEAVE
from winpool.pods.evicted import Answer
from winpool.pods.node_pods import VictimLook

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.memory.intents import Intents
    from winpool.memory.situation import Situation
    from winpool.memory.victims import Choice
    from winpool.objects.pressure import AxisView
    from winpool.pods.node_pods import NodePods

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


def _look(situation: Situation, *, with_budgets: bool) -> VictimLook:
    return VictimLook(situation.node, situation.uids(*STANDING), with_budgets=with_budgets)


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
    victim = choice.victim
    assert victim is not None, "the caller has checked it"
    intent = Intent(
        victim.namespace,
        victim.name,
        victim.uid,
        at=of.now.replace(microsecond=0),
        until=deadline(now=of.now, grace_seconds=victim.grace_seconds),
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
    victim, age = choice.victim, (of.now - intent.at).total_seconds()
    assert victim is not None, "the caller has checked it"
    if victim.uid != intent.uid:
        if age < DEADLINE_SECONDS:
            return replace(step, choice=choice, again_at=_in(DEADLINE_SECONDS - age, of))
        return _begin(step, choice, axis, of, left=without(left, {intent.uid}))
    if not -AHEAD_SECONDS <= age <= VALID_SECONDS:
        return _begin(step, choice, axis, of, left=left)
    eviction = Eviction(
        victim.namespace,
        victim.name,
        victim.uid,
        node=step.node.name,
        why=choice.reason,
        node_uid=step.node.uid,
        share=choice.usage,
        premise=Premise(step.node, axis.axis, intent.at, of.limits.max_pressured_nodes),
    )
    return replace(step, stage=Stage.EVICTING, eviction=eviction, choice=choice)
