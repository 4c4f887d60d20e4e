"""What may be reported: the table that the reference page is made from."""

from __future__ import annotations

from winpool.api.condition_table import CONDITIONS


def is_listed(kind: str, status: str, reason: str) -> bool:
    """Whether the table has this status and reason for this type: what is reported must be documented."""
    return any(
        condition.type == kind and meaning.status == status and meaning.reason == reason
        for condition in CONDITIONS
        for meaning in condition.meanings
    )
