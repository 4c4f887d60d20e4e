"""What the operator reports: the status of a WindowsNodePool.

Counts are always written, zeros too, or ``kubectl wait --for=jsonpath='{…}'=0`` never ends.
Texts and lists are cut to their limits here, so that no report is refused for its length.
"""

import operator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from winpool.api.control_plane import ControlPlaneSeen
from winpool.api.history import MAX_HISTORY, HistoryEntry
from winpool.api.model import ATOMIC, MAX_SAFE_INT, ApiModel, Clipped, Timestamp, list_map
from winpool.api.node_template import NodeTemplate
from winpool.api.plan import Plan
from winpool.api.texts import Count, NodeName, ReasonText, Sentence
from winpool.api.verdicts import Verdict

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

    type: str = Field(
        max_length=316,
        pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
        description="Type of the condition, such as Ready. A string, required.",
    )
    status: Literal["True", "False", "Unknown"] = Field(
        description="Status of the condition: True, False or Unknown. A string, required."
    )
    observed_generation: int = Field(
        ge=0,
        le=MAX_SAFE_INT,
        description="The metadata.generation that the condition is about. An integer, required.",
    )
    last_transition_time: Timestamp = Field(
        description="When `status` last changed. An RFC 3339 time, required."
    )
    reason: str = Field(
        max_length=128,
        pattern=r"^[A-Za-z]([A-Za-z0-9_]*[A-Za-z0-9])?$",
        description="Why, in one word for programs, such as UpToDate. A string, required.",
    )
    message: Annotated[str, Clipped(4096)] = Field(
        description="Why, in a sentence for people. A string, required."
    )


class Build(ApiModel):
    """A Windows build that nodes of the pool run, and what the support matrix says about it."""

    build: Annotated[str, Clipped(64)] = Field(
        description="The build as the nodes report it, such as 10.0.20348. A string, required."
    )
    os_version: Annotated[str, Clipped(64)] | None = Field(
        default=None,
        description='The Windows Server release of the build, such as "2022". A string, absent if the '
        "build is unknown.",
    )
    nodes: Count = Field(description="Nodes of the pool that run the build. An integer, required.")
    min_revision: Count | None = Field(
        default=None,
        description="The lowest revision of these nodes. An integer, absent if none reports one.",
    )
    max_revision: Count | None = Field(
        default=None,
        description="The highest revision of these nodes. An integer, absent if none reports one.",
    )
    verdict: Verdict = Field(
        description="The worst verdict of these nodes: Supported, Warned, Unknown or Unsupported, in this "
        "order. A string, required."
    )
    end_of_support: Annotated[str, Clipped(64)] | None = Field(
        default=None,
        description="The last day, in UTC, on which the build is supported, such as 2031-10-14. A string, "
        "absent if it is unknown.",
    )


class Issue(ApiModel):
    """A problem that needs attention: one entry per reason and cause, for all nodes that have it."""

    reason: ReasonText = Field(
        description="What is wrong, in one word, such as OwnershipRecordUnreadable. A string, required."
    )
    node_count: Count = Field(
        default_factory=int,
        description="How many nodes have it. An integer, 0 if it is about the pool as a whole.",
    )
    nodes: Annotated[tuple[NodeName, ...], Clipped(MAX_ISSUE_NODES), ATOMIC] = Field(
        default_factory=tuple,
        description="Names of the first of these nodes. A list of at most 3, empty if it is about the "
        "pool as a whole.",
    )
    since: Timestamp = Field(description="When the operator found it. An RFC 3339 time, required.")
    message: Sentence = Field(
        description="What is wrong, without names and counts of nodes. A string, required."
    )
    fix: Sentence = Field(description="What to do about it. A string, required.")


class SetKeys(ApiModel):
    """The keys of labels and taints that the pool has set, beside those of its spec."""

    labels: Annotated[tuple[Annotated[str, Clipped(317)], ...], Clipped(MAX_SET_KEYS), ATOMIC] = Field(
        default_factory=tuple, description="Keys of labels. A list of at most 128."
    )
    taints: Annotated[tuple[Annotated[str, Clipped(384)], ...], Clipped(MAX_SET_KEYS), ATOMIC] = Field(
        default_factory=tuple,
        description="Taints as key:effect, such as os:NoSchedule. A list of at most 128.",
    )


