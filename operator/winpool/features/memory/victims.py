"""Which pod of a node under pressure is evicted: the smallest that suffices, of those that go first.

Pods are in an order of three steps, which is that of the kubelet with the rules of the pool added:

1. Pods that use more than they request, before pods that use what they were promised.
2. Pods of lower priority.
3. Pods that a rule of the pool prefers.

Of the pods that are equal in all three, the smallest that alone frees what is missing is evicted. Where none
does, it is the one that uses most above its request, with what it has grown in two minutes. Then the lower
deletion cost decides, then the younger age. Pods with less than a twentieth of what is missing stay.

On COMMIT what counts is what a pod has committed, on PHYSICAL its private working set. On COMMIT where no
pod's commit is known, which is so with most kubelets, the working set has to do. A pod whose usage is unknown
is never evicted, unlike the kubelet does it: 0 on Windows means missing.
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction

The pods of a node under pressure: what is known of each, and which of them are never evicted.

The list of those is in the code, and no setting shortens it: node agents, what the API server does not
manage, what no controller brings back, and what an admin has protected.

The pods of a node as candidates: what the API server, the kubelet and the pool's rules say of each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from winpool.api.fields import is_pool_name
from winpool.api.keys import NAMESPACE, SYSTEM_NAMESPACE_PREFIXES
from winpool.api.memory_pressure import EvictionBehavior, EvictionRule
from winpool.api.quantity import rounded
from winpool.features.memory.samples import is_amount
from winpool.model.node_pods import Answer, Answered, NodePod, NodePods
from winpool.model.pressure import Axis, PodUsage
from winpool.ownership.members import selects

SYSTEM_PRIORITY: Final = 2_000_000_000
"""``system-cluster-critical`` and above. Kubernetes reserves priorities from here on.
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/"""

DAEMON_SET: Final = "DaemonSet"
"""The kind of owner whose pods come back to the same node."""

SYSTEM_NAMESPACES: Final = (NAMESPACE,)


class Behavior(Enum):
    """What the rules of the pool say of a pod; None where none matches."""

    NEVER = "Never"
    PREFER = "Prefer"


class Exclusion(Enum):
    """Why a pod is not evicted. The first that is true."""

    FINISHED = "finished"
    TERMINATING = "terminating"
    STATIC = "static"
    SYSTEM_PRIORITY = "system priority"
    DAEMON_SET = "DaemonSet"
    HOST_PROCESS = "HostProcess"
    SYSTEM_NAMESPACE = "system namespace"
    RULE = "rule"
    NO_CONTROLLER = "no controller"
    TOO_YOUNG = "too young"
    BUDGET = "PodDisruptionBudget"
    UNKNOWN_USAGE = "unknown usage"
    TOO_SMALL = "too small"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod on the node. Amounts are in bytes.

    ``owner_kind`` is that of the controller, empty where it has none. ``grace_seconds`` is its own
    termination grace period. ``requests`` is the memory that it requests. ``commit`` and ``working_set``
    are what it uses, ``commit_growth`` and ``working_set_growth`` by how much that grew in two minutes;
    None where unknown. ``deletion_cost`` is the annotation ``controller.kubernetes.io/pod-deletion-cost``.
    ``is_blocked``: a PodDisruptionBudget permits no eviction now, or has refused this one.
    """

    namespace: str
    name: str
    uid: str
    owner_kind: str = ""
    priority: int = 0
    is_static: bool = False
    is_host_process: bool = False
    is_finished: bool = False
    is_terminating: bool = False
    is_blocked: bool = False
    age_seconds: float = 0.0
    grace_seconds: float = 30.0
    requests: int = 0
    commit: float | None = None
    working_set: float | None = None
    commit_growth: float | None = None
    working_set_growth: float | None = None
    deletion_cost: int = 0
    behavior: Behavior | None = None


@dataclass(frozen=True, slots=True)
class Protection:
    """What the operator and the pool protect beyond the list in the code.

    A pod that is younger than ``min_pod_age_seconds`` has not shown yet what it needs.
    """

    namespaces: AbstractSet[str] = field(default_factory=frozenset)
    min_pod_age_seconds: float = 120.0


