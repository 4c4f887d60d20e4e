"""Says which nodes of the same Windows build may take a pod that moves, and how much free capacity they have.

Requests of pods are rounded, so that what is counted for one is counted for many. The free capacity of a node
is known as what it has at least, and at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

from winpool.api.keys import HARD_EFFECTS
from winpool.model.node import Node
from winpool.model.pods import NO_WORKLOAD, PodShape, Toleration, Workload, tolerates

FreeCapacity = tuple[int, int, int, int]
"""The number of a node, and its room: thousandths of a core, bytes, and pods."""

UNLIMITED: Final = 2**80
"""The room at most of a node that does not report how much it has: more than any sum of what nodes report,
which are numbers of 64 bits."""


def certain_capacity(number: int, node: Node, workload: Workload | None) -> FreeCapacity | None:
    """Return the room that ``node`` certainly has; None where that is not known, or is none."""
    cpu, memory, pods = node.allocatable.cpu_milli, node.memory.allocatable, node.allocatable.pods
    if workload is None or not workload.is_complete or cpu is None or memory is None or pods is None:
        return None
    used = workload.used
    if pods <= used.pods:
        return None
    return (number, max(cpu - used.cpu_milli, 0), max(memory - used.memory, 0), pods - used.pods)


def possible_capacity(number: int, node: Node, workload: Workload | None) -> FreeCapacity:
    """Return the room that ``node`` has at most: what it reports, without the pods that are known there."""
    used = (workload or NO_WORKLOAD).used
    return (
        number,
        _left(node.allocatable.cpu_milli, used.cpu_milli),
        _left(node.memory.allocatable, used.memory),
        _left(node.allocatable.pods, used.pods),
    )


def roomiest_first(capacities: Iterable[FreeCapacity], nodes: Sequence[Node]) -> list[FreeCapacity]:
    """Return the capacities in the order in which pods are tried on them: the most balanced room first.

    It is by the resource of which a node has the smaller share of what any node has, then by name.
    """
    listed = list(capacities)
    cpu_scale = max([1, *(free[1] for free in listed if free[1] < UNLIMITED)])
    memory_scale = max([1, *(free[2] for free in listed if free[2] < UNLIMITED)])
    return sorted(
        listed,
        key=lambda free: (-min(free[1] * memory_scale, free[2] * cpu_scale), nodes[free[0]].name),
    )


def slots_on(free: FreeCapacity, cpu: int, memory: int) -> int:
    """Return how many pods that request so much have room in ``free``.

    A pod that requests nothing of a resource needs none of it, also where all of it is in use
    (``fitsRequest`` of the plugin NodeResourcesFit).
    """
    _, free_cpu, free_memory, pods = free
    if cpu and free_cpu < cpu * pods:
        pods = free_cpu // cpu
    if memory and free_memory < memory * pods:
        pods = free_memory // memory
    return pods


def _left(has: int | None, used: int) -> int:
    return UNLIMITED if has is None else max(has - used, 0)


EXACT: Final = UNLIMITED.bit_length()
"""Significant bits that no request exceeds."""

GRIDS: Final = (EXACT, 3, 1)
"""Significant bits: with three there are four steps between an amount and its double, with one there is one.
A pool of thousands of nodes whose pods all request different amounts needs the second; the third is for pods
that were made to cost time."""

MOST_COUNTED: Final = 1_000_000
"""Nodes that are counted in all, for all different requests: a tenth of a second."""


def rounded_up(amount: int, bits: int) -> int:
    """Return ``amount`` or more, with so many significant bits."""
    shift = max(amount.bit_length() - bits, 0)
    return -(-amount >> shift) << shift


def rounded_down(amount: int, bits: int) -> int:
    """Return ``amount`` or less, with so many significant bits."""
    shift = max(amount.bit_length() - bits, 0)
    return amount >> shift << shift


def grid_of(asked: Sequence[tuple[EligibleNodes, int, int]]) -> int:
    """Return with how many significant bits CPU and memory are counted, so that it takes a bounded time."""
    for bits in GRIDS[:-1]:
        different = {
            (id(eligible), rounded_down(cpu, bits), rounded_down(memory, bits)): eligible
            for eligible, cpu, memory in asked
        }
        if sum(len(each.possible) for each in different.values()) <= MOST_COUNTED:
            return bits
    return GRIDS[-1]


COUNTED: Final = 256
"""Nodes that are counted which have room for a pod. More than this many pods run on no Windows node, so that
more nodes make no difference."""

MOST_COMPARISONS: Final = 200_000
"""Comparisons of tolerations with taints, and nodes that selectors select, in all: a tenth of a second. Real
nodes have a handful of different taints. Above it, it is not known who takes which pod."""

_NONE: Final[frozenset[int]] = frozenset()

_OPERATORS: Final = ("", "Equal", "Exists")
"""Of tolerations. Whether another (KEP-5471) has an effect, clients cannot see."""

_Taints = tuple[tuple[str, str, str], ...]
"""Key, value and effect of each hard taint of a node."""

_Selector = tuple[tuple[str, str], ...]


class EligibleNodes:
    """The nodes that may take a pod: those with certain room, and those with possible room.

    ``key`` orders those of several shapes, whatever order they were asked for in.
    """

    def __init__(
        self, sure: Sequence[FreeCapacity], possible: Sequence[FreeCapacity], *, key: tuple[object, ...] = ()
    ) -> None:
        self.key = key
        self.sure = sure
        self.possible = possible
        self._nodes: dict[tuple[int, int], int] = {}
        self._slots: dict[tuple[int, int], int] = {}

    @cached_property
    def possible_by_number(self) -> Mapping[int, FreeCapacity]:
        """The room at most of each node."""
        return {free[0]: free for free in self.possible}

    @cached_property
    def total(self) -> FreeCapacity:
        """The room at most of all nodes together."""
        return (
            -1,
            sum(free[1] for free in self.possible),
            sum(free[2] for free in self.possible),
            sum(free[3] for free in self.possible),
        )

    def nodes_for(self, cpu: int, memory: int) -> int:
        """Return how many nodes certainly have room for one pod that requests so much; COUNTED at most."""
        key = (cpu, memory)
        if (found := self._nodes.get(key)) is None:
            rooms = (1 for free in self.sure if free[1] >= cpu and free[2] >= memory)
            found = self._nodes[key] = sum(islice(rooms, COUNTED))
        return found

    def slots_for(self, cpu: int, memory: int) -> int:
        """Return how many such pods have room at most, if there were no others."""
        key = (cpu, memory)
        if (found := self._slots.get(key)) is None:
            found = self._slots[key] = sum([slots_on(free, cpu, memory) for free in self.possible])
        return found


class Eligibility:
    """Which nodes are eligible for the pods of each shape."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        sure: Sequence[FreeCapacity],
        possible: Sequence[FreeCapacity],
        shapes: Iterable[PodShape],
    ) -> None:
        """Prepare for ``shapes``, of pods that move; ``nodes`` have the numbers of the capacities."""
        self._sure, self._possible = sure, possible
        self._sure_at = {free[0]: place for place, free in enumerate(sure)}
        self._possible_at = {free[0]: place for place, free in enumerate(possible)}
        self._hard = {
            free[0]: tuple(
                [
                    (each.key, each.value, each.effect)
                    for each in nodes[free[0]].taints
                    if each.effect in HARD_EFFECTS
                ]
            )
            for free in possible
        }
        self._sets = frozenset(self._hard.values())
        self.everyone = EligibleNodes(sure, possible)
        listed = list(shapes)
        wanted = {pair for shape in listed for pair in shape.selector}
        self._with_label = _with_label(nodes, possible, wanted)
        self._permitted: dict[tuple[Toleration, ...], frozenset[_Taints]] = {}
        self._found: dict[tuple[_Selector, frozenset[_Taints]], EligibleNodes] = {}
        self.are_clear = self._is_little({(each.selector, each.tolerations) for each in listed})

    def of(self, shape: PodShape) -> EligibleNodes | None:
        """Return who may take pods of ``shape``; None where it is not known."""
        if not self.are_clear or any(each.operator not in _OPERATORS for each in shape.tolerations):
            return None
        key = (shape.selector, self._permitted_sets(shape.tolerations))
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._made(*key)
        return found

    def _is_little(self, asked: Iterable[tuple[_Selector, tuple[Toleration, ...]]]) -> bool:
        """Whether it takes a bounded time to find them, whatever people write into pods and nodes."""
        taints = sum(len(each) for each in self._sets)
        comparisons = 0
        for selector, tolerations in asked:
            comparisons += taints * len(tolerations)
            if selector:
                comparisons += min(len(self._with_label.get(pair, ())) for pair in selector)
        return comparisons <= MOST_COMPARISONS

    def _permitted_sets(self, tolerations: tuple[Toleration, ...]) -> frozenset[_Taints]:
        found = self._permitted.get(tolerations)
        if found is None:
            found = self._permitted[tolerations] = frozenset(
                taints
                for taints in self._sets
                if all(
                    tolerates(tolerations, key=key, value=value, effect=effect)
                    for key, value, effect in taints
                )
            )
        return found

    def _made(self, selector: _Selector, permitted: frozenset[_Taints]) -> EligibleNodes:
        everywhere = permitted == self._sets
        if everywhere and not selector:
            return self.everyone
        if selector:
            first, *others = sorted((self._with_label.get(pair, _NONE) for pair in selector), key=len)
            numbers = first.intersection(*others)
        else:
            numbers = frozenset(self._hard)
        if not everywhere:
            numbers = frozenset(each for each in numbers if self._hard[each] in permitted)
        return EligibleNodes(
            _chosen(self._sure, self._sure_at, numbers),
            _chosen(self._possible, self._possible_at, numbers),
            key=(selector, *sorted(permitted)),
        )


def _chosen(
    capacities: Sequence[FreeCapacity], places: Mapping[int, int], numbers: Iterable[int]
) -> list[FreeCapacity]:
    """Return the capacities of these nodes, in their order."""
    return [capacities[place] for place in sorted(places[each] for each in numbers if each in places)]


def _with_label(
    nodes: Sequence[Node], capacities: Iterable[FreeCapacity], wanted: set[tuple[str, str]]
) -> Mapping[tuple[str, str], frozenset[int]]:
    """Return the numbers of the nodes that have a wanted label."""
    if not wanted:
        return {}
    keys = {key for key, _ in wanted}
    found: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
    for number, *_ in capacities:
        for pair in nodes[number].labels.items():
            if pair[0] in keys and pair in wanted:
                found[pair].add(number)
    return {pair: frozenset(numbers) for pair, numbers in found.items()}
