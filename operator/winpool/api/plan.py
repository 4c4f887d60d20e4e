"""What a dry run reports: ``status.plan`` of a WindowsNodePool whose mode is DryRun."""

import operator
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from winpool.api.history import GateNames
from winpool.api.model import ATOMIC, MAX_INT32, ApiModel, Clipped
from winpool.api.texts import Count, NodeName, ReasonText, Seconds

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

    kind: ChangeKind = Field(
        description="What is changed: Label, Taint, Annotation or Condition. A string, required."
    )
    key: Annotated[str, Clipped(384)] = Field(
        description="Key of the label or annotation; of a taint key:effect, such as os:NoSchedule; of a "
        "condition its type. A string, required."
    )
    from_: Annotated[str, Clipped(256)] | None = Field(
        default=None,
        alias="from",
        description="The value on the node; of a condition its status, with the reason in parentheses. A "
        "string, absent if the operator would add it.",
    )
    to: Annotated[str, Clipped(256)] | None = Field(
        default=None,
        description="The new value. A string, absent if the operator would remove it.",
    )


class PlanStep(ApiModel):
    """What would be done to one node if `mode` were Active."""

    node: NodeName = Field(description="Name of the node. A string, required.")
    action: PlanAction = Field(
        description="Update: the operator would write labels, taints and conditions. Upgrade: the node is "
        "due for an upgrade, which `strategy` says who begins. A string, required."
    )
    reason: ReasonText = Field(
        description="Why, in one word, such as Labels or OSRevision. A string, required."
    )
    changes: Annotated[tuple[Change, ...], Clipped(MAX_CHANGES), ATOMIC] = Field(
        default_factory=tuple,
        description="What would change on the node: taints first, those with NoExecute before all, then "
        "conditions, then the keys of the spec. A list of at most 8, empty if only the ownership record or "
        "the message of a condition would be written again; `changeCount` covers all.",
    )
    change_count: Count = Field(
        default_factory=int,
        description="How many changes there are, also if `changes` shows fewer. An integer.",
    )
    batch: Annotated[int, Field(ge=1, le=MAX_INT32)] | None = Field(
        default=None,
        description="Of the action Upgrade, the nodes that can be upgraded at the same time: those with one "
        "number. The lowest is first. An integer from 1, absent for other actions.",
    )
    closed_gates: GateNames = Field(
        default_factory=tuple,
        exclude_if=operator.not_,
        description="Of the action Upgrade, the gates of this node that are closed. Those of the pool are in "
        "`plan.upgrade`. A list of at most 16 strings, absent if there are none.",
    )


class Preflight(ApiModel):
    """Pods that do not tolerate a taint of the spec, on nodes that do not have the taint yet."""

    taint: Annotated[str, Clipped(384)] = Field(
        description="The taint as kubectl writes it, such as os=windows:NoExecute. A string, required."
    )
    nodes: Count = Field(
        description="Nodes of the pool with pods that do not tolerate it. An integer, required."
    )
    intolerant_pods: Count = Field(
        description="Pods on these nodes that do not tolerate it. They continue to run, but cannot be "
        "scheduled there again. A NoExecute taint deletes them. An integer, required."
    )
    pods: Annotated[tuple[Annotated[str, Clipped(317)], ...], Clipped(3), ATOMIC] = Field(
        default_factory=tuple, description="The first of these pods, as namespace/name. A list of at most 3."
    )
    daemon_sets: Annotated[tuple[Annotated[str, Clipped(317)], ...], Clipped(16), ATOMIC] = Field(
        default_factory=tuple,
        description="DaemonSets of these pods, as namespace/name. A list of at most 16.",
    )


class PlanUpgrade(ApiModel):
    """How the nodes that are due would be upgraded."""

    due_nodes: Count = Field(
        description="How many nodes are due for an upgrade, even if `steps` shows fewer. An integer, "
        "required."
    )
    permitted_nodes: Count = Field(
        description="How many of them have no closed gate of their own. An integer, required."
    )
    batches: Count = Field(
        description="In how many batches they would be upgraded, one after another. An integer, required."
    )
    closed_gates: GateNames = Field(
        default_factory=tuple,
        description="The gates of the pool that are closed, so that no node may be upgraded. A list of at "
        "most 16 strings.",
    )
    likely_seconds: Seconds | None = Field(
        default=None,
        description="How long it is likely to take once all gates are open, without the time between "
        "maintenance windows. Seconds, an integer, absent if it cannot be estimated.",
    )
    worst_case_seconds: Seconds | None = Field(
        default=None,
        description="How long it takes if each step takes as long as the spec permits. Seconds, an integer, "
        "absent if it cannot be estimated.",
    )


class Plan(ApiModel):
    """What the operator would do if `mode` were Active."""

    total_nodes: Count = Field(
        description="How many nodes there are steps for, even if `steps` shows fewer. An integer, required."
    )
    steps: Annotated[tuple[PlanStep, ...], Clipped(MAX_PLAN_STEPS), ATOMIC] = Field(
        default_factory=tuple,
        description="What would be done to the nodes, in order. A list, the first 50.",
    )
    upgrade: PlanUpgrade | None = Field(
        default=None,
        description="How the nodes that are due would be upgraded. Only with `spec.upgrade`.",
    )
    preflight: Annotated[tuple[Preflight, ...], Clipped(MAX_PREFLIGHT), ATOMIC] = Field(
        default_factory=tuple,
        description="Pods that do not tolerate a taint that the operator would add or change, one entry for "
        "each such taint. A list of at most 16.",
    )
