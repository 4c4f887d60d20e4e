"""What the memory loops connect to, and what a source says of a node, its pods and its own evictions.

What is counted for the metrics: samples, the time that polls take, and evictions.

What the loops connect to, as they use it: kubelets, and data sources by their names.

What a source reports of a node, as a sample of the detector.

Whether kubelets evict pods themselves: asked once of each, a few a second, and rarely again.

What the pods of a hot node use, and by how much that has grown: what ranks them for an eviction.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, Protocol, Self

from winpool.features.memory.samples import MemorySample
from winpool.features.memory.settings import EVIDENCE_SECONDS
from winpool.kubelet.addresses import AddressRules, Target
from winpool.kubelet.outcome import Outcome, PollError
from winpool.kubelet.samples import ExporterSample, KubeletEviction, KubeletSample, PodMemory
from winpool.kubelet.schedule import Intervals
from winpool.model.pressure import PodUsage

BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Seconds. A kubelet that is well answers within the first few, one above 5 s is late, and the longest
deadline is 10 s (``kubelet.limits``)."""

EvictionResult = Literal["evicted", "refused", "gone", "failed", "unanswered"]
"""How a request to evict a pod ended, see ``control.act.evictions``."""


@dataclass(slots=True)
class Durations:
    """How many took how long. ``counts`` are by the bucket that each fell into, the last for all longer."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    seconds: float = 0.0

    def note(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.seconds += seconds


@dataclass(slots=True)
class MemoryStats:
    """``samples`` are by source and outcome: one for each node and poll. ``polls`` are by source.

    A poll of Prometheus is one set of queries, for all nodes. ``evictions`` are requests, by result.
    """

    samples: Counter[tuple[str, Outcome]] = field(default_factory=Counter)
    polls: dict[str, Durations] = field(default_factory=dict)
    evictions: Counter[EvictionResult] = field(default_factory=Counter)

    def note_sample(self, source: str, outcome: Outcome) -> None:
        """Count the sample of a node."""
        self.samples[source, outcome] += 1

    def note_poll(self, source: str, seconds: float) -> None:
        """Count a poll that has taken so long, whatever its outcome."""
        self.polls.setdefault(source, Durations()).note(seconds)


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


def of_kubelet(
    told: KubeletSample, *, source: str, arrived_at: float, interval: float, capacity: int | None
) -> MemorySample:
    """Return the sample of a kubelet. ``capacity`` is the RAM of the node in bytes, None where unknown.

    A kubelet before 1.31 has no commit container. It reports what is committed, and not the limit.
    """
    memory, commit = told.memory, told.commit
    committed = memory.committed if commit is None and memory is not None else None
    return MemorySample(
        source,
        arrived_at=arrived_at,
        taken_at=_own_time(told),
        interval_seconds=interval,
        commit_total=committed if commit is None else commit.committed,
        commit_limit=None if commit is None else commit.limit,
        physical_total=capacity,
        proxy_available=None if memory is None else memory.available,
        pods_commit=None if told.pods is None else _sum_of(told.pods),
    )


def of_exporter(
    told: ExporterSample, *, source: str, arrived_at: float, interval: float, capacity: int | None
) -> MemorySample:
    """Return the sample of a windows_exporter. ``capacity`` is the RAM of the node, for one that lacks it."""
    return MemorySample(
        source,
        arrived_at=arrived_at,
        taken_at=told.time,
        interval_seconds=interval,
        age=told.age,
        commit_total=told.committed,
        commit_limit=told.commit_limit,
        physical_total=capacity if told.physical is None else told.physical,
        physical_available=told.available,
        hard_reads_per_second=told.page_reads,
        write_out_per_second=told.pages_written,
        repurposed_per_second=told.pages_repurposed,
        pool_nonpaged=told.pool_nonpaged,
    )


def _own_time(told: KubeletSample) -> float | None:
    """Return the time of the older part: the sample is fresh only if both parts have advanced."""
    times: list[datetime] = [part.time for part in (told.memory, told.commit) if part is not None]
    return min(times).timestamp() if times else None


def _sum_of(pods: tuple[PodMemory, ...]) -> float | None:
    """Return what all pods have committed; None where that of one is unknown, or there are none.

    A node without any pod has no agents either, so its list is rather not complete.
    """
    amounts = [pod.committed for pod in pods if pod.committed is not None]
    return float(sum(amounts)) if amounts and len(amounts) == len(pods) else None


log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 6 * 3600.0
"""A kubelet reads its configuration when it starts, and a restart without another version is rare."""

UNREACHED_SECONDS: Final = 300.0
"""After a request that got no answer: the kubelet has closed the connection just then, or was slow."""

UNREACHED: Final = (Outcome.NO_CONNECTION, Outcome.TIMEOUT)

REFUSED_SECONDS: Final = 3600.0
"""After any other failure. Before 1.33 the right is missing, until the kubelet has another version."""

PROBE_SPACING_SECONDS: Final = 1.0
"""Between two such requests to any nodes on average, so that 5,000 nodes get 109 requests a second after a
start of the operator, and not twice as many. They take 83 minutes; nothing waits for the answer."""

BURST: Final = 30
"""So many may come at once after a pause: a few nodes are polled in the same second, and asked in it."""

LEAST_SECONDS: Final = 1.0
"""What has to be left of the time of a poll, to ask within it."""


@dataclass(slots=True)
class Probe:
    """What a kubelet has said, the version of then, and when it is asked again."""

    version: str
    again_at: float
    found: KubeletEviction = KubeletEviction.UNKNOWN


class Probes:
    """Asks kubelets for their configuration. What was found stays with the node."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._next_at = float("-inf")

    def take(self, probe: Probe | None, *, version: str) -> bool:
        """Return whether a kubelet of that version is to be asked now; if so, this counts as asked.

        It counts also where the request does not follow, since the poll before it has failed. So no more
        polls than that keep their connection for it.
        """
        now = self._monotonic()
        if now < self._next_at - (BURST - 1) * PROBE_SPACING_SECONDS:
            return False
        if probe is not None and probe.version == version and now < probe.again_at:
            return False
        self._next_at = max(self._next_at, now) + PROBE_SPACING_SECONDS
        return True

    async def ask(self, client: KubeletReader, target: Target, *, version: str, deadline: float) -> Probe:
        """Ask a kubelet. What cannot be read is unknown."""
        try:
            found = await client.eviction(target, deadline=deadline)
        except PollError as error:
            log.debug("node %s: the configuration of its kubelet cannot be read: %s", target.node, error)
            pause = UNREACHED_SECONDS if error.outcome in UNREACHED else REFUSED_SECONDS
            return Probe(version, self._monotonic() + pause)
        return Probe(version, self._monotonic() + AGAIN_SECONDS, found)


