"""The gates of an OS upgrade by name, and what opens one although it is closed: an override with an end."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from winpool.api.fields import SpecTime
from winpool.api.model import ApiModel
from winpool.api.rules import Rule, cel_list

MAX_REASON: Final = 256
"""Characters of a reason that people write: a sentence, and the number of a ticket."""


class Gate(StrEnum):
    """What has to be open before a node may be upgraded, in the order in which it is reported."""

    SUPPORT_MATRIX = "SupportMatrix"
    END_OF_SUPPORT = "EndOfSupport"
    REVISION_FLOOR = "RevisionFloor"
    RELEASE_CHANGE = "ReleaseChange"
    VERSION_SKEW = "VersionSkew"
    CONTROL_PLANE = "ControlPlane"
    MAINTENANCE_WINDOW = "MaintenanceWindow"
    POOL_HEALTH = "PoolHealth"
    CAPACITY = "Capacity"
    IMAGES = "Images"
    BUDGET = "Budget"
    DISRUPTION_BUDGETS = "PodDisruptionBudgets"


NEVER_OVERRIDDEN: Final = (Gate.BUDGET, Gate.DISRUPTION_BUDGETS)
"""The gates that no override opens: they keep workloads available, which no upgrade is urgent enough for."""

MAX_OVERRIDES: Final = len(Gate) - len(NEVER_OVERRIDDEN)
"""One for each gate that can be overridden."""


class Override(ApiModel):
    """A gate that counts as open until a time, and why."""

    gate: Annotated[
        Gate,
        Rule(
            f"!(self in {cel_list(NEVER_OVERRIDDEN)})",
            "must not be Budget or PodDisruptionBudgets: no override opens these gates; to permit more nodes "
            "at a time, set `maxUnavailable`, and to let pods move, change their PodDisruptionBudget",
            lambda gate: gate not in NEVER_OVERRIDDEN,
        ),
    ] = Field(
        description="The gate: SupportMatrix, EndOfSupport, RevisionFloor, ReleaseChange, VersionSkew, "
        "ControlPlane, MaintenanceWindow, PoolHealth, Capacity or Images. Budget and PodDisruptionBudgets "
        "cannot be overridden. A string, required, once per list."
    )
    until: SpecTime = Field(
        description="When the override ends. From then on it has no effect, and the operator reports it as "
        "an issue until it is removed. An RFC 3339 time such as 2026-12-01T00:00:00Z, required."
    )
    reason: Annotated[
        str,
        Field(max_length=MAX_REASON),
        Rule(
            "self.matches('[^ ]')",
            "must say why the gate may be ignored, such as 'incident 4711'",
            lambda reason: bool(reason.strip(" ")),
        ),
    ] = Field(
        description="Why the gate may be ignored. The operator reports it as long as the override is in "
        "force. A string of at most 256 characters, required."
    )

    def is_in_force(self, now: datetime) -> bool:
        """Whether it still opens its gate at ``now``."""
        return now < self.until
