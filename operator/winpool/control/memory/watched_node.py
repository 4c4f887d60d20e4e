"""A watched node: what its detector knows, what is reported of it, and what is wrong with its sources."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.control.memory.pod_usage import NO_PODS, PodHistory
from winpool.control.memory.silence import Silence
from winpool.kubelet.outcome import KUBELET_SENTENCES, PROMETHEUS_SENTENCES, Outcome
from winpool.memory import detector
from winpool.memory.changes import changes_after
from winpool.memory.settings import FRESH_SECONDS
from winpool.memory.sources import fresh_seconds
from winpool.memory.state import NOTHING_KNOWN, DetectorState
from winpool.memory.view import view_of
from winpool.objects.pressure import HOT_ETA_SECONDS, Level, NodeView

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.control.memory.probes import Probe
    from winpool.control.memory.wanted import Wanted
    from winpool.memory.samples import MemorySample
    from winpool.objects.node import Node

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
    """``wanted`` is what its pool asks for. ``told`` is what was known when something last changed.

    ``heat`` is how near it is to the end of its memory. ``probe`` is what its kubelet has said of its own
    evictions. ``has_commit_limit`` and ``has_pods_commit`` say whether the last answer of the kubelet that
    could have them did, None where there was no such answer.
    """

    node: Node
    wanted: Wanted
    began: float
    state: DetectorState = NOTHING_KNOWN
    pods: PodHistory = NO_PODS
    view: NodeView = field(init=False)
    heat: float = field(init=False)
    told: NodeView = field(init=False)
    problem: str = ""
    probe: Probe | None = None
    has_commit_limit: bool | None = None
    has_pods_commit: bool | None = None
    _view_until: float = field(init=False)
    _looked_at: float = field(init=False)
    _silences: dict[str, Silence] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self._compute(self.began)
        self.told = self.view

    @property
    def is_hot(self) -> bool:
        """Whether it is to be polled often."""
        return self.heat > 0

    @property
    def ready_since(self) -> float:
        """Since when an eviction is right, for the axis that came last; minus infinity where none is."""
        times = (each.ready_since for each in self.view.evictable if each.ready_since is not None)
        return max(times, default=-NEVER)

    def was_sampled_before(self, moment: float) -> bool:
        """Whether it is known, by a sample that was measured before that ``moment``."""
        times = [each.sampled_at for each in self.view.axes.values() if each.sampled_at is not None]
        return any(at < moment for at in times)

    @property
    def changes_at(self) -> float:
        """After which time alone something about it changes; infinity for never."""
        problems = (each.problem_from for each in self._silences.values())
        ahead = (moment for moment in problems if moment is not None and moment >= self._looked_at)
        return min(self._view_until, *ahead, NEVER)

    def view_at(self, now: float) -> NodeView:
        """Return what is known of it ``now``."""
        if now < self._view_until:
            return self.view
        return view_of(self.state, now=now, settings=self.wanted.settings)

    def want(self, node: Node, wanted: Wanted) -> None:
        """Note the node as it is now, and what its pool asks for now."""
        self.node = node
        if wanted is not self.wanted:
            self.wanted = wanted
            self._silences = {name: each for name, each in self._silences.items() if name in wanted.sources}

    def took(self, sample: MemorySample, *, cold_interval: float | None = None) -> Outcome:
        """Step the detector, and return what the sample was worth.

        ``cold_interval`` is the interval of the source for a node that is not hot: a sample that ends the
        heat has to be fresh until the next one comes.
        """
        before, was_hot = self.state, self.is_hot
        settings = self.wanted.settings
        self.state = detector.step(before, sample, settings)
        if was_hot and cold_interval is not None and sample.interval_seconds < cold_interval:
            view = view_of(self.state, now=sample.arrived_at, settings=settings)
            if not view.is_hot:
                self.state = detector.step(before, replace(sample, interval_seconds=cold_interval), settings)
        outcome = self._worth(sample)
        silence = self._silence(sample.source)
        last = self.state.sources.get(sample.source)
        if outcome is not Outcome.SAMPLED:
            silence.failed(outcome)
        elif last is not None and last.sample is not None:
            silence.ended(since=last.measured_at, seconds=fresh_seconds(last.sample))
        return outcome

    def failed(self, source: str, outcome: Outcome) -> None:
        """Note that a source gave no sample."""
        self._silence(source).failed(outcome)

    def look(self, now: float) -> News:
        """Compute what is known ``now``, keep it as ``told`` if it has changed, and return the change."""
        was_evictable = bool(self.view.evictable)
        self._compute(now)
        problem = self._problem(now)
        is_other_problem, self.problem = problem != self.problem, problem
        news = _difference(self.told, self.view)
        if news is not News.NONE:
            self.told = self.view
        if self.wanted.evicts and self.view.evictable and not was_evictable:
            return News.PRESSURE
        return News.KNOWN if is_other_problem and news in (News.NONE, News.CALM) else news

    def _compute(self, now: float) -> None:
        self.view = view_of(self.state, now=now, settings=self.wanted.settings)
        self.heat = heat_of(self.view)
        self._looked_at = now
        until = changes_after(self.state, now=now)
        self._view_until = NEVER if until is None else until

    def _silence(self, source: str) -> Silence:
        return self._silences.setdefault(source, Silence(self.began, FRESH_SECONDS))

    def _worth(self, sample: MemorySample) -> Outcome:
        """Return SAMPLED where the source has a current number, or this is its first sample."""
        last = self.state.sources.get(sample.source)
        if last is None or sample.taken_at is None or not _has_numbers(sample):
            return Outcome.NO_NUMBERS
        if last.sample is None:
            return Outcome.SAMPLED if last.arrived_at == sample.arrived_at else Outcome.NO_NUMBERS
        is_fresh = sample.arrived_at - last.measured_at <= fresh_seconds(last.sample)
        return Outcome.SAMPLED if is_fresh else Outcome.NO_NUMBERS

    def _problem(self, now: float) -> str:
        """Return the sentence about the first source, in the order of preference, that gives nothing."""
        for source in self.wanted.sources:
            silence = self._silences.get(source)
            outcome = None if silence is None else silence.problem(now=now)
            if outcome is not None:
                return _sentences(self.wanted, source)[outcome]
        return ""


def heat_of(view: NodeView) -> float:
    """Return how near a node is to the end of its memory, from 0 (not hot) to 1: by level, then by trend."""
    if not view.is_hot:
        return 0.0
    axes = view.axes.values()
    left = min((each.seconds_left for each in axes if each.seconds_left is not None), default=NEVER)
    return (max(each.held for each in axes) + max(0.0, 1 - left / HOT_ETA_SECONDS)) / len(Level)


def _has_numbers(sample: MemorySample) -> bool:
    numbers = (sample.commit_total, sample.physical_available, sample.proxy_available)
    return any(each is not None for each in numbers)


def _sentences(wanted: Wanted, source: str) -> Mapping[Outcome, str]:
    return KUBELET_SENTENCES if wanted.sources[source] is None else PROMETHEUS_SENTENCES


def _difference(told: NodeView, view: NodeView) -> News:
    """Return what has changed from ``told`` to ``view`` that a report or a decision depends on."""
    known = News.NONE
    for axis, now in view.axes.items():
        before = told.axes[axis]
        if before.held is not now.held:
            return News.PRESSURE
        if before.level is not now.level:
            known = News.KNOWN
            if before.level is not None and now.level is not None:
                return News.PRESSURE
    if told.guard is not view.guard:
        return News.PRESSURE
    if told.is_signalled is not view.is_signalled:
        if told.is_signalled or view.is_signalled:
            return News.PRESSURE
        return News.CALM if known is News.NONE else known
    return known
