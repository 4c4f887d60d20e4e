"""PodDisruptionBudgets: which pods one is about, and whether it permits an eviction.

The API server decides. This is read before, so that no intent is written for a pod that it would refuse.
https://kubernetes.io/docs/tasks/run-application/configure-pdb/
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.pods.node_pods import NodePod

MAX_BUDGETS = 1
"""Of a pod that can be evicted. The API server answers 500 where a pod has more."""


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


@dataclass(frozen=True, slots=True)
class Budget:
    """A PodDisruptionBudget.

    ``selects`` is False where it has no selector, and so is about no pod; an empty selector is about all pods
    of its namespace. ``allowed`` is how many pods may be evicted now; 0 where its status is older than its
    spec.
    """

    namespace: str
    name: str
    selects: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
    allowed: int = 0

    def is_about(self, pod: NodePod) -> bool:
        """Whether ``pod`` is one of those that it protects."""
        return (
            self.selects
            and pod.namespace == self.namespace
            and self.labels.items() <= pod.labels.items()
            and all(each.is_met_by(pod.labels) for each in self.requirements)
        )


def with_budgets(pods: Iterable[NodePod], budgets: Iterable[Budget]) -> tuple[NodePod, ...]:
    """Return ``pods``, each with whether a budget permits no eviction of it now.

    ``unhealthyPodEvictionPolicy: AlwaysAllow`` is not considered: such a pod stays, although it could go.
    """
    by_namespace: dict[str, list[Budget]] = {}
    for budget in budgets:
        by_namespace.setdefault(budget.namespace, []).append(budget)
    found: list[NodePod] = []
    for pod in pods:
        own = [each for each in by_namespace.get(pod.namespace, ()) if each.is_about(pod)]
        is_blocked = len(own) > MAX_BUDGETS or any(each.allowed < 1 for each in own)
        found.append(replace(pod, is_blocked=is_blocked))
    return tuple(found)
