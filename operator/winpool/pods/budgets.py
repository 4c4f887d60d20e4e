"""PodDisruptionBudgets: which pods one is about, and whether it permits an eviction.

The API server decides. This is read before, so that no intent is written for a pod that it would refuse.
https://kubernetes.io/docs/tasks/run-application/configure-pdb/
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from winpool.pods.node_pods import NodePod

MAX_BUDGETS: Final = 1
"""Of a pod that can be evicted. The API server answers 500 where a pod has more."""

MOST_TERMS: Final = 5_000
"""Labels and requirements that are compared with each pod of a namespace: those of two thousand budgets. 250
pods of a node then take half a second, in which the operator does nothing else. Without this limit, anyone
who may create budgets in a namespace could make it minutes."""


@dataclass(frozen=True, slots=True)
class Requirement:
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


class Labelled(Protocol):
    """A pod, as far as it matters to budgets."""

    @property
    def namespace(self) -> str:
        """Its namespace."""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget.

    ``selects`` is False where it has no selector, and so is about no pod; an empty selector is about all pods
    of its namespace. ``allowed`` is how many pods may be evicted now; 0 where its status is older than its
    spec. ``lets_unready_go``: a pod that is not Ready is evicted whatever is allowed, by its
    ``unhealthyPodEvictionPolicy``.
    """

    namespace: str
    name: str
    selects: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    allowed: int = 0
    lets_unready_go: bool = False

    def is_about(self, pod: Labelled) -> bool:
        """Whether ``pod`` is one of those that it protects."""
        return (
            self.selects
            and pod.namespace == self.namespace
            and self.labels.items() <= pod.labels.items()
            and all(each.is_met_by(pod.labels) for each in self.requirements)
        )

    @property
    def terms(self) -> int:
        """How much there is to compare with a pod."""
        return 1 + len(self.labels) + len(self.requirements)


def with_budgets(pods: Iterable[NodePod], budgets: Iterable[Budget]) -> tuple[NodePod, ...]:
    """Return ``pods``, each with whether a budget permits no eviction of it now.

    ``Budget.lets_unready_go`` is not considered: such a pod stays, although it could go. In
    a namespace with more than MOST_TERMS all pods stay, since it is not found out which are protected (P4).
    """
    by_namespace: dict[str, list[Budget]] = {}
    for budget in budgets:
        by_namespace.setdefault(budget.namespace, []).append(budget)
    too_many = {
        namespace for namespace, own in by_namespace.items() if sum(each.terms for each in own) > MOST_TERMS
    }
    return tuple(
        replace(
            pod,
            is_blocked=pod.namespace in too_many or _is_blocked(pod, by_namespace.get(pod.namespace, ())),
        )
        for pod in pods
    )


def _is_blocked(pod: NodePod, budgets: Sequence[Budget]) -> bool:
    own = [each for each in budgets if each.is_about(pod)]
    return len(own) > MAX_BUDGETS or any(each.allowed < 1 for each in own)
