"""What the operator reports: the status of a WindowsNodePool.

Counts are always written, zeros too, or ``kubectl wait --for=jsonpath='{…}'=0`` never ends.
Texts and lists are cut to their limits here, so that no report is refused for its length.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from winpool.api.matrix import Verdict
from winpool.api.model import (
    ATOMIC,
    MAX_INT32,
    MAX_SAFE_INT,
    ApiModel,
    Clipped,
    Count,
    NodeName,
    ReasonText,
    Seconds,
    Sentence,
    Timestamp,
    list_map,
)

MAX_HISTORY: Final = 10
"""Most of a year where nodes are patched every month."""

MAX_GATES: Final = 16
"""More than there are gates, so that one more needs no other CRD."""


class HistoryResult(StrEnum):
    """How an upgrade of the pool ended."""

    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    SUPERSEDED = "Superseded"
    FAILED = "Failed"


GateNames = Annotated[tuple[ReasonText, ...], Clipped(MAX_GATES), ATOMIC]
"""Names of gates in a status. Texts, not an enum: one that the CRD does not know would cost the report."""


class HistoryEntry(ApiModel):
    """How the nodes of the pool were brought to one target."""

    target: Annotated[str, Clipped(64)]
    """The release and revision that nodes were brought to, such as 2022.4052, or the release alone. A string,
    required."""
    start_time: Timestamp
    """When the operator first saw a node that was due for it. An RFC 3339 time, required."""
    end_time: Timestamp | None = None
    """When it ended. An RFC 3339 time, absent as long as the result is InProgress."""
    nodes: Count
    """How many nodes were due for it. An integer, required."""
    failed_nodes: Count = Field(default_factory=int)
    """The most of them whose upgrade had failed at the same time. An integer."""
    result: HistoryResult
    """InProgress: nodes are still due. Succeeded: none is due any more. Superseded: the spec has another
    target. Failed: the operator gave up. A string, required."""
    overrides: GateNames = Field(default_factory=tuple)
    """Gates for which an override was in force in the meantime. A list of at most 16 strings."""


class ControlPlaneSeen(ApiModel):
    """The version of the API server, and since when it is that one.

    The gate ControlPlane counts from ``since``. The operator that runs may only make it later.
    """

    version: Annotated[str, Clipped(128)]
    """The version that the API server reports, such as v1.36.3. A string, required."""
    since: Timestamp
    """When the operator first saw this version without a change since. An RFC 3339 time, required."""


MAX_CLAIM: Final = 4096
"""Characters of a claim: as long as it may be on a node (``features/upgrade/claims.py``)."""

MAX_SLOTS: Final = 64
"""More nodes of a pool than are upgraded at the same time in any cluster that Kubernetes supports."""


class SlotState(StrEnum):
    """What became of a slot.

    Where the operator drains nodes, it is the state of the upgrade (``UpgradeState``) once a node is claimed.
    """

    RESERVED = "Reserved"
    """The node may be upgraded, and its upgrade has not begun."""
    BEGUN = "Begun"
    """The node is cordoned, not Ready or being deleted."""
    GONE = "Gone"
    """The node does not exist any more, and a new one of its name may come."""
    WITHDRAWN = "Withdrawn"
    """The permission was withdrawn. The slot is given to no other node before its deadline."""
    UNUSED = "Unused"
    """No slot any more: the node had one and did not use it. It is the last in line for another."""
    LOST = "Lost"
    """No slot any more: the node was handed over and deleted, and no new one came in time."""


ENDED_STATES: Final = (SlotState.UNUSED, SlotState.LOST)
HELD_STATES: Final = tuple(each for each in SlotState if each not in ENDED_STATES)
"""Those of slots that count for `maxUnavailable`."""


class Slot(ApiModel):
    """A node that counts for `upgrade.maxUnavailable`: it may be upgraded, or its upgrade has begun."""

    node: NodeName
    """Name of the node. A string, required."""
    uid: Annotated[str, Clipped(128)]
    """UID of the node. A string, required."""
    state: ReasonText
    """Reserved: the node may be upgraded. Begun: it is cordoned, not Ready or being deleted. Gone: it does
    not exist any more, and one of its name may come. Withdrawn: the node may not be upgraded any more, and
    `deadline` says when another one may be. Unused: the node had a slot and did not use it; this entry counts
    for nothing. Lost: it was deleted while its machine was replaced, and no new one came in time; until
    `deadline` this entry counts for `maxFailedNodes` alone. Where the operator drains nodes: Claimed,
    Draining, DrainBlocked, Drained, Upgrading, Rejoining, Validating or Soaking, as the label of the node. A
    string, required."""
    since: Timestamp
    """When the node got the slot, or its upgrade began, or it was gone. An RFC 3339 time, required."""
    deadline: Timestamp | None = None
    """When the slot may go to another node. An RFC 3339 time, absent as long as the upgrade is in
    progress."""
    boot_id: Annotated[str, Clipped(128)] = Field(default_factory=str, alias="bootID")
    """The `nodeInfo.bootID` of the node when it got the slot: another one says that the machine restarted. A
    string, empty if the node reports none."""
    claim: Annotated[str, Clipped(MAX_CLAIM)] = Field(default_factory=str, exclude_if=operator.not_)
    """From the hand-over on, what the annotation winpool.dev/upgrade of the node has, since a Node that is
    deleted and created again loses it. JSON in a string, absent before."""

    @property
    def is_held(self) -> bool:
        """Whether it counts for `maxUnavailable`."""
        return self.state not in ENDED_STATES


MAX_TEMPLATE_LABELS: Final = 80
"""32 each of `nodeSelector.matchLabels` and `labels`, and some of the operator's own."""


