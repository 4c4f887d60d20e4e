"""What a new node of a pool will have: ``status.nodeTemplate``, for autoscalers that start from zero."""

from collections.abc import Mapping
from typing import Annotated, Final

from pydantic import Field

from winpool.api.model import ATOMIC, ApiModel, Clipped

MAX_TEMPLATE_LABELS: Final = 80
"""32 each of `nodeSelector.matchLabels` and `labels`, and some of the operator's own."""


class TemplateTaint(ApiModel):
    """A taint that a new node of the pool will have."""

    key: Annotated[str, Clipped(512)] = Field(description="Key of the taint. A string, required.")
    value: Annotated[str, Clipped(63)] = Field(
        default_factory=str, description="Value of the taint. A string, empty if there is none."
    )
    effect: Annotated[str, Clipped(64)] = Field(description="Effect of the taint. A string, required.")


class NodeTemplate(ApiModel):
    """What a new node of the pool will have, for autoscalers that start from zero."""

    labels: Annotated[Mapping[str, Annotated[str, Clipped(63)]], Field(max_length=MAX_TEMPLATE_LABELS)] = (
        Field(
            default_factory=dict,
            description="Labels that a node needs to belong to the pool, and those that the operator sets. "
            "A map of strings.",
        )
    )
    taints: Annotated[tuple[TemplateTaint, ...], Clipped(16), ATOMIC] = Field(
        default_factory=tuple,
        description="Taints that the operator sets. Startup taints are not included, because the operator "
        "removes them. A list of at most 16.",
    )
