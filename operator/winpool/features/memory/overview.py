"""What a pass reads of the detectors: how bad memory is on each node, since when, on how many nodes.

What a pass reads of the detector: how bad it is on a node, since when, and whether an eviction is right.

What is not known now is None, and has no level. Nothing is evicted for it (P4).

What is known of the memory of a node: what people read of it, and what is signalled on it, go by this.

The numbers of a node's memory, as people read them.

They are those of the moment when the level, the guard or the signal last changed, so that a text that has
them is written on transitions only.

What is known of the memory of all nodes of a pool: names and counts, for the status and the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from winpool.api.quantity import rounded
from winpool.features.memory.breaker import Share, is_systemic
from winpool.features.memory.detector import AxisState, DetectorState, guard_of
from winpool.features.memory.levels import Point, has_lasted, is_recovering, missing
from winpool.features.memory.settings import (
    EVIDENCE_SAMPLES,
    EVIDENCE_SECONDS,
    FRESH_SECONDS,
    MAX_BLIND_EVICTIONS,
    MAX_INEFFECTIVE,
    DetectorSettings,
)
from winpool.model.pressure import Axis, AxisView, Guard, Hold, Level, NodeView, Reading


def view_of(state: DetectorState, *, now: float, settings: DetectorSettings) -> NodeView:
    """Return what is known of a node ``now``, on the clock of the samples."""
    levels = {axis: _level(state.axes[axis], now) for axis in Axis}
    is_under_pressure = any(level is not None and level >= Level.SOFT for level in levels.values())
    guard = _guard(state, now) if is_under_pressure else None
    axes = {axis: _axis_view(axis, levels[axis], state, guard, now=now, settings=settings) for axis in Axis}
    splits = state.growth.splits
    return NodeView(
        axes=axes,
        guard=guard,
        is_signalled=state.signal.is_on,
        outside_pods=splits[-1].outside if splits and now - splits[-1].at <= FRESH_SECONDS else None,
    )


def _level(axis: AxisState, now: float) -> Level | None:
    """Return the level of an axis that is known ``now``.

    An estimate shows neither that Soft and Hard, once measured, are over, nor how bad it is meanwhile.
    """
    if axis.at is None or axis.reading is None or now - axis.at > axis.fresh_seconds:
        return None
    if not axis.reading.is_estimate:
        return axis.held
    if axis.held >= Level.SOFT:
        return None
    return axis.held if axis.held is Level.PROXY_ONLY else Level.NORMAL


def _guard(state: DetectorState, now: float) -> Guard | None:
    found = guard_of(state.growth, now=now)
    if found is not None:
        return found
    if state.evictions.ineffective >= MAX_INEFFECTIVE:
        return Guard.INEFFECTIVE
    growth = state.growth
    is_known = growth.is_of_pods and now - growth.splits[-1].at <= FRESH_SECONDS
    return Guard.BLIND if not is_known and state.evictions.settled >= MAX_BLIND_EVICTIONS else None


def _axis_view(
    axis: Axis,
    level: Level | None,
    state: DetectorState,
    guard: Guard | None,
    *,
    now: float,
    settings: DetectorSettings,
) -> AxisView:
    found = state.axes[axis]
    reading = found.reading
    return AxisView(
        axis=axis,
        level=level,
        held=found.held,
        since=None if level is None or level is Level.NORMAL else found.latches[level].since,
        ready_since=found.ready_since if has_lasted(found.latches, settings) else None,
        sampled_at=found.at,
        source=found.source,
        reading=reading,
        seconds_left=found.seconds_left,
        missing=0.0
        if reading is None
        else missing(axis, left=reading.left, whole=reading.whole, settings=settings),
        hold=_hold(axis, level, state, guard, now=now, settings=settings),
    )


def _hold(
    axis: Axis,
    level: Level | None,
    state: DetectorState,
    guard: Guard | None,
    *,
    now: float,
    settings: DetectorSettings,
) -> Hold | None:
    found = state.axes[axis]
    reading = found.reading
    if level is None or reading is None:
        return Hold.UNKNOWN
    if level < Level.PROXY_ONLY:
        return Hold.NO_PRESSURE

    def lacking(point: Point) -> float:
        return missing(axis, left=point.left, whole=reading.whole, settings=settings)

    reasons = {
        Hold.ESTIMATE: level is Level.PROXY_ONLY,
        Hold.SETTLING: bool(state.evictions.running),
        Hold.UNATTRIBUTED: guard is not None,
        Hold.GRACE: found.ready_since is None or not has_lasted(found.latches, settings),
        Hold.AGE: len(found.points) < EVIDENCE_SAMPLES
        or now - found.points[-EVIDENCE_SAMPLES].at > EVIDENCE_SECONDS,
        Hold.RECOVERING: is_recovering(found.points, lacking),
    }
    return next((hold for hold, is_true in reasons.items() if is_true), None)


class Known(Enum):
    """What is known of a node."""

    PRESSURED = "pressured"
    """It is under pressure: to be signalled."""
    CALM = "calm"
    """It is not, or not for long enough to be signalled."""
    UNDECIDED = "undecided"
    """There are samples, or will be soon, but they do not show yet which of the two it is."""
    SILENT = "silent"
    """There is no fresh sample: it may be either."""


def known_of(view: NodeView | None, *, has_problem: bool, was_pressured: bool) -> Known:
    """Return what ``view`` says; None where there never was one. ``has_problem``: a source gives no samples.

    What was signalled stays so while an axis still shows it, also where the other axis is not known any more.
    ``was_pressured``: it may have been under pressure before. Then what was said and signalled of it stays
    after a start, until it has been calm for as long as it has to be. Any other node is calm as soon as its
    level is known.
    """
    if view is None:
        return Known.SILENT if has_problem else Known.UNDECIDED
    lost, known, is_sampled = Level.NORMAL, None, False
    for axis in view.axes.values():  # ``NodeView.level``, for thousands of nodes in a pass
        level = axis.level
        is_sampled = is_sampled or axis.sampled_at is not None
        if level is None:
            lost = max(lost, axis.held)
        elif known is None or level > known:
            known = level
    if view.is_signalled and known is not None and known >= Level.PROXY_ONLY:
        return Known.PRESSURED
    if known is None or lost > known:
        return Known.SILENT if is_sampled or has_problem else Known.UNDECIDED
    if view.is_signalled is None:
        return Known.UNDECIDED if was_pressured or known >= Level.PROXY_ONLY else Known.CALM
    return Known.PRESSURED if view.is_signalled else Known.CALM


def worst_axis(view: NodeView) -> AxisView:
    """Return the axis with the highest level that is known; COMMIT where both have it, or none is known."""
    return max((view.axes[axis] for axis in Axis), key=_rank)


def _rank(axis: AxisView) -> int:
    return -1 if axis.level is None else axis.level


_HUNDRED: Final = 100
_MINUTE: Final = 60
_LONG_SECONDS: Final = 3600
"""A trend of three minutes says nothing of what is farther ahead."""


def all_numbers(view: NodeView) -> str:
    """Return sentences with all that is known of both axes."""
    said = [_of_axis(view.axes[axis]) for axis in Axis]
    if view.outside_pods is not None:
        said.append(f"{rounded(int(view.outside_pods))} are committed outside pods.")
    return " ".join(each for each in said if each)


def _of_axis(axis: AxisView) -> str:
    if axis.level is None or axis.reading is None:
        return ""
    numbers = numbers_of(axis.reading)
    if axis.seconds_left is not None and axis.seconds_left < _LONG_SECONDS:
        numbers += f", exhausted in {_time(axis.seconds_left)} at this rate"
    return f"{numbers}, by {axis.source}."


def numbers_of(reading: Reading) -> str:
    """Return the numbers of one axis, as the begin of a sentence."""
    whole = rounded(int(reading.whole))
    if reading.axis is Axis.COMMIT:
        share = _percent(reading.used, reading.whole)
        return f"{rounded(int(reading.used))} of {whole} committed ({share} %)"
    share = _percent(reading.left, reading.whole)
    said = f"{rounded(int(reading.left))} of {whole} RAM available ({share} %)"
    if reading.is_estimate:
        return f"{said}, as the kubelet's numbers estimate it"
    if reading.hard_reads_per_second is not None:
        said += f", {round(reading.hard_reads_per_second)} page reads per second"
    if reading.write_out_per_second is not None:
        said += f", {round(reading.write_out_per_second)} pages written per second"
    return said


def _percent(part: float, whole: float) -> int:
    return round(_HUNDRED * part / whole) if whole else 0


def _time(seconds: float) -> str:
    if seconds < _MINUTE:
        return "less than a minute"
    minutes = round(seconds / _MINUTE)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


@dataclass(frozen=True, slots=True)
class Overview:
    """The nodes of a pool, by their names, where memory is watched.

    ``pressured``, ``silent`` and ``undecided``: see ``Known``. All others are calm. ``marked`` have our taint
    or condition now. ``levels`` counts the nodes by the level of each axis, None where it is not known.
    ``is_systemic`` says that more nodes are pressured or silent than ``allowed``, the share that the spec
    names. It is what is reported; for evictions more nodes count (``Breaker``).
    """

    nodes: int
    pressured: tuple[str, ...]
    silent: tuple[str, ...]
    undecided: frozenset[str]
    marked: tuple[str, ...]
    levels: Mapping[tuple[Axis, Level | None], int]
    is_systemic: bool
    allowed: int | str

    @property
    def calm(self) -> int:
        """How many nodes are known not to be under pressure."""
        return self.nodes - len(self.pressured) - len(self.silent) - len(self.undecided)


@dataclass(slots=True)
class Tally:
    """Collects the nodes of one pass, by their names.

    Of the calm ones there is only the number: usually they are thousands. ``raised`` are those of which an
    axis is above Normal, and all that are pressured; not those that an earlier process has signalled, until
    it is known whether that is right, since what was said of them stays. ``problems`` say why a source gives
    no samples. ``was_pressured``: the last status counted nodes under pressure.
    """

    was_pressured: bool = False
    calm: int = 0
    names: dict[Known, list[str]] = field(default_factory=lambda: {each: [] for each in Known})
    raised: dict[str, NodeView] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)
    _levels: Counter[tuple[Axis, Level | None]] = field(default_factory=Counter)
    _without_view: int = 0

    def add(
        self, name: str, view: NodeView | None, problem: str, *, is_marked: bool, is_signalled: bool
    ) -> Known:
        """Count a node, and return what is known of it.

        ``is_marked``: taint or condition are on it. ``is_signalled``: they say that it is under pressure.
        """
        known = known_of(view, has_problem=bool(problem), was_pressured=is_marked or self.was_pressured)
        if is_marked:
            self.marked.append(name)
        if known is Known.CALM:
            self.calm += 1
        else:
            self.names[known].append(name)
        if problem:
            self.problems[name] = problem
        if view is None:
            self._without_view += 1
            return known
        is_raised = known is Known.PRESSURED
        for axis, seen in view.axes.items():
            level = seen.level
            if level is not Level.NORMAL:  # what most nodes are is what remains
                self._levels[axis, level] += 1
                is_raised = is_raised or level is not None
        if is_raised and not (known is Known.UNDECIDED and is_signalled):
            self.raised[name] = view
        return known

    def overview(self, allowed: int | str) -> Overview:
        """Return what was collected; ``allowed`` is how many nodes may be under pressure or silent.

        A pool of which merely nothing is known is not under pressure: at least one node has to be.
        """
        nodes = self.calm + sum(map(len, self.names.values()))
        pressured, silent = self.names[Known.PRESSURED], self.names[Known.SILENT]
        return Overview(
            nodes=nodes,
            pressured=tuple(pressured),
            silent=tuple(silent),
            undecided=frozenset(self.names[Known.UNDECIDED]),
            marked=tuple(self.marked),
            levels=self._all_levels(nodes),
            is_systemic=bool(pressured)
            and is_systemic(
                pressured=len(pressured),
                unknown=len(silent),
                nodes=nodes,
                max_pressured_nodes=Share.of(allowed),
            ),
            allowed=allowed,
        )

    def _all_levels(self, nodes: int) -> dict[tuple[Axis, Level | None], int]:
        found = {(axis, level): self._levels[axis, level] for axis in Axis for level in (*Level, None)}
        for axis in Axis:
            found[axis, None] += self._without_view
            found[axis, Level.NORMAL] = nodes - sum(found[axis, level] for level in (*Level, None))
        return found
