"""Which nodes belong to a pool: a Kubernetes label selector that is never empty."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api import syntax
from winpool.api.fields import EACH_KEY_SYNTAX, LabelKey, LabelValue
from winpool.api.keys import OS_LABEL, OS_WINDOWS, PREFIX
from winpool.api.model import ATOMIC, ApiModel
from winpool.api.rules import KeyRule, Rule, Validation, cel_list

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
        Rule(f"!self.startsWith('{PREFIX}')", _OWN_KEY_SENTENCE, lambda key: not syntax.is_own(key)),
    ] = Field(description="Key of the label. A string, required.")
    operator: SelectorOperator = Field(
        description="How to compare the label with `values`: In, NotIn, Exists or DoesNotExist. Required."
    )
    values: Annotated[tuple[LabelValue, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=64,
        description="Values to compare with. Required for In and NotIn, absent for Exists and DoesNotExist. "
        "A list of at most 64 strings.",
    )

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


class NodeSelector(ApiModel):
    """A Kubernetes label selector that names at least one label."""

    match_labels: Annotated[
        Mapping[str, LabelValue],
        EACH_KEY_SYNTAX,
        KeyRule(f"!k.startsWith('{PREFIX}')", _OWN_KEY_SENTENCE, lambda key: not syntax.is_own(key)),
        Rule(
            f"!('{OS_LABEL}' in self) || self['{OS_LABEL}'] == '{OS_WINDOWS}'",
            f"label `{OS_LABEL}` must be '{OS_WINDOWS}': a pool has Windows nodes only",
            lambda labels: labels.get(OS_LABEL, OS_WINDOWS) == OS_WINDOWS,
        ),
    ] = Field(
        default_factory=dict,
        max_length=32,
        description="Labels that a node must have with exactly these values. A map of at most 32 strings.",
    )
    match_expressions: Annotated[tuple[SelectorRequirement, ...], ATOMIC] = Field(
        default_factory=tuple,
        max_length=16,
        description="Further requirements on the labels of a node. A node must meet all of them. A list of "
        "at most 16.",
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "(has(self.matchLabels) && self.matchLabels.size() > 0) || "
            "(has(self.matchExpressions) && self.matchExpressions.size() > 0)",
            "must name at least one label in `matchLabels` or `matchExpressions`; "
            f"to select all Windows nodes, write matchLabels: {{{OS_LABEL}: {OS_WINDOWS}}}",
            lambda self: bool(self.match_labels or self.match_expressions),
        ),
    )

    @property
    def label_keys(self) -> frozenset[str]:
        """The keys of all labels that the selector looks at."""
        return frozenset((*self.match_labels, *(requirement.key for requirement in self.match_expressions)))
