"""The operator on the node of a scene, in virtual time: the code that it runs, without a cluster.

What decides is the product's: the schedule of polls, the detector, and ``steps_of``. What is here is the
world around it: samples of what a kubelet and windows_exporter would report, the writes to the node, the
lists of pods, and the answers to evictions. The other nodes of the pool are calm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from bench.pressure.actors import KubeletHard, Wish, pods_in
from bench.pressure.scene import GRACE_SECONDS, NAMESPACE, FaultKind, Guest, Scene, Source
from bench.pressure.world import World
from testbed.memory.demand import seed_of
from testbed.memory.pages import GIB
from testbed.memory.reading import MemoryReading
from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import MemoryPressure
from winpool.controllers.memory_polls import BASE_INTERVAL, HOT_INTERVAL
from winpool.controllers.watched_nodes import News, Series, Wanted, WatchedNode
from winpool.features.memory import detector
from winpool.features.memory.eviction import Pass, Step, steps_of
from winpool.features.memory.overview import Breaker
from winpool.features.memory.settings import settings_of
from winpool.kubelet.samples import Outcome, rate_of, reported_bytes
from winpool.kubelet.schedule import SOON_POLLS_PER_SECOND, Intervals, Schedule, next_answer
from winpool.model.node import Node, NodeMemory
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods, PodListRequest
from winpool.model.pods import EvictionFacts, Pod
from winpool.model.pressure import (
    Axis,
    AxisPressure,
    Hold,
    KnownMemory,
    Level,
    MemorySample,
    NodePressure,
    PodUsage,
    Reading,
)
from winpool.ownership.desired import KEEP

BEGAN: Final = datetime(2026, 1, 1, tzinfo=UTC)
"""The start of every scene. The clocks of operator and node agree."""

_KUBELET: Final = "Kubelet"
_EXPORTER: Final = "Prometheus/main"
_NAME: Final = "node-0"

QUIET_NODES: Final = 19
"""The other nodes of the pool."""

SCRAPE_SECONDS: Final = 30.0
"""Between two scrapes of windows_exporter: kube-prometheus-stack's own interval."""
ANSWER_SECONDS: Final = 1.0
"""What a kubelet on Windows takes to answer (kubernetes/kubernetes#74991), and a scrape takes."""
ANSWER_READS: Final = 500
"""What such a program has to read back from the disk first, on a node that pages: 8 MiB that were trimmed."""
READS_AT_ONCE: Final = 8
"""Reads of other threads that each of these waits for: one for each core of a usual node."""
SLOW_SECONDS: Final = 12.0
"""What a slow network adds to each answer."""
TIMEOUT_SECONDS: Final = 10.0
LONGEST_WAIT_SECONDS: Final = 60.0
"""Between two looks, whatever is due."""
WRITE_SECONDS: Final = 1.0
"""From a decision to the pass that sees it on the node, or in a list of pods."""


@dataclass(frozen=True, slots=True)
class Variant:
    """What the operator can read: its sources, the preferred first, and ``pods_commit`` of kubelets."""

    name: str
    sources: tuple[str, ...]
    pods_commit: bool = False


VARIANTS: Final = (
    Variant("kubelets", (_KUBELET,)),
    Variant("pods-commit", (_KUBELET,), pods_commit=True),
    Variant("exporter-first", (_EXPORTER, _KUBELET)),
    Variant("kubelets-first", (_KUBELET, _EXPORTER)),
    Variant("both", (_EXPORTER, _KUBELET), pods_commit=True),
)


def pressure_of(scene: Scene, variant: Variant, *, max_pods: int) -> MemoryPressure:
    """Return what the pool of this node asks for."""
    sources: dict[str, dict[str, Any]] = {
        _KUBELET: {"type": "Kubelet"},
        _EXPORTER: {"type": "Prometheus", "prometheus": {"dataSource": "main"}},
    }
    page_file: dict[str, Any] = {"type": scene.declared}
    if scene.declared != "Unknown":
        page_file["maxSize"] = str(scene.page_file_bytes)
    return MemoryPressure.model_validate(
        {
            "mode": "Evict",
            "sources": [sources[each] for each in variant.sources],
            "pageFile": page_file,
            "eviction": {"maxPodsPerNode": max_pods},
        }
    )


