"""What to ask Prometheus about the memory of Windows nodes, and what the answers say of each node.

The number of queries does not depend on the number of nodes. The metrics are those of windows_exporter, since
0.30: https://github.com/prometheus-community/windows_exporter/blob/master/docs/collector.memory.md
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.kubelet.amounts import bytes_of, rate_of
from winpool.kubelet.matchers import selector_of
from winpool.kubelet.samples import ExporterSample

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.kubelet.matchers import Matchers
    from winpool.kubelet.vectors import Point

_MATCHERS: Final = "{}"
"""Stands behind the name of each metric, where the matchers of the data source come."""

_RATE: Final = "irate({0}{{}}[5m]) and {0}{{}}"
"""The rate between the last two scrapes, so that a storm of paging shows at once. Five minutes is how far
back Prometheus itself looks for a value. How old the scrape is, TIME says.

Only of series that have not ended: an exporter that was restarted can have other labels than before, and for
five minutes its node would have two rates, which are none."""


class Query(Enum):
    """A query of the HTTP API. Nothing of a pool is part of one."""

    TIME = "timestamp(windows_memory_committed_bytes{}) or timestamp(windows_memory_available_bytes{})"
    COMMITTED = "windows_memory_committed_bytes{}"
    COMMIT_LIMIT = "windows_memory_commit_limit{}"
    AVAILABLE = "windows_memory_available_bytes{}"
    PHYSICAL = "windows_memory_physical_total_bytes{}"
    POOL_NONPAGED = "windows_memory_pool_nonpaged_bytes{}"
    PAGE_READS = _RATE.format("windows_memory_swap_page_reads_total")
    PAGES_WRITTEN = _RATE.format("windows_memory_swap_pages_written_total")
    PAGES_REPURPOSED = _RATE.format("windows_memory_transition_pages_repurposed_total")

    def of(self, matchers: Matchers) -> str:
        """Return it as PromQL, of the series alone that have these labels."""
        return self.value.replace(_MATCHERS, selector_of(matchers))


def samples_of(answers: Mapping[Query, Mapping[str, Point]]) -> dict[str, ExporterSample]:
    """Put the answers together, by node.

    A node without a time has no sample: how old its values are cannot be known. A value that is absent is
    unknown, also where the exporter reports that its collector has succeeded.
    """
    return {
        node: _sample(node, time, answers)
        for node, time in answers[Query.TIME].items()
        if time.value > 0 and time.at > 0
    }


def _sample(node: str, time: Point, answers: Mapping[Query, Mapping[str, Point]]) -> ExporterSample:
    def amount(query: Query) -> int | None:
        return bytes_of(_value(answers, query, node))

    def rate(query: Query) -> float | None:
        return rate_of(_value(answers, query, node))

    return ExporterSample(
        node=node,
        time=time.value,
        age=time.at - time.value,
        committed=amount(Query.COMMITTED),
        commit_limit=amount(Query.COMMIT_LIMIT),
        available=amount(Query.AVAILABLE),
        physical=amount(Query.PHYSICAL),
        pool_nonpaged=amount(Query.POOL_NONPAGED),
        page_reads=rate(Query.PAGE_READS),
        pages_written=rate(Query.PAGES_WRITTEN),
        pages_repurposed=rate(Query.PAGES_REPURPOSED),
    )


def _value(answers: Mapping[Query, Mapping[str, Point]], query: Query, node: str) -> float | None:
    point = answers[query].get(node)
    return None if point is None else point.value
