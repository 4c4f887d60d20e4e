"""The pods of one node, with what decides which of them may be evicted.

Another projection than ``pod``: no tolerations, but the UID, the priority, and what the pod requests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.node import Node


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod as the API server reports it.

    ``owner_kind`` is the kind of its controller, empty where it has none. ``is_static``: the kubelet reads it
    from a file or a URL. ``is_host_process``: a container of it runs on the host. ``is_finished``: Succeeded
    or Failed. ``created`` is None where the time cannot be read. ``requests`` is the memory that it requests,
    in bytes. ``deletion_cost`` is ``controller.kubernetes.io/pod-deletion-cost``. ``is_blocked``: a
    PodDisruptionBudget permits no eviction of it now; False also where no budgets were listed.
    """

    namespace: str
    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    owner_kind: str = ""
    priority: int = 0
    is_static: bool = False
    is_host_process: bool = False
    is_finished: bool = False
    is_terminating: bool = False
    created: datetime | None = None
    grace_seconds: int = 30
    requests: int = 0
    deletion_cost: int = 0
    is_blocked: bool = False


@dataclass(frozen=True, slots=True)
class NodePods:
    """All pods of a node that have not ended, from one list.

    ``started`` and ``began`` are when the list began, by the wall clock and by the clock of
    ``objects.pressure``. With ``has_budgets`` the PodDisruptionBudgets were listed after that, too. All of it
    took so many ``seconds``.
    """

    started: datetime
    began: float
    pods: tuple[NodePod, ...] = ()
    has_budgets: bool = False
    seconds: float = 0.0

    def of(self, uid: str) -> NodePod | None:
        """Return the pod with that UID; None where the node has none."""
        return next((each for each in self.pods if each.uid == uid), None)


@dataclass(frozen=True, slots=True)
class VictimLook:
    """A list of the pods of ``node`` that a pass asks for.

    ``watched`` are the UIDs of pods that are, or may be, being evicted there. ``with_budgets``: an eviction
    is next, so that the PodDisruptionBudgets are needed too.
    """

    node: Node
    watched: frozenset[str] = frozenset()
    with_budgets: bool = False