GROWTH_SECONDS: Final = 120.0
"""Growth is that of two minutes: after so long a pod counts as old enough to be evicted."""

USAGE_SPACING_SECONDS: Final = 30.0
"""The lists that are kept for that are so far apart: five of a node, and not thirteen (P7)."""

_Amounts = tuple[float | None, float | None]
"""Commit and working set of a pod."""


@dataclass(frozen=True, slots=True)
class _Listed:
    at: float
    amounts: Mapping[str, _Amounts]


@dataclass(frozen=True, slots=True)
class PodHistory:
    """The last lists of the pods of a node, the oldest first."""

    lists: tuple[_Listed, ...] = ()

    def usage(self, *, now: float) -> Mapping[str, PodUsage]:
        """Return what each pod uses by its UID; nothing where the last list is older than evidence may be."""
        if not self.lists or now - self.lists[-1].at > EVIDENCE_SECONDS:
            return {}
        last, first = self.lists[-1], self.lists[0]
        spanned = last.at - first.at
        share = GROWTH_SECONDS / spanned if spanned >= USAGE_SPACING_SECONDS else None
        return {uid: _usage(amounts, first.amounts.get(uid), share) for uid, amounts in last.amounts.items()}


NO_PODS: Final = PodHistory()


def listed(history: PodHistory, pods: tuple[PodMemory, ...], *, at: float) -> PodHistory:
    """Return ``history`` with a list of the pods that arrived at ``at``."""
    amounts = {pod.uid: (_float(pod.committed), _float(pod.working_set)) for pod in pods}
    lists = history.lists
    if len(lists) > 1 and lists[-1].at - lists[-2].at < USAGE_SPACING_SECONDS:
        lists = lists[:-1]
    return PodHistory((*(each for each in lists if at - each.at <= GROWTH_SECONDS), _Listed(at, amounts)))


def _float(amount: int | None) -> float | None:
    return None if amount is None else float(amount)


def _usage(now: _Amounts, before: _Amounts | None, share: float | None) -> PodUsage:
    commit, working_set = now
    commit_before, working_set_before = before or (None, None)
    return PodUsage(
        commit=commit,
        working_set=working_set,
        commit_growth=_growth(commit, commit_before, share),
        working_set_growth=_growth(working_set, working_set_before, share),
    )


def _growth(now: float | None, before: float | None, share: float | None) -> float | None:
    return None if now is None or before is None or share is None else (now - before) * share