def namespaces_of(text: str) -> frozenset[str]:
    """Read the names of namespaces, separated by commas. Raises ValueError for what is no name of one."""
    names = [each.strip() for each in text.split(",") if each.strip()]
    for name in names:
        if not is_pool_name(name):  # the form of both is that of RFC 1123 labels
            raise ValueError(f"{name!r} is not the name of a namespace; write names like vault,payments")
    return frozenset(names)


def is_system_namespace(namespace: str) -> bool:
    """Whether pods of ``namespace`` belong to the cluster or to this operator."""
    return namespace in SYSTEM_NAMESPACES or namespace.startswith(SYSTEM_NAMESPACE_PREFIXES)


def protected_because(pod: Candidate, protection: Protection) -> Exclusion | None:
    """Return why ``pod`` is never evicted, or not now, whatever it uses; None where it may be."""
    reasons = {
        Exclusion.FINISHED: pod.is_finished,
        Exclusion.TERMINATING: pod.is_terminating,
        Exclusion.STATIC: pod.is_static,
        Exclusion.SYSTEM_PRIORITY: pod.priority >= SYSTEM_PRIORITY,
        Exclusion.DAEMON_SET: pod.owner_kind == DAEMON_SET,
        Exclusion.HOST_PROCESS: pod.is_host_process,
        Exclusion.SYSTEM_NAMESPACE: is_system_namespace(pod.namespace)
        or pod.namespace in protection.namespaces,
        Exclusion.RULE: pod.behavior is Behavior.NEVER,
        Exclusion.NO_CONTROLLER: not pod.owner_kind,
        Exclusion.TOO_YOUNG: not pod.age_seconds >= protection.min_pod_age_seconds,
        Exclusion.BUDGET: pod.is_blocked,
    }
    return next((exclusion for exclusion, is_true in reasons.items() if is_true), None)


_UNKNOWN: Final = PodUsage()
_BEHAVIORS: Final = {EvictionBehavior.NEVER: Behavior.NEVER, EvictionBehavior.PREFER: Behavior.PREFER}


def candidates_of(
    pods: NodePods,
    *,
    usage: Mapping[str, PodUsage],
    rules: Sequence[EvictionRule],
    answers: Mapping[str, Answered],
    now: datetime,
) -> tuple[Candidate, ...]:
    """Return a candidate for each pod. A pod that was refused lately is blocked."""
    return tuple(
        _candidate(
            pod,
            usage.get(pod.uid, _UNKNOWN),
            behavior=behavior_of(pod, rules),
            is_refused=pod.uid in answers and answers[pod.uid].answer is Answer.REFUSED,
            now=now,
        )
        for pod in pods.pods
    )


def behavior_of(pod: NodePod, rules: Sequence[EvictionRule]) -> Behavior | None:
    """Return what the first rule that matches ``pod`` says; None where none does."""
    return next((_BEHAVIORS[rule.behavior] for rule in rules if _matches(rule, pod)), None)


def _matches(rule: EvictionRule, pod: NodePod) -> bool:
    if rule.namespaces and pod.namespace not in rule.namespaces:
        return False
    return rule.pod_selector is None or selects(rule.pod_selector, pod.labels)


def _candidate(
    pod: NodePod, usage: PodUsage, *, behavior: Behavior | None, is_refused: bool, now: datetime
) -> Candidate:
    return Candidate(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        owner_kind=pod.owner_kind,
        priority=pod.priority,
        is_static=pod.is_static,
        is_host_process=pod.is_host_process,
        is_finished=pod.is_finished,
        is_terminating=pod.is_terminating,
        is_blocked=pod.is_blocked or is_refused,
        # One whose age is not known, or that is from the future, is too young.
        age_seconds=-1.0 if pod.created is None else (now - pod.created).total_seconds(),
        grace_seconds=pod.grace_seconds,
        requests=pod.requests,
        commit=usage.commit,
        working_set=usage.working_set,
        commit_growth=usage.commit_growth,
        working_set_growth=usage.working_set_growth,
        deletion_cost=pod.deletion_cost,
        behavior=behavior,
    )


MIN_SHARE: Final = 0.05
"""Evicting a pod with a smaller share of what is missing is a disruption without an effect."""


