"""Where samples may come from, by the operator's settings. A pool names a data source, and never a URL."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.kubelet.limits import Intervals

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Mapping

    from winpool.kubelet.addresses import Network
    from winpool.kubelet.prometheus import PrometheusClient


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSource:
    """A Prometheus. ``scrape_interval_seconds`` is how often it scrapes windows_exporter."""

    name: str
    client: PrometheusClient
    scrape_interval_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingSettings:
    """What connects to kubelets and data sources.

    ``kubelet_context`` returns the TLS context for a new connection to a kubelet. ``allowed_ranges`` are for
    ``AddressRules.allowed``. ``data_sources`` has each by its name. ``intervals`` are those between polls.
    """

    kubelet_context: Callable[[], ssl.SSLContext]
    allowed_ranges: tuple[Network, ...] = ()
    data_sources: Mapping[str, DataSource] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals)
