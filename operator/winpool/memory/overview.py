"""What is known of the memory of all nodes of a pool: names and counts, for the status and the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.memory.breaker import Share, is_systemic
from winpool.memory.known import Known, known_of
from winpool.objects.pressure import Axis, Level

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.objects.pressure import NodeView


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
