"""What a person should look at, before it is cut to what the status has room for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.api.issues import IssueReason


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it should be, and what to do about it.

    ``nodes`` are those that it is about, by their names; empty where it is about the pool as a whole.
    """

    reason: IssueReason
    nodes: Sequence[str]
    message: str
    fix: str

    @property
    def text(self) -> str:
        """Message and fix in one sentence."""
        return f"{self.message.removesuffix('.')}: {self.fix}"
