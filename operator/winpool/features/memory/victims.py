"""Chooses the pod of a node under pressure to evict: the smallest that suffices, of those that go first.

Pods are in an order of three steps, which is that of the kubelet with the rules of the pool added:

1. Pods that use more than they request, before pods that use what they were promised.
2. Pods of lower priority.
3. Pods that a rule of the pool prefers.

Of the pods that are equal in all three, the smallest that alone frees what is missing is evicted. Where none
does, it is the one that uses most above its request, with what it has grown since its node was calm. Then the
lower deletion cost decides, then the younger age. Pods with less than a twentieth of what is missing stay.

Pods that have not grown since the node was calm stay, as do those that have grown by little beside the one
that grew most, and all where together they have grown by little beside the node. If the pod that has grown
most may not be evicted, or such pods have most of the growth, no other is evicted in their place: what it
frees would be used up as well.

On COMMIT what counts is what a pod has committed, on PHYSICAL its private working set. On COMMIT where no
pod's commit is known, which is so with most kubelets, the working set has to do. A pod whose usage is unknown
is never evicted, unlike the kubelet does it: 0 on Windows means missing.
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction

A pod that asks not to be disrupted is evicted only at Hard, and only if it uses most above its request. Below
Hard no other pod is evicted in its place. A rule of the pool that prefers it overrides all of that.

Never evicted are node agents, what the API server does not manage, what no controller brings back, and what
an admin has protected. That list is in the code, and no setting shortens it.

What a pod has grown is seen by lists of the pods of calm nodes, now and then (``PodHistory``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from enum import Enum
from math import inf
from operator import itemgetter
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from winpool.api.fields import is_pool_name
from winpool.api.keys import NAMESPACE, SYSTEM_NAMESPACE_PREFIXES
from winpool.api.memory_pressure import EvictionBehavior, EvictionRule
from winpool.api.quantity import rounded
from winpool.api.selector import selects
from winpool.features.memory.settings import EVIDENCE_SECONDS
from winpool.model.node_pods import Answer, Answered, NodePods
from winpool.model.pods import EvictionFacts, Pod
from winpool.model.pressure import NO_USAGE, Axis, PodUsage, UsageSinceCalm, is_amount

SYSTEM_PRIORITY: Final = 2_000_000_000
"""``system-cluster-critical`` and above. Kubernetes reserves priorities from here on.
https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/"""

SYSTEM_NAMESPACES: Final = (NAMESPACE,)

GROWER_SHARE: Final = 0.25
"""A pod that grew by less than this share of what grew most is no cause of the pressure."""
MOST_OF_GROWTH: Final = 0.5
"""Pods with more than this share of all growth are the cause."""
EXPLAINED_SHARE: Final = 0.25
"""Pods that grew by less than this share of what the node has committed more are not the cause. It is no
half, since working sets are trimmed where RAM is short, and a pod has more than what is in RAM."""

GROWN_SHARE: Final = 0.02
"""Nor are pods that grew by less than this share of what is missing: what pods have varies."""

OWN_GROWN_SHARE: Final = 0.05
"""Nor is one that has committed so little more than before, unless it has its part of most of what the node
has committed more. With working sets alone, a leak would be found too late."""
LEAK_RATIO: Final = 3.0
"""That part is so many times what any pod has less: otherwise they vary."""

MIN_SHARE: Final = 0.05
"""Evicting a pod with a smaller share of what is missing is a disruption without an effect. Nor is less
growth of all pods the cause, where it is not known how much more the node has committed."""


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
    BUDGETS_UNREAD = "PodDisruptionBudgets that are too large or too many to be read"
    BUDGET = "PodDisruptionBudget"
    UNKNOWN_USAGE = "unknown usage"
    ASKS_TO_STAY = "asks not to be disrupted"
    ANOTHER_ASKS_TO_STAY = "another one asks not to be disrupted"
    TOO_SMALL = "too small"
    ANOTHER_GROWS = "another one grows, and may not be evicted"
    NOT_GROWING = "has not grown since the node was calm"


class Basis(Enum):
    """By what pods are compared."""

    COMMIT = "Commit"
    WORKING_SET = "WorkingSet"


class Candidate(msgspec.Struct, frozen=True):
    """A ``pod`` on the node, with the ``facts`` about it, and what it uses.

    ``age_seconds`` is negative where it is not known. ``is_blocked``: a PodDisruptionBudget permits no
    eviction now, or has refused this one. ``is_unread``: that is not known, since the budgets of its
    namespace are too large or too many. ``behavior`` is what the rules of the pool say of it, None where none
    matches.
    """

    pod: Pod
    facts: EvictionFacts
    usage: PodUsage = NO_USAGE
    age_seconds: float = 0.0
    is_blocked: bool = False
    is_unread: bool = False
    behavior: EvictionBehavior | None = None

    @property
    def asks_to_stay(self) -> bool:
        """Whether it is not to be disrupted, as far as the rules of the pool do not prefer it."""
        return self.facts.asks_to_stay and self.behavior is not EvictionBehavior.PREFER

    def used(self, basis: Basis) -> float | None:
        """Return what the pod uses, in bytes; None where it is unknown, and 0 is."""
        used = self.usage.commit if basis is Basis.COMMIT else self.usage.working_set
        return used if used is not None and is_amount(used) and used > 0 else None

    def excess(self, basis: Basis) -> float:
        """Return how much more than it requests the pod uses."""
        return (self.used(basis) or 0.0) - self.facts.requests

    def growth(self, basis: Basis) -> float:
        """Return by how many bytes it grew since its node was calm; 0 if it did not, or that is unknown."""
        grown = self.usage.commit_growth if basis is Basis.COMMIT else self.usage.working_set_growth
        return grown if grown is not None and is_amount(grown) else 0.0

    def tier(self, basis: Basis) -> tuple[bool, int, bool]:
        """Return its place in the three steps; the smallest goes first."""
        return (self.excess(basis) <= 0, self.facts.priority, self.behavior is not EvictionBehavior.PREFER)

    def rank(self, basis: Basis) -> tuple[object, ...]:
        """Return what decides between pods of one tier.

        That is the excess and by how much the usage grew since the node was calm, then the deletion cost and
        the age, and names, so that the order of pods does not decide.
        """
        pod, cost = self.pod, self.facts.deletion_cost
        weight = self.excess(basis) + self.growth(basis)
        return (-weight, cost, self.age_seconds, pod.namespace, pod.name, pod.uid)


class Protection(msgspec.Struct, frozen=True):
    """What the operator and the pool protect beyond the list in the code.

    A pod that is younger than ``min_pod_age_seconds`` has not shown yet what it needs.
    """

    namespaces: AbstractSet[str] = msgspec.field(default_factory=frozenset)
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


def protected_because(candidate: Candidate, protection: Protection) -> Exclusion | None:
    """Return why a pod is never evicted, or not now, whatever it uses; None where it may be."""
    pod, facts = candidate.pod, candidate.facts
    reasons = {
        Exclusion.FINISHED: pod.is_finished,
        Exclusion.TERMINATING: pod.is_terminating,
        Exclusion.STATIC: pod.is_static,
        Exclusion.SYSTEM_PRIORITY: facts.priority >= SYSTEM_PRIORITY,
        Exclusion.DAEMON_SET: pod.is_of_daemon_set,
        Exclusion.HOST_PROCESS: facts.is_host_process,
        Exclusion.SYSTEM_NAMESPACE: is_system_namespace(pod.namespace)
        or pod.namespace in protection.namespaces,
        Exclusion.RULE: candidate.behavior is EvictionBehavior.NEVER,
        Exclusion.NO_CONTROLLER: not pod.controller_kind,
        Exclusion.TOO_YOUNG: not candidate.age_seconds >= protection.min_pod_age_seconds,
        Exclusion.BUDGETS_UNREAD: candidate.is_unread,
        Exclusion.BUDGET: candidate.is_blocked,
    }
    return next((exclusion for exclusion, is_true in reasons.items() if is_true), None)


def candidates_of(
    pods: NodePods,
    *,
    usage: UsageSinceCalm,
    rules: Sequence[EvictionRule],
    answers: Mapping[str, Answered],
    now: datetime,
) -> tuple[Candidate, ...]:
    """Return a candidate for each pod. A pod that was refused lately is blocked."""
    refused = {uid for uid, each in answers.items() if each.answer is Answer.REFUSED}
    return tuple(
        Candidate(
            pod=pod,
            facts=facts,
            usage=usage.pods.get(pod.uid, NO_USAGE),
            # One whose age is not known, or that is from the future, is too young.
            age_seconds=-1.0 if facts.created is None else (now - facts.created).total_seconds(),
            is_blocked=pod.uid in refused or pod.uid in (pods.blocked or ()),
            is_unread=pod.uid in pods.unread,
            behavior=next((rule.behavior for rule in rules if _matches(rule, pod)), None),
        )
        for pod in pods.pods
        if (facts := pod.eviction) is not None
    )


def _matches(rule: EvictionRule, pod: Pod) -> bool:
    if rule.namespaces and pod.namespace not in rule.namespaces:
        return False
    return rule.pod_selector is None or selects(rule.pod_selector, pod.labels)


class Choice(msgspec.Struct, frozen=True):
    """Which pod is next. ``victim`` is None where none may be evicted.

    ``usage`` is what it uses by the ``basis``, in bytes. ``reason`` is a sentence for people. ``excluded``
    counts the others by why they are not evicted; those that only rank after the victim are not in it.
    ``unread`` are the namespaces of those whose budgets are too large or too many to be read. ``grower`` is
    the pod that grows and may not be evicted, for which all others stay.
    """

    victim: Candidate | None
    usage: float | None
    basis: Basis
    reason: str
    excluded: Mapping[Exclusion, int]
    unread: frozenset[str] = frozenset()
    grower: Pod | None = None


def judge(
    candidates: Sequence[Candidate],
    *,
    axis: Axis,
    missing: float,
    protection: Protection,
    is_hard: bool,
    grown: float | None = None,
    by_growth: bool = True,
) -> tuple[Basis, list[tuple[Candidate, Exclusion | None]]]:
    """Return by what the pods of a node are compared, and why each is not evicted; None where it may be.

    ``missing`` are the bytes that have to become free on ``axis``, ``grown`` how much more the node has
    committed than when it was calm, None where that is unknown. ``by_growth`` is False where the growth of
    the pods since then is not known.
    """
    basis = Basis.WORKING_SET
    if axis is Axis.COMMIT and any(each.used(Basis.COMMIT) is not None for each in candidates):
        basis = Basis.COMMIT
    found: list[tuple[Candidate, Exclusion | None]] = []
    for each in candidates:
        used = each.used(basis)
        exclusion = protected_because(each, protection)
        if exclusion is None and used is None:
            exclusion = Exclusion.UNKNOWN_USAGE
        elif exclusion is None and used is not None and used < MIN_SHARE * missing:
            exclusion = Exclusion.TOO_SMALL
        found.append((each, exclusion))
    if by_growth:
        floor = MIN_SHARE if grown is None else GROWN_SHARE
        needed = max(floor * missing, EXPLAINED_SHARE * (grown or 0.0))
        found = _of_growers(found, basis, needed)
        if basis is Basis.COMMIT:
            found = _of_leaks(found, inf if grown is None else grown, floor * missing)
    eligible = [each for each, exclusion in found if exclusion is None]
    if any(each.asks_to_stay for each in eligible):
        culprit = min(eligible, key=lambda each: each.rank(basis))
        found = [(each, why or _stays_because(each, culprit, is_hard=is_hard)) for each, why in found]
    return basis, found


def _of_growers(
    found: list[tuple[Candidate, Exclusion | None]], basis: Basis, needed: float
) -> list[tuple[Candidate, Exclusion | None]]:
    """Return them with those excluded that have not grown; with all, where most of the growth has to stay.

    ``needed`` is how much of the growth is to be that of pods.
    """
    growth = {each.pod.uid: each.growth(basis) for each, _ in found}
    most, total = max(growth.values(), default=0.0), sum(growth.values())
    staying = [growth[each.pod.uid] for each, why in found if why is not None]
    going = max((growth[each.pod.uid] for each, why in found if why is None), default=0.0)
    stays = most > going or sum(staying) > MOST_OF_GROWTH * total

    def stays_because(each: Candidate) -> Exclusion | None:
        grown = growth[each.pod.uid]
        if total <= 0 or total < needed:
            return Exclusion.NOT_GROWING
        if stays:
            return Exclusion.ANOTHER_GROWS
        return Exclusion.NOT_GROWING if grown < GROWER_SHARE * most else None

    return [(each, why or stays_because(each)) for each, why in found]


def _of_leaks(
    found: list[tuple[Candidate, Exclusion | None]], grown: float, least: float
) -> list[tuple[Candidate, Exclusion | None]]:
    """Return them with those excluded that have hardly more than before, and may merely vary.

    The node has committed ``grown`` bytes more, infinity where that is unknown. Less than ``least`` bytes of
    a pod are no leak.
    """
    growth = [each.growth(Basis.COMMIT) for each, _ in found]
    growers = sum(each >= GROWER_SHARE * max(growth) for each in growth)
    varies = max(-(each.usage.commit_growth or 0.0) for each, _ in found)
    clear = max(least, MOST_OF_GROWTH * grown / growers, LEAK_RATIO * varies)

    def stays_because(each: Candidate) -> Exclusion | None:
        little = min(clear, OWN_GROWN_SHARE * (each.used(Basis.COMMIT) or 0.0))
        return Exclusion.NOT_GROWING if each.growth(Basis.COMMIT) < little else None

    return [(each, why or stays_because(each)) for each, why in found]


def _stays_because(each: Candidate, culprit: Candidate, *, is_hard: bool) -> Exclusion | None:
    """Return why a pod does not go, where some of those that may ask not to be disrupted."""
    if each.asks_to_stay and not (each is culprit and is_hard):
        return Exclusion.ASKS_TO_STAY
    return Exclusion.ANOTHER_ASKS_TO_STAY if culprit.asks_to_stay and each is not culprit else None


def choose(
    candidates: Sequence[Candidate],
    *,
    axis: Axis,
    missing: float,
    protection: Protection,
    is_hard: bool,
    grown: float | None = None,
) -> Choice:
    """Return which of the pods of a node to evict so that ``missing`` bytes become free on ``axis``."""
    basis, judged = judge(
        candidates, axis=axis, missing=missing, protection=protection, is_hard=is_hard, grown=grown
    )
    excluded = Counter(exclusion for _, exclusion in judged if exclusion is not None)
    unread = frozenset(each.pod.namespace for each, why in judged if why is Exclusion.BUDGETS_UNREAD)
    eligible = [(each.used(basis) or 0.0, each) for each, exclusion in judged if exclusion is None]
    if not eligible:
        grower = None
        if Exclusion.ANOTHER_GROWS in excluded:
            staying = (each for each, why in judged if why is not Exclusion.ANOTHER_GROWS)
            grower = max(staying, key=lambda each: (each.growth(basis), each.pod.full_name)).pod
        return Choice(None, None, basis, "No pod of the node may be evicted.", dict(excluded), unread, grower)
    first = min(each.tier(basis) for _, each in eligible)
    equals = [(used, each) for used, each in eligible if each.tier(basis) == first]
    sufficient = [(used, each.rank(basis), each) for used, each in equals if used >= missing]
    if sufficient:
        used, _, found = min(sufficient, key=itemgetter(0, 1))
    else:
        used, found = min(equals, key=lambda each: each[1].rank(basis))
    reason = _reason(found, used, basis, missing, is_sufficient=bool(sufficient))
    return Choice(found, used, basis, reason, dict(excluded), unread)


def _reason(found: Candidate, used: float, basis: Basis, missing: float, *, is_sufficient: bool) -> str:
    verb = "has committed" if basis is Basis.COMMIT else "has a working set of"
    excess = found.excess(basis)
    promised = rounded(int(abs(excess)))
    above = f"{promised} more than it requests" if excess > 0 else "within its request"
    short = rounded(int(missing))
    effect = (
        f"It is the smallest such pod whose eviction frees the {short} that the node is short of."
        if is_sufficient
        else f"No such pod alone frees the {short} that the node is short of. It uses most above its request."
    )
    return f"The pod {verb} {rounded(int(used))}, {above}. {effect}"


CALM_LIST_SECONDS: Final = 300.0
"""Between two lists of the pods of a calm node, one in five of its polls (P7)."""
REBASE_SECONDS: Final = 3600.0
"""On a node that stays under pressure, growth is that of the last one to two hours: most of what pods
became in weeks is no part of what happens now."""


class PodList(NamedTuple):
    """What pods used ``at`` a time, by their UIDs, and what the node had ``committed``, None if unknown."""

    at: float
    pods: Mapping[str, PodUsage]
    committed: float | None


class PodHistory(msgspec.Struct, frozen=True):
    """The lists of the pods of a node.

    ``bases`` are at most two, the older first, from which growth is counted: the last list of when the node
    was calm, or the first one if it was not calm since the start. ``last`` is the newest.
    """

    bases: tuple[PodList, ...] = ()
    last: PodList | None = None

    def is_due(self, *, now: float) -> bool:
        """Whether the pods of a calm node are to be listed."""
        return self.last is None or now - self.last.at >= CALM_LIST_SECONDS

    def listed(
        self, pods: Mapping[str, PodUsage], *, at: float, is_calm: bool, committed: float | None
    ) -> PodHistory:
        """Return it with a list of the pods that arrived at ``at``, with what the node had committed.

        A number that is missing in a base is that of the list before or after it. A pod that is in neither
        has started since: all that it has is growth.
        """
        last = PodList(at, pods, committed)
        if is_calm or not self.bases:
            before = {} if self.last is None else self.last.pods
            known = {uid: _first(each, before.get(uid, NO_USAGE)) for uid, each in pods.items()}
            return PodHistory((PodList(at, {**before, **known}, committed),), last)
        bases = tuple(_with_next(each, last) for each in self.bases)
        if at - bases[-1].at >= REBASE_SECONDS:
            bases = (bases[-1], last)
        return PodHistory(bases, last)

    def usage(self, *, now: float, committed: float | None) -> UsageSinceCalm | None:
        """Return what each pod uses, and its growth; None where the last list is too old for evidence.

        ``committed`` is what the node has committed now, None where that is unknown.
        """
        if self.last is None or now - self.last.at > EVIDENCE_SECONDS:
            return None
        base = self.bases[0]
        grown = None if committed is None or base.committed is None else committed - base.committed
        return UsageSinceCalm(grown_pods(base.pods, self.last.pods), grown)


NO_PODS: Final = PodHistory()


def _with_next(base: PodList, following: PodList) -> PodList:
    pods = {uid: _first(each, following.pods.get(uid, NO_USAGE)) for uid, each in base.pods.items()}
    return PodList(base.at, pods, following.committed if base.committed is None else base.committed)


def _first(known: PodUsage, other: PodUsage) -> PodUsage:
    """Return what is ``known`` of a pod, with the numbers of ``other`` that it lacks."""
    if known.commit is not None and known.working_set is not None:
        return known
    return PodUsage(
        other.commit if known.commit is None else known.commit,
        other.working_set if known.working_set is None else known.working_set,
    )


def grown_pods(first: Mapping[str, PodUsage], last: Mapping[str, PodUsage]) -> dict[str, PodUsage]:
    """Return the ``last`` list of what pods use, by their UIDs, with the growth since the ``first``.

    A pod that is not in the first one has grown by all that it has.
    """
    return {
        uid: replace(
            each,
            commit_growth=_growth(each.commit, before.commit),
            working_set_growth=_growth(each.working_set, before.working_set),
        )
        for uid, each in last.items()
        for before in (first.get(uid, _NOTHING),)
    }


_NOTHING: Final = PodUsage(0.0, 0.0)


def _growth(now: float | None, before: float | None) -> float | None:
    return None if now is None or before is None else now - before