@dataclass(slots=True)
class Told:
    """What the operator has said of the node."""

    flips: int = 0
    unattributed_seconds: float = 0.0
    _signalled: bool | None = None
    _guarded_since: float | None = None

    def note(self, memory: NodePressure, now: float) -> None:
        """Take note of what is known now."""
        if memory.is_signalled is not None:
            self.flips += self._signalled is not None and memory.is_signalled is not self._signalled
            self._signalled = memory.is_signalled
        if self._guarded_since is not None:
            self.unattributed_seconds += now - self._guarded_since
        self._guarded_since = now if memory.guard is not None else None


STALE_SECONDS: Final = 60.0
"""What was measured before says nothing of now: the fastest burst of the families takes all memory in 30 s.
An exporter that is scraped every 30 s has two measurements in it, and a kubelet of a hot node six."""
LEAST_MEASUREMENTS: Final = 2
"""One can be an outlier."""


@dataclass(slots=True)
class Evidence:
    """When the true measurements were made that the operator has got, by the clock of the world.

    An answer that repeats an old measurement is as old as that. One with absurd numbers is none. ``node`` has
    the times of measurements of the node, and ``pods`` that of the last one of its pods.
    """

    node: set[float] = field(default_factory=set)
    pods: float = -inf

    def note(self, at: float, *, has_pods: bool = False) -> None:
        """Take note of a measurement of the node, and of its pods, that has arrived."""
        self.node.add(at)
        if has_pods:
            self.pods = at

    def is_stale(self, now: float) -> bool:
        """Whether an eviction now lacks two recent measurements of the node, or one of its pods."""
        recent = sum(now - each <= STALE_SECONDS for each in self.node)
        return recent < LEAST_MEASUREMENTS or now - self.pods > STALE_SECONDS


_ABSURD: Final = (None, 0, 2**63)


def _absurd(at: float) -> float | None:
    """Return what stands for each number of an answer at that time."""
    return _ABSURD[int(at) % len(_ABSURD)]


