"""What this process has reported of a pool beside what the status can say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winpool.api.v1alpha1 import Issue


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """An issue with its cause, which is not published; the status may have had no room for it."""

    issue: Issue
    cause: str