class TemplateTaint(ApiModel):
    """A taint that a new node of the pool will have."""

    key: Annotated[str, Clipped(512)]
    """Key of the taint. A string, required."""
    value: Annotated[str, Clipped(63)] = Field(default_factory=str)
    """Value of the taint. A string, empty if there is none."""
    effect: Annotated[str, Clipped(64)]
    """Effect of the taint. A string, required."""


class NodeTemplate(ApiModel):
    """What a new node of the pool will have, for autoscalers that start from zero."""

    labels: Annotated[Mapping[str, Annotated[str, Clipped(63)]], Field(max_length=MAX_TEMPLATE_LABELS)] = (
        Field(default_factory=dict)
    )
    """Labels that a node needs to belong to the pool, and those that the operator sets. A map of strings."""
    taints: Annotated[tuple[TemplateTaint, ...], Clipped(16), ATOMIC] = Field(default_factory=tuple)
    """Taints that the operator sets. Startup taints are not included, because the operator removes them. A
    list of at most 16."""


MAX_PLAN_STEPS: Final = 50
MAX_CHANGES: Final = 8
"""More than most edits change on a node; the spec has all of them."""
MAX_PREFLIGHT: Final = 16
"""As many as a spec has taints."""


class PlanAction(StrEnum):
    """What the operator would do to a node."""

    UPDATE = "Update"
    UPGRADE = "Upgrade"


class ChangeKind(StrEnum):
    """What of a node a change is about."""

    LABEL = "Label"
    TAINT = "Taint"
    ANNOTATION = "Annotation"
    CONDITION = "Condition"


class Change(ApiModel):
    """One label, taint, annotation or condition of a node that the operator would add, change or remove."""

    kind: ChangeKind
    """What is changed: Label, Taint, Annotation or Condition. A string, required."""
    key: Annotated[str, Clipped(384)]
    """Key of the label or annotation; of a taint key:effect, such as os:NoSchedule; of a condition its type.
    A string, required."""
    from_: Annotated[str, Clipped(256)] | None = Field(default=None, alias="from")
    """The value on the node; of a condition its status, with the reason in parentheses. A string, absent if
    the operator would add it."""
    to: Annotated[str, Clipped(256)] | None = None
    """The new value. A string, absent if the operator would remove it."""


