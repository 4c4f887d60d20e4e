"""What a dry run reports: ``status.plan`` of a WindowsNodePool whose mode is DryRun."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from winpool.api.model import ATOMIC, ApiModel, Clipped
from winpool.api.texts import Count, NodeName, ReasonText

MAX_PLAN_STEPS: Final = 50
MAX_CHANGES: Final = 8
"""More than most edits change on a node; the spec has all of them."""
MAX_PREFLIGHT: Final = 16
"""As many as a spec has taints."""


class PlanAction(StrEnum):
    """What the operator would do to a node."""

    UPDATE = "Update"


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
    """What the operator would do to one node if `mode` were Active."""

    node: NodeName = Field(description="Name of the node. A string, required.")
    action: PlanAction = Field(
        description="What the operator would do: Update writes labels, taints and conditions. A string, "
        "required."
    )
    reason: ReasonText = Field(description="Why, in one word, such as Labels. A string, required.")
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


class Plan(ApiModel):
    """What the operator would do if `mode` were Active."""

    total_nodes: Count = Field(
        description="How many nodes the operator would write to, even if `steps` shows fewer. An integer, "
        "required."
    )
    steps: Annotated[tuple[PlanStep, ...], Clipped(MAX_PLAN_STEPS), ATOMIC] = Field(
        default_factory=tuple, description="What the operator would do, in order. A list, the first 50."
    )
    preflight: Annotated[tuple[Preflight, ...], Clipped(MAX_PREFLIGHT), ATOMIC] = Field(
        default_factory=tuple,
        description="Pods that do not tolerate a taint that the operator would add or change, one entry for "
        "each such taint. A list of at most 16.",
    )
