"""Makes the queries of Prometheus about the memory of Windows nodes, and samples of the answers.

The number of queries does not depend on the number of nodes. The metrics are those of windows_exporter, since
0.30: https://github.com/prometheus-community/windows_exporter/blob/master/docs/collector.memory.md

Everyone whose metrics are scraped chooses the names of metrics, and most labels. The labels of the target,
such as ``job``, are of the configuration of Prometheus: a label of that name in the metrics becomes
``exported_job``, unless the configuration has ``honor_labels`` for that job.
https://prometheus.io/docs/prometheus/latest/configuration/configuration/#scrape_config
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec

from winpool.kubelet.samples import BROKEN, Outcome, PollError, number_in, rate_of, reported_bytes
from winpool.model.pressure import MemorySample

Matchers = Mapping[str, str]
"""The labels that a series must have, with exactly these values."""

DEFAULT_MATCHERS: Final[Matchers] = MappingProxyType({"job": "windows-exporter"})
"""The job that kube-prometheus-stack gives windows_exporter, whose rules and dashboards need that name.
https://github.com/prometheus-community/helm-charts/blob/main/charts/kube-prometheus-stack/values.yaml"""

MAX_MATCHERS: Final = 8
"""A job, a namespace, a cluster, a tenant, and as many again."""

MAX_LENGTH: Final = 128
"""Characters of a label or a value. A query has all of them twice, and must fit in the 8 KiB that proxies
accept for a URL by default."""

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
"""https://prometheus.io/docs/concepts/data_model/#metric-names-and-labels"""


def faults_of(matchers: Matchers) -> list[str]:
    """Return what is wrong with matchers of the settings, a sentence for each fault; [] where nothing is."""
    if not matchers:
        return ["it is empty, so series of every job would be believed; write {job: windows-exporter}"]
    if len(matchers) > MAX_MATCHERS:
        return [f"there are {len(matchers)}, and at most {MAX_MATCHERS} are possible"]
    return [fault for label, value in matchers.items() for fault in _faults_in(label, value)]


def selector_of(matchers: Matchers) -> str:
    """Return them as PromQL, in braces. A value is quoted, so that it is a value whatever it has in it."""
    return "{" + ",".join(f"{label}={_quoted(value)}" for label, value in sorted(matchers.items())) + "}"


def _faults_in(label: str, value: str) -> Iterator[str]:
    if len(label) > MAX_LENGTH or not _LABEL.fullmatch(label) or label.startswith("__"):
        yield (
            f"{label[:MAX_LENGTH]!a} is not the name of a label; write letters, digits and '_', and neither "
            "a digit nor '__' first"
        )
    # An empty value would match the series that lack the label.
    if not 0 < len(value) <= MAX_LENGTH or not value.isprintable():
        yield f"the value of {label[:MAX_LENGTH]!a} must have 1 to {MAX_LENGTH} printable characters"


def _quoted(value: str) -> str:
    """Return a string literal of PromQL: https://prometheus.io/docs/prometheus/latest/querying/basics/."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


_Node = Annotated[str, msgspec.Meta(max_length=253)]
"""The value of the label that names the node."""

_Number = Annotated[str, msgspec.Meta(max_length=64)]
"""A number as text. Prometheus writes at most 24 characters."""

MOST_SERIES: Final = 20_000
"""Series of an answer: four times the nodes that Kubernetes supports in a cluster. An answer of the greatest
length has room for half a million, which take a third of a second and 80 MB to decode."""

_SERIES: Final = b'"metric"'
"""What each series of an answer has, written so by Prometheus. In a text the quotes have backslashes."""

_LABELS: Final = 64
"""Decoders that are kept, one for each label that a pool names. A pool names one or two."""


class Point(msgspec.Struct, frozen=True, gc=False):
    """The value of one node, and the time for which Prometheus has computed it, in seconds since 1970."""

    value: float
    at: float


@lru_cache(maxsize=_LABELS)
def _decoder(label: str) -> msgspec.json.Decoder[Any]:
    """Return a decoder that reads of each series only the label that names the node, and the value.

    A series has some three hundred bytes of labels, of which this one is needed.
    """
    labels = msgspec.defstruct("Labels", [("node", _Node | None, None)], rename={"node": label}, gc=False)
    series = msgspec.defstruct(
        "Series", [("metric", labels), ("value", tuple[float, _Number] | None, None)], gc=False
    )
    most = Annotated[list[series], msgspec.Meta(max_length=MOST_SERIES)]  # type: ignore[valid-type]
    data = msgspec.defstruct("Data", [("result", most)], tag_field="resultType", tag="vector")
    answer = msgspec.defstruct("Answer", [("data", data)], tag_field="status", tag="success")
    return msgspec.json.Decoder(answer)


def parse_vector(body: bytes | bytearray, *, label: str) -> dict[str, Point]:
    """Return the value of each node in the answer to an instant query, by the series label that names it.

    https://prometheus.io/docs/prometheus/latest/querying/api/#instant-queries

    A node that has no finite value, or more than one series, is not in it: which of two is right cannot be
    known.

    Raises PollError: TOO_LARGE for too many series, UNREADABLE for what is no answer with a vector.
    """
    if body.count(_SERIES) > MOST_SERIES:
        raise PollError(Outcome.TOO_LARGE, f"the answer has more than {MOST_SERIES} series")
    try:
        told = _decoder(label).decode(body)
    except BROKEN:
        raise PollError(Outcome.UNREADABLE, "the answer is not a vector of Prometheus") from None
    found: dict[str, Point | None] = {}
    for series in told.data.result:
        node = series.metric.node
        if node:
            found[node] = None if node in found else _point(series.value)
    return {node: point for node, point in found.items() if point is not None}


def _point(told: tuple[float, str] | None) -> Point | None:
    number = None if told is None else number_in(told[1])
    return None if told is None or number is None else Point(number, told[0])


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


def samples_of(answers: Mapping[Query, Mapping[str, Point]]) -> dict[str, MemorySample]:
    """Put the answers together, by node.

    A node without a time has no sample: how old its values are cannot be known. A value that is absent is
    unknown, also where the exporter reports that its collector has succeeded.
    """
    return {
        node: _sample(node, time, answers)
        for node, time in answers[Query.TIME].items()
        if time.value > 0 and time.at > 0
    }


def _sample(node: str, time: Point, answers: Mapping[Query, Mapping[str, Point]]) -> MemorySample:
    def amount(query: Query, *, is_zero_real: bool = False) -> int | None:
        return reported_bytes(_value(answers, query, node), is_zero_real=is_zero_real)

    def rate(query: Query) -> float | None:
        return rate_of(_value(answers, query, node))

    physical = amount(Query.PHYSICAL)
    # Of a machine that reports its RAM nothing may be left. Without it a zero is one that means missing.
    available = amount(Query.AVAILABLE, is_zero_real=physical is not None)
    return MemorySample(
        taken_at=time.value,
        age=time.at - time.value,
        commit_total=amount(Query.COMMITTED),
        commit_limit=amount(Query.COMMIT_LIMIT),
        physical_total=physical,
        physical_available=available,
        hard_reads_per_second=rate(Query.PAGE_READS),
        write_out_per_second=rate(Query.PAGES_WRITTEN),
        repurposed_per_second=rate(Query.PAGES_REPURPOSED),
        pool_nonpaged=amount(Query.POOL_NONPAGED),
    )


def _value(answers: Mapping[Query, Mapping[str, Point]], query: Query, node: str) -> float | None:
    point = answers[query].get(node)
    return None if point is None else point.value
