"""The rules about a pod: whether it tolerates a taint, and whether it is on the wrong kind of machine.

Records and rules. A pod is kept only until these are answered: see ``survey``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from winpool.pods.pod_work import PodWork

NO_EXECUTE: Final = "NoExecute"
DAEMON_SET: Final = "DaemonSet"
LINUX: Final = "linux"

_EXISTS: Final = "Exists"
_EQUAL: Final = ("", "Equal")
"""The empty operator is Equal."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration as the pod has it. ``seconds`` (tolerationSeconds) is None for "for ever"."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod that is bound to a node, as the API server last reported it.

    ``os`` is ``spec.os.name``, empty where it is not set. ``controller_kind`` and ``controller`` are the
    owner that manages it, empty where there is none. ``is_critical``: of the priority class of node or
    cluster agents. ``is_finished``: Succeeded or Failed. ``is_mirror``: of a static pod, which the
    API server does not manage. ``is_pending``: in the phase Pending.
    ``platform_problem`` is why the kubelet reports that it is for another platform, empty where it does not.
    ``work`` is what matters where its node may be upgraded; None where that was not asked for, or cannot be
    read.
    """

    namespace: str
    name: str
    node: str
    os: str = ""
    controller_kind: str = ""
    controller: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    is_critical: bool = False
    is_ready: bool = False
    is_finished: bool = False
    is_terminating: bool = False
    is_mirror: bool = False
    is_pending: bool = False
    platform_problem: str = ""
    work: PodWork | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write it."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_of_daemon_set(self) -> bool:
        """Whether a DaemonSet manages it: by the kind alone, as kubectl drain does.

        So DaemonSets of other API groups count too, which also run agents on every node.
        """
        return self.controller_kind == DAEMON_SET

    @property
    def is_evicted_by_drain(self) -> bool:
        """Whether a drain evicts it: no DaemonSet manages it, and a taint can still affect it."""
        return self.heeds_taints and not self.is_of_daemon_set

    @property
    def heeds_taints(self) -> bool:
        """Whether a taint can still affect it: it is not finished, terminating, or a mirror pod."""
        return not (self.is_finished or self.is_terminating or self.is_mirror)


def tolerates(tolerations: Iterable[Toleration], *, key: str, value: str, effect: str) -> bool:
    """Whether a pod with these tolerations may stay on a node with this taint without a time limit.

    The rules are those of ``Toleration.ToleratesTaint`` (k8s.io/api/core/v1/toleration.go): an empty
    effect matches every effect, an empty key every key, the operator Exists every value. Of several that
    match a NoExecute taint the first decides (``GetMatchingTolerations``, used by the taint eviction
    controller). Where it has tolerationSeconds, the pod is deleted when they are over, so it does not
    tolerate the taint.

    An unknown operator counts as not matching. Lt and Gt (KEP-5471) are unknown here: whether they have an
    effect depends on a feature gate of the cluster, which clients cannot see.
    """
    for each in tolerations:
        if (each.effect and each.effect != effect) or (each.key and each.key != key):
            continue
        is_limited = effect == NO_EXECUTE and each.seconds is not None
        if each.operator == _EXISTS or (each.operator in _EQUAL and each.value == value):
            return not is_limited
        if is_limited and each.operator not in _EQUAL:
            return False  # it may be the one that decides, and then the pod is deleted
    return False


def misplaced_because(pod: Pod) -> str:
    """Return the evidence that ``pod``, which is on a Windows node, cannot run there; empty without evidence.

    A pod that is being deleted is no longer misplaced. A missing field is not evidence (P4).
    """
    if pod.is_terminating:
        return ""
    if pod.os == LINUX:
        return "its spec.os.name is linux"
    return pod.platform_problem
