"""Counts the nodes of a pool by what is known of their memory, and writes the numbers of a node in words.

Numbers in texts are those of the moment when the level, the guard or the signal of a node last changed, so
that a text that has them is written on transitions only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

import msgspec

from winpool.api.quantity import rounded
from winpool.features.memory.settings import LATE_SECONDS
from winpool.model.node import Node
from winpool.model.pressure import Axis, AxisPressure, Level, NodePressure, Reading


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


def known_of(memory: NodePressure | None, *, has_problem: bool, was_pressured: bool) -> Known:
    """Return what ``memory`` says; None without any. ``has_problem``: a source gives no samples.

    What was signalled stays so while an axis still shows it, also where the other axis is not known any more.
    ``was_pressured``: it may have been under pressure before. Then what was said and signalled of it stays
    after a start, until it has been calm for as long as it has to be. Any other node is calm as soon as its
    level is known.
    """
    if memory is None:
        return Known.SILENT if has_problem else Known.UNDECIDED
    lost, known, is_sampled = Level.NORMAL, None, False
    for axis in memory.axes.values():  # ``NodePressure.level``, for thousands of nodes in a pass
        level = axis.level
        is_sampled = is_sampled or axis.sampled_at is not None
        if level is None:
            lost = max(lost, axis.held)
        elif known is None or level > known:
            known = level
    if memory.is_signalled and known is not None and known >= Level.PROXY_ONLY:
        return Known.PRESSURED
    if known is None or lost > known:
        return Known.SILENT if is_sampled or has_problem else Known.UNDECIDED
    if memory.is_signalled is None:
        return Known.UNDECIDED if was_pressured or known >= Level.PROXY_ONLY else Known.CALM
    return Known.PRESSURED if memory.is_signalled else Known.CALM


def worst_axis(memory: NodePressure) -> AxisPressure:
    """Return the axis with the highest level that is known; COMMIT where both have it, or none is known."""
    return max(
        (memory.axes[axis] for axis in Axis), key=lambda each: -1 if each.level is None else each.level
    )


_HUNDRED: Final = 100
_MINUTE: Final = 60
_LONG_SECONDS: Final = 3600
"""A trend of three minutes says nothing of what is farther ahead."""


def all_numbers(memory: NodePressure) -> str:
    """Return sentences with all that is known of both axes."""
    said = [_of_axis(memory.axes[axis]) for axis in Axis]
    if memory.outside_pods is not None:
        said.append(f"{rounded(int(memory.outside_pods))} are committed outside pods.")
    if memory.returns:
        said.append("The pressure came back soon after it had ended, so this stays longer.")
    return " ".join(each for each in said if each)


def _of_axis(axis: AxisPressure) -> str:
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


def share_of(asked: int | str, nodes: int, *, rounds_up: bool = False) -> int:
    """Return how many of ``nodes`` a number or a percentage of a spec is: 3, or "20%"."""
    if isinstance(asked, int):
        return asked
    percent = int(asked.removesuffix("%"))
    return -(-percent * nodes // _HUNDRED) if rounds_up else percent * nodes // _HUNDRED


def is_systemic(*, pressured: int, unknown: int, nodes: int, max_pressured_nodes: int | str) -> bool:
    """Whether so much of the pool is in trouble that nothing is evicted: SystemicPressure.

    ``pressured`` nodes are signalled ones. The limit rounds up, so that one node of a small pool may be.
    """
    return pressured + unknown > share_of(max_pressured_nodes, nodes, rounds_up=True)


@dataclass(frozen=True)
class Breaker:
    """Whether too much of a pool may be in trouble for an eviction.

    Where many nodes are under pressure, evicted pods only move it to the next node. A surge does not show on
    all nodes at once: each was sampled at another moment, up to an interval ago. So more counts here than
    what is reported (docs/adr/0032-most-of-a-pool.md):

    - A node counts as soon as it is over a line, not only once that is signalled. One of which nothing is
      known may be one of them, so it counts.
    - A node that was calm counts as unknown, until there is a sample of it that was measured after the
      eviction became right. A list that began before the change it is used for says nothing (P4).
    - Where the evidence is that a kubelet answers late, those of calm nodes have to have answered in time
      since: otherwise it may be the network, or this process.

    ``memory`` is the newest, by the UIDs of ``nodes``. It is counted when it is first asked: usually no
    eviction is near.
    """

    nodes: Sequence[Node]
    memory: Mapping[str, NodePressure]
    allowed: int | str

    @property
    def is_open(self) -> bool:
        """Whether that is so by what is known, however old."""
        return self._is_systemic(unknown=0)

    def is_open_for(self, axis: AxisPressure) -> bool:
        """Whether it may be so for an eviction for ``axis``: samples from before it was right say nothing."""
        is_late = axis.reading is not None and axis.reading.is_paging
        counted = self._prompt_at if is_late else self._calm_at
        since = axis.ready_since
        seen = 0 if since is None else len(counted) - bisect_left(counted, since)
        return self._is_systemic(unknown=len(self._calm_at) - seen)

    @cached_property
    def _calm_at(self) -> list[float]:
        """When each calm node was last looked at, the oldest first."""
        seen = (_calm_at(self.memory.get(node.uid)) for node in self.nodes)
        return sorted(at for at in seen if at is not None)

    @cached_property
    def _prompt_at(self) -> list[float]:
        """When the kubelet of each calm node was last asked, if it has answered in time."""
        calm = (
            known
            for node in self.nodes
            if (known := self.memory.get(node.uid)) and _calm_at(known) is not None
        )
        samples = (each for known in calm for each in known.sources.values())
        return sorted(
            each.measured_after
            for each in samples
            if each.answer_seconds is not None and each.answer_seconds < LATE_SECONDS
        )

    def _is_systemic(self, *, unknown: int) -> bool:
        nodes = len(self.nodes)
        return is_systemic(
            pressured=nodes - len(self._calm_at),
            unknown=unknown,
            nodes=nodes,
            max_pressured_nodes=self.allowed,
        )


def _calm_at(memory: NodePressure | None) -> float | None:
    """Return at which moment a node was calm; None where it is in trouble, or may be."""
    level = None if memory is None else memory.level
    if memory is None or level is None or level >= Level.PROXY_ONLY:
        return None
    return min(
        (
            each.looked_at
            for each in memory.axes.values()
            if each.level is not None and each.looked_at is not None
        ),
        default=None,
    )


def max_evicting_nodes(*, nodes: int, max_nodes: int | str) -> int:
    """Return how many nodes may have an eviction that is not finished: at least one."""
    return max(1, share_of(max_nodes, nodes))


class Overview(msgspec.Struct):
    """The nodes of a pool where memory is watched, by their names: status, metrics and issues read it.

    ``pressured``, ``silent`` and ``undecided``: see ``Known``. Of the ``calm`` ones there is only the number:
    usually they are thousands. ``marked`` have our taint or condition now. ``raised`` are those of which an
    axis is above Normal, and all that are pressured; not those that an earlier process has signalled, until
    it is known whether that is right, since what was said of them stays. ``problems`` say why a source gives
    no samples. ``allowed`` is the share of nodes in trouble that the spec names (``maxPressuredNodes``).
    ``was_pressured``: the last status counted nodes under pressure.
    """

    allowed: int | str
    was_pressured: bool = False
    calm: int = 0
    pressured: list[str] = msgspec.field(default_factory=list)
    silent: list[str] = msgspec.field(default_factory=list)
    undecided: set[str] = msgspec.field(default_factory=set)
    marked: list[str] = msgspec.field(default_factory=list)
    raised: dict[str, NodePressure] = msgspec.field(default_factory=dict)
    problems: dict[str, str] = msgspec.field(default_factory=dict)
    _levels: Counter[tuple[Axis, Level | None]] = msgspec.field(default_factory=Counter)

    def add(
        self, name: str, memory: NodePressure | None, problem: str, *, is_marked: bool, is_signalled: bool
    ) -> Known:
        """Count a node, and return what is known of it.

        ``is_marked``: taint or condition are on it. ``is_signalled``: they say that it is under pressure.
        """
        known = known_of(memory, has_problem=bool(problem), was_pressured=is_marked or self.was_pressured)
        if is_marked:
            self.marked.append(name)
        if problem:
            self.problems[name] = problem
        self._count(name, known)
        if memory is None:
            for axis in Axis:
                self._levels[axis, None] += 1
            return known
        is_raised = known is Known.PRESSURED
        for axis, seen in memory.axes.items():
            level = seen.level
            if level is not Level.NORMAL:  # what most nodes are is what remains
                self._levels[axis, level] += 1
                is_raised = is_raised or level is not None
        if is_raised and not (known is Known.UNDECIDED and is_signalled):
            self.raised[name] = memory
        return known

    def _count(self, name: str, known: Known) -> None:
        match known:
            case Known.CALM:
                self.calm += 1
            case Known.PRESSURED:
                self.pressured.append(name)
            case Known.SILENT:
                self.silent.append(name)
            case Known.UNDECIDED:
                self.undecided.add(name)

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.calm + len(self.pressured) + len(self.silent) + len(self.undecided)

    @property
    def is_systemic(self) -> bool:
        """Whether more nodes are pressured or silent than ``allowed``; ``Breaker`` counts more.

        A pool of which merely nothing is known is not under pressure: at least one node has to be.
        """
        return bool(self.pressured) and is_systemic(
            pressured=len(self.pressured),
            unknown=len(self.silent),
            nodes=self.nodes,
            max_pressured_nodes=self.allowed,
        )

    @property
    def levels(self) -> dict[tuple[Axis, Level | None], int]:
        """How many nodes are at each level of each axis, None where it is not known."""
        found = {(axis, level): self._levels[axis, level] for axis in Axis for level in (*Level, None)}
        for axis in Axis:
            found[axis, Level.NORMAL] = self.nodes - sum(found[axis, level] for level in (*Level, None))
        return found
