"""The answer of /metrics: a snapshot of all metrics, rendered on request and shared by all requests.

Rendering takes some 10 µs for each series, in the event loop that reads the watches. So the number of
scrapers, and how often they ask, must not change the load.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Final

from prometheus_client import generate_latest

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client import CollectorRegistry

FRESH_SECONDS: Final = 1.0
"""How old a served snapshot may be: much less than any reasonable scrape interval."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The only format, which every Prometheus reads. Each further format would need a rendering of its own."""

_GZIP_LEVEL: Final = 1
"""The fastest: these texts repeat so much that a higher level gains little."""


class Exposition:
    """The metrics of ``registry`` as text, at most FRESH_SECONDS old. ``monotonic`` returns seconds."""

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
        """Return the text, compressed once for all requests."""
        plain = self.plain()
        if self._gzipped is None:
            self._gzipped = gzip.compress(plain, _GZIP_LEVEL, mtime=0)
        return self._gzipped
