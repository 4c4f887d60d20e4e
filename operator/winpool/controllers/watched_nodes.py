"""Keeps what is known of each node whose memory is watched, and wakes the pool that has to know of it.

A node is of one pool at a time, the one that asked last. What is known of a node is by its UID: another
machine of the same name begins with nothing, and nodes and pools that are gone leave nothing behind (P7).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from winpool.api.memory_pressure import MemoryMode
from winpool.features.memory.detector import changes_after, known_at, step_at
from winpool.features.memory.levels import fresh_seconds
from winpool.features.memory.settings import FRESH_SECONDS, DetectorSettings, settings_of
from winpool.features.memory.victims import NO_PODS, PodHistory
from winpool.kubelet.samples import KUBELET_SENTENCES, PROMETHEUS_SENTENCES, KubeletEviction, Outcome
from winpool.kubelet.schedule import Waiting
from winpool.loops import Faults
from winpool.model.node import Node
from winpool.model.pool import Pool
from winpool.model.pressure import (
    NO_SAMPLES,
    NOTHING_KNOWN,
    KnownMemory,
    MemorySample,
    NodePressure,
    PodUsage,
    UsageSinceCalm,
)

log = logging.getLogger(__name__)


class Probe(msgspec.Struct):
    """What a kubelet has said of its own evictions, its version of then, and when it is asked again."""

    version: str
    again_at: float
    found: KubeletEviction = KubeletEviction.UNKNOWN


class Silence(msgspec.Struct):
    """How long a source has been silent about a node.

    ``since`` is when its last fresh sample was measured, or when watching began, on the operator's clock.
    ``seconds`` is for how long that is no problem: as long as that sample is fresh.
    """

    since: float
    seconds: float
    outcome: Outcome | None = None
    _other: Outcome | None = None

    def ended(self, *, since: float, seconds: float) -> None:
        """Note a fresh sample."""
        self.since, self.seconds, self.outcome, self._other = since, seconds, None, None

    def failed(self, outcome: Outcome) -> None:
        """Note how a poll has failed.

        Another outcome counts once it came twice in a row: of two that alternate, the first stays, so that no
        report changes with every poll.
        """
        if self.outcome is None or outcome is self._other:
            self.outcome, self._other = outcome, None
        else:
            self._other = None if outcome is self.outcome else outcome

    @property
    def problem_from(self) -> float | None:
        """After which time it is a problem; None where nothing has failed since the last sample."""
        return None if self.outcome is None else self.since + self.seconds

    def problem(self, *, now: float) -> Outcome | None:
        """Return what the problem is ``now``; None where there is none."""
        return self.outcome if self.problem_from is not None and now > self.problem_from else None


class Series(NamedTuple):
    """The series of a data source, and the label that has the name of the node."""

    data_source: str
    label: str


class Wanted(msgspec.Struct, frozen=True):
    """What a pool wants, at one generation of its spec.

    ``evicts``: the pool evicts pods, so they are listed. ``sources`` has the series of each by its
    name, the preferred first, and None for the kubelets.
    """

    pool: str
    pool_uid: str
    generation: int
    settings: DetectorSettings
    evicts: bool
    sources: Mapping[str, Series | None]

    @property
    def kubelet(self) -> str | None:
        """The name of the source that is the kubelets, None where the pool reads none."""
        return next((name for name, series in self.sources.items() if series is None), None)

    def is_of(self, pool: Pool) -> bool:
        """Whether it is what ``pool`` wants."""
        return (self.pool_uid, self.generation) == (pool.uid, pool.generation)


def wanted_by(pool: Pool) -> Wanted | None:
    """Return what ``pool`` wants; None where it has no ``memoryPressure``, or its spec cannot be read."""
    pressure = None if pool.spec is None else pool.spec.memory_pressure
    if pressure is None:
        return None
    return Wanted(
        pool=pool.name,
        pool_uid=pool.uid,
        generation=pool.generation,
        settings=settings_of(pressure),
        evicts=pressure.mode is MemoryMode.EVICT,
        sources={
            each.name: None
            if each.prometheus is None
            else Series(each.prometheus.data_source, each.prometheus.node_label)
            for each in pressure.sources
        },
    )


NEVER: Final = float("inf")


class News(Enum):
    """What has changed for those who read it."""

    NONE = 0
    CALM = 1
    """That nothing is to be signalled, which takes five minutes of samples after a start to be known."""
    KNOWN = 2
    """Whether something is known, or why it is not."""
    PRESSURE = 3
    """How bad it is, what is to be signalled, or that an eviction is right."""


@dataclass(slots=True)
class WatchedNode:
    """A node, and what is known of its memory.

    ``wanted`` is what its pool asks for. ``told`` is what was known when something last changed. ``priority``
    is how soon it is to be polled, above 0 for a hot node. ``probe`` is what its kubelet has said of its own
    evictions. ``has_commit_limit`` and ``has_pods_commit`` say whether the last answer of the kubelet that
    could have them did, None where there was no such answer.
    """

    node: Node
    wanted: Wanted
    began: float
    memory: NodePressure = NO_SAMPLES
    pods: PodHistory = NO_PODS
    priority: float = 0.0
    told: NodePressure = NO_SAMPLES
    problem: str = ""
    probe: Probe | None = None
    has_commit_limit: bool | None = None
    has_pods_commit: bool | None = None
    _known_until: float = field(init=False)
    _updated_at: float = field(init=False)
    _silences: dict[str, Silence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self._compute(self.began)

    @property
    def is_hot(self) -> bool:
        """Whether it is to be polled often."""
        return self.priority > 0

    def lists_pods(self, now: float) -> bool:
        """Whether the next answer of the kubelet is to have the pods."""
        return self.wanted.evicts and (self.is_hot or self.pods.is_due(now=now))

    def listed(self, pods: Mapping[str, PodUsage], *, at: float) -> None:
        """Note a list of the pods that arrived ``at`` a time, unless the sample that it came with is old."""
        last = self.memory.sources.get(self.wanted.kubelet or "")
        if last is None or last.arrived_at != at:
            return
        is_calm = not self.is_hot and not self.memory_at(at).is_hot
        self.pods = self.pods.listed(pods, at=at, is_calm=is_calm, committed=self.memory.committed)

    def usage(self, now: float) -> UsageSinceCalm | None:
        """Return what its pods use, and by how much they grow; None where that is not known ``now``."""
        return self.pods.usage(now=now, committed=self.memory.committed)

    @property
    def ready_since(self) -> float:
        """Since when an eviction is right, for the axis that came last; minus infinity where none is."""
        times = (each.ready_since for each in self.memory.evictable if each.ready_since is not None)
        return max(times, default=-NEVER)

    def was_sampled_before(self, moment: float) -> bool:
        """Whether it is known, by a sample that was measured before that ``moment``."""
        axes = self.memory.axes.values()
        return any(each.looked_at is not None and each.looked_at < moment for each in axes)

    @property
    def changes_at(self) -> float:
        """After which time alone something about it changes; infinity for never."""
        problems = (each.problem_from for each in self._silences.values())
        ahead = (moment for moment in problems if moment is not None and moment >= self._updated_at)
        return min(self._known_until, *ahead, NEVER)

    def memory_at(self, now: float) -> NodePressure:
        """Return what is known of its memory ``now``."""
        if now < self._known_until:
            return self.memory
        return known_at(self.memory, now=now, settings=self.wanted.settings)

    def want(self, node: Node, wanted: Wanted) -> None:
        """Note the node as it is now, and what its pool asks for now."""
        self.node = node
        if wanted is not self.wanted:
            self.wanted = wanted
            self._silences = {name: each for name, each in self._silences.items() if name in wanted.sources}

    def changed(self, memory: NodePressure) -> None:
        """Note what the detector has made of the memory; ``update`` says what has changed by it."""
        self.memory, self._known_until = memory, -NEVER

    def took(self, sample: MemorySample, *, cold_interval: float | None = None) -> Outcome:
        """Step the detector, and return what the sample was worth.

        ``cold_interval`` is the interval of the source for a node that is not hot: a sample that ends that
        has to be fresh until the next one comes.
        """
        settings = self.wanted.settings
        after = step_at(
            self.memory, sample, settings, was_hot=self.is_hot, cold_interval=cold_interval or 0.0
        )
        self.changed(after)
        outcome = self._worth(sample)
        silence = self._silence(sample.source)
        last = after.sources.get(sample.source)
        if outcome is not Outcome.SAMPLED:
            silence.failed(outcome)
        elif last is not None and not last.is_first:
            silence.ended(since=last.measured_at, seconds=fresh_seconds(last))
        return outcome

    def failed(self, source: str, outcome: Outcome) -> None:
        """Note that a source gave no sample."""
        self._silence(source).failed(outcome)

    def update(self, now: float) -> News:
        """Compute what is known ``now``, keep it as ``told`` if it has changed, and return the change."""
        was_evictable = bool(self.memory.evictable)
        self._compute(now)
        problem = self._problem(now)
        is_other_problem, self.problem = problem != self.problem, problem
        news = _difference(self.told, self.memory)
        if news is News.CALM:  # of which no message speaks: newer numbers in one would be a write
            self.told = replace(self.told, is_signalled=self.memory.is_signalled)
        elif news is not News.NONE:
            self.told = self.memory.without_evidence()
        if self.wanted.evicts and self.memory.evictable and not was_evictable:
            return News.PRESSURE
        return News.KNOWN if is_other_problem and news in (News.NONE, News.CALM) else news

    def _compute(self, now: float) -> None:
        self.memory = known_at(self.memory, now=now, settings=self.wanted.settings)
        self.priority = self.memory.priority
        self._updated_at = now
        until = changes_after(self.memory, now=now)
        self._known_until = NEVER if until is None else until

    def _silence(self, source: str) -> Silence:
        return self._silences.setdefault(source, Silence(self.began, FRESH_SECONDS))

    def _worth(self, sample: MemorySample) -> Outcome:
        """Return SAMPLED where the source has a current number, or this is its first sample."""
        last = self.memory.sources.get(sample.source)
        if last is None or sample.taken_at is None or not _has_numbers(sample):
            return Outcome.NO_NUMBERS
        if last.is_first:
            return Outcome.SAMPLED if last.arrived_at == sample.arrived_at else Outcome.NO_NUMBERS
        is_fresh = sample.arrived_at - last.measured_at <= fresh_seconds(last)
        return Outcome.SAMPLED if is_fresh else Outcome.NO_NUMBERS

    def _problem(self, now: float) -> str:
        """Return the sentence about the first source, in the order of preference, that gives nothing."""
        for source, series in self.wanted.sources.items():
            silence = self._silences.get(source)
            outcome = None if silence is None else silence.problem(now=now)
            if outcome is not None:
                return (KUBELET_SENTENCES if series is None else PROMETHEUS_SENTENCES)[outcome]
        return ""


def _has_numbers(sample: MemorySample) -> bool:
    numbers = (sample.commit_total, sample.physical_available, sample.proxy_available)
    return any(each is not None for each in numbers)


def _difference(told: NodePressure, memory: NodePressure) -> News:
    """Return what has changed from ``told`` to ``memory`` that a report or a decision depends on."""
    known = News.NONE
    for axis, now in memory.axes.items():
        before = told.axes[axis]
        if before.held is not now.held:
            return News.PRESSURE
        if before.level is not now.level:
            known = News.KNOWN
            if before.level is not None and now.level is not None:
                return News.PRESSURE
    if told.guard is not memory.guard:
        return News.PRESSURE
    if told.is_signalled is not memory.is_signalled:
        if told.is_signalled or memory.is_signalled:
            return News.PRESSURE
        return News.CALM if known is News.NONE else known
    return known


ROUNDING_SECONDS: Final = 0.001
"""A sample is fresh until a moment and at it, so what is known is computed this much later."""


AWAITED_SECONDS: Final = 60.0
"""For so long samples of the other nodes are taken sooner after an eviction became right. After that each was
polled in its turn, and one whose kubelet gives old numbers only is no reason to poll it often for ever."""


@dataclass(kw_only=True, eq=False)
class WatchedNodes:
    """The watched nodes, what is known of each, and who has to know.

    ``on_news`` is called with the name of a pool where something has changed that it has to know.
    ``on_change`` is called when other nodes are watched than before, and ``on_priority`` when the polling
    priority of one has changed. ``on_awaited`` is called with nodes for whose samples an eviction in their
    pool waits.
    """

    on_news: Callable[[str, News], None]
    on_change: Callable[[], None]
    on_priority: Callable[[WatchedNode], None]
    on_awaited: Callable[[Iterable[WatchedNode]], None]
    monotonic: Callable[[], float]
    _wanted: dict[str, Wanted] = field(default_factory=dict, init=False)
    _of_pool: dict[str, dict[str, WatchedNode]] = field(default_factory=dict, init=False)
    """By the names of pools, then by the UIDs of nodes."""
    _by_name: dict[str, WatchedNode] = field(default_factory=dict, init=False)
    _ready_since: dict[str, float] = field(default_factory=dict, init=False)
    """Since when the eviction of a pool is right that became so last, by the names of pools."""
    _changing: Waiting = field(default_factory=Waiting, init=False)
    """UIDs of nodes, by when time alone changes something about them."""
    _by_uid: dict[str, WatchedNode] = field(default_factory=dict, init=False)
    _faults: Faults = field(
        default_factory=lambda: Faults("the watch of the memory of a node", log), init=False
    )

    def __len__(self) -> int:
        """Return how many nodes are watched."""
        return len(self._by_uid)

    def __iter__(self) -> Iterator[WatchedNode]:
        """Return all nodes that are watched."""
        return iter(tuple(self._by_uid.values()))

    def want(self, pool: Pool, nodes: Sequence[Node]) -> None:
        """Watch exactly these nodes for ``pool``."""
        wanted = self._wanted.get(pool.name)
        if wanted is None or not wanted.is_of(pool):
            wanted = wanted_by(pool)
        if wanted is None or not nodes:
            self.forget(pool.name)
            return
        has_changed = wanted is not self._wanted.get(pool.name)
        self._wanted[pool.name] = wanted
        mine = self._of_pool.setdefault(pool.name, {})
        for gone in mine.keys() - {node.uid for node in nodes}:
            self._drop(mine[gone])
            has_changed = True
        for node in nodes:
            has_changed |= self._watch(node, wanted, mine)
        if has_changed:
            self.on_change()

    def forget(self, pool_name: str) -> None:
        """Watch no node for the pool of that name."""
        if self._wanted.pop(pool_name, None) is None:
            return
        for watched in tuple(self._of_pool[pool_name].values()):
            self._drop(watched)
        del self._of_pool[pool_name]
        self._ready_since.pop(pool_name, None)
        self._faults.ended(pool_name)
        self.on_change()

    def of_kubelets(self) -> dict[str, WatchedNode]:
        """Return the nodes whose kubelets are polled, by their names."""
        return {name: each for name, each in self._by_name.items() if each.wanted.kubelet is not None}

    def series(self) -> dict[Series, str]:
        """Return all series that pools read, with the names of their sources."""
        return {
            series: name
            for wanted in self._wanted.values()
            for name, series in wanted.sources.items()
            if series is not None
        }

    def of_series(self, series: Series) -> list[WatchedNode]:
        """Return the nodes that are read from ``series``."""
        return [each for each in self._by_uid.values() if series in each.wanted.sources.values()]

    def named(self, name: str) -> WatchedNode | None:
        """Return the watched node of that name."""
        return self._by_name.get(name)

    def with_uid(self, uid: str) -> WatchedNode | None:
        """Return the watched node with that UID."""
        return self._by_uid.get(uid)

    def beside(self, uid: str) -> Iterable[WatchedNode]:
        """Return the watched node with that UID and all others of its pool; none where it is not watched."""
        watched = self._by_uid.get(uid)
        return () if watched is None else self._of_pool[watched.wanted.pool].values()

    def of_pool(self, pool_name: str) -> Collection[WatchedNode]:
        """Return the watched nodes of the pool of that name."""
        return self._of_pool.get(pool_name, {}).values()

    def has(self, watched: WatchedNode) -> bool:
        """Whether it is watched still, and no other machine of its name instead."""
        return self._by_uid.get(watched.node.uid) is watched

    def note(self, watched: WatchedNode) -> None:
        """Compute what is known of a node after news of it, and tell its pool what has changed."""
        self._update(watched, self.monotonic())

    def readers_of(self, series: Series) -> str:
        """Return the names of the pools that read ``series``."""
        return ", ".join(name for name, wanted in self._wanted.items() if series in wanted.sources.values())

    def fault(self, pool: str, error: Exception) -> None:
        """Log a bug of ours that a node of that pool has brought out, once."""
        self._faults.failed(pool, error)

    def seconds_to_change(self) -> float | None:
        """Return in how many seconds time alone changes something; None for never."""
        first = self._changing.first()
        return None if first is None else max(0.0, first + ROUNDING_SECONDS - self.monotonic())

    def expire(self) -> None:
        """Compute what is known of each node about which time alone has changed something."""
        now = self.monotonic()
        for uid in tuple(self._changing.until(now - ROUNDING_SECONDS)):
            watched = self._by_uid[uid]
            try:
                self._update(watched, now)
            except Exception as error:  # noqa: BLE001 - a bug of ours must not end the watch of other nodes
                self.fault(watched.wanted.pool, error)

    def known(self, pool_name: str) -> KnownMemory:
        """Return what is known of the nodes of that pool now."""
        mine, now = self._of_pool.get(pool_name), self.monotonic()
        if not mine:
            return NOTHING_KNOWN
        return KnownMemory(
            told={uid: each.told for uid, each in mine.items()},
            views={uid: each.memory_at(now) for uid, each in mine.items()},
            problems={uid: each.problem for uid, each in mine.items() if each.problem},
            pods={
                uid: usage
                for uid, each in mine.items()
                if each.is_hot and (usage := each.usage(now)) is not None
            },
            read_at=now,
        )

    def _watch(self, node: Node, wanted: Wanted, mine: dict[str, WatchedNode]) -> bool:
        """Watch a node; return whether that is new."""
        watched = self._by_uid.get(node.uid)
        if watched is not None and watched.wanted.pool_uid == wanted.pool_uid:
            is_other = watched.wanted is not wanted
            watched.want(node, wanted)
            if is_other:
                self.note(watched)
            return False
        for other in (watched, self._by_name.get(node.name)):
            if other is not None and self.has(other):
                self._drop(other)
        watched = WatchedNode(node, wanted, self.monotonic())
        mine[node.uid] = self._by_uid[node.uid] = self._by_name[node.name] = watched
        return True

    def _drop(self, watched: WatchedNode) -> None:
        uid, name = watched.node.uid, watched.node.name
        self._of_pool.get(watched.wanted.pool, {}).pop(uid, None)
        self._by_uid.pop(uid, None)
        self._changing.remove(uid)
        if self._by_name.get(name) is watched:
            del self._by_name[name]

    def _update(self, watched: WatchedNode, now: float) -> None:
        priority, ready_since = watched.priority, watched.ready_since
        news = watched.update(now)
        if watched.priority != priority:
            self.on_priority(watched)
        self._await(watched, is_ready=watched.ready_since > ready_since, now=now)
        if watched.changes_at < NEVER:
            self._changing.add(watched.node.uid, watched.changes_at)
        else:
            self._changing.remove(watched.node.uid)
        if news is not News.NONE:
            self.on_news(watched.wanted.pool, news)

    def _await(self, watched: WatchedNode, *, is_ready: bool, now: float) -> None:
        """Have samples of the nodes of a pool taken soon that an eviction waits for.

        It waits for samples that were measured after it became right (docs/adr/0032-most-of-a-pool.md).
        """
        pool = watched.wanted.pool
        if is_ready and watched.wanted.evicts:
            self._ready_since[pool] = watched.ready_since
            self.on_awaited(self._of_pool[pool].values())
            return
        since = self._ready_since.get(pool)
        if since is not None and now - since < AWAITED_SECONDS and watched.was_sampled_before(since):
            self.on_awaited((watched,))
