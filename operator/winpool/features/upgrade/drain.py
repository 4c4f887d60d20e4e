"""Drains a node: says which pods still have to leave, which evictions to ask for now, and what blocks them.

It is the drain of every path to an upgrade, and pure: each pass begins with the last list of the pods and
the answers to evictions, and waits for nothing. What becomes of a node that is not drained in time
is not decided here.

What a pod is decides first, as by ``kubectl drain``: pods of DaemonSets and static pods stay, and so do those
that a rule of the pool skips. Pods that have ended need not leave: nothing of them runs, and their logs stay.
Pods that are being deleted are waited for. Where a pod keeps the drain from ending by the spec of the pool
(``CLASSIFIED``), none is evicted; only with ``onTimeout: Force`` the others leave in time, which
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

What blocks a pod is "never" or "not now". "Never" lasts until a person changes something. It is concluded
only from what shows it: the pod and the spec of the pool, two PodDisruptionBudgets, or one whose status is
current and settled. Everything else may end by itself, and is tried again until the deadline of the drain.
Nothing of this is stored: each pass finds it again. What the API server answers is read from its words, as an
answer has no field for most of it. The texts are those of pkg/registry/core/pod/storage/eviction.go, and of
the admission plugins in k8s.io/apiserver.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import NAMESPACE
from winpool.api.selector import selects
from winpool.api.text import later
from winpool.api.upgrade import (
    LEAST_SECONDS_TO_FORCE,
    Drain,
    DrainBehavior,
    DrainRule,
    EmptyDirPods,
    OnTimeout,
    UnmanagedPods,
    UpgradeState,
)
from winpool.features.upgrade.claims import Claim, claim_of, veto_of
from winpool.model.budgets import MAX_BUDGETS, BudgetRoom
from winpool.model.node import Deletion, Eviction, Node, is_held
from winpool.model.node_pods import Answer, Answered, NodePods
from winpool.model.pods import EvictionFacts, Pod
from winpool.support.versions import Minor, parse_minor


class DrainBlock(StrEnum):
    """Why a pod does not leave its node, or may not."""

    BUDGET = "Budget"
    """Its PodDisruptionBudget allows no eviction."""
    TWO_BUDGETS = "TwoBudgets"
    """Several PodDisruptionBudgets are about it: the API server evicts no such pod."""
    BUDGET_UNREAD = "BudgetUnread"
    """What its budgets allow is not known, since they are too large or too many."""
    WEBHOOK = "Webhook"
    """An admission webhook or policy denies the eviction, or the webhook does not answer."""
    REFUSED = "Refused"
    """The API server refuses the eviction for another reason."""
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    """Nothing can be created in its namespace any more, and an eviction is created."""
    UNMANAGED = "Unmanaged"
    """No controller creates it again, and the pool does not permit its eviction."""
    EMPTY_DIR = "EmptyDir"
    """It would lose the data of an emptyDir, and the pool does not permit its eviction."""
    OWN_NAMESPACE = "OwnNamespace"
    """It is in the namespace of the operator, where the operator may evict nothing."""
    RULE_WAITS = "RuleWaits"
    """A rule of the pool lets it end by itself."""
    TOLERATES_CORDON = "ToleratesCordon"
    """It tolerates the cordon, so that it comes back, or may."""
    TERMINATING = "Terminating"
    """It is being deleted, and its grace is long over."""
    FINALIZER = "Finalizer"
    """The same, and a finalizer keeps it."""
    GANG = "Gang"
    """It is a member of a PodGroup: its eviction may end the others."""
    SUB_PATHS = "SubPaths"
    """It may hang in Terminating, by a bug of the kubelet on Windows."""


CLASSIFIED: Final = frozenset({DrainBlock.UNMANAGED, DrainBlock.EMPTY_DIR, DrainBlock.OWN_NAMESPACE})
"""With one of these no pod of the node is evicted, as by ``kubectl drain``: the drain cannot end, and would
disrupt the others for nothing."""

FORCED_IN_TIME: Final = frozenset({DrainBlock.UNMANAGED, DrainBlock.EMPTY_DIR})
"""With ``onTimeout: Force`` these keep no node from being claimed: the deadline of the drain ends them."""

NEVER_FORCED: Final = frozenset({DrainBlock.OWN_NAMESPACE, DrainBlock.TOLERATES_CORDON})
"""Pods that no deadline ends: the fence refuses to delete them, or they come back."""

STUCK: Final = frozenset({DrainBlock.TERMINATING, DrainBlock.FINALIZER})
"""Pods that are deleted already, and do not end."""

FORESEEN: Final = frozenset({DrainBlock.GANG, DrainBlock.SUB_PATHS, DrainBlock.TOLERATES_CORDON})
"""What only warns of a drain that has not begun: the pods may still leave."""

STUCK_SECONDS: Final = 60
"""How long after its grace a pod counts as stuck. A kubelet under load needs some seconds more than the grace
to remove one; the containers of Windows pods hang for days (Windows-Containers#106)."""

SUB_PATHS_THAT_HANG: Final = 2
"""Mounts with a ``subPath`` in one container of which Windows keeps a file open (kubernetes#112630)."""

FIXED_SUB_PATHS: Final = Minor(1, 37)

_WORDS_KEPT: Final = 200
"""Characters of an answer that are shown: the first sentence says what matters."""

_ADMISSION: Final = re.compile(
    r"""(?:(?:admission|failed\ calling)\ webhook\ "(?P<webhook>[^"]{1,253})")
    | (?:AdmissionPolicy\ '(?P<policy>[^']{1,253})')""",
    re.VERBOSE,
)
_BUDGET: Final = re.compile(r"disruption budget|pdb disruptions allowed|DisruptedPods map", re.IGNORECASE)
_NOT_COUNTED_YET: Final = "still being processed"
_TWO_BUDGETS: Final = "more than one PodDisruptionBudget"
_NAMESPACE_ENDS: Final = "because it is being terminated"
_REQUEST: Final = re.compile(r"^(?:create pods/eviction|delete pods) \S+: (?:\d{3} )?")
_DELETION: Final = "delete pods "


class Blocker(msgspec.Struct, frozen=True):
    """A pod that does not leave. ``pod`` is "namespace/name".

    ``message`` is a sentence for people, with what to do. ``is_permanent``: it lasts until a person changes
    something.
    """

    pod: str
    why: DrainBlock
    message: str
    is_permanent: bool = False


def by_spec(
    pod: Pod, facts: EvictionFacts, spec: Drain, rule: DrainRule | None, *, own_namespace: str
) -> Blocker | None:
    """Return why the pool does not let ``pod`` be evicted."""
    if rule is not None and rule.behavior is DrainBehavior.WAIT_COMPLETED:
        said = (
            f'The rule "{rule.name}" of the pool waits until it ends by itself; end it, or change the rule.'
        )
        return Blocker(pod.full_name, DrainBlock.RULE_WAITS, said)
    if pod.namespace == own_namespace:
        said = (
            "The operator evicts no pod of its own namespace; move it to other nodes, or exempt it by a rule "
            "with the behavior Skip."
        )
        return Blocker(pod.full_name, DrainBlock.OWN_NAMESPACE, said, is_permanent=True)
    if not pod.controller_kind and spec.unmanaged_pods is UnmanagedPods.BLOCK:
        said = "No controller creates it again; delete it, or set `unmanagedPods` of the drain to Evict."
        return Blocker(pod.full_name, DrainBlock.UNMANAGED, said, is_permanent=True)
    if facts.is_local and spec.empty_dir_pods is EmptyDirPods.BLOCK:
        said = (
            "It would lose the data of its emptyDir; delete it when that is saved, or set `emptyDirPods` of "
            "the drain to Evict."
        )
        return Blocker(pod.full_name, DrainBlock.EMPTY_DIR, said, is_permanent=True)
    return None


def by_return(pod: Pod, facts: EvictionFacts, *, cordoned_at: datetime) -> Blocker | None:
    """Return that ``pod`` has come to the node after its cordon, since it tolerates that.

    Evicted again, it would come back again. One without a controller does not come back. A pod whose age is
    not known counts as one that came back.
    """
    is_older = facts.created is not None and facts.created <= cordoned_at
    if is_older or not facts.tolerates_cordon or not pod.controller_kind:
        return None
    said = (
        f"It tolerates the cordon, and its {pod.controller_kind} {pod.controller} has created it on the node "
        "after that; remove the toleration, or exempt it by a rule with the behavior Skip."
    )
    return Blocker(pod.full_name, DrainBlock.TOLERATES_CORDON, said, is_permanent=True)


def by_budgets(pod: Pod, pods: NodePods) -> Blocker | None:
    """Return why the API server would refuse to evict ``pod``, by the budgets that were listed."""
    rooms = pods.budgets.get(pod.uid, ())
    if pod.uid in pods.unread:
        said = (
            f"The PodDisruptionBudgets of the namespace {pod.namespace} are too large or too many to be "
            "read; make them smaller or fewer."
        )
        return Blocker(pod.full_name, DrainBlock.BUDGET_UNREAD, said)
    if len(rooms) > MAX_BUDGETS:
        names = " and ".join(each.name for each in rooms)
        said = (
            f"The PodDisruptionBudgets {names} are about it, and Kubernetes evicts no pod with more than "
            "one; change the selector of one."
        )
        return Blocker(pod.full_name, DrainBlock.TWO_BUDGETS, said, is_permanent=True)
    if rooms and rooms[0].is_closed_to(pod):
        return _by_budget(pod, rooms[0])
    return None


def _by_budget(pod: Pod, room: BudgetRoom) -> Blocker:
    health, budget = room.health, f"The PodDisruptionBudget {room.name}"
    if health.is_failing:
        said = f"{budget} allows nothing, since its pods cannot be counted (SyncFailed); see its conditions."
    elif not health.is_current:
        said = (
            f"{budget} allows nothing until its status is as new as its spec, which the operator waits for."
        )
    elif health.is_never:
        said = (
            f"{budget} never allows an eviction: it demands {health.desired} healthy pods of "
            f"{health.expected}; add a replica, or let it permit that one is unavailable."
        )
    else:
        said = (
            f"{budget} allows no eviction now: {health.healthy} of its {health.expected} pods are healthy "
            f"and it demands {health.desired}; the operator waits until more are Ready."
        )
    return Blocker(pod.full_name, DrainBlock.BUDGET, said, is_permanent=health.is_never)


def by_answer(pod: Pod, answered: Answered | None) -> Blocker | None:
    """Return why the API server has refused to evict ``pod`` the last time."""
    if answered is None or not answered.said or _NOT_COUNTED_YET in answered.said:
        return None
    words = _shown(answered.said)
    verb = "delete" if answered.said.startswith(_DELETION) else "evict"
    if found := _ADMISSION.search(answered.said):
        webhook = found["webhook"]
        name = f"admission webhook {webhook}" if webhook else f"admission policy {found['policy']}"
        said = f"The {name} does not let it be {verb.rstrip('e')}ed, and the operator tries again: {words}"
        return Blocker(pod.full_name, DrainBlock.WEBHOOK, said)
    if _TWO_BUDGETS in answered.said:
        said = (
            "Several PodDisruptionBudgets are about it, and Kubernetes evicts no pod with more than one; "
            "change the selector of one."
        )
        return Blocker(pod.full_name, DrainBlock.TWO_BUDGETS, said, is_permanent=True)
    if is_of_budget(answered):
        said = f"Its PodDisruptionBudget did not allow its eviction, and the operator tries again: {words}"
        return Blocker(pod.full_name, DrainBlock.BUDGET, said)
    if _NAMESPACE_ENDS in answered.said:
        said = f"The namespace {pod.namespace} is being deleted with its pods, which the operator waits for."
        return Blocker(pod.full_name, DrainBlock.NAMESPACE_TERMINATING, said)
    said = f"The API server does not {verb} it, and the operator tries again: {words}"
    return Blocker(pod.full_name, DrainBlock.REFUSED, said)


def is_of_budget(answered: Answered) -> bool:
    """Whether a PodDisruptionBudget has refused the eviction, which a newer list of budgets shows to be over.

    A webhook that speaks of budgets is none.
    """
    return bool(_BUDGET.search(answered.said)) and not _ADMISSION.search(answered.said)


def _shown(said: str) -> str:
    words = _REQUEST.sub("", said)
    return words if len(words) <= _WORDS_KEPT else f"{words[:_WORDS_KEPT]}…"


def by_end(pod: Pod, facts: EvictionFacts, *, node: Node, now: datetime) -> Blocker | None:
    """Return that ``pod``, which is being deleted, is stuck: its grace is over for STUCK_SECONDS.

    A pod whose time of deletion is not known is not called stuck.
    """
    if facts.ends is None or now < facts.ends + timedelta(seconds=STUCK_SECONDS):
        return None
    since = f"{facts.ends:%Y-%m-%d %H:%M:%S} UTC"
    if facts.finalizers:
        names = ", ".join(facts.finalizers)
        said = (
            f"Its grace was over at {since}, and finalizers keep it ({names}); see what their controllers "
            "wait for."
        )
        return Blocker(pod.full_name, DrainBlock.FINALIZER, said)
    if node.ready != "True":
        said = (
            f"Its grace was over at {since}, and its node is not Ready, so that nothing ends it; repair the "
            "node, or once the machine is off, add the taint node.kubernetes.io/out-of-service."
        )
    elif _hangs(facts, node):
        said = (
            f"Its grace was over at {since}; it has several subPath mounts, which hang on Windows before "
            f"Kubernetes {FIXED_SUB_PATHS}, and a restart of the node ends it."
        )
    else:
        said = (
            f"Its grace was over at {since}, and the kubelet has not ended it; see the events of the pod, "
            "and the log of containerd on the node."
        )
    return Blocker(pod.full_name, DrainBlock.TERMINATING, said)


def warnings_of(pod: Pod, facts: EvictionFacts, node: Node) -> Iterator[Blocker]:
    """Yield what may keep ``pod`` on the node, or end others, once it is evicted: what can be foreseen."""
    if facts.tolerates_cordon and pod.controller_kind:
        said = (
            "It tolerates the cordon, so that it may come back to the node; remove the toleration, or exempt "
            "it by a rule with the behavior Skip."
        )
        yield Blocker(pod.full_name, DrainBlock.TOLERATES_CORDON, said)
    if _hangs(facts, node):
        said = (
            f"A container has {facts.sub_paths} subPath mounts, so that the pod will hang in Terminating: "
            f"use one at most, or a kubelet of {FIXED_SUB_PATHS}."
        )
        yield Blocker(pod.full_name, DrainBlock.SUB_PATHS, said)
    if facts.group:
        said = (
            f"It is a member of the PodGroup {pod.namespace}/{facts.group}: its eviction may end all "
            "members, so see that the group may be interrupted."
        )
        yield Blocker(pod.full_name, DrainBlock.GANG, said)


def _hangs(facts: EvictionFacts, node: Node) -> bool:
    """Whether the kubelet is known to keep the pod in Terminating."""
    minor = parse_minor(node.versions.kubelet)
    return facts.sub_paths >= SUB_PATHS_THAT_HANG and minor is not None and minor < FIXED_SUB_PATHS


def in_order(blockers: list[Blocker]) -> tuple[Blocker, ...]:
    """Return them in a stable order, permanent ones first."""
    return tuple(sorted(blockers, key=lambda each: (not each.is_permanent, each.pod, each.why)))


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


class DrainView(msgspec.Struct, frozen=True):
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


class DrainProgress(msgspec.Struct, frozen=True):
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


NOTHING_TO_DRAIN: Final = DrainProgress()


class _Leaver(msgspec.Struct, frozen=True):
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
                found = _Leaver(pod, order, later(pods.started, BLOCKED_SECONDS), standing)
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
    soon, facts, answered = later(pods.started, FOLLOWED_SECONDS), pod.eviction, _answer(view, pods, pod)
    if facts is None:
        return _Leaver(pod, order, later(pods.started, BLOCKED_SECONDS))
    if pod.is_terminating:
        stuck = by_end(pod, facts, node=view.node, now=view.now)
        return _Leaver(pod, order, soon if stuck is None else later(pods.started, BLOCKED_SECONDS), stuck)
    if answered is not None and _is_under_way(answered, pods):
        return _Leaver(pod, order, soon, by_answer(pod, answered))
    closed = by_budgets(pod, pods)
    if closed is not None:
        is_lasting = closed.is_permanent or closed.why is DrainBlock.BUDGET_UNREAD
        return _Leaver(pod, order, later(pods.started, BLOCKED_SECONDS) if is_lasting else soon, closed)
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
            deletion = Deletion(facts.resource_version, grace, kept_by)
            yield replace(_eviction(view, pod), why=FORCED, deletion=deletion)


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
        yield _eviction(view, pod, budget="" if room is None else room.name)


def _eviction(view: DrainView, pod: Pod, *, budget: str = "") -> Eviction:
    node = view.node
    return Eviction(pod.namespace, pod.name, pod.uid, node.name, WHY, budget=budget, drained_uid=node.uid)


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


def _list_at(view: DrainView, pods: NodePods, leavers: Sequence[_Leaver]) -> datetime:
    """Return when a new list may show something new of a cordoned node that is not drained."""
    if view.read_at - pods.began > LISTED_SECONDS or (leavers and not pods.has_budgets):
        return view.now
    since_cordon = view.cordoned_at + timedelta(seconds=CORDONED_SECONDS)
    return max(view.now, min((each.next_at for each in leavers), default=since_cordon))
