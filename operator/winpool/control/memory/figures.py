"""What is counted of the watched nodes at a scrape: numbers, and never names of nodes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from winpool.control.memory.capabilities import kubelet_evicts, reports_paging
from winpool.memory.sources import fresh_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from winpool.control.memory.watched_node import WatchedNode

STATES: Final = ("watched", "known", "hot")
"""Of nodes. ``known``: there is a level of an axis at least. The states overlap."""

CAPABILITIES: Final = (
    "commit_limit",
    "pod_commit",
    "paging",
    "kubelet_eviction",
    "no_kubelet_eviction",
)
"""What the sources of a node can tell, and whether its kubelet evicts pods when memory runs out. A node whose
kubelet does not say that is in neither of the last two."""


@dataclass(frozen=True, slots=True)
class MemoryFigures:
    """Nodes by state and by capability, and the age of the oldest fresh sample of each source in seconds."""

    nodes: Counter[str] = field(default_factory=Counter)
    capabilities: Counter[str] = field(default_factory=Counter)
    oldest: dict[str, float] = field(default_factory=dict)


def figures_of(watched: Iterable[WatchedNode], *, now: float) -> MemoryFigures:
    """Count the nodes, at the monotonic time ``now``."""
    figures = MemoryFigures()
    for each in watched:
        figures.nodes.update(_states(each))
        figures.capabilities.update(_capabilities(each))
        for source, age in _ages(each, now=now):
            figures.oldest[source] = max(figures.oldest.get(source, 0.0), age)
    return figures


def _states(watched: WatchedNode) -> Iterator[str]:
    yield "watched"
    if any(axis.level is not None for axis in watched.view.axes.values()):
        yield "known"
    if watched.is_hot:
        yield "hot"


def _capabilities(watched: WatchedNode) -> Iterator[str]:
    if watched.has_commit_limit:
        yield "commit_limit"
    if watched.has_pods_commit:
        yield "pod_commit"
    if reports_paging(watched):
        yield "paging"
    evicts = kubelet_evicts(watched)
    if evicts is not None:
        yield "kubelet_eviction" if evicts else "no_kubelet_eviction"


def _ages(watched: WatchedNode, *, now: float) -> Iterator[tuple[str, float]]:
    for source, known in watched.state.sources.items():
        if known.sample is not None and now - known.measured_at <= fresh_seconds(known.sample):
            yield source, now - known.measured_at
