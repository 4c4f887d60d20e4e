"""Selectors of nodes and pods that are never empty, and the pods that must be Ready on a node that joins.

A node shows these before it counts as ready for work: when it joins, and when it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property
from typing import Annotated, ClassVar, Final, NamedTuple

from pydantic import Field

from winpool.api.fields import EACH_KEY_SYNTAX, POOL_NAME_PATTERN, LabelKey, LabelValue, is_own, of_form
from winpool.api.keys import OS_LABEL, OS_WINDOWS, PREFIX
from winpool.api.model import ATOMIC, ApiModel, KeyRule, Rule, Validation, cel_list

_OWN_KEY_SENTENCE: Final = (
    f"must not be under '{PREFIX}': this operator sets those labels itself; "
    "use other labels, such as 'agentpool'"
)


class SelectorOperator(StrEnum):
    """The operators of Kubernetes label selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


_WITH_VALUES: Final = (SelectorOperator.IN, SelectorOperator.NOT_IN)

OPERATOR_NEEDS_VALUES: Final = Rule(
    f"(self.operator in {cel_list(_WITH_VALUES)}) == (has(self.values) && self.values.size() > 0)",
    "must be given for In and NotIn and must be absent for Exists and DoesNotExist",
    lambda self: (self.operator in _WITH_VALUES) == bool(self.values),
    at=".values",
)
"""What every requirement of a label selector must obey."""


class SelectorRequirement(ApiModel):
    """One requirement on the labels of a node."""

    key: Annotated[
        LabelKey,
        Rule(f"!self.startsWith('{PREFIX}')", _OWN_KEY_SENTENCE, lambda key: not is_own(key)),
    ]
    """Key of the label. A string, required."""
    operator: SelectorOperator
    """How to compare the label with `values`: In, NotIn, Exists or DoesNotExist. Required."""
    values: Annotated[tuple[LabelValue, ...], ATOMIC] = Field(default_factory=tuple, max_length=64)
    """Values to compare with. Required for In and NotIn, absent for Exists and DoesNotExist. A list of at
    most 64 strings."""

    rules: ClassVar[tuple[Validation, ...]] = (
        OPERATOR_NEEDS_VALUES,
        Rule(
            f"self.key != '{OS_LABEL}' || "
            f"(self.operator == 'In' && has(self.values) && self.values == ['{OS_WINDOWS}'])",
            f"must be operator In with the one value '{OS_WINDOWS}' if `key` is '{OS_LABEL}': "
            "a pool has Windows nodes only",
            lambda self: self.key != OS_LABEL or (self.operator == "In" and self.values == (OS_WINDOWS,)),
        ),
    )


class LabelRequirement(NamedTuple):
    """That the value of the label ``key``, None without one, is among ``values``, or is not."""

    key: str
    values: frozenset[str | None]
    is_wanted: bool

    def is_met_by(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels meets it."""
        return (labels.get(self.key) in self.values) is self.is_wanted


def _requirements(selector: NodeSelector | PodSelector) -> tuple[LabelRequirement, ...]:
    """Return all that a selector requires."""
    labels = sorted(selector.match_labels.items())
    return (
        *(LabelRequirement(key, frozenset([value]), is_wanted=True) for key, value in labels),
        *(
            LabelRequirement(
                each.key,
                # Those without values ask whether there is a label.
                frozenset(each.values or [None]),
                is_wanted=each.operator in (SelectorOperator.IN, SelectorOperator.DOES_NOT_EXIST),
            )
            for each in selector.match_expressions
        ),
    )


def _names_a_label(fix: str = "") -> Rule:
    """Return the rule that a selector must obey: an empty one would select everything."""
    return Rule(
        "(has(self.matchLabels) && self.matchLabels.size() > 0) || "
        "(has(self.matchExpressions) && self.matchExpressions.size() > 0)",
        f"must name at least one label in `matchLabels` or `matchExpressions`{fix}",
        lambda self: bool(self.match_labels or self.match_expressions),
    )


class NodeSelector(ApiModel):
    """A Kubernetes label selector that names at least one label."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        EACH_KEY_SYNTAX,
        KeyRule(f"!k.startsWith('{PREFIX}')", _OWN_KEY_SENTENCE, lambda key: not is_own(key)),
        Rule(
            f"!('{OS_LABEL}' in self) || self['{OS_LABEL}'] == '{OS_WINDOWS}'",
            f"label `{OS_LABEL}` must be '{OS_WINDOWS}': a pool has Windows nodes only",
            lambda labels: labels.get(OS_LABEL, OS_WINDOWS) == OS_WINDOWS,
        ),
    ] = Field(default_factory=dict, max_length=32)
    """Labels that a node must have with exactly these values. A map of at most 32 strings."""
    match_expressions: Annotated[tuple[SelectorRequirement, ...], ATOMIC] = Field(
        default_factory=tuple, max_length=16
    )
    """Further requirements on the labels of a node. A node must meet all of them. A list of at most 16."""

    rules: ClassVar[tuple[Validation, ...]] = (
        _names_a_label(f"; to select all Windows nodes, write matchLabels: {{{OS_LABEL}: {OS_WINDOWS}}}"),
    )

    @cached_property
    def requirements(self) -> tuple[LabelRequirement, ...]:
        """All that it requires."""
        return _requirements(self)

    @property
    def label_keys(self) -> frozenset[str]:
        """The keys of all labels that the selector looks at."""
        return frozenset([each.key for each in self.requirements])


