"""Time, passed in so that a test can set it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Clock:
    """``now`` is for what people and other programs read; ``monotonic`` (seconds) is for waiting."""

    now: Callable[[], datetime] = _utc_now
    monotonic: Callable[[], float] = time.monotonic

    def seconds_to(self, moment: datetime | None) -> float | None:
        """Return in how many seconds ``moment`` is; None where there is none."""
        return None if moment is None else (moment - self.now()).total_seconds()