class OperatorNode:
    """The operator as an actor. ``kubelet`` is the kubelet's own eviction beside it, where that is armed."""

    def __init__(
        self, scene: Scene, variant: Variant, *, max_pods: int, kubelet: KubeletHard | None = None
    ) -> None:
        self.due = 0.0
        self.told = Told()
        self._scene = scene
        self._variant = variant
        self._kubelet = kubelet
        self._random = random = Random(seed_of("polls", scene.family.name, scene.seed))
        self._pressure = pressure_of(scene, variant, max_pods=max_pods)
        self._limits = self._pressure.eviction
        self._node = _node(_NAME, scene.hardware.ram_bytes)
        self._others = _Quiet(random)
        self._restarts = scene.family.restarts
        self.evidence = Evidence()
        self._exporter = (
            _Exporter(scene, random.uniform(0, SCRAPE_SECONDS), self.evidence)
            if _EXPORTER in variant.sources
            else None
        )
        self._start(0.0)

    def _start(self, now: float) -> None:
        """Begin with nothing known but what is on the node."""
        self._watched = WatchedNode(
            self._node,
            Wanted(
                pool="pool",
                pool_uid="uid-pool",
                generation=1,
                settings=settings_of(self._pressure),
                evicts=True,
                sources={
                    each: None if each == _KUBELET else Series("main", "node")
                    for each in self._variant.sources
                },
            ),
            began=now,
        )
        self._schedule = Schedule(jitter=self._random.random)
        self._schedule.set_nodes((_NAME,), now=now)
        self._query_due = now + self._random.uniform(0, BASE_INTERVAL)
        self._pending: tuple[float, MemoryReading] | None = None
        """The answer of the kubelet that is under way: when it arrives, and what it says."""
        self._asked_at = 0.0
        self._reading: MemoryReading | None = None
        """What the kubelet has measured last."""
        self._failing_until: float | None = None
        self._pass_due: float | None = None
        self._list: tuple[float, PodListRequest] | None = None
        self._pods: NodePods | None = None
        self._answers: dict[str, Answered] = {}
        self._shares: dict[str, float | None] = {}

    # Time.

    def look(self, world: World) -> Sequence[Wish]:
        """Do what is due: polls, scrapes, queries, lists of pods, and passes."""
        now = world.now
        if self._exporter is not None:
            self._exporter.scrape(world)
        self._poll(world)
        if self._exporter is not None and now >= self._query_due:
            self._query(now)
        if now >= self._watched.changes_at:
            self._updated(now)
        if self._restarts and any(each.held is Level.HARD for each in self._watched.memory.axes.values()):
            self._restarts = False
            self._start(now)
        if self._list is not None and now >= self._list[0]:
            self._listed(world)
        wishes: Sequence[Wish] = ()
        if self._pass_due is not None and now >= self._pass_due:
            self._pass_due = None
            wishes = self._decide(world)
        self.due = max(now + 0.5, min(self._times(now)))
        return wishes

    def _times(self, now: float) -> Iterator[float]:
        if self._pending is not None:
            yield self._pending[0]
        if self._failing_until is not None:
            yield self._failing_until
        following = self._schedule.next_due(now=now)
        if following is not None and self._pending is None and self._failing_until is None:
            yield following
        if self._exporter is not None:
            yield self._exporter.due
            yield self._query_due
        if self._list is not None:
            yield self._list[0]
        if self._pass_due is not None:
            yield self._pass_due
        yield self._watched.changes_at + 0.001
        yield now + LONGEST_WAIT_SECONDS

    # Samples.

    def _poll(self, world: World) -> None:
        now = world.now
        if self._failing_until is not None and now >= self._failing_until:
            self._failing_until = None
            self._watched.failed(_KUBELET, Outcome.TIMEOUT)
            self._schedule.done(_NAME, now=now, sampled=False)
            self._updated(now)
        if self._pending is not None and now >= self._pending[0]:
            reading, self._pending = self._pending[1], None
            self._took_kubelet(reading, now)
            self._schedule.done(_NAME, now=now, sampled=True)
        if self._pending is None and self._failing_until is None:
            for poll in self._schedule.due(now=now):
                seconds, fault = answer_seconds(world), self._scene.fault(Source.KUBELET, now)
                seconds += SLOW_SECONDS if fault is FaultKind.SLOW else 0.0
                if fault is FaultKind.SILENT or seconds > poll.deadline:
                    self._failing_until = now + poll.deadline
                    continue
                if fault is not FaultKind.FROZEN or self._reading is None:
                    self._reading = world.reading()
                self._pending, self._asked_at = (now + seconds, self._reading), now

    def _took_kubelet(self, reading: MemoryReading, now: float) -> None:
        lists, interval = self._watched.lists_pods(now), self._schedule.interval(_NAME)
        is_absurd = self._scene.fault(Source.KUBELET, reading.time) is FaultKind.ABSURD

        def amount(measured: int) -> int | None:
            return reported_bytes(_absurd(reading.time) if is_absurd else measured)

        usage = {
            each.uid: PodUsage(
                commit=amount(each.commit_bytes) if self._variant.pods_commit else None,
                working_set=amount(each.private_working_set_bytes),
            )
            for each in pods_in(reading)
        }
        commits = [each.commit for each in usage.values() if each.commit is not None]
        sample = MemorySample(
            taken_at=reading.time,
            commit_total=amount(reading.commit_total_bytes),
            commit_limit=amount(reading.commit_limit_bytes),
            proxy_available=amount(reading.physical_total_bytes - reading.private_working_set_bytes),
            pods_commit=sum(commits) if lists and commits and len(commits) == len(usage) else None,
        )
        if not is_absurd:
            self.evidence.note(reading.time, has_pods=lists)
        arrived = sample.arrived(
            source=_KUBELET,
            at=now,
            interval=interval,
            ram=self._scene.hardware.ram_bytes,
            seconds=now - self._asked_at,
            following=next_answer(now - self._asked_at),
        )
        self._watched.took(arrived, cold_interval=Intervals().base)
        if lists:
            self._watched.listed(usage, at=now)
        self._updated(now)

    def _query(self, now: float) -> None:
        assert self._exporter is not None, "the caller has checked it"
        self._query_due = now + (HOT_INTERVAL if self._watched.is_hot else BASE_INTERVAL)
        sample = self._exporter.sample(now)
        if sample is None:
            self._watched.failed(_EXPORTER, Outcome.NO_SERIES)
        else:
            self._watched.took(
                sample.arrived(
                    source=_EXPORTER, at=now, interval=SCRAPE_SECONDS, ram=self._scene.hardware.ram_bytes
                )
            )
        self._updated(now)

    def _updated(self, now: float) -> None:
        news = self._watched.update(now)
        self._schedule.set_priority(_NAME, self._watched.priority, now=now)
        self.told.note(self._watched.memory, now)
        if news is News.PRESSURE:
            self._pass_due = now

    # Passes.

    def _decide(self, world: World) -> Sequence[Wish]:
        now = world.now
        if self._kubelet is not None:
            is_pressed = self._kubelet.state.memory_pressure_at(now)
            self._node = replace(self._node, kubelet_pressure="True" if is_pressed else "False")
        step = self._step(now)
        if step is None:
            return ()
        text = self._node.annotations.get(MEMORY_ANNOTATION)
        if step.annotation is not KEEP and step.annotation != text:
            annotations = {} if step.annotation is None else {MEMORY_ANNOTATION: str(step.annotation)}
            self._node = replace(self._node, annotations=annotations)
            self._pass_due = now + WRITE_SECONDS
        if step.look is not None and self._list is None:
            self._list = (now + WRITE_SECONDS, step.look)
        if step.again_at is not None:
            at = (step.again_at - BEGAN).total_seconds() + 0.01
            self._pass_due = at if self._pass_due is None else min(self._pass_due, at)
        if step.eviction is None:
            return ()
        self._shares[step.eviction.uid] = step.eviction.share
        guest = next((each for each in world.pods() if each.uid == step.eviction.uid), None)
        if guest is None:
            self._gone(step.eviction.uid, now)
            return ()
        return [Wish(guest, by_api=True, is_stale=self.evidence.is_stale(now))]

    def _step(self, now: float) -> Step | None:
        view, usage = self._watched.memory_at(now), self._watched.usage(now)
        views = {self._node.uid: view, **self._others.views(now, self._watched.ready_since)}
        nodes = [self._node, *self._others.nodes]
        if self._scene.family.many:
            views = dict.fromkeys(views, view)
        found = steps_of(
            nodes,
            Pass(
                memory=KnownMemory(
                    views=views,
                    pods={} if usage is None else {self._node.uid: usage},
                    read_at=now,
                ),
                known=KnownEvictions(
                    pods={} if self._pods is None else {self._node.uid: self._pods},
                    answers=self._answers,
                    read_at=now,
                ),
                limits=self._limits,
                evicts=True,
                breaker=Breaker(nodes, views, self._limits.max_pressured_nodes),
                now=_time(now),
            ),
        )
        return found.get(self._node.uid)

    def answered(self, wish: Wish, *, done: bool, world: World) -> None:
        """Note the answer of the API server."""
        uid, now = wish.guest.uid, world.now
        self._answers[uid] = Answered(
            Answer.ACCEPTED if done else Answer.REFUSED, now, node_uid=self._node.uid
        )
        if done:
            self._watched.changed(
                detector.eviction_begun(self._watched.memory, uid=uid, share=self._shares.get(uid))
            )
            self._updated(now)
        self._pass_due = now + WRITE_SECONDS
        self.due = min(self.due, self._pass_due)

    def _listed(self, world: World) -> None:
        """Take the list of pods that a pass has asked for, as it was when it was asked."""
        assert self._list is not None, "the caller has checked it"
        _, asked = self._list
        self._list = None
        now, guests = world.now, list(world.pods())
        self._pods = NodePods(
            _time(now),
            now,
            tuple(_pod(each, is_terminating=world.is_ending(each)) for each in guests),
            frozenset(each.uid for each in guests if each.budget_blocks) if asked.with_budgets else None,
            seconds=WRITE_SECONDS,
        )
        for uid, known in list(self._answers.items()):
            if known.answer is Answer.ACCEPTED and self._pods.of(uid) is None:
                self._gone(uid, now)
        self._pass_due = now

    def _gone(self, uid: str, now: float) -> None:
        self._answers[uid] = Answered(Answer.GONE, now, node_uid=self._node.uid)
        self._watched.changed(detector.eviction_gone(self._watched.memory, uid=uid, at=now))
        self._updated(now)
        self._pass_due = now


