"""What a node must show before it counts as ready for work: when it joins, and when it comes back."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.fields import EACH_KEY_SYNTAX, LabelKey, LabelValue
from winpool.api.model import ATOMIC, ApiModel
from winpool.api.rules import Rule, Validation
from winpool.api.selector import OPERATOR_NEEDS_VALUES, SelectorOperator

DEFAULT_READY_SECONDS: Final = 120
"""Network plugins and node agents of Windows restart the node's services in the first two minutes."""

DEFAULT_TIMEOUT_SECONDS: Final = 600
"""A Windows node takes up to ten minutes from its first report to the last of its agents."""

MAX_REQUIRED_PODS: Final = 16
_WIDE_NAMESPACE: Final = 253


class NodeAgents(StrEnum):
    """Which DaemonSet pods of a node have to be Ready."""

    CRITICAL = "Critical"
    """Those of priority class system-node-critical or system-cluster-critical."""
    ALL = "All"
    NONE = "None"


class PodRequirement(ApiModel):
    """One requirement on the labels of a pod."""

    key: LabelKey = Field(description="Key of the label. A string, required.")
    operator: SelectorOperator = Field(
        description="How to compare the label with `values`: In, NotIn, Exists or DoesNotExist. Required."
    )
    values: Annotated[tuple[LabelValue, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=16,
        description="Values to compare with. Required for In and NotIn, absent for Exists and DoesNotExist. "
        "A list of at most 16 strings.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (OPERATOR_NEEDS_VALUES,)


class PodSelector(ApiModel):
    """A Kubernetes label selector that names at least one label."""

    match_labels: Annotated[Mapping[str, LabelValue], EACH_KEY_SYNTAX] = Field(
        default_factory=dict,
        max_length=16,
        description="Labels that a pod must have with exactly these values. A map of at most 16 strings.",
    )
    match_expressions: Annotated[tuple[PodRequirement, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=8,
        description="Further requirements on the labels of a pod. A pod must meet all of them. A list of at "
        "most 8.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(has(self.matchLabels) && self.matchLabels.size() > 0) || "
            "(has(self.matchExpressions) && self.matchExpressions.size() > 0)",
            "must name at least one label in `matchLabels` or `matchExpressions`",
            lambda self: bool(self.match_labels or self.match_expressions),
        ),
    )


NamespaceName = Annotated[
    str,
    Field(max_length=_WIDE_NAMESPACE),
    Rule(
        f"self.matches('{syntax.POOL_NAME_PATTERN}')",
        "must be the name of a namespace: at most 63 lowercase letters, digits and '-'",
        syntax.is_pool_name,
    ),
]


class RequiredPods(ApiModel):
    """Pods of which at least one must be Ready on the node."""

    namespace: NamespaceName = Field(description="Namespace of the pods. A string, required.")
    pod_selector: PodSelector = Field(description="Which pods of the namespace. Required.")


class NodeValidation(ApiModel):
    """What a node of the pool must show before the operator removes its startup taints."""

    ready_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] | None = Field(
        default=None,
        description="How long the kubelet must have reported Ready without a break. Seconds, an integer, "
        "120 if absent.",
    )
    timeout_seconds: Annotated[int, Field(strict=True, ge=1, le=86400)] | None = Field(
        default=None,
        description="How long a node may take to pass, from the time when its startup taints were added. If "
        "it takes longer, the operator reports the node, which keeps its startup taints. A node that is "
        "older than this when the operator first writes to it gets no startup taints. Seconds, an integer, "
        "600 if absent.",
    )
    node_agents: NodeAgents | None = Field(
        default=None,
        description="Which DaemonSet pods on the node must be Ready: Critical (those of a system priority "
        "class), All or None. A string, Critical if absent.",
    )
    required_pods: Annotated[tuple[RequiredPods, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=MAX_REQUIRED_PODS,
        description="Pods that must be Ready on the node, at least one for each entry. A list of at most 16.",
    )

    @property
    def seconds_ready(self) -> int:
        """How long a node must have been Ready."""
        return DEFAULT_READY_SECONDS if self.ready_seconds is None else self.ready_seconds

    @property
    def seconds_allowed(self) -> int:
        """How long a node may take until it has passed."""
        return DEFAULT_TIMEOUT_SECONDS if self.timeout_seconds is None else self.timeout_seconds

    @property
    def agents(self) -> NodeAgents:
        """Which DaemonSet pods must be Ready."""
        return self.node_agents or NodeAgents.CRITICAL