class Basis(Enum):
    """By what pods are compared."""

    COMMIT = "Commit"
    WORKING_SET = "WorkingSet"


@dataclass(frozen=True, slots=True)
class Choice:
    """Which pod is next. ``victim`` is None where none may be evicted.

    ``usage`` is what it uses by the ``basis``, in bytes. ``reason`` is a sentence for people. ``excluded``
    counts the others by why they are not evicted; those that only rank after the victim are not in it.
    """

    victim: Candidate | None
    usage: float | None
    basis: Basis
    reason: str
    excluded: Mapping[Exclusion, int]


@dataclass(frozen=True, slots=True)
class _Ranked:
    pod: Candidate
    usage: float
    growth: float

    @property
    def excess(self) -> float:
        return self.usage - self.pod.requests

    @property
    def tier(self) -> tuple[bool, int, bool]:
        """The three steps; the smallest goes first."""
        return (self.excess <= 0, self.pod.priority, self.pod.behavior is not Behavior.PREFER)

    @property
    def last_word(self) -> tuple[float, float, str, str, str]:
        """What decides between equals: deletion cost, age, and names, so that the order of pods does not."""
        pod = self.pod
        return (pod.deletion_cost, pod.age_seconds, pod.namespace, pod.name, pod.uid)


def choose(pods: Sequence[Candidate], *, axis: Axis, missing: float, protection: Protection) -> Choice:
    """Return which of the ``pods`` of a node to evict so that ``missing`` bytes become free on ``axis``."""
    basis = _basis(pods, axis)
    excluded: Counter[Exclusion] = Counter()
    ranked: list[_Ranked] = []
    for pod in pods:
        usage = _usage(pod, basis)
        exclusion = protected_because(pod, protection)
        if exclusion is None and usage is None:
            exclusion = Exclusion.UNKNOWN_USAGE
        elif exclusion is None and usage is not None and usage < MIN_SHARE * missing:
            exclusion = Exclusion.TOO_SMALL
        if exclusion is not None:
            excluded[exclusion] += 1
        elif usage is not None:
            ranked.append(_Ranked(pod, usage, _growth(pod, basis)))
    if not ranked:
        return Choice(None, None, basis, "No pod of the node may be evicted.", dict(excluded))
    first = min(each.tier for each in ranked)
    equals = [each for each in ranked if each.tier == first]
    sufficient = [each for each in equals if each.usage >= missing]
    if sufficient:
        found = min(sufficient, key=lambda each: (each.usage, -each.excess - each.growth, *each.last_word))
    else:
        found = min(equals, key=lambda each: (-each.excess - each.growth, *each.last_word))
    reason = _reason(found, basis, missing, is_sufficient=bool(sufficient))
    return Choice(found.pod, found.usage, basis, reason, dict(excluded))


def _basis(pods: Sequence[Candidate], axis: Axis) -> Basis:
    if axis is Axis.COMMIT and any(_usage(pod, Basis.COMMIT) is not None for pod in pods):
        return Basis.COMMIT
    return Basis.WORKING_SET


def _usage(pod: Candidate, basis: Basis) -> float | None:
    """Return what the pod uses; None where it is unknown, and 0 is."""
    usage = pod.commit if basis is Basis.COMMIT else pod.working_set
    return usage if usage is not None and is_amount(usage) and usage > 0 else None


def _growth(pod: Candidate, basis: Basis) -> float:
    growth = pod.commit_growth if basis is Basis.COMMIT else pod.working_set_growth
    return growth if growth is not None and is_amount(growth) else 0.0


def _reason(found: _Ranked, basis: Basis, missing: float, *, is_sufficient: bool) -> str:
    verb = "has committed" if basis is Basis.COMMIT else "has a working set of"
    promised = rounded(int(abs(found.excess)))
    above = f"{promised} more than it requests" if found.excess > 0 else "within its request"
    short = rounded(int(missing))
    effect = (
        f"It is the smallest such pod whose eviction frees the {short} that the node is short of."
        if is_sufficient
        else f"No such pod alone frees the {short} that the node is short of. It uses most above its request."
    )
    return f"The pod {verb} {rounded(int(found.usage))}, {above}. {effect}"