def answer_seconds(world: World) -> float:
    """Return what a program of the node takes to answer: longer where it shares a busy disk with others."""
    reads_per_second = world.scene.hardware.disk.reads_per_second
    return ANSWER_SECONDS + world.stall * ANSWER_READS * READS_AT_ONCE / reads_per_second


class _Exporter:
    """windows_exporter and the Prometheus that scrapes it: what the last scrape says, and rates of two."""

    def __init__(self, scene: Scene, due: float, evidence: Evidence) -> None:
        self.due = due
        self._scene = scene
        self.evidence = evidence
        self._scrapes: list[MemoryReading] = []

    def scrape(self, world: World) -> None:
        """Scrape, where that is due; one that takes too long is lost."""
        if world.now < self.due:
            return
        self.due += SCRAPE_SECONDS
        fault = self._scene.fault(Source.EXPORTER, world.now)
        if fault is FaultKind.SILENT:
            self._scrapes = []
        elif fault is not FaultKind.FROZEN and answer_seconds(world) <= TIMEOUT_SECONDS:
            self._scrapes = [*self._scrapes[-1:], world.reading()]

    def sample(self, now: float) -> MemorySample | None:
        """Return what a set of queries says; None where there is no scrape of the last five minutes.

        It is evidence as old as the scrape, where that was none of absurd numbers.
        """
        if not self._scrapes or now - self._scrapes[-1].time > 300:
            return None
        last = self._scrapes[-1]
        before = self._scrapes[0] if len(self._scrapes) > 1 else None

        is_absurd = self._scene.fault(Source.EXPORTER, last.time) is FaultKind.ABSURD

        def amount(measured: int) -> int | None:
            return reported_bytes(_absurd(last.time) if is_absurd else measured)

        def rate(name: str) -> float | None:
            if is_absurd:
                return rate_of(_absurd(last.time))
            if before is None:
                return None
            return float(getattr(last, name) - getattr(before, name)) / (last.time - before.time)

        if not is_absurd:
            self.evidence.note(last.time)
        return MemorySample(
            taken_at=last.time,
            age=now - last.time,
            commit_total=amount(last.commit_total_bytes),
            commit_limit=amount(last.commit_limit_bytes),
            physical_total=amount(last.physical_total_bytes),
            physical_available=None if is_absurd else last.available_bytes,
            hard_reads_per_second=rate("page_reads_total"),
            write_out_per_second=rate("pages_written_total"),
            repurposed_per_second=rate("transition_pages_repurposed_total"),
            pool_nonpaged=amount(last.pool_nonpaged_bytes),
        )


