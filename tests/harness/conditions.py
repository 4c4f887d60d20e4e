"""What may be reported: the table that the reference page is made from."""

from __future__ import annotations

from gen.condition_table import rows_of
from winpool.api.conditions import ConditionType


def is_listed(kind: str, status: str, reason: str) -> bool:
    """Whether the table has this status and reason for this type: what is reported must be documented."""
    return (status, reason) in [row[:2] for row in rows_of(ConditionType(kind))]
