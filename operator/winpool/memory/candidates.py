"""The pods of a node under pressure: what is known of each, and which of them are never evicted.

The list of those is in the code, and no setting shortens it: node agents, what the API server does not
manage, what no controller brings back, and what an admin has protected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.api.keys import NAMESPACE, SYSTEM_NAMESPACE_PREFIXES
from winpool.api.syntax import is_pool_name

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

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
