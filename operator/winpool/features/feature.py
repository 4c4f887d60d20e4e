"""What a feature is: one function, from the snapshot to what it wants, with one signature for all features.

A feature knows its own concern and no other feature. It gets the snapshot, the nodes that concern the pool,
and what may be done; it returns a ``FeatureResult``. ``decide`` merges the results into at most one patch
for each node. A feature never sees a patch, writes nothing, and reports nothing: it returns what it wants
and what it finds. Release, drift, pauses and status work the same for every feature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum

import msgspec

from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.model.node import Eviction, Node
from winpool.model.node_pods import PodListRequest
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import NONE, Desired
from winpool.ownership.members import Members


class AllowedActions(Enum):
    """What may be done for a pool now. Features judge alike under all but RELEASE, which desires nothing."""

    ACT = "act"
    NOTHING = "nothing"
    """The pool is paused, or in a dry run: everything is judged and nothing is written."""
    FINISH = "finish"
    """The spec cannot be acted on: features with ``FeatureResult.finishes`` continue what they have begun,
    and all else stays as it is."""
    RELEASE = "release"
    """The pool is being deleted: all that it has set on nodes is removed."""


class Stage(Enum):
    """The stage of a node that is not at its target. How each is reported: ``status.conditions``."""

    WRITING = "writing"
    """A patch is due. No feature returns this: it follows from what they want."""
    WAITING = "waiting"
    """Something has to be known first, and will be soon."""
    VALIDATING = "validating"
    """It is written, and has to pass validation."""
    HELD = "held"
    """The operator holds a change until a person has fixed the cause."""
    TIMED_OUT = "timed out"
    """It has not passed validation in time."""
    DUE = "due"
    """It has all that the operator sets, and runs another Windows than it is to run: someone else has to
    act."""
    UNKNOWN = "unknown"
    """It is not known whether it is at its target."""
    ON_HOLD = "on hold"
    """A write is due, and a person holds the node (``winpool.dev/hold``). No feature returns this."""


class Progress(msgspec.Struct, frozen=True):
    """Nodes that are at one stage, by their names.

    ``reason`` is that of the condition, and ``said`` are sentences about them with "{nodes}" in the place of
    how many they are and the first of their names.
    """

    stage: Stage
    nodes: Sequence[str]
    reason: Reason
    said: str


class Finding(msgspec.Struct, frozen=True):
    """Something that is not as it should be, and what to do about it: one entry of ``status.issues``.

    ``nodes`` are the names of all nodes that it is about, in any order; empty where it is about the pool as a
    whole. ``message`` and ``fix`` are sentences; ``message`` neither names nor counts nodes, since the entry
    has fields for them. ``cause`` distinguishes it from other findings of that reason as long as it lasts: a
    release, a taint, a DaemonSet. It is not published. Where it is empty the message is the cause.
    """

    reason: IssueReason
    nodes: Sequence[str]
    message: str
    fix: str
    cause: str = ""

    @property
    def key(self) -> str:
        """What distinguishes it from other findings of that reason."""
        return self.cause or self.message

    @property
    def text(self) -> str:
        """Message and fix."""
        return f"{self.message} {self.fix}"


class FeatureResult(msgspec.Struct, frozen=True):
    """What one feature wants and finds.

    ``desired`` are by the UIDs of the pool's nodes; a node that is not among them is to have nothing of the
    feature. ``node_lists`` are nodes whose pods have to be listed before the feature can continue,
    ``sampled`` those whose memory has to be watched, ``pod_list_requests`` the lists of pods that evictions
    need, the most urgent first, and ``needs_all_pods`` asks for a list of all pods. ``awaits_pods`` says
    that the first list of all pods since the start will show more: until then the status of this very spec
    stays. At ``requeue_at`` time alone may change what the feature desires. ``finishes`` says that it
    desires the same under ``AllowedActions.FINISH``. ``reads_attachments`` and ``reads_workloads`` ask for
    lists of VolumeAttachments and of the controllers of pods, ``drains`` for a watch of PodDisruptionBudgets.
    """

    desired: Mapping[str, Desired] = msgspec.field(default_factory=lambda: NONE)
    evictions: tuple[Eviction, ...] = ()
    findings: tuple[Finding, ...] = ()
    progress: tuple[Progress, ...] = ()
    node_lists: tuple[Node, ...] = ()
    sampled: tuple[Node, ...] = ()
    pod_list_requests: tuple[PodListRequest, ...] = ()
    needs_all_pods: bool = False
    awaits_pods: bool = False
    requeue_at: datetime | None = None
    finishes: bool = False
    reads_attachments: bool = False
    reads_workloads: bool = False
    drains: bool = False


Feature = Callable[["Snapshot", "Members", AllowedActions], FeatureResult]
