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
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.api.quantity import rounded
from winpool.memory.candidates import Behavior, Candidate, Exclusion, Protection, protected_because
from winpool.memory.samples import is_amount
from winpool.objects.pressure import Axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
