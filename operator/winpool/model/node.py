"""Keeps a node as the few fields that a rule needs, and the writes that a pass may make to nodes and pods.

A heartbeat changes none of these fields, so it compares equal and wakes no pool. Each write has its
precondition: the resourceVersion of the node, or the UID of the pod. People ask the operator to write nothing
to a node by an annotation, the hold. Its value is empty, or the time at which the hold ends; any other value
holds too, since who wrote it wanted a hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter
from typing import Final

import msgspec

from winpool.api.keys import APPLIED_ANNOTATION, HOLD_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.text import read_moment
from winpool.api.upgrade import UpgradeState
from winpool.model.pressure import Axis


class Keys(msgspec.Struct, frozen=True):
    """Labels and annotations by their keys, taints by key and effect, and whether a cordon is included."""

    labels: frozenset[str] = frozenset()
    taints: frozenset[tuple[str, str]] = frozenset()
    annotations: frozenset[str] = frozenset()
    unschedulable: bool = False

    def __or__(self, other: Keys) -> Keys:
        """Return those of both."""
        if not other or not self:
            return self or other
        return Keys(
            self.labels | other.labels,
            self.taints | other.taints,
            self.annotations | other.annotations,
            unschedulable=self.unschedulable or other.unschedulable,
        )

    def __sub__(self, other: Keys) -> Keys:
        """Return those that ``other`` does not have."""
        return Keys(
            self.labels - other.labels,
            self.taints - other.taints,
            self.annotations - other.annotations,
            unschedulable=self.unschedulable and not other.unschedulable,
        )

    def __and__(self, other: Keys) -> Keys:
        """Return those that both have."""
        if not other or not self:
            return NO_KEYS
        return Keys(
            self.labels & other.labels,
            self.taints & other.taints,
            self.annotations & other.annotations,
            unschedulable=self.unschedulable and other.unschedulable,
        )

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.labels or self.taints or self.annotations or self.unschedulable)

    @property
    def count(self) -> int:
        """How many labels and taints there are."""
        return len(self.labels) + len(self.taints)


NO_KEYS: Final = Keys()


REASON_LENGTH: Final = 128
"""Characters of a condition's reason that are kept: it is one word in CamelCase."""

MESSAGE_LENGTH: Final = 1024
"""Characters of a condition's message that are kept: a few sentences. The API server limits neither."""


class Taint(msgspec.Struct, frozen=True):
    """A taint as it is on a node, with all its fields: the list is sent back whole (it is atomic).

    ``time_added`` is the RFC 3339 text of the API server. Of the taints that we add, only those that are
    removed after a time have one. A struct, since every pass looks up the taints of each node.
    """

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """Key and effect: what the API server requires to be unique within a node."""
        return (self.key, self.effect)

    @property
    def added(self) -> datetime | None:
        """When it was added, by the clock of the client that added it; None where it has no time."""
        return read_moment(self.time_added)


class NodeVersions(msgspec.Struct, frozen=True):
    """The versions that a node reports, in its own words (``status.nodeInfo``); empty where it reports none.

    ``kernel`` is ``10.0.20348.4052`` on Windows, ``runtime`` is like ``containerd://2.1.4``, ``image`` like
    ``Windows Server 2022 Datacenter``.
    """

    kernel: str = ""
    kubelet: str = ""
    runtime: str = ""
    image: str = ""


class NodeMemory(msgspec.Struct, frozen=True):
    """The memory that a node reports, in bytes; None where it reports none, or it cannot be read.

    What its kubelet reserves is the difference.
    """

    capacity: int | None = None
    allocatable: int | None = None


class Allocatable(msgspec.Struct, frozen=True):
    """What a node has for pods beside memory: CPU in thousandths of a core, and how many pods.

    None where it reports none, or it cannot be read. Its memory is in ``NodeMemory``.
    """

    cpu_milli: int | None = None
    pods: int | None = None


class KubeletEndpoint(msgspec.Struct, frozen=True):
    """Where a node says that its kubelet listens, in its own words: nothing of it is to be believed.

    ``address`` is the first InternalIP, empty where it reports none. ``port`` is that of
    ``status.daemonEndpoints``, None where it reports none.
    """

    address: str = ""
    port: int | None = None


