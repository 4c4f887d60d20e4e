"""From where on the memory of a node counts as short, on each of the two ways in which it runs out.

A set of thresholds is given as a whole or not at all. None has a schema default, since the operator's own
values are tuned: a default is stored in the object and stays as it was.
"""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from winpool.api.model import ApiModel
from winpool.api.quantity import PositiveMemory
from winpool.api.rules import Rule, Validation

_MAX_READS: Final = 1_000_000
"""More than any disk reads in a second: what is above it is a slip."""

_Percent = Annotated[int, Field(strict=True, ge=1, le=99)]
_Reads = Annotated[int, Field(strict=True, ge=1, le=_MAX_READS)]


class CommitThresholds(ApiModel):
    """When committed memory counts as pressure."""

    warning_used_percent: _Percent = Field(
        description="A node is at Warning if it has committed more than this share of what it can commit at "
        "most. Percent, an integer, required."
    )
    soft_used_percent: _Percent = Field(
        description="The same for Soft. Above `warningUsedPercent`. Percent, an integer, required."
    )
    hard_headroom: PositiveMemory = Field(
        description="A node is at Hard if it can commit less than this, or less than 3 % of what it can "
        "commit at most. An integer of bytes or a string such as 1Gi, required."
    )
    hard_eta_seconds: Annotated[int, Field(strict=True, ge=1, le=3600)] = Field(
        description="A node at Soft is at Hard if, at the present rate, it can commit nothing more within "
        "this time. Seconds, an integer, required."
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "self.warningUsedPercent < self.softUsedPercent",
            "must be above `warningUsedPercent`: each is the share that is committed",
            lambda self: self.warning_used_percent < self.soft_used_percent,
            at=".softUsedPercent",
        ),
    )


class PhysicalThresholds(ApiModel):
    """When RAM counts as short. Little RAM alone is no harm: Soft and Hard need paging as well."""

    warning_available_percent: _Percent = Field(
        description="A node is at Warning if less than this share of its RAM is available. Percent, an "
        "integer, required."
    )
    soft_available_percent: _Percent = Field(
        description="The same for Soft, if the node also reads more than `softReadsPerSecond` and writes "
        "pages out. Below `warningAvailablePercent`. Percent, an integer, required."
    )
    hard_available_percent: _Percent = Field(
        description="The same for Hard, if the node also reads more than `hardReadsPerSecond`. Below "
        "`softAvailablePercent`. Percent, an integer, required."
    )
    soft_reads_per_second: _Reads = Field(
        description="Read operations for page faults, per second, above which a node can be at Soft. An "
        "integer, required."
    )
    hard_reads_per_second: _Reads = Field(
        description="The same for Hard. At least `softReadsPerSecond`. An integer, required."
    )

    rules: ClassVar[tuple[Validation, ...]] = (
        Rule(
            "self.hardAvailablePercent < self.softAvailablePercent && "
            "self.softAvailablePercent < self.warningAvailablePercent",
            "must be in the order `hardAvailablePercent` below `softAvailablePercent` below "
            "`warningAvailablePercent`: each is the share of RAM that is still available",
            lambda self: (
                self.hard_available_percent < self.soft_available_percent < self.warning_available_percent
            ),
        ),
        Rule(
            "self.softReadsPerSecond <= self.hardReadsPerSecond",
            "must be at least `softReadsPerSecond`",
            lambda self: self.soft_reads_per_second <= self.hard_reads_per_second,
            at=".hardReadsPerSecond",
        ),
    )
