"""The taints that a pool sets on its nodes: those that stay, and those of a node that has just joined."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from winpool.api.fields import (
    NO_EXECUTE,
    RESERVED_TAINT_DOMAINS,
    RESERVED_TAINT_KEYS,
    STARTUP_TAINT_EFFECTS,
    TAINT_EFFECTS,
    LabelKey,
    LabelValue,
    is_key,
    is_taint_key_allowed,
    under,
)
from winpool.api.model import ApiModel, Rule, Validation, cel_list


class OnIntolerantPods(StrEnum):
    """What is done with a NoExecute taint where pods run that do not tolerate it."""

    HOLD = "Hold"
    """The taint is not put on that node: nothing is deleted."""
    DELETE = "Delete"
    """It is put there, and Kubernetes deletes those pods without asking any PodDisruptionBudget."""


TaintKey = Annotated[
    LabelKey,
    Rule(
        f"!(self in {cel_list(RESERVED_TAINT_KEYS)}) && !self.matches('{under(RESERVED_TAINT_DOMAINS)}')",
        "must not be a reserved key, such as 'node.kubernetes.io/not-ready', nor be under 'winpool.dev' or "
        "'karpenter.sh'; keys such as 'os' or 'node.kubernetes.io/os' are allowed",
        # What is not a key at all is the other rule's to refuse.
        lambda key: is_taint_key_allowed(key) or not is_key(key),
    ),
]


class _Taint(ApiModel):
    key: TaintKey
    """Key of the taint, such as os. A string, required."""
    value: LabelValue = Field(default_factory=str)
    """Value of the taint, such as windows. A string, empty if absent."""
    effect: str

    @property
    def identity(self) -> tuple[str, str]:
        """Key and effect: what the API server requires to be unique within a pool and within a node."""
        return (self.key, self.effect)


class PoolTaint(_Taint):
    """A taint that every node of the pool has."""

    effect: Annotated[
        str,
        Field(max_length=64),
        Rule(
            f"self in {cel_list(TAINT_EFFECTS)}",
            "must be 'NoSchedule', 'PreferNoSchedule' or 'NoExecute'",
            lambda effect: effect in TAINT_EFFECTS,
        ),
    ]
    """What the taint does to pods that do not tolerate it: NoSchedule keeps new pods away, PreferNoSchedule
    tries to, NoExecute also deletes running pods. A string, required."""
    on_intolerant_pods: OnIntolerantPods | None = None
    """What to do with a NoExecute taint if the node runs pods that do not tolerate it. Hold: the operator
    does not add the taint, and reports the pods. Delete: the operator adds the taint, and Kubernetes
    deletes the pods without asking any PodDisruptionBudget. A string, Hold if absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "!has(self.onIntolerantPods) || self.onIntolerantPods == 'Hold' || self.effect == 'NoExecute'",
            "must be 'Hold' unless `effect` is 'NoExecute': no other taint deletes pods",
            lambda self: not self.deletes_pods or self.effect == NO_EXECUTE,
            at=".onIntolerantPods",
        ),
    )

    @property
    def deletes_pods(self) -> bool:
        """Whether the admin has chosen that pods are deleted that do not tolerate it."""
        return self.on_intolerant_pods is OnIntolerantPods.DELETE


class StartupTaint(_Taint):
    """A taint that a node of the pool has from when it joins until it passes validation."""

    effect: Annotated[
        str,
        Field(max_length=64),
        Rule(
            f"self in {cel_list(STARTUP_TAINT_EFFECTS)}",
            "must be 'NoSchedule' or 'PreferNoSchedule': a node that joins has no pods to delete",
            lambda effect: effect in STARTUP_TAINT_EFFECTS,
        ),
    ]
    """What the taint does to pods that do not tolerate it: NoSchedule keeps them away, PreferNoSchedule tries
    to. A string, required."""
