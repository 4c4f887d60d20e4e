"""The pods of one node under memory pressure, and what this process knows of the evictions it asked for.

The pods of one node, with what decides which of them may be evicted.

Another projection than ``pod``: no tolerations, but the UID, the priority, and what the pod requests.

What this process knows of the evictions that it has asked for, and of the pods of their nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Final

from winpool.model.node import Node


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


class Answer(Enum):
    """The last that is known of the eviction of a pod."""

    ASKED = "asked"
    """A request is under way, or had no answer: it may still be carried out."""
    ACCEPTED = "accepted"
    """The pod is being deleted."""
    REFUSED = "refused"
    """A PodDisruptionBudget, or an admission policy, permits it not now."""
    GONE = "gone"
    """There is no pod with this UID any more."""


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer. ``at`` is when it came, on the clock of ``objects.pressure``; of GONE, the first time.

    ``said`` is why it was refused, for people. ``node_uid`` is the node that the pod is, or was, on; empty
    where that is not known.
    """

    answer: Answer
    at: float
    said: str = ""
    node_uid: str = ""

    def is_about(self, node_uid: str) -> bool:
        """Whether it may be about a pod of that node."""
        return self.node_uid in ("", node_uid)


@dataclass(frozen=True, slots=True)
class KnownEvictions:
    """What a pass knows of evictions.

    ``pods`` are the last lists of pods, ``problems`` why the last list failed, both by the UIDs of the nodes.
    ``forbidden`` says which right is missing: to list pods or PodDisruptionBudgets, or to evict pods.
    ``forbidden_until`` is when that ends unless it is refused again; None where nothing is missing.
    ``answers`` are by the UIDs of the pods. ``protected`` are namespaces that the operator's settings
    protect. ``read_at`` is the moment of the snapshot on the clock of ``objects.pressure``.
    """

    pods: Mapping[str, NodePods] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    forbidden: str = ""
    forbidden_until: datetime | None = None
    answers: Mapping[str, Answered] = field(default_factory=dict)
    protected: frozenset[str] = frozenset()
    read_at: float = 0.0

    def under_way(self) -> dict[str, set[str]]:
        """Return the UIDs of the pods that are being deleted by requests of this process, by their nodes."""
        found: dict[str, set[str]] = {}
        for uid, each in self.answers.items():
            if each.answer is Answer.ACCEPTED and each.node_uid:
                found.setdefault(each.node_uid, set()).add(uid)
        return found

    def answer_on(self, node_uid: str, pod_uid: str) -> Answered | None:
        """Return the last answer about a pod, as a pod of that node.

        Who can annotate a node can name any pod on it. That another node does not have the pod says nothing.
        """
        found = self.answers.get(pod_uid)
        return found if found is not None and found.is_about(node_uid) else None


NOTHING_EVICTED: Final = KnownEvictions()