class WindowsNodePoolStatus(ApiModel):
    """What the operator last saw, all from one moment. Only the operator writes it."""

    observed_generation: int = Field(
        default=NOT_OBSERVED,
        ge=NOT_OBSERVED,
        le=MAX_SAFE_INT,
        description="The metadata.generation that this status is about. An integer, default -1, which means "
        "that the operator has not processed the pool yet.",
    )
    nodes: Count = Field(default_factory=int, description="Nodes that belong to the pool. An integer.")
    ready_nodes: Count = Field(
        default_factory=int, description="Nodes of the pool whose kubelet reports Ready. An integer."
    )
    up_to_date_nodes: Count = Field(
        default_factory=int,
        description="Nodes of the pool that are as this generation of the spec asks, the release and "
        "revision of Windows included. An integer.",
    )
    up_to_date_and_ready_nodes: Count = Field(
        default_factory=int,
        description="Nodes of the pool that are both up to date and Ready. An integer.",
    )
    available_nodes: Count = Field(
        default_factory=int, description="Nodes of the pool that are Ready and not cordoned. An integer."
    )
    held_nodes: Count = Field(
        default_factory=int,
        description="Nodes of the pool that someone holds with the annotation winpool.dev/hold. The operator "
        "writes nothing to them. An integer.",
    )
    pressured_nodes: Count = Field(
        default_factory=int,
        description="Nodes of the pool that are under memory pressure: at Soft or Hard, or by the estimate "
        "of the kubelet alone. An integer, 0 without `memoryPressure`.",
    )
    misplaced_pods: Count = Field(
        default_factory=int,
        description="Pods on nodes of the pool that cannot run there: they are for Linux, or none of their "
        "images is for Windows. Only pods with evidence of this count, as of the last list of all pods. An "
        "integer.",
    )
    builds: Annotated[tuple[Build, ...], Clipped(MAX_BUILDS), list_map("build")] = Field(
        default_factory=tuple,
        description="Windows builds that the nodes run, and whether they are supported. A list of at most "
        "16, one per build.",
    )
    issues: Annotated[tuple[Issue, ...], Clipped(MAX_ISSUES), ATOMIC] = Field(
        default_factory=tuple,
        description="Problems that need attention, the worst first: one entry per reason and cause. A list "
        "of at most 10; `issueCount` counts all.",
    )
    issue_count: Count = Field(
        default_factory=int,
        description="How many issues there are, even if `issues` shows fewer. An integer.",
    )
    memory_capabilities: Sentence | None = Field(
        default=None,
        description="What the sources of memory can tell, by counts of nodes, and how many kubelets evict "
        "pods themselves. Only with `memoryPressure`, renewed rarely: see docs/memory.md. A string.",
    )
    set_keys: SetKeys | None = Field(
        default=None,
        description="The label and taint keys that this pool has set, written before the first node: at "
        "most 64 of both together, or 128 while nodes still have those of an earlier spec. Ownership "
        "records that were written without the guard are valid only for these keys and for the keys of the "
        "spec.",
    )
    node_template: NodeTemplate | None = Field(
        default=None,
        description="What a new node of the pool will have, for an autoscaler that has no such node yet. "
        "Absent while the spec is not accepted.",
    )
    plan: Plan | None = Field(
        default=None,
        description="What the operator would do if `mode` were Active. Present only while `mode` is DryRun.",
    )
    control_plane: ControlPlaneSeen | None = Field(
        default=None,
        description="Since when the API server reports its version without a change. Only with `upgrade`. "
        "Absent as long as the version is not known.",
    )
    history: Annotated[tuple[HistoryEntry, ...], Clipped(MAX_HISTORY), ATOMIC] = Field(
        default_factory=tuple,
        exclude_if=operator.not_,
        description="Upgrades of the pool, the latest first: one entry for each target that nodes were due "
        "for. A list of at most 10, absent before the first.",
    )
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32), list_map("type")] = Field(
        default_factory=tuple,
        description="Ready, Accepted, Available, NodesUpToDate, OSSupported, UpgradeAllowed (only with "
        "`upgrade`), MemoryHealthy (only with `memoryPressure`), Reconciling, Stalled, Paused and Deleting, "
        "one entry per type.",
    )

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, or None where it has not been written yet."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    def to_object(self) -> dict[str, Any]:
        """Return the status as JSON for the API server: all counts, and no nulls."""
        return self.model_dump(mode="json", exclude_none=True)
