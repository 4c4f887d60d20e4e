"""Names what keeps a pod on a node that is drained, and says whether that is "never" or "not now".

"Never" lasts until a person changes something. It is concluded only from what shows it: the pod and the spec
of the pool, two PodDisruptionBudgets, or one whose status is current and settled. Everything else may end by
itself, and is tried again until the deadline of the drain. Nothing of this is stored: each pass finds it
again.

What the API server answers is read from its words, since an answer has no field for most of it. The texts are
those of pkg/registry/core/pod/storage/eviction.go, and of the admission plugins in k8s.io/apiserver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from winpool.api.upgrade import Drain, DrainBehavior, DrainRule, EmptyDirPods, UnmanagedPods
from winpool.model.budgets import MAX_BUDGETS, BudgetRoom
from winpool.model.node import Node
from winpool.model.node_pods import Answered, NodePods
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


@dataclass(frozen=True, slots=True)
class Blocker:
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


def warnings_of(pod: Pod, facts: EvictionFacts, node: Node) -> tuple[Blocker, ...]:
    """Return what may keep ``pod`` on the node, or end others, once it is evicted: what can be foreseen."""
    found: list[Blocker] = []
    if facts.tolerates_cordon and pod.controller_kind:
        said = (
            "It tolerates the cordon, so that it may come back to the node; remove the toleration, or exempt "
            "it by a rule with the behavior Skip."
        )
        found.append(Blocker(pod.full_name, DrainBlock.TOLERATES_CORDON, said))
    if _hangs(facts, node):
        said = (
            f"A container has {facts.sub_paths} subPath mounts, so that the pod will hang in Terminating: "
            f"use one at most, or a kubelet of {FIXED_SUB_PATHS}."
        )
        found.append(Blocker(pod.full_name, DrainBlock.SUB_PATHS, said))
    if facts.group:
        said = (
            f"It is a member of the PodGroup {pod.namespace}/{facts.group}: its eviction may end all "
            "members, so see that the group may be interrupted."
        )
        found.append(Blocker(pod.full_name, DrainBlock.GANG, said))
    return tuple(found)


def _hangs(facts: EvictionFacts, node: Node) -> bool:
    """Whether the kubelet is known to keep the pod in Terminating."""
    minor = parse_minor(node.versions.kubelet)
    return facts.sub_paths >= SUB_PATHS_THAT_HANG and minor is not None and minor < FIXED_SUB_PATHS


def in_order(blockers: list[Blocker]) -> tuple[Blocker, ...]:
    """Return them in a stable order, permanent ones first."""
    return tuple(sorted(blockers, key=lambda each: (not each.is_permanent, each.pod, each.why)))
