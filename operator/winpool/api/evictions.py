"""How many pods and nodes the evictions of a pool may concern, and which pods.

These limits have schema defaults, unlike the lines of the detector: a default is stored in the object, and
the limits that an admin has agreed to must not change with the version of the operator.
"""

import re
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.model import ATOMIC, ApiModel
from winpool.api.quantity import IntOrString
from winpool.api.rules import Rule, Validation
from winpool.api.validation import NamespaceName, PodSelector

MAX_EVICTIONS_PER_NODE: Final = 10
"""The annotation on the node has an entry for each, and at most 2 KiB."""

MAX_RULES: Final = 16

_MAX_NODES: Final = 5000
"""The largest cluster that Kubernetes is tested with.
https://kubernetes.io/docs/setup/best-practices/cluster-large/"""

_PERCENT_PATTERN: Final = "^([1-9][0-9]?|100)%$"
_PERCENT: Final = re.compile(_PERCENT_PATTERN, re.ASCII)
_SHARE_SENTENCE: Final = f"must be a whole number from 1 to {_MAX_NODES} or a percentage from '1%' to '100%'"


def is_share(value: int | str) -> bool:
    """Whether ``value`` is a number or a percentage of nodes above 0: the twin of the rule in CEL."""
    if isinstance(value, int):
        return 1 <= value <= _MAX_NODES
    return _PERCENT.fullmatch(value) is not None


NodeShare = Annotated[
    int | str,
    IntOrString(_SHARE_SENTENCE),
    Rule(
        f"type(self) == int ? self >= 1 && self <= {_MAX_NODES} : string(self).matches('{_PERCENT_PATTERN}')",
        f"{_SHARE_SENTENCE}; to evict no pods, set `mode` to Signal",
        is_share,
    ),
]
"""A number of nodes, or a percentage of the nodes of the pool.

0 is refused: a share that rounds down is at least one node, so that a small pool has evictions too. An admin
who writes 0 wants none."""


class EvictionBehavior(StrEnum):
    """What a rule says of the pods that it matches."""

    NEVER = "Never"
    PREFER = "Prefer"


class EvictionRule(ApiModel):
    """What the pool says of some pods. The first rule that matches a pod decides."""

    namespaces: Annotated[tuple[NamespaceName, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=16,
        description="Namespaces of the pods. A list of at most 16 strings, all namespaces if absent.",
    )
    pod_selector: PodSelector | None = Field(
        default=None, description="Labels of the pods. All pods of the namespaces if absent."
    )
    behavior: EvictionBehavior = Field(
        description="Never: the operator does not evict these pods. Prefer: it evicts them before others of "
        "the same priority. A string, required."
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(has(self.namespaces) && self.namespaces.size() > 0) || has(self.podSelector)",
            "must have `namespaces`, `podSelector` or both; to evict no pods, set `mode` to Signal",
            lambda self: bool(self.namespaces) or self.pod_selector is not None,
        ),
    )


class EvictionLimits(ApiModel):
    """How many pods and nodes evictions may concern, and which pods."""

    max_pods_per_node: Annotated[int, Field(strict=True, ge=1, le=MAX_EVICTIONS_PER_NODE)] = Field(
        default=3,
        description="Evictions on one node within `periodSeconds`, at most. An integer, default 3.",
    )
    period_seconds: Annotated[int, Field(strict=True, ge=60, le=86400)] = Field(
        default=600,
        description="How long an eviction counts towards `maxPodsPerNode`. Seconds, an integer, default 600.",
    )
    max_nodes: NodeShare = Field(
        default="5%",
        description="Nodes of the pool that can have an unfinished eviction at the same time. An integer or "
        "a percentage, which rounds down to one node at least, default 5%.",
    )
    max_pressured_nodes: NodeShare = Field(
        default="20%",
        description="If more nodes of the pool than this are under pressure or unknown, the operator evicts "
        "nothing, because the pods would only move the pressure to other nodes. An integer or a percentage, "
        "which rounds up, default 20%.",
    )
    min_pod_age_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = Field(
        default=120,
        description="The operator does not evict younger pods. Seconds, an integer, default 120.",
    )
    pod_rules: Annotated[tuple[EvictionRule, ...], ATOMIC] = Field(
        default_factory=tuple,
        alias="rules",
        max_length=MAX_RULES,
        description="Pods that the operator does not evict, or evicts before others. The first rule that "
        "matches a pod decides. No rule permits the eviction of pods that the operator never evicts, such as "
        "those of DaemonSets. A list of at most 16.",
    )
