"""How a node is drained before its upgrade. Under the strategy Manual the operator drains none."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.fields import POOL_NAME_PATTERN, of_form
from winpool.api.model import ATOMIC, ApiModel, Rule, Validation
from winpool.api.selector import NamespaceName, PodSelector

MAX_RULES: Final = 16

LEAST_SECONDS_TO_FORCE: Final = 600
"""Windows pods take minutes to end: what is forced sooner was never given the time to leave."""

MAX_ORDER: Final = 1000


class OnTimeout(StrEnum):
    """What becomes of a node that is not drained in time."""

    WAIT = "Wait"
    RESTORE = "Restore"
    QUARANTINE = "Quarantine"
    FORCE = "Force"


class EmptyDirPods(StrEnum):
    """What becomes of pods whose data is lost with the node: those with an emptyDir volume."""

    EVICT = "Evict"
    BLOCK = "Block"


class UnmanagedPods(StrEnum):
    """What becomes of pods that no controller creates again."""

    BLOCK = "Block"
    EVICT = "Evict"


class DrainBehavior(StrEnum):
    """What a rule says of the pods that it matches."""

    DRAIN = "Drain"
    SKIP = "Skip"
    WAIT_COMPLETED = "WaitCompleted"


class DrainRule(ApiModel):
    """How some pods are drained. The first rule that matches a pod decides."""

    name: Annotated[
        str,
        Field(max_length=253),
        of_form(
            POOL_NAME_PATTERN,
            "must be at most 63 lowercase letters, digits and '-', beginning and ending with a letter or "
            "digit, such as 'db'",
        ),
    ]
    """Name of the rule, for messages about pods that it matches. A string, required."""
    namespaces: Annotated[tuple[NamespaceName, ...], ATOMIC] = Field(default_factory=tuple, max_length=16)
    """Namespaces of the pods. A list of at most 16 strings, all namespaces if absent."""
    pod_selector: PodSelector | None = None
    """Labels of the pods. All pods of the namespaces if absent."""
    behavior: DrainBehavior = Field(default_factory=lambda: DrainBehavior.DRAIN)
    """Drain: the operator evicts these pods. Skip: it leaves them on the node. WaitCompleted: it evicts none
    of them and waits until they end by themselves. A string, Drain if absent."""
    order: Annotated[int, Field(strict=True, ge=-MAX_ORDER, le=MAX_ORDER)] = Field(default_factory=int)
    """Pods with a lower number leave the node before those with a higher one. Only with the behavior Drain.
    An integer, 0 if absent."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(has(self.namespaces) && self.namespaces.size() > 0) || has(self.podSelector)",
            "must have `namespaces`, `podSelector` or both",
            lambda self: bool(self.namespaces) or self.pod_selector is not None,
        ),
        Rule(
            "!has(self.order) || self.order == 0 || !has(self.behavior) || self.behavior == 'Drain'",
            "must be absent unless `behavior` is Drain: other pods are not evicted in an order",
            lambda self: self.order == 0 or self.behavior is DrainBehavior.DRAIN,
            at=".order",
        ),
    )


class Drain(ApiModel):
    """How a node is drained before its upgrade."""

    timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(default_factory=lambda: 3600)
    """How long the drain of a node may take before `onTimeout` applies. Under the strategy Manual only the
    plan uses it. Seconds, an integer, 3600 if absent."""
    on_timeout: OnTimeout = Field(default_factory=lambda: OnTimeout.WAIT)
    """What to do if a node is not drained in time. Wait: continue to evict. Restore: uncordon the node and
    retry later. Quarantine: leave it cordoned and count it in `maxFailedNodes`. Force: delete the pods that
    are left, whatever PodDisruptionBudgets allow, each with its own grace period; `timeoutSeconds` is at
    least 600, and the operator needs the flag --allow-force and the rights of the overlay `force`. Has no
    effect under the strategy Manual. A string, Wait if absent."""
    empty_dir_pods: EmptyDirPods = Field(default_factory=lambda: EmptyDirPods.EVICT)
    """Pods with an emptyDir volume, which lose its data. Evict: they are evicted like others. Block: they
    keep the node from being drained, until its time is over where `onTimeout` is Force. Has no effect under
    the strategy Manual. A string, Evict if absent."""
    unmanaged_pods: UnmanagedPods = Field(default_factory=lambda: UnmanagedPods.BLOCK)
    """Pods without a controller, which nothing creates again. Block: they keep the node from being drained,
    until its time is over where `onTimeout` is Force. Evict: they are evicted like others. Has no effect
    under the strategy Manual. A string, Block if absent."""
    volume_detach_timeout_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default_factory=lambda: 600
    )
    """How long the volumes of drained pods may take to detach from the node before its drain counts as
    blocked. Under the strategy Manual only the plan uses it. Seconds, an integer, 600 if absent."""
    pod_rules: Annotated[
        tuple[DrainRule, ...],
        ATOMIC,
        Rule(
            "self.all(a, self.exists_one(b, a.name == b.name))",
            "must have each `name` only once",
            lambda rules: len({each.name for each in rules}) == len(rules),
        ),
    ] = Field(default_factory=tuple, alias="rules", max_length=MAX_RULES)
    """Pods that are drained in another way or order. The first rule that matches a pod decides. Has no effect
    under the strategy Manual. A list of at most 16."""

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "!has(self.onTimeout) || self.onTimeout != 'Force' || !has(self.timeoutSeconds) || "
            f"self.timeoutSeconds >= {LEAST_SECONDS_TO_FORCE}",
            f"must be at least {LEAST_SECONDS_TO_FORCE} if `onTimeout` is Force: pods on Windows need "
            "minutes to end",
            lambda self: (
                self.on_timeout is not OnTimeout.FORCE or self.timeout_seconds >= LEAST_SECONDS_TO_FORCE
            ),
            at=".timeoutSeconds",
        ),
    )