class NodeCondition(msgspec.Struct, frozen=True, eq=False):
    """A condition of a node: one that we write, or one that it has.

    ``status`` is "True", "False" or "Unknown". ``since`` is when that status began, None where it is not
    known; it is not compared, and a condition that we want needs none. A reason above REASON_LENGTH or a
    message above MESSAGE_LENGTH is cut when it is read, so we never write one.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None

    def __eq__(self, other: object) -> bool:
        """Whether they say the same, since whenever."""
        return isinstance(other, NodeCondition) and _said(self) == _said(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        """Return the same for conditions that are equal."""
        return hash(_said(self))


_said: Final = attrgetter("type", "status", "reason", "message")


class Node(msgspec.Struct, frozen=True, eq=False):
    """A Windows node as the API server last reported it.

    ``ready`` is the status of its Ready condition ("True", "False", "Unknown"), or "Unknown" where the
    condition is absent, ``ready_since`` when that status began by the kubelet's clock. ``unready`` is what a
    Ready that is not "True" says, without what changes with each heartbeat; empty otherwise. ``created`` is
    the API server's time of creation. Times that cannot be read are None. ``annotations`` and
    ``conditions`` have only those of the table of our keys (``api.keys``), conditions in the order of
    their types. ``kubelet_pressure`` is the status of the kubelet's own condition MemoryPressure, "Unknown"
    where it is absent. ``boot_id`` is that of ``nodeInfo``, empty where it reports none: another
    one means that the machine was started again. ``system_uuid`` is that of the machine, also from there.
    ``resource_version`` is the server's own text.
    """

    name: str
    uid: str
    resource_version: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: str
    deleting: bool = False
    versions: NodeVersions = NodeVersions()
    created: datetime | None = None
    ready_since: datetime | None = None
    memory: NodeMemory = NodeMemory()
    conditions: tuple[NodeCondition, ...] = ()
    kubelet: KubeletEndpoint = KubeletEndpoint()
    kubelet_pressure: str = "Unknown"
    boot_id: str = ""
    system_uuid: str = ""
    allocatable: Allocatable = Allocatable()
    unready: str = ""

    def __eq__(self, other: object) -> bool:
        """Whether all but the resourceVersion is equal: a heartbeat changes nothing else that is kept."""
        return isinstance(other, Node) and _kept(self) == _kept(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # labels and annotations are dicts


_kept: Final = attrgetter(*[each for each in Node.__struct_fields__ if each != "resource_version"])


def is_available(node: Node) -> bool:
    """Whether the scheduler may give pods to ``node``: it is Ready, not cordoned and not being deleted.

    One whose Ready is Unknown is not available.
    """
    return node.ready == "True" and not node.unschedulable and not node.deleting


def is_held(node: Node, *, now: datetime) -> bool:
    """Whether someone holds ``node`` now."""
    if HOLD_ANNOTATION not in node.annotations:
        return False
    end = hold_end(node)
    return end is None or end > now


def hold_end(node: Node) -> datetime | None:
    """Return the time that the annotation names; None where it names none, or is absent."""
    return read_moment(node.annotations.get(HOLD_ANNOTATION))


class NodePatch(msgspec.Struct, frozen=True):
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

    @property
    def only_takes_permission(self) -> bool:
        """Whether it takes back the permission to upgrade the node, and changes nothing else but the record.

        That never waits: not for another write, and not for the pace of writes. A permission must not stay
        where it does not hold.
        """
        return (
            self.labels.keys() == {UPGRADE_STATE_LABEL}
            and self.labels[UPGRADE_STATE_LABEL] == UpgradeState.GATED
            and self.node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
            and self.annotations.keys() <= {APPLIED_ANNOTATION}
            and self.taints is None
            and self.unschedulable is None
        )


class Premise(msgspec.Struct, frozen=True):
    """What an eviction for memory pressure was decided on: ``node`` as it was, and its pressure on ``axis``.

    ``intended_at`` is the time of the intent on the node. ``max_pressured_nodes`` is that of the spec of
    the pool.
    """

    node: Node
    axis: Axis
    intended_at: datetime
    max_pressured_nodes: int | str


class Deletion(msgspec.Struct, frozen=True):
    """How a pod is deleted that has not left in time.

    Only as it was read, with ``resource_version``, and with ``grace_seconds`` to end: what the pod itself
    asks for, and at least 1. ``kept_by`` is what kept it, a ``DrainBlock``; empty where nothing is known.
    """

    resource_version: str
    grace_seconds: int
    kept_by: str = ""


class Eviction(msgspec.Struct, frozen=True):
    """One pod to be evicted, through the Eviction API, with its UID as precondition (P5).

    ``node`` is where it runs, ``why`` is for the log. Where a detector of memory pressure waits for what it
    returns, ``node_uid`` is the UID of the node, and ``share`` what the pod was measured to have, in bytes;
    ``premise`` is then checked again right before the request. ``budget`` is the PodDisruptionBudget that it
    takes a disruption of, as "namespace/name"; empty where it takes none, or that was not counted.
    ``drained_uid`` is the UID of a node that is drained: then it is checked that it still is. With
    ``deletion`` the pod is deleted, and no PodDisruptionBudget is asked.
    """

    namespace: str
    name: str
    uid: str
    node: str
    why: str
    node_uid: str = ""
    share: float | None = None
    premise: Premise | None = None
    budget: str = ""
    drained_uid: str = ""
    deletion: Deletion | None = None

    @property
    def full_name(self) -> str:
        """Namespace and name, as people write it."""
        return f"{self.namespace}/{self.name}"


class ConditionsPatch(msgspec.Struct, frozen=True):
    """All conditions of ours that ``node`` is to have; others of ours are removed."""

    node: Node
    conditions: tuple[NodeCondition, ...]
