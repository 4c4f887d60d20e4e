"""Says which pods a PodDisruptionBudget is about, and whether the API server would evict a pod now.

The API server decides. This is read before, so that no intent is written for a pod that it would refuse, and
no node counts as due for an upgrade that could not be drained.
https://kubernetes.io/docs/tasks/run-application/configure-pdb/

There are up to 150,000 pods and as many budgets. So each pod is compared with those budgets only that ask for
a label that it has, and pods with the same labels once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from operator import attrgetter
from typing import Final

import msgspec

from winpool.api.text import grouped
from winpool.model.pods import WORKLOAD_EXAMPLES_KEPT, Block, BlockedBy, Pod

UNKNOWN_MOMENT: Final = float("-inf")
"""Of a list of which it is not known when it began: all that was ever answered may have come after it."""

OF_EACH: Final = 96
"""Bytes that a text takes in memory beside its characters, with its place and its share of a requirement."""


class Requirement(msgspec.Struct, frozen=True):
    """One requirement of a label selector, with the operators of meta/v1 LabelSelectorRequirement."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether ``labels`` meet it. An operator that is not known is always met (P4)."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        return True


class BudgetHealth(msgspec.Struct, frozen=True):
    """What the status of a PodDisruptionBudget says of its pods, in the words of policy/v1.

    ``is_current``: it is as new as the spec. ``is_settled``: no eviction is counted that its controller has
    not seen (``disruptedPods`` is empty). ``is_failing``: its controller cannot find out what is healthy
    (``SyncFailed``).
    """

    healthy: int = 0
    desired: int = 0
    expected: int = 0
    is_current: bool = False
    is_settled: bool = True
    is_failing: bool = False

    @property
    def is_never(self) -> bool:
        """Whether no eviction is allowed even when all pods are healthy, until a person changes something.

        Only a status that is current and settled can show it: with an eviction that is not counted yet, a
        budget looks worse than it is.
        """
        return self.is_current and self.is_settled and (self.is_failing or self.desired >= self.expected > 0)


class BudgetRoom(msgspec.Struct, frozen=True):
    """What one PodDisruptionBudget allows, as of one list. ``name`` is "namespace/name".

    ``allowed`` and ``lets_unready_go`` are those of ``Budget``.
    """

    name: str
    allowed: int = 0
    lets_unready_go: bool = False
    health: BudgetHealth = BudgetHealth()

    def is_closed_to(self, pod: Pod) -> bool:
        """Whether the API server would refuse to evict ``pod`` now."""
        return self.allowed < 1 and self.counts(pod)

    def counts(self, pod: Pod) -> bool:
        """Whether an eviction of ``pod`` takes one of the disruptions that are allowed."""
        return pod.is_ready or not self.lets_unready_go


class Budget(msgspec.Struct, frozen=True):
    """A PodDisruptionBudget.

    ``selects`` is False where it has no selector, and so is about no pod; an empty selector is about all pods
    of its namespace. ``allowed`` is how many pods may be evicted now; 0 where its status is older than its
    spec. ``lets_unready_go``: a pod that is not Ready is evicted whatever is allowed, by its
    ``unhealthyPodEvictionPolicy``. ``is_too_large``: its selector was not kept, so that it may be about any
    pod of its namespace. ``health`` distinguishes "never" from "not now".
    """

    namespace: str
    name: str
    selects: bool = True
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    allowed: int = 0
    lets_unready_go: bool = False
    is_too_large: bool = False
    health: BudgetHealth = BudgetHealth()

    @property
    def room(self) -> BudgetRoom:
        """What it allows, without its selector, which may be long."""
        return BudgetRoom(f"{self.namespace}/{self.name}", self.allowed, self.lets_unready_go, self.health)

    def is_about(self, pod: Pod) -> bool:
        """Whether ``pod`` is one of those that it protects."""
        return (
            self.selects
            and pod.namespace == self.namespace
            and self.labels.items() <= pod.labels.items()
            and all(each.is_met_by(pod.labels) for each in self.requirements)
        )

    @property
    def size(self) -> int:
        """How many bytes it takes, about: the characters of its selector, and OF_EACH for each text."""
        texts = [*self.labels, *self.labels.values()]
        for each in self.requirements:
            texts += (each.key, each.operator, *each.values)
        return OF_EACH * (4 + len(texts)) + sum(map(len, texts))

    @property
    def terms(self) -> int:
        """How much there is to compare with a pod."""
        return 1 + len(self.labels) + len(self.requirements)


MAX_BUDGETS: Final = 1
"""Of a pod that can be evicted. The API server answers 500 where a pod has more."""

MOST_TERMS: Final = 5_000
"""Labels and requirements that are compared with each pod of a namespace: those of two thousand budgets. Then
a pod takes 2 ms, and the 250 pods of a node half a second. Without this limit, anyone who may create budgets
in a namespace could make it minutes."""

