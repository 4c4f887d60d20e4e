"""Replays recorded samples of a pool, and says what the operator would have done.

What decides is what decides in the operator: the detector, the growth of pods, and ``steps_of``. History
continues as it was, whatever would have been done. So a node is asked for a pod once each time that it comes
under pressure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import MemoryPressure, SourceType
from winpool.api.quantity import rounded
from winpool.api.text import written_moment
from winpool.features.memory.detector import known_at, step_at
from winpool.features.memory.eviction import EvictionState, Pass, Step, steps_of
from winpool.features.memory.overview import Breaker, numbers_of
from winpool.features.memory.settings import EVIDENCE_SECONDS, FRESH_SECONDS, settings_of
from winpool.features.memory.victims import NO_PODS, Basis, PodHistory
from winpool.model.memory_report import level_name
from winpool.model.node import Node
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods
from winpool.model.pods import DEFAULT_GRACE_SECONDS, EvictionFacts, Pod
from winpool.model.pressure import (
    NO_SAMPLES,
    Guard,
    Hold,
    KnownMemory,
    Level,
    MemorySample,
    NodePressure,
    PodUsage,
    UsageSinceCalm,
    commit_of_all,
)
from winpool.ownership.desired import KEEP

CALM_SECONDS: Final = 60.0
"""Between two samples of the kubelet of a calm node."""

GONE_SECONDS: Final = 600.0
"""A node without a sample for so long is no node of the pool any more: pools are scaled."""

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When a pod began that was there when its node was first recorded."""


_GUARDS: Final = {
    Guard.OUTSIDE_SHARE: "much of the committed memory belongs to no pod",
    Guard.OUTSIDE_GROWTH: "most of the memory that was committed lately belongs to no pod",
}
"""Those that there are where no pod was evicted."""


class RecordedPod(msgspec.Struct, frozen=True):
    """What a pod used."""

    uid: str
    namespace: str
    name: str
    usage: PodUsage


class Recorded(NamedTuple):
    """A sample of ``node`` that arrived ``at`` a time, in seconds since 1970, with its ``pods`` if known."""

    node: str
    at: float
    sample: MemorySample
    pods: tuple[RecordedPod, ...] | None = None


class Faults(msgspec.Struct):
    """What is wrong with a recording: each kind once, how often, and the first example."""

    _found: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)

    def note(self, what: str, example: str) -> None:
        """Count one more of this kind."""
        count, first = self._found.get(what, (0, example))
        self._found[what] = (count + 1, first)

    def sentences(self) -> list[str]:
        """Return one for each kind, in the order in which they were found."""
        return [f"{what}: {count}; the first is {first}." for what, (count, first) in self._found.items()]


class What(StrEnum):
    """What has changed on a node."""

    LEVEL = "Level"
    WOULD_SIGNAL = "WouldSignal"
    WOULD_CLEAR = "WouldClear"
    UNATTRIBUTED = "Unattributed"
    WOULD_EVICT = "WouldEvict"
    WOULD_NOT_EVICT = "WouldNotEvict"


