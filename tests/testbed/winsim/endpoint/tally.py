"""What has been asked of the kubelets of a process."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS: Final = frozenset(("/stats/summary", "/metrics/resource", "/configz", "/healthz"))
OTHER: Final = "other"
"""Counts all other paths: they are for clients to choose, and may be any number."""


class Tally:
    """Counts requests from their arrival, also those that are refused or never answered."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        """By path."""
        self.most_of_a_node = 0
        """How many requests to the same node were under way at once at most."""
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def answering(self, path: str, *, node: str) -> Iterator[None]:
        """Count a request to a node, which is under way until the block ends."""
        self.requests[path if path in PATHS else OTHER] += 1
        self._under_way[node] += 1
        self.most_of_a_node = max(self.most_of_a_node, self._under_way[node])
        try:
            yield
        finally:
            self._under_way[node] -= 1
            if not self._under_way[node]:
                del self._under_way[node]
