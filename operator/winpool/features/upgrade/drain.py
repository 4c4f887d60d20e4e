"""Drains a node: says which pods still have to leave, which evictions to ask for now, and what blocks them.

It is the drain of every path to an upgrade, and pure: each pass begins with the last list of the pods and
the answers to evictions, and waits for nothing. What becomes of a node that is not drained in time
is not decided here.

What a pod is decides first, as by ``kubectl drain``: pods of DaemonSets and static pods stay, and so do those
that a rule of the pool skips. Pods that have ended need not leave: nothing of them runs, and their logs stay.
Pods that are being deleted are waited for. Where a pod keeps the drain from ending by the spec of the pool
(``blockers.CLASSIFIED``), none is evicted; only with ``onTimeout: Force`` the others leave in time, which
would be deleted with it.

After the deadline, with ``onTimeout: Force``, all pods that are left are deleted at once, whatever their
order and their budgets. Each has the grace that it asks for, and 1 s at least: with less, the API server
would forget a pod whose containers still run. So a pod that hangs in Terminating is not deleted again.
Neither is one deleted that would come back, or that came too late to be given the time to leave.

Where a PodDisruptionBudget allows some evictions, no more are asked for until there are newer budgets, by all
drains together: each answer names the budget that it took from. So a drain is refused only what others took
meanwhile.

Missing information evicts nothing, and never makes a node drained (P4): without a list, by one that is old or
began too soon after the cordon, or on a node that is not cordoned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import inf
from types import MappingProxyType
from typing import Final

from winpool.api.keys import NAMESPACE
from winpool.api.selector import selects
from winpool.api.upgrade import (
    LEAST_SECONDS_TO_FORCE,
    Drain,
    DrainBehavior,
    DrainRule,
    OnTimeout,
    UpgradeState,
)
from winpool.features.upgrade.blockers import (
    CLASSIFIED,
    FORCED_IN_TIME,
    NEVER_FORCED,
    Blocker,
    DrainBlock,
    by_answer,
    by_budgets,
    by_end,
    by_return,
    by_spec,
    in_order,
    is_of_budget,
    warnings_of,
)
from winpool.features.upgrade.claims import Claim, claim_of
from winpool.features.upgrade.gates.world import veto_of
from winpool.model.budgets import BudgetRoom
from winpool.model.node import Deletion, Eviction, Node, is_held
from winpool.model.node_pods import Answer, Answered, NodePods
from winpool.model.pods import EvictionFacts, Pod

CORDONED_SECONDS: Final = 5
"""How long after the cordon a list begins that may show a node to be drained. The scheduler sees the cordon
through a watch, and may bind pods until then; Karpenter and cluster-autoscaler wait as long."""

LISTED_SECONDS: Final = 30.0
"""How old a list may be that anything is concluded from. The same holds for memory (``memory.eviction``)."""

FOLLOWED_SECONDS: Final = 5
"""Between two lists while something moves: pods end, or a budget may open. As often as ``kubectl drain``
asks, and 12 of the 20 lists that a node may have in a minute (``controllers.node_pods``)."""

BLOCKED_SECONDS: Final = 20
"""Between two lists where only a person can help, or a pod has to end by itself: for hours, if need be."""

FIRST_PAUSE_SECONDS: Final = 5.0
"""After the first refusal that is not of a budget, as of ``kubectl drain``. It doubles each time."""

LONGEST_PAUSE_SECONDS: Final = 20.0
"""Most refusals of webhooks mean "not now", and end within seconds; Cluster API asks as often."""

_MOST_DOUBLINGS: Final = 8
"""Beyond LONGEST_PAUSE_SECONDS. Counting on would overflow a float."""

UNANSWERED_SECONDS: Final = 60.0
"""How long an eviction without an answer may still be carried out: as long as the API server works on a
request. After that, a list shows whether it was."""

SHARED_SECONDS: Final = 60.0
"""How long after an eviction its budget counts as used by our own drains. Most replacements are Ready by
then. A node that is passed over waits as long (``states.RESERVED_SECONDS``)."""

_DRAINS: Final = frozenset({UpgradeState.DRAINING, UpgradeState.DRAIN_BLOCKED})
"""The states of a claim in which pods are evicted."""

LEAST_GRACE_SECONDS: Final = 1
"""With a grace of 0 the API server removes a pod at once, whether its containers have ended or not."""

WHY: Final = "its node is drained for an upgrade"
FORCED: Final = "its node was to be drained by now (onTimeout: Force)"

NOTHING_ASKED: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class DrainView:
    """What is known of the drain of one node.

    ``cordoned_at`` is when the node was cordoned for this drain, the last time, by the wall clock. ``pods``
    is the last list of its pods, with what their budgets allow; None before the first. ``answers`` are those
    of ``KnownEvictions``. ``read_at`` is ``now`` on the clock of ``NodePods.began`` and ``Answered.at``.
    """

    node: Node
    cordoned_at: datetime
    pods: NodePods | None
    answers: Mapping[str, Answered]
    now: datetime
    read_at: float


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """How far the drain of a node is.

    ``leaving`` are the pods that have to go and are still there, ``evictions`` those to ask for now, in
    order, deletions by force first, and ``blockers`` what keeps pods from going, permanent ones first.
    ``is_drained``: a list that began late enough after the cordon has nothing left that has to go.
    ``list_at`` is when the pods have to be listed again; None where no list would help.
    """

    leaving: tuple[Pod, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    is_drained: bool = False
    list_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Leaver:
    """A pod that has to go.

    ``order`` is None where it leaves in no order. ``next_at`` is when a list may show something new of it.
    """

    pod: Pod
    order: int | None
    next_at: datetime
    blocker: Blocker | None = None
    may_be_asked: bool = False


def drain(
    view: DrainView,
    spec: Drain,
    *,
    own_namespace: str = NAMESPACE,
    asked: Mapping[str, int] = NOTHING_ASKED,
    forces: bool = False,
) -> DrainProgress:
    """Return how far the drain of a node is, and what to do next.

    ``asked`` counts, by ``Eviction.budget``, the evictions that the drains of other nodes ask for in the same
    pass: their answers are not known yet. ``forces``: the deadline has passed, and pods that are left may be
    deleted.
    """
    pods = view.pods
    if pods is None:
        return DrainProgress(list_at=view.now)
    may_conclude = view.node.unschedulable and view.read_at - pods.began <= LISTED_SECONDS
    leavers = tuple(_leavers(view, pods, spec, own_namespace))
    blockers = [each.blocker for each in leavers if each.blocker is not None]
    is_late_enough = pods.started >= view.cordoned_at + timedelta(seconds=CORDONED_SECONDS)
    is_drained = may_conclude and is_late_enough and not leavers
    is_held = spec.on_timeout is not OnTimeout.FORCE and any(each.why in CLASSIFIED for each in blockers)
    may_evict = may_conclude and pods.has_budgets and not is_held
    forced = tuple(_forced(view, pods, leavers, own_namespace)) if forces and may_conclude else ()
    left = [each for each in leavers if all(each.pod.uid != one.uid for one in forced)]
    evictions = _evictions(view, pods, left, asked) if may_evict else ()
    return DrainProgress(
        leaving=tuple([each.pod for each in leavers]),
        evictions=(*forced, *evictions),
        blockers=in_order(blockers),
        is_drained=is_drained,
        list_at=None if is_drained or not view.node.unschedulable else _list_at(view, pods, leavers),
    )


def preflight(view: DrainView, spec: Drain, *, own_namespace: str = NAMESPACE) -> tuple[Blocker, ...]:
    """Return what would keep the node from being drained, before it is claimed, permanent ones first.

    What can only be foreseen is among it. A budget that other drains of ours use up now is not: it opens
    again as soon as their pods are Ready elsewhere, and meanwhile the other pods can leave. Nor is what the
    spec blocks until the deadline, with ``onTimeout: Force``; a closed budget is, since others go first then.
    Without a list of the pods nothing is known and returned, and without budgets in it nothing of them: claim
    no node by that.
    """
    if view.pods is None:
        return ()
    found: list[Blocker] = []
    ends = FORCED_IN_TIME if spec.on_timeout is OnTimeout.FORCE else ()
    shared = {each.budget for each in view.answers.values() if each.taken_at > view.read_at - SHARED_SECONDS}
    for each in _leavers(view, view.pods, spec, own_namespace):
        block = each.blocker
        if block and block.why not in ends and not _waits_for(shared, block, each.pod, view.pods):
            found.append(block)
        if each.pod.eviction is not None and not each.pod.is_terminating:
            found += warnings_of(each.pod, each.pod.eviction, view.node)
    return in_order(found)


def _waits_for(budgets: set[str], blocker: Blocker, pod: Pod, pods: NodePods) -> bool:
    """Whether nothing but one of these budgets blocks the pod, and not for ever."""
    room = _room(pod, pods)
    is_closed = blocker.why is DrainBlock.BUDGET and not blocker.is_permanent
    return is_closed and room is not None and room.name in budgets


def objection(eviction: Eviction, *, node: Node | None, now: datetime) -> str:
    """Return why an eviction of a drain is not right any more, for the log; empty where it is.

    It is asked right before the request, as that of memory (``memory.eviction``): the node may have been
    given back since the pass, or be another machine. ``node`` is the newest known state of the node that has
    the name now. An eviction that is not of a drain is none of this.
    """
    if not eviction.drained_uid:
        return ""
    if node is None:
        return "the node is gone"
    if node.uid != eviction.drained_uid:
        return "another machine has the name of the node"
    if not node.unschedulable:
        return "the node is not cordoned any more"
    found = claim_of(node)
    if not isinstance(found, Claim) or found.state not in _DRAINS:
        return "the node is not drained any more"
    if is_held(node, now=now):
        return "someone holds the node"
    if veto := veto_of(node):
        return f"the node has {veto}"
    if eviction.deletion is not None and found.state is not UpgradeState.DRAIN_BLOCKED:
        return "the drain of the node is not past its deadline any more"
    return ""


def _leavers(view: DrainView, pods: NodePods, spec: Drain, own_namespace: str) -> Iterator[_Leaver]:
    """Yield the pods that have to leave the node."""
    for pod in pods.pods:
        rule = next((each for each in spec.pod_rules if _matches(each, pod)), None)
        behavior = DrainBehavior.DRAIN if rule is None else rule.behavior
        if pod.is_finished or pod.is_static or pod.is_of_daemon_set or behavior is DrainBehavior.SKIP:
            continue
        order = None if behavior is DrainBehavior.WAIT_COMPLETED else (rule.order if rule else 0)
        found = _judged(view, pods, pod, order)
        if pod.eviction is not None and not pod.is_terminating:
            standing = by_spec(pod, pod.eviction, spec, rule, own_namespace=own_namespace) or by_return(
                pod, pod.eviction, cordoned_at=view.cordoned_at
            )
            if standing is not None:
                found = _Leaver(pod, order, _blocked_until(pods), standing)
        yield replace(found, blocker=found.blocker and _with_group(found.blocker, pod))


def _matches(rule: DrainRule, pod: Pod) -> bool:
    if rule.namespaces and pod.namespace not in rule.namespaces:
        return False
    return rule.pod_selector is None or selects(rule.pod_selector, pod.labels)


def _with_group(blocker: Blocker, pod: Pod) -> Blocker:
    """Name the PodGroup of a pod that is blocked: those of its members that are gone wait for it as well."""
    if pod.eviction is None or not pod.eviction.group:
        return blocker
    said = f"{blocker.message} It is a member of the PodGroup {pod.namespace}/{pod.eviction.group}."
    return replace(blocker, message=said)


def _judged(view: DrainView, pods: NodePods, pod: Pod, order: int | None) -> _Leaver:
    """Return a pod as the API server has it, and by what it would answer and has answered."""
    soon, facts, answered = _followed_until(pods), pod.eviction, _answer(view, pods, pod)
    if facts is None:
        return _Leaver(pod, order, _blocked_until(pods))
    if pod.is_terminating:
        stuck = by_end(pod, facts, node=view.node, now=view.now)
        return _Leaver(pod, order, soon if stuck is None else _blocked_until(pods), stuck)
    if answered is not None and _is_under_way(answered, pods):
        return _Leaver(pod, order, soon, by_answer(pod, answered))
    closed = by_budgets(pod, pods)
    if closed is not None:
        is_lasting = closed.is_permanent or closed.why is DrainBlock.BUDGET_UNREAD
        return _Leaver(pod, order, _blocked_until(pods) if is_lasting else soon, closed)
    due = view.read_at if answered is None else _due(answered, pods)
    wait = due - view.read_at
    next_at = max(soon, view.now + timedelta(seconds=wait)) if 0 < wait < inf else soon
    return _Leaver(pod, order, next_at, by_answer(pod, answered), may_be_asked=wait <= 0)


def _answer(view: DrainView, pods: NodePods, pod: Pod) -> Answered | None:
    """Return the last answer about ``pod``. That it is gone is over where a newer list has it."""
    found = view.answers.get(pod.uid)
    if found is None or found.answer is not Answer.GONE:
        return found
    return found if found.is_about(view.node.uid) and found.at >= pods.began else None


def _is_under_way(answered: Answered, pods: NodePods) -> bool:
    """Whether the pod is on its way out, or may be."""
    if answered.answer is Answer.ASKED:
        return pods.began < answered.at + UNANSWERED_SECONDS
    return answered.answer is not Answer.REFUSED


def _due(answered: Answered, pods: NodePods) -> float:
    """Return when the pod may be asked for again, after an answer that does not let it go.

    A budget decides by itself when: newer budgets have it. Infinity where there are none.
    """
    if answered.answer is Answer.ASKED:
        return answered.at
    if is_of_budget(answered):
        return answered.at if pods.budgets_began > answered.at else inf
    doublings = min(max(0, answered.times - 1), _MOST_DOUBLINGS)
    return answered.at + min(FIRST_PAUSE_SECONDS * 2.0**doublings, LONGEST_PAUSE_SECONDS)


def _forced(
    view: DrainView, pods: NodePods, leavers: Iterable[_Leaver], own_namespace: str
) -> Iterator[Eviction]:
    """Yield the deletions of the pods that have not left in time."""
    for each in leavers:
        pod, facts = each.pod, each.pod.eviction
        if facts is None or pod.namespace == own_namespace:
            continue
        grace = max(facts.grace_seconds, LEAST_GRACE_SECONDS)
        if pod.is_terminating:
            is_due = facts.ends is not None and (facts.ends - view.now).total_seconds() > grace
        else:
            is_due = _has_had_its_time(facts, view.now) and not _is_kept(view, pods, each)
        if is_due:
            kept_by = "" if each.blocker is None else each.blocker.why
            yield Eviction(
                pod.namespace,
                pod.name,
                pod.uid,
                view.node.name,
                FORCED,
                drained_uid=view.node.uid,
                deletion=Deletion(facts.resource_version, grace, kept_by),
            )


def _has_had_its_time(facts: EvictionFacts, now: datetime) -> bool:
    """Whether a pod is old enough to be deleted. Of one whose age is not known, that is not known (P4)."""
    return facts.created is not None and (now - facts.created).total_seconds() >= LEAST_SECONDS_TO_FORCE


def _is_kept(view: DrainView, pods: NodePods, each: _Leaver) -> bool:
    """Whether a pod is not deleted by force: that would change nothing, or it may be on its way out."""
    answered = _answer(view, pods, each.pod)
    is_under_way = answered is not None and _is_under_way(answered, pods)
    return is_under_way or (each.blocker is not None and each.blocker.why in NEVER_FORCED)


def _evictions(
    view: DrainView, pods: NodePods, leavers: Sequence[_Leaver], asked: Mapping[str, int]
) -> Iterator[Eviction]:
    """Yield the evictions to ask for: of the lowest order that is left, and no more than budgets allow.

    Pods that were refused come last, so that they take no disruption from those that would go.
    """
    first = min((each.order for each in leavers if each.order is not None), default=None)
    ready = [each.pod for each in leavers if each.may_be_asked and each.order == first]
    ready.sort(key=lambda pod: (_times(view, pod), pod.full_name))
    rooms = {pod.uid: room for pod in ready if (room := _room(pod, pods)) is not None}
    taken = Counter(asked)
    if rooms:
        taken.update(_taken(view, pods))
    for pod in ready:
        room = rooms.get(pod.uid)
        if room is not None:
            if taken[room.name] >= room.allowed:
                continue
            taken[room.name] += 1
        yield Eviction(
            pod.namespace,
            pod.name,
            pod.uid,
            view.node.name,
            WHY,
            budget="" if room is None else room.name,
            drained_uid=view.node.uid,
        )


def _times(view: DrainView, pod: Pod) -> int:
    answered = view.answers.get(pod.uid)
    return 0 if answered is None else answered.times


def _room(pod: Pod, pods: NodePods) -> BudgetRoom | None:
    """Return the budget that an eviction of ``pod`` takes a disruption of; None where it takes none."""
    return next((each for each in pods.budgets.get(pod.uid, ()) if each.counts(pod)), None)


def _taken(view: DrainView, pods: NodePods) -> Iterator[str]:
    """Yield the budgets of evictions that the list of budgets does not show yet, once for each."""
    for each in view.answers.values():
        is_outstanding = each.answer is Answer.ASKED and each.at > view.read_at - UNANSWERED_SECONDS
        if each.budget and (is_outstanding or each.taken_at >= pods.budgets_began):
            yield each.budget


def _followed_until(pods: NodePods) -> datetime:
    return pods.started + timedelta(seconds=FOLLOWED_SECONDS)


def _blocked_until(pods: NodePods) -> datetime:
    return pods.started + timedelta(seconds=BLOCKED_SECONDS)


def _list_at(view: DrainView, pods: NodePods, leavers: Sequence[_Leaver]) -> datetime:
    """Return when a new list may show something new of a cordoned node that is not drained."""
    if view.read_at - pods.began > LISTED_SECONDS or (leavers and not pods.has_budgets):
        return view.now
    since_cordon = view.cordoned_at + timedelta(seconds=CORDONED_SECONDS)
    return max(view.now, min((each.next_at for each in leavers), default=since_cordon))
