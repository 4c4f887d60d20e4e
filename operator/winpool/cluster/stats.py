"""Counts of requests, on a plain object that the metrics read at scrape."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

NO_ANSWER: Final = "error"
"""Instead of an HTTP status where no answer came (connection refused, broken, cut)."""
TIMED_OUT: Final = "timeout"
"""Instead of an HTTP status where no answer came in time."""


@dataclass(slots=True)
class RequestStats:
    """Requests by verb, resource and code.

    Verbs and resources are those of RBAC ("patch", "nodes", "windowsnodepools/status");
    codes are HTTP statuses as text, or ``NO_ANSWER``, or ``TIMED_OUT``. Every attempt
    counts, also one that is repeated. The keys are few: all three come from our own code
    or from HTTP.
    """

    requests: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    in_flight: int = 0
    retries: int = 0

    def count(self, *, verb: str, resource: str, code: str) -> None:
        """Count one attempt that has ended (for a watch: one that was answered)."""
        self.requests[verb, resource, code] += 1
