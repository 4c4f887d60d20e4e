"""What a pass may do to the cluster beside its own pool: patch a node, evict a pod, write node conditions.

Each has its precondition: the resourceVersion of the node, or the UID of the pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.node import Node, NodeCondition, Taint
    from winpool.objects.pressure import Axis


@dataclass(frozen=True, slots=True)
class NodePatch:
    """The one merge patch that a pass sends to a node.

    It has the resourceVersion of ``node``, so that it fails with 409 instead of
    overwriting what someone wrote meanwhile. None as a label or annotation value removes
    the key; ``taints`` is the whole list for the node. None for ``taints`` or ``unschedulable`` does not
    change it. ``goal`` is the target state of the node: it is only compared, to distinguish the repetition of
    a write that someone undid from a write with another purpose.
    """

    node: Node
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    taints: tuple[Taint, ...] | None
    unschedulable: bool | None = None
    goal: object = None


@dataclass(frozen=True, slots=True)
class Premise:
    """What an eviction for memory pressure was decided on: ``node`` as it was, and its pressure on ``axis``.

    ``intended_at`` is the time of the intent on the node. ``max_pressured_nodes`` is that of the spec of
    the pool.
    """

    node: Node
    axis: Axis
    intended_at: datetime
    max_pressured_nodes: int | str


@dataclass(frozen=True, slots=True)
class Eviction:
    """One pod to be evicted, through the Eviction API, with its UID as precondition (P5).

    ``node`` is where it runs, ``why`` is for the log. Where a detector of memory pressure waits for what it
    returns, ``node_uid`` is the UID of the node, and ``share`` what the pod was measured to have, in bytes;
    ``premise`` is then checked again right before the request.
    """

    namespace: str
    name: str
    uid: str
    node: str
    why: str
    node_uid: str = ""
    share: float | None = None
    premise: Premise | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write it."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class ConditionsPatch:
    """All conditions of ours that ``node`` is to have; others of ours are removed."""

    node: Node
    conditions: tuple[NodeCondition, ...]


@dataclass(frozen=True, slots=True)
class Acts:
    """What a pass is to do to nodes and pods: at most one patch, and one set of conditions, for each node."""

    patches: tuple[NodePatch, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    conditions: tuple[ConditionsPatch, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.patches or self.evictions or self.conditions)


NO_ACTS: Final = Acts()