DEFAULT_READY_SECONDS: Final = 120
"""Network plugins and node agents of Windows restart the node's services in the first two minutes."""

DEFAULT_TIMEOUT_SECONDS: Final = 600
"""A Windows node takes up to ten minutes from its first report to the last of its agents."""

MAX_REQUIRED_PODS: Final = 16


class NodeAgents(StrEnum):
    """Which DaemonSet pods of a node have to be Ready."""

    CRITICAL = "Critical"
    """Those of priority class system-node-critical or system-cluster-critical."""
    ALL = "All"
    NONE = "None"


class PodRequirement(ApiModel):
    """One requirement on the labels of a pod."""

    key: LabelKey
    """Key of the label. A string, required."""
    operator: SelectorOperator
    """How to compare the label with `values`: In, NotIn, Exists or DoesNotExist. Required."""
    values: Annotated[tuple[LabelValue, ...], ATOMIC] = Field(default_factory=tuple, max_length=16)
    """Values to compare with. Required for In and NotIn, absent for Exists and DoesNotExist. A list of at
    most 16 strings."""

    rules: ClassVar[tuple[Validation, ...]] = (OPERATOR_NEEDS_VALUES,)


class PodSelector(ApiModel):
    """A Kubernetes label selector that names at least one label."""

    match_labels: Annotated[Mapping[str, LabelValue], EACH_KEY_SYNTAX] = Field(
        default_factory=dict, max_length=16
    )
    """Labels that a pod must have with exactly these values. A map of at most 16 strings."""
    match_expressions: Annotated[tuple[PodRequirement, ...], ATOMIC] = Field(
        default_factory=tuple, max_length=8
    )
    """Further requirements on the labels of a pod. A pod must meet all of them. A list of at most 8."""

    rules: ClassVar[tuple[Validation, ...]] = (_names_a_label(),)

    @cached_property
    def requirements(self) -> tuple[LabelRequirement, ...]:
        """All that it requires."""
        return _requirements(self)


def selects(selector: NodeSelector | PodSelector, labels: Mapping[str, str]) -> bool:
    """Whether ``selector`` selects an object with these labels.

    As in Kubernetes, ``NotIn`` and ``DoesNotExist`` also select an object without the key.
    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#set-based-requirement
    """
    return all(each.is_met_by(labels) for each in selector.requirements)


NamespaceName = Annotated[
    str,
    Field(max_length=253),
    of_form(
        POOL_NAME_PATTERN, "must be the name of a namespace: at most 63 lowercase letters, digits and '-'"
    ),
]


def names_pods(fix: str = "") -> Rule:
    """Return what a rule about pods must obey: it says which pods."""
    return Rule(
        "(has(self.namespaces) && self.namespaces.size() > 0) || has(self.podSelector)",
        f"must have `namespaces`, `podSelector` or both{fix}",
        lambda self: bool(self.namespaces) or self.pod_selector is not None,
    )


class RequiredPods(ApiModel):
    """Pods of which at least one must be Ready on the node."""

    namespace: NamespaceName
    """Namespace of the pods. A string, required."""
    pod_selector: PodSelector
    """Which pods of the namespace. Required."""


class NodeValidation(ApiModel):
    """What a node of the pool must show before the operator removes its startup taints."""

    ready_seconds: Annotated[int, Field(strict=True, ge=0, le=3600)] = Field(
        default_factory=lambda: DEFAULT_READY_SECONDS
    )
    """How long the kubelet must have reported Ready without a break. Seconds, an integer, 120 if absent."""
    timeout_seconds: Annotated[int, Field(strict=True, ge=1, le=86400)] = Field(
        default_factory=lambda: DEFAULT_TIMEOUT_SECONDS
    )
    """How long a node may take to pass, from the time when its startup taints were added. If it takes longer,
    the operator reports the node, which keeps its startup taints. A node that is older than this when the
    operator first writes to it gets no startup taints. Seconds, an integer, 600 if absent."""
    node_agents: NodeAgents = Field(default_factory=lambda: NodeAgents.CRITICAL)
    """Which DaemonSet pods on the node must be Ready: Critical (those of a system priority class), All or
    None. A string, Critical if absent."""
    required_pods: Annotated[tuple[RequiredPods, ...], ATOMIC] = Field(
        default_factory=tuple, max_length=MAX_REQUIRED_PODS
    )
    """Pods that must be Ready on the node, at least one for each entry. A list of at most 16."""
