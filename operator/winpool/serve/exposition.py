"""What /metrics answers: a snapshot of all metrics, rendered when somebody asks and shared by all who do.

A render takes the event loop some 10 µs for each series, and it is the loop that reads the watches. So how
many scrapers there are, and how often they ask, must not matter to it.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

FRESH_SECONDS: Final = 1.0
"""How old a snapshot may be that is still served: below what any sane scrape interval could tell apart."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The one format there is, which every Prometheus reads. One for each wish would be a render for each."""

_GZIP_LEVEL: Final = 1
"""The quickest: these texts repeat themselves so much that more effort gains little."""


class Exposition:
    """The metrics of ``registry`` as text, at most FRESH_SECONDS old. ``monotonic`` gives seconds."""

    def __init__(self, registry: CollectorRegistry, *, monotonic: Callable[[], float]) -> None:
        self._registry = registry
        self._monotonic = monotonic
        self._rendered_at = float("-inf")
        self._plain = b""
        self._gzipped: bytes | None = None

    def plain(self) -> bytes:
        """Return the text."""
        now = self._monotonic()
        if now - self._rendered_at >= FRESH_SECONDS:
            self._plain = generate_latest(self._registry)
            self._gzipped = None
            self._rendered_at = now
        return self._plain

    def gzipped(self) -> bytes:
        """Return the text, compressed once for all who want it so."""
        plain = self.plain()
        if self._gzipped is None:
            self._gzipped = gzip.compress(plain, _GZIP_LEVEL, mtime=0)
        return self._gzipped
