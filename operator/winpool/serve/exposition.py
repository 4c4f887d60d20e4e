"""The answer of /metrics: a snapshot of all metrics, rendered on request and shared by all requests.

Rendering takes some 10 µs for each series, so seconds with thousands of pools (``pages``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector, generate_latest

from winpool.serve.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""The only format, which every Prometheus reads. Each further format would need a rendering of its own."""


class Source(Protocol):
    """Has the metrics."""

    def snapshot(self) -> Collector:
        """Return a collector of the metrics as they are now.

        It is called in the event loop and must return at once. The collector is used in another thread, so it
        may read nothing that the event loop changes.
        """


def exposition(source: Source, *, monotonic: Callable[[], float]) -> Pages:
    """Return the metrics of ``source`` as pages."""
    # Both read files of the kernel and constants, in any thread.
    of_process = (ProcessCollector(registry=None), PlatformCollector(registry=None))

    def snapshot() -> Callable[[], bytes]:
        registry = CollectorRegistry()
        for collector in (source.snapshot(), *of_process):
            registry.register(collector)
        return lambda: generate_latest(registry)

    return Pages(snapshot, name="metrics", monotonic=monotonic)
