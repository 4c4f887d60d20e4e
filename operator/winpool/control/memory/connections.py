"""What the loops connect to, as they use it: kubelets, and data sources by their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

from winpool.kubelet.limits import Intervals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from winpool.kubelet.addresses import AddressRules, Target
    from winpool.kubelet.configz import KubeletEviction
    from winpool.kubelet.samples import ExporterSample, KubeletSample


class KubeletReader(Protocol):
    """Reads statistics from kubelets, see ``kubelet.client.KubeletClient``. It raises PollErrors."""

    async def __aenter__(self) -> Self:
        """Begin."""
        ...

    async def __aexit__(self, *_: object) -> None:
        """Close every connection."""
        ...

    async def summary(
        self, target: Target, *, deadline: float, pods: bool = False, keep: bool = False, more: bool = False
    ) -> KubeletSample:
        """Return the memory of a node. ``more``: another request is to follow at once."""
        ...

    async def eviction(self, target: Target, *, deadline: float) -> KubeletEviction:
        """Return whether the kubelet itself evicts pods."""
        ...

    async def release(self, node: str) -> None:
        """Close the connection that waits for another request, which does not follow."""
        ...

    async def forget(self, node: str) -> None:
        """Close the connection of a node."""
        ...


class SeriesReader(Protocol):
    """Queries a Prometheus, see ``kubelet.prometheus.PrometheusClient``. It raises PollErrors."""

    async def samples(self, *, label: str, deadline: float) -> dict[str, ExporterSample]:
        """Return the sample of each node, by the value of ``label``."""
        ...


class DataSource(Protocol):
    """A Prometheus of the operator's settings."""

    @property
    def client(self) -> SeriesReader:
        """Who queries it."""
        ...

    @property
    def scrape_interval_seconds(self) -> float:
        """How often it scrapes windows_exporter."""
        ...


async def _nothing() -> None:
    """End nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connections:
    """How samples are got, and what the settings keep from being done by them.

    ``kubelets`` makes the client of kubelets; it is called inside the running event loop. ``rules`` say to
    which addresses a token may be sent. ``data_sources`` has those of the operator's settings by their names.
    ``intervals`` are those between polls of kubelets; Prometheus is asked no more rarely.
    ``missing`` says which right the operator lacks to have a token for kubelets, empty where none is.
    ``close`` ends a request for that token, once nothing is polled any more.
    ``protected_namespaces`` are those whose pods are never evicted.
    """

    kubelets: Callable[[], KubeletReader]
    rules: AddressRules
    data_sources: Mapping[str, DataSource] = field(default_factory=dict)
    intervals: Intervals = field(default_factory=Intervals)
    missing: Callable[[], str] = str
    close: Callable[[], Awaitable[None]] = _nothing
    protected_namespaces: frozenset[str] = frozenset()