class PlanStep(ApiModel):
    """What would be done to one node if `mode` were Active."""

    node: NodeName
    """Name of the node. A string, required."""
    action: PlanAction
    """Update: the operator would write labels, taints and conditions. Upgrade: the node is due for an
    upgrade, which `strategy` says who begins. A string, required."""
    reason: ReasonText
    """Why, in one word, such as Labels or OSRevision. A string, required."""
    changes: Annotated[tuple[Change, ...], Clipped(MAX_CHANGES), ATOMIC] = Field(default_factory=tuple)
    """What would change on the node: taints first, those with NoExecute before all, then conditions, then the
    keys of the spec. A list of at most 8, empty if only the ownership record or the message of a condition
    would be written again; `changeCount` covers all."""
    change_count: Count = Field(default_factory=int)
    """How many changes there are, also if `changes` shows fewer. An integer."""
    batch: Annotated[int, Field(ge=1, le=MAX_INT32)] | None = None
    """Of the action Upgrade, the nodes that can be upgraded at the same time: those with one number. The
    lowest is first. An integer from 1, absent for other actions."""
    closed_gates: GateNames = Field(default_factory=tuple, exclude_if=operator.not_)
    """Of the action Upgrade, the gates of this node that are closed. Those of the pool are in `plan.upgrade`.
    A list of at most 16 strings, absent if there are none."""


class Preflight(ApiModel):
    """Pods that do not tolerate a taint of the spec, on nodes that do not have the taint yet."""

    taint: Annotated[str, Clipped(384)]
    """The taint as kubectl writes it, such as os=windows:NoExecute. A string, required."""
    nodes: Count
    """Nodes of the pool with pods that do not tolerate it. An integer, required."""
    intolerant_pods: Count
    """Pods on these nodes that do not tolerate it. They continue to run, but cannot be scheduled there again.
    A NoExecute taint deletes them. An integer, required."""
    pods: Annotated[tuple[Annotated[str, Clipped(317)], ...], Clipped(3), ATOMIC] = Field(
        default_factory=tuple
    )
    """The first of these pods, as namespace/name. A list of at most 3."""
    daemon_sets: Annotated[tuple[Annotated[str, Clipped(317)], ...], Clipped(16), ATOMIC] = Field(
        default_factory=tuple
    )
    """DaemonSets of these pods, as namespace/name. A list of at most 16."""


class PlanUpgrade(ApiModel):
    """How the nodes that are due would be upgraded."""

    due_nodes: Count
    """How many nodes are due for an upgrade, even if `steps` shows fewer. An integer, required."""
    permitted_nodes: Count
    """How many of them have no closed gate of their own. An integer, required."""
    batches: Count
    """In how many batches they would be upgraded, one after another. An integer, required."""
    closed_gates: GateNames = Field(default_factory=tuple)
    """The gates of the pool that are closed, so that no node may be upgraded. A list of at most 16
    strings."""
    likely_seconds: Seconds | None = None
    """How long it is likely to take once all gates are open, without the time between maintenance windows.
    Seconds, an integer, absent if it cannot be estimated."""
    worst_case_seconds: Seconds | None = None
    """How long it takes if each step takes as long as the spec permits. Seconds, an integer, absent if it
    cannot be estimated."""


class Plan(ApiModel):
    """What the operator would do if `mode` were Active."""

    total_nodes: Count
    """How many nodes there are steps for, even if `steps` shows fewer. An integer, required."""
    steps: Annotated[tuple[PlanStep, ...], Clipped(MAX_PLAN_STEPS), ATOMIC] = Field(default_factory=tuple)
    """What would be done to the nodes, in order. A list, the first 50."""
    upgrade: PlanUpgrade | None = None
    """How the nodes that are due would be upgraded. Only with `spec.upgrade`."""
    preflight: Annotated[tuple[Preflight, ...], Clipped(MAX_PREFLIGHT), ATOMIC] = Field(default_factory=tuple)
    """Pods that do not tolerate a taint that the operator would add or change, one entry for each such taint.
    A list of at most 16."""