MOST_COMPARED: Final = 500_000
"""Labels and requirements that are compared in one namespace, of one list: a fifth of a second. After that it
is not found out for pods with other labels. Someone who creates thousands of budgets for the same pods, and
pods with thousands of different labels, could otherwise stop the operator for minutes."""

_SETS_KEPT: Final = 256
"""Sets of labels whose budgets are remembered. Pods come in the order of their namespaces and names, so that
those of one workload come together."""

_LONGEST_SET_KEPT: Final = 32
"""A pod with more labels is compared each time and not remembered, so that no pod can make the operator keep
megabytes."""

Label = tuple[str, str]


class _Namespace(msgspec.Struct):
    """The budgets of a namespace: by one label that they ask for, and those that ask for none.

    ``left`` is how much may still be compared.
    """

    by_label: dict[Label, list[Budget]] = msgspec.field(default_factory=dict)
    others: list[Budget] = msgspec.field(default_factory=list)
    left: int = MOST_COMPARED


class BudgetIndex:
    """The budgets of the cluster, as of one list.

    ``began`` is when that list began, on the clock of ``model.pressure``; what was answered before is in it.
    """

    def __init__(self, budgets: Iterable[Budget], *, began: float = UNKNOWN_MOMENT) -> None:
        self.began = began
        found = grouped((each.namespace, each) for each in budgets if each.selects)
        self._namespaces = {name: _sorted_in(own) for name, own in found.items()}
        self._remembered: OrderedDict[tuple[str, frozenset[Label]], tuple[Budget, ...]] = OrderedDict()

    def block_of(self, pod: Pod) -> Block | None:
        """Return why the API server would not evict ``pod`` now; None where it would.

        By the rules of ``EvictionREST.Create`` in k8s.io/kubernetes, pkg/registry/core/pod/storage: it asks
        no budget about a pod in the phase Pending, and evicts no pod with more than one.
        """
        if pod.is_pending or pod.namespace not in self._namespaces:
            return None
        budgets = self._about(pod)
        if budgets is None:
            return Block(pod.full_name, BlockedBy.UNREADABLE)
        if len(budgets) > MAX_BUDGETS:
            return Block(pod.full_name, BlockedBy.SEVERAL_BUDGETS, _names(budgets))
        if any(each.allowed < 1 and not (each.lets_unready_go and not pod.is_ready) for each in budgets):
            return Block(pod.full_name, BlockedBy.NONE_ALLOWED, _names(budgets))
        return None

    def rooms_of(self, pod: Pod) -> tuple[BudgetRoom, ...]:
        """Return what the budgets of ``pod`` allow, the first few by name.

        Empty where the API server asks none, and where it cannot be found out: ``block_of`` says which.
        """
        if pod.is_pending or pod.namespace not in self._namespaces:
            return ()
        return tuple(each.room for each in self._about(pod) or ())

    def _about(self, pod: Pod) -> tuple[Budget, ...] | None:
        """Return the first budgets that are about ``pod``; None where there are too many to find out."""
        own = self._namespaces[pod.namespace]
        if own is None:
            return None
        if len(pod.labels) > _LONGEST_SET_KEPT:
            return _compared(pod, own)
        key = (pod.namespace, frozenset(pod.labels.items()))
        found = self._remembered.get(key)
        if found is None:
            found = _compared(pod, own)
            if found is not None:
                self._remembered[key] = found
                if len(self._remembered) > _SETS_KEPT:
                    self._remembered.popitem(last=False)
        return found


def _sorted_in(budgets: Sequence[Budget]) -> _Namespace | None:
    """Return the budgets of a namespace, each by that of its labels that the fewest others ask for."""
    if any(each.is_too_large for each in budgets) or sum(each.terms for each in budgets) > MOST_TERMS:
        return None
    asked = Counter(label for each in budgets for label in each.labels.items())
    found = _Namespace()
    for each in budgets:
        if each.labels:
            rarest = min(each.labels.items(), key=lambda label: (asked[label], label))
            found.by_label.setdefault(rarest, []).append(each)
        else:
            found.others.append(each)
    return found


def _compared(pod: Pod, own: _Namespace) -> tuple[Budget, ...] | None:
    if own.left < 0:
        return None
    candidates = list(_candidates(pod, own))
    own.left -= sum(each.terms for each in candidates)
    return _first(each for each in candidates if each.is_about(pod))


def _candidates(pod: Pod, own: _Namespace) -> Iterator[Budget]:
    yield from own.others
    for label in pod.labels.items():
        yield from own.by_label.get(label, ())


def _first(budgets: Iterable[Budget]) -> tuple[Budget, ...]:
    """Return the first few by name: of more than one only that they are several matters."""
    return tuple(nsmallest(WORKLOAD_EXAMPLES_KEPT, budgets, key=attrgetter("name")))


def _names(budgets: Iterable[Budget]) -> tuple[str, ...]:
    return tuple(each.name for each in budgets)
