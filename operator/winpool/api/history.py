"""What the status remembers of upgrades of a pool: one entry for each target that nodes were brought to."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from winpool.api.model import ATOMIC, ApiModel, Clipped, Timestamp
from winpool.api.texts import Count, ReasonText

MAX_HISTORY: Final = 10
"""Most of a year where nodes are patched every month."""

MAX_GATES: Final = 16
"""More than there are gates, so that one more needs no other CRD."""


class HistoryResult(StrEnum):
    """How an upgrade of the pool ended."""

    IN_PROGRESS = "InProgress"
    SUCCEEDED = "Succeeded"
    SUPERSEDED = "Superseded"
    FAILED = "Failed"


GateNames = Annotated[tuple[ReasonText, ...], Clipped(MAX_GATES), ATOMIC]
"""Names of gates in a status. Texts, not an enum: one that the CRD does not know would cost the report."""


class HistoryEntry(ApiModel):
    """How the nodes of the pool were brought to one target."""

    target: Annotated[str, Clipped(64)] = Field(
        description="The release and revision that nodes were brought to, such as 2022.4052, or the release "
        "alone. A string, required."
    )
    start_time: Timestamp = Field(
        description="When the operator first saw a node that was due for it. An RFC 3339 time, required."
    )
    end_time: Timestamp | None = Field(
        default=None,
        description="When it ended. An RFC 3339 time, absent as long as the result is InProgress.",
    )
    nodes: Count = Field(description="How many nodes were due for it. An integer, required.")
    failed_nodes: Count = Field(
        default_factory=int, description="How many of them failed to reach it. An integer."
    )
    result: HistoryResult = Field(
        description="InProgress: nodes are still due. Succeeded: none is due any more. Superseded: the spec "
        "has another target. Failed: the operator gave up. A string, required."
    )
    overrides: GateNames = Field(
        default_factory=tuple,
        description="Gates for which an override was in force in the meantime. A list of at most 16 strings.",
    )