MAX_ISSUES: Final = 10
MAX_ISSUE_NODES: Final = 3
"""As many names as a sentence bears; the count covers all nodes."""
MAX_SET_KEYS: Final = 128
"""Twice as many keys as a spec can have: until nodes are as an edit of all of them asks."""
MAX_BUILDS: Final = 16
"""More builds than a pool has even in the middle of an upgrade; the counts cover all nodes."""
NOT_OBSERVED: Final = -1
"""``observedGeneration`` before the operator has looked, so that a tool that asks too early sees that."""


class Condition(ApiModel):
    """One aspect of the pool's state, as every Kubernetes tool reads it (metav1.Condition)."""

    type: str = Field(max_length=316, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$")
    """Type of the condition, such as Ready. A string, required."""
    status: Literal["True", "False", "Unknown"]
    """Status of the condition: True, False or Unknown. A string, required."""
    observed_generation: int = Field(ge=0, le=MAX_SAFE_INT)
    """The metadata.generation that the condition is about. An integer, required."""
    last_transition_time: Timestamp
    """When `status` last changed. An RFC 3339 time, required."""
    reason: str = Field(max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$")
    """Why, in one word for programs, such as UpToDate. A string, required."""
    message: Annotated[str, Clipped(4096)]
    """Why, in a sentence for people. A string, required."""


class Build(ApiModel):
    """A Windows build that nodes of the pool run, and what the support matrix says about it."""

    build: Annotated[str, Clipped(64)]
    """The build as the nodes report it, such as 10.0.20348. A string, required."""
    os_version: Annotated[str, Clipped(64)] | None = None
    """The Windows Server release of the build, such as "2022". A string, absent if the build is unknown."""
    nodes: Count
    """Nodes of the pool that run the build. An integer, required."""
    min_revision: Count | None = None
    """The lowest revision of these nodes. An integer, absent if none reports one."""
    max_revision: Count | None = None
    """The highest revision of these nodes. An integer, absent if none reports one."""
    verdict: Verdict
    """The worst verdict of these nodes: Supported, Warned, Unknown or Unsupported, in this order. A string,
    required."""
    end_of_support: Annotated[str, Clipped(64)] | None = None
    """The last day, in UTC, on which the build is supported, such as 2031-10-14. A string, absent if it is
    unknown."""


class Issue(ApiModel):
    """A problem that needs attention: one entry per reason and cause, for all nodes that have it."""

    reason: ReasonText
    """What is wrong, in one word, such as OwnershipRecordUnreadable. A string, required."""
    node_count: Count = Field(default_factory=int)
    """How many nodes have it. An integer, 0 if it is about the pool as a whole."""
    nodes: Annotated[tuple[NodeName, ...], Clipped(MAX_ISSUE_NODES), ATOMIC] = Field(default_factory=tuple)
    """Names of the first of these nodes. A list of at most 3, empty if it is about the pool as a whole."""
    since: Timestamp
    """When the operator found it. An RFC 3339 time, required."""
    message: Sentence
    """What is wrong, without names and counts of nodes. A string, required."""
    fix: Sentence
    """What to do about it. A string, required."""


class SetKeys(ApiModel):
    """The keys of labels and taints that the pool has set, beside those of its spec."""

    labels: Annotated[tuple[Annotated[str, Clipped(317)], ...], Clipped(MAX_SET_KEYS), ATOMIC] = Field(
        default_factory=tuple
    )
    """Keys of labels. A list of at most 128."""
    taints: Annotated[tuple[Annotated[str, Clipped(384)], ...], Clipped(MAX_SET_KEYS), ATOMIC] = Field(
        default_factory=tuple
    )
    """Taints as key:effect, such as os:NoSchedule. A list of at most 128."""


class WindowsNodePoolStatus(ApiModel):
    """What the operator last saw, all from one moment. Only the operator writes it."""

    observed_generation: int = Field(default=NOT_OBSERVED, ge=NOT_OBSERVED, le=MAX_SAFE_INT)
    """The metadata.generation that this status is about. An integer, default -1, which means that the
    operator has not processed the pool yet."""
    nodes: Count = Field(default_factory=int)
    """Nodes that belong to the pool. An integer."""
    ready_nodes: Count = Field(default_factory=int)
    """Nodes of the pool whose kubelet reports Ready. An integer."""
    up_to_date_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that are as this generation of the spec asks, the release and revision of Windows
    included. An integer."""
    up_to_date_and_ready_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that are both up to date and Ready. An integer."""
    available_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that are Ready and not cordoned. An integer."""
    draining_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that the operator drains for their upgrade, blocked ones included. An integer."""
    blocked_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that could not be drained in time. An integer."""
    failed_nodes: Count = Field(default_factory=int)
    """Nodes of the pool whose upgrade has failed, and which no one has asked to try again. An integer."""
    held_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that someone holds with the annotation winpool.dev/hold. The operator writes nothing
    to them. An integer."""
    pressured_nodes: Count = Field(default_factory=int)
    """Nodes of the pool that are under memory pressure: at Soft or Hard, or by the estimate of the kubelet
    alone. An integer, 0 without `memoryPressure`."""
    misplaced_pods: Count = Field(default_factory=int)
    """Pods on nodes of the pool that cannot run there: they are for Linux, or none of their images is for
    Windows. Only pods with evidence of this count, as of the last list of all pods. An integer."""
    builds: Annotated[tuple[Build, ...], Clipped(MAX_BUILDS), list_map("build")] = Field(
        default_factory=tuple
    )
    """Windows builds that the nodes run, and whether they are supported. A list of at most 16, one per
    build."""
    issues: Annotated[tuple[Issue, ...], Clipped(MAX_ISSUES), ATOMIC] = Field(default_factory=tuple)
    """Problems that need attention, the worst first: one entry per reason and cause. A list of at most 10;
    `issueCount` counts all."""
    issue_count: Count = Field(default_factory=int)
    """How many issues there are, even if `issues` shows fewer. An integer."""
    memory_capabilities: Sentence | None = None
    """What the sources of memory can tell, by counts of nodes, and how many kubelets evict pods themselves.
    Only with `memoryPressure`, renewed rarely: see "Memory pressure" in the docs. A string."""
    set_keys: SetKeys | None = None
    """The label and taint keys that this pool has set, written before the first node: at most 64 of both
    together, or 128 while nodes still have those of an earlier spec. Ownership records that were written
    without the guard are valid only for these keys and for the keys of the spec."""
    node_template: NodeTemplate | None = None
    """What a new node of the pool will have, for an autoscaler that has no such node yet. Absent while the
    spec is not accepted."""
    plan: Plan | None = None
    """What the operator would do if `mode` were Active. Present only while `mode` is DryRun."""
    control_plane: ControlPlaneSeen | None = None
    """Since when the API server reports its version without a change. Only with `upgrade`. Absent as long as
    the version is not known."""
    slots: Annotated[tuple[Slot, ...], Clipped(MAX_SLOTS), ATOMIC] = Field(
        default_factory=tuple, exclude_if=operator.not_
    )
    """The nodes that count for `upgrade.maxUnavailable` because they may be upgraded or their upgrade has
    begun. An entry is written before its node gets the label `winpool.dev/upgrade-state=Required`. A list of
    at most 64, absent if there are none."""
    next_action_time: Timestamp | None = None
    """When the next deadline of a node that the operator upgrades passes, or time opens a gate. An RFC 3339
    time, absent where time alone changes nothing, and under the strategy Manual."""
    history: Annotated[tuple[HistoryEntry, ...], Clipped(MAX_HISTORY), ATOMIC] = Field(
        default_factory=tuple, exclude_if=operator.not_
    )
    """Upgrades of the pool, the latest first: one entry for each target that nodes were due for. A list of at
    most 10, absent before the first."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32), list_map("type")] = Field(
        default_factory=tuple
    )
    """Ready, Accepted, Available, NodesUpToDate, OSSupported, UpgradeAllowed (only with `upgrade`),
    MemoryHealthy (only with `memoryPressure`), Reconciling, Stalled, Paused and Deleting, one entry per
    type."""

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, or None where it has not been written yet."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def to_object(self) -> dict[str, Any]:
        """Return the status as JSON for the API server: all counts, and no nulls."""
        return self.model_dump(mode="json", exclude_none=True)