class Change(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What has changed ``at`` a time on a node, with a sentence. ``pod`` is which would have been evicted."""

    at: datetime
    node: str
    what: What
    message: str
    level: str = ""
    pod: str = ""


class ReplayedNode(msgspec.Struct):
    """What is known of a node, and what was said of it.

    ``listed`` are its pods by the last sample with pods, with the times at which they were first seen.
    ``turn`` counts how often it has come under pressure; ``is_asked``: it was asked for a pod in this turn.
    """

    name: str
    seen_at: float = 0.0
    memory: NodePressure = NO_SAMPLES
    pods: PodHistory = NO_PODS
    listed: dict[str, tuple[RecordedPod, datetime]] | None = None
    measured_at: dict[str, float] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    level: Level = Level.NORMAL
    is_signalled: bool = False
    turn: int = 0
    is_asked: bool = False
    said: set[object] = msgspec.field(default_factory=set)

    @property
    def as_node(self) -> Node:
        """Return it as a node of the API server, on which nothing but memory keeps from an eviction."""
        return Node(self.name, self.name, "", {}, self.annotations, (), unschedulable=False, ready="True")

    def uid(self, pod: RecordedPod) -> str:
        """Return the UID of a pod, another one in each turn: it was evicted in the last one, and is there."""
        return f"{pod.uid}-{self.turn}"

    def note_pods(self, pods: Iterable[RecordedPod], at: float) -> None:
        """Note which pods are there. Those that were not there before have begun at that moment."""
        began = _LONG_AGO if self.listed is None else _time(at)
        known = self.listed or {}
        self.listed = {each.uid: (each, known[each.uid][1] if each.uid in known else began) for each in pods}


class Replay:
    """The nodes of a pool with ``pressure``, as the operator would have known them.

    It takes the nodes of the recording for those of the pool, and pods for evictable: a recording has neither
    owners nor PodDisruptionBudgets. What it cannot use goes to ``faults``. ``distances`` says how often which
    number of seconds was between two samples of a node, by the names of sources. ``taken`` are the samples
    that count, from ``first_at`` to ``last_at``.
    """

    def __init__(self, pressure: MemoryPressure, faults: Faults) -> None:
        self.nodes: dict[str, ReplayedNode] = {}
        self.distances: dict[str, Counter[int]] = {}
        self.taken = 0
        self.first_at = self.last_at = 0.0
        self._limits = pressure.eviction
        self._settings = settings_of(pressure)
        self._reads_kubelets = SourceType.KUBELET in self._settings.sources
        self._faults = faults
        self._evicted: dict[str, tuple[str, float]] = {}
        """By the UIDs of pods that would have been evicted: the node, and when."""

    def take(self, at: float, samples: Iterable[Recorded]) -> Iterator[Change]:
        """Take all samples of one time, in seconds since 1970; yield what has changed by them."""
        for each in samples:
            if each.sample.source not in self._settings.sources:
                what = "Samples of sources that the pool does not name, left out"
                self._faults.note(what, each.sample.source)
                continue
            node = self.nodes.setdefault(each.node, ReplayedNode(each.node))
            if self._took(node, each):
                yield from _news(node, at)
        yield from self._decided(at)

    def _took(self, node: ReplayedNode, recorded: Recorded) -> bool:
        """Step the detector, as the operator does; return whether the sample says anything new."""
        at, sample = recorded.at, recorded.sample
        last = node.measured_at.get(sample.source)
        # An exporter that is gone leaves its last values in Prometheus.
        if last is not None and sample.measured_at <= last:
            return False
        node.measured_at[sample.source] = sample.measured_at
        node.seen_at = self.last_at = at
        self.first_at = self.first_at if self.taken else at
        self.taken += 1
        distance = CALM_SECONDS if last is None else self._distance(node, sample, last)
        was_hot, usage = node.memory.is_hot, self._usage(node, recorded)
        # A source is read as often as its samples say; a kubelet more rarely once its node is no longer hot.
        longest = max(distance, CALM_SECONDS) if sample.source == SourceType.KUBELET else distance
        sample = replace(sample, interval_seconds=distance, pods_commit=commit_of_all((usage or {}).values()))
        after = step_at(node.memory, sample, self._settings, was_hot=was_hot, cold_interval=longest)
        after = node.memory = known_at(after, now=at, settings=self._settings)
        for axis, known in after.axes.items():
            if known.level is None and last is not None:
                self._faults.note(
                    f"Samples after which the level of {axis} is not known",
                    f"of {node.name} at {written_moment(_time(at))}",
                )
        if usage is not None:
            is_calm = not was_hot and not after.is_hot
            node.pods = node.pods.listed(usage, at=at, is_calm=is_calm, committed=node.memory.committed)
        return True

    def _distance(self, node: ReplayedNode, sample: MemorySample, last: float) -> float:
        """Return the seconds since the last sample of its source."""
        distance = sample.measured_at - last
        self.distances.setdefault(sample.source, Counter())[round(distance)] += 1
        if distance > FRESH_SECONDS:
            self._faults.note(
                f"Gaps of more than {FRESH_SECONDS:.0f} s, in which nothing is known of a node",
                f"{distance:.0f} s on {node.name}, until {written_moment(_time(sample.measured_at))}",
            )
        return distance

    def _usage(self, node: ReplayedNode, recorded: Recorded) -> dict[str, PodUsage] | None:
        """Return what the pods use, where the operator would have listed them; None where it would not."""
        if recorded.pods is None or not self._reads_kubelets:
            return None
        node.note_pods(recorded.pods, recorded.at)
        if not node.memory.is_hot and not node.pods.is_due(now=recorded.at):
            return None
        return {each.uid: each.usage for each in recorded.pods}

    # Evictions.

    def _decided(self, at: float) -> Iterator[Change]:
        """Yield what a pass would have done about evictions; a pass is at each time that has a sample."""
        if not any(each.memory.evictable and not each.is_asked for each in self.nodes.values()):
            return
        pool = [each for each in self.nodes.values() if at - each.seen_at <= GONE_SECONDS]
        found = steps_of([each.as_node for each in pool], self._pass(pool, at), held=_asked(pool))
        for node in pool:
            if (next_step := found.get(node.name)) is None or node.is_asked:
                continue
            if next_step.annotation is not KEEP:
                text = next_step.annotation
                node.annotations = {} if text is None else {MEMORY_ANNOTATION: str(text)}
            yield from self._told(node, next_step, at)

    def _pass(self, pool: Sequence[ReplayedNode], at: float) -> Pass:
        views = {each.name: known_at(each.memory, now=at, settings=self._settings) for each in pool}
        return Pass(
            memory=KnownMemory(
                views=views,
                pods={each.name: usage for each in pool if (usage := _usage_of(each, at)) is not None},
                read_at=at,
            ),
            known=KnownEvictions(
                pods={each.name: listed for each in pool if (listed := _listed(each, at)) is not None},
                answers={
                    uid: Answered(
                        Answer.GONE if at - evicted_at >= DEFAULT_GRACE_SECONDS else Answer.ACCEPTED,
                        evicted_at,
                        node_uid=node,
                    )
                    for uid, (node, evicted_at) in self._evicted.items()
                },
                read_at=at,
            ),
            limits=self._limits,
            evicts=True,
            breaker=Breaker([each.as_node for each in pool], views, self._limits.max_pressured_nodes),
            now=_time(at),
        )

    def _told(self, node: ReplayedNode, step: Step, at: float) -> Iterator[Change]:
        """Yield what comes of a step, each thing once in a turn."""
        choice = step.choice
        if step.state is EvictionState.BEGINNING and choice is not None and choice.victim is not None:
            pod = choice.victim.pod
            node.is_asked, self._evicted[pod.uid] = True, (node.name, at)
            usage = choice.victim.usage
            is_commit = choice.basis is Basis.COMMIT
            grown = usage.commit_growth if is_commit else usage.working_set_growth
            more = f", {rounded(int(grown))} more than when the node was calm" if grown and grown > 0 else ""
            message = (
                f"would have chosen {pod.full_name} for an eviction: it has "
                f"{'committed' if is_commit else 'a working set of'} {rounded(int(choice.usage or 0))}{more}"
            )
            yield _change(node, at, What.WOULD_EVICT, message, pod=pod.full_name)
        elif step.state is EvictionState.LISTING:
            node.is_asked = True
            if self._reads_kubelets:
                message = "would have evicted a pod; the recording has no pods of this node"
                yield _change(node, at, What.WOULD_EVICT, message)
            else:
                message = "would have evicted nothing: without the source Kubelet no pod's memory is known"
                yield _change(node, at, What.WOULD_NOT_EVICT, message)
        elif (reason := _reason(step)) and step.state not in node.said:
            node.said.add(step.state)
            yield _change(node, at, What.WOULD_NOT_EVICT, f"would have evicted nothing: {reason}")


def _news(node: ReplayedNode, at: float) -> Iterator[Change]:
    """Yield what has changed about the memory of a node; an unknown level changes nothing."""
    memory, worst = node.memory, node.memory.worst
    if worst is not None and worst.level is not None and worst.level is not node.level:
        node.level = worst.level
        numbers = "" if worst.reading is None else f" on {worst.axis}: {numbers_of(worst.reading)}"
        yield _change(node, at, What.LEVEL, f"{level_name(worst.level)}{numbers}")
        if worst.level < Level.PROXY_ONLY:
            node.turn, node.is_asked = node.turn + 1, False
            node.said.clear()
    if memory.is_signalled is not None and memory.is_signalled is not node.is_signalled:
        node.is_signalled = memory.is_signalled
        what, verb = (What.WOULD_SIGNAL, "added") if node.is_signalled else (What.WOULD_CLEAR, "removed")
        yield _change(node, at, what, f"would have {verb} the condition WindowsMemoryPressure and the taint")
    if memory.guard is not None and memory.guard not in node.said:
        node.said.add(memory.guard)
        yield _change(node, at, What.UNATTRIBUTED, f"would have evicted nothing: {_GUARDS[memory.guard]}")
    if Hold.AGE not in node.said and any(each.hold is Hold.AGE for each in memory.axes.values()):
        node.said.add(Hold.AGE)
        yield _change(
            node,
            at,
            What.WOULD_NOT_EVICT,
            f"cannot be decided: an eviction needs two samples of the last {EVIDENCE_SECONDS:.0f} s",
        )


def _change(node: ReplayedNode, at: float, what: What, message: str, *, pod: str = "") -> Change:
    return Change(
        at=_time(at), node=node.name, what=what, message=message, level=level_name(node.level) or "", pod=pod
    )


def _reason(step: Step) -> str:
    """Return why a step evicts nothing; empty where it only has to wait."""
    match step.state:
        case EvictionState.SYSTEMIC:
            return str(step.state.value)
        case EvictionState.LIMITED:
            return "the node has had as many evictions within periodSeconds as maxPodsPerNode permits"
        case EvictionState.BLOCKED if step.choice is not None:
            counts = (f"{count} {why.value}" for why, count in step.choice.excluded.items())
            return f"no pod may be chosen ({', '.join(counts) or 'none is recorded'})"
    return ""


def _asked(pool: Iterable[ReplayedNode]) -> frozenset[str]:
    """Return the nodes that are left alone: what they would do now, history does not know."""
    return frozenset(each.name for each in pool if each.is_asked)


def _listed(node: ReplayedNode, at: float) -> NodePods | None:
    """Return the pods of a node as a list of now would have them; None where none are recorded.

    None also of a node that was asked: its pod would be gone, and is in the recording still.
    """
    if node.listed is None or node.is_asked:
        return None
    pods = (
        Pod(
            each.namespace,
            each.name,
            node.name,
            uid=node.uid(each),
            controller_kind="ReplicaSet",
            is_ready=True,
            eviction=EvictionFacts(created=created),
        )
        for each, created in node.listed.values()
    )
    return NodePods(_time(at), at, tuple(pods), blocked=frozenset())


def _usage_of(node: ReplayedNode, at: float) -> UsageSinceCalm | None:
    found = node.pods.usage(now=at, committed=node.memory.committed)
    if found is None:
        return None
    return replace(found, pods={f"{uid}-{node.turn}": each for uid, each in found.pods.items()})


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