class _Quiet:
    """The other nodes: calm, and each polled in its turn, or soon where an eviction waits for it.

    What their kubelets say of RAM shows that enough is left.
    """

    def __init__(self, random: Random) -> None:
        self.nodes = [_node(f"quiet-{number}", 16 * GIB) for number in range(QUIET_NODES)]
        self._phases = [random.uniform(0, 60) for _ in self.nodes]

    def views(self, now: float, ready_since: float) -> Mapping[str, NodePressure]:
        """Return what is known of them."""
        found = {}
        for number, (node, phase) in enumerate(zip(self.nodes, self._phases, strict=True)):
            sampled_at = self._sampled_at(now, phase)
            if ready_since > 0:
                soon = ready_since + ANSWER_SECONDS + number / SOON_POLLS_PER_SECOND
                soon = max(soon, self._sampled_at(ready_since, phase) + HOT_INTERVAL)
                sampled_at = max(sampled_at, soon) if soon <= now else sampled_at
            found[node.uid] = _calm(sampled_at)
        return found

    def _sampled_at(self, now: float, phase: float) -> float:
        """Return when a node was last sampled in its turn."""
        return now - (now - phase) % BASE_INTERVAL


def _calm(at: float) -> NodePressure:
    axis = AxisPressure(
        Axis.COMMIT,
        level=Level.NORMAL,
        sampled_at=at,
        looked_at=at - ANSWER_SECONDS,
        reading=Reading(Axis.COMMIT, left=12 * GIB, whole=24 * GIB, at=at),
        hold=Hold.NO_PRESSURE,
        fresh_seconds=120.0,
    )
    answer = MemorySample(_KUBELET, arrived_at=at, answer_seconds=ANSWER_SECONDS)
    return NodePressure(
        axes={Axis.COMMIT: axis, Axis.PHYSICAL: AxisPressure(Axis.PHYSICAL)}, sources={_KUBELET: answer}
    )


def _time(now: float) -> datetime:
    return BEGAN + timedelta(seconds=now)


def _node(name: str, ram: int) -> Node:
    return Node(
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        labels={},
        annotations={},
        taints=(),
        unschedulable=False,
        ready="True",
        memory=NodeMemory(capacity=ram),
    )


def _pod(guest: Guest, *, is_terminating: bool) -> Pod:
    return Pod(
        namespace=NAMESPACE,
        name=guest.name,
        node=_NAME,
        uid=guest.uid,
        controller_kind=guest.owner,
        controller=guest.name,
        is_ready=True,
        is_terminating=is_terminating,
        eviction=EvictionFacts(
            created=_time(guest.begins),
            grace_seconds=GRACE_SECONDS,
            requests=guest.request_bytes,
            asks_to_stay=guest.owner == "Job",
        ),
    )
