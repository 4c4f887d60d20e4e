"""Says whether the other nodes of the same Windows build can take the pods of a node that is due.

That is asked of every node that is due, up to thousands a pass, so it must cost little: pods that are alike
are one shape, and where each pod can have a node for itself, nothing has to be placed. A misfit is only
reported where it is certain; that pods fit, only where all were placed. Everything else is unknown. It is by
what pods request, and leaves out all that would be scheduled meanwhile.

Requests of pods are rounded, so that what is counted for one is counted for many. The free capacity of a node
is known as what it has at least, and at most.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final

import msgspec

from winpool.api.keys import HARD_EFFECTS, WINDOWS_BUILD_LABEL
from winpool.api.quantity import rounded
from winpool.api.text import grouped
from winpool.model.node import Node, is_available
from winpool.model.pods import NO_WORKLOAD, WORKLOAD_EXAMPLES_KEPT, PodShape, Toleration, Workload, tolerates
from winpool.support.versions import build_text_of

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
        listed, key=lambda free: (-min(free[1] * memory_scale, free[2] * cpu_scale), nodes[free[0]].name)
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


MOST_STEPS: Final = 4096
"""Nodes that one attempt tries, over all pods: a millisecond."""

STEPS_OF_ALL: Final = 1_500_000
"""The same for all nodes of a build together, half a second at most. Of 5,000 nodes each attempt tries 300:
more than its pods, and the roomiest come first, so that more of them seldom help."""

Demand = tuple["Need", int]
"""A need, and how many pods have it."""


class Need(msgspec.Struct, frozen=True, eq=False):
    """What the pods of one shape need. ``cpu`` is in thousandths of a core, ``memory`` in bytes.

    ``low`` is the same or less, for what is counted once for several needs. ``nodes`` is how many nodes
    certainly have room for one, COUNTED at most and never too many. ``key`` orders needs, the largest first.
    """

    eligible: EligibleNodes
    cpu: int
    memory: int
    low: tuple[int, int]
    nodes: int
    selector: tuple[tuple[str, str], ...]
    key: tuple[object, ...]

    def slots_without(self, own: int) -> int:
        """Return how many pods have room on the nodes except that of the number ``own``, if all were alike.

        It is never too few.
        """
        free = self.eligible.possible_by_number.get(own)
        return self.eligible.slots_for(*self.low) - (slots_on(free, *self.low) if free else 0)


def have_a_node_each(demands: list[Demand]) -> bool:
    """Whether each pod can have a node for itself: then all fit, and nothing has to be placed.

    One node of each need is left out, since the own one may be among them. Where those with the fewest
    nodes choose first, each finds one that no pod before has.
    """
    pods = 0
    for need, number in sorted(demands, key=lambda each: each[0].nodes):
        pods += number
        if need.nodes <= pods:
            return False
    return True


def left_over(demands: Sequence[Demand], own: int, *, everyone: EligibleNodes) -> list[Demand]:
    """Return pods that do not fit however all are placed, as few as that is certain of.

    Two bounds: of pods that are alike, how many have room on each node; and of all pods together, and of all
    with the same nodes, what these nodes have in sum. ``everyone`` are all nodes.
    """
    left: list[Demand] = []
    kept: list[Demand] = []
    for need, number in sorted(demands, key=_by_key):
        fitting = min(max(need.slots_without(own), 0), number)
        if fitting < number:
            left.append((need, number - fitting))
        if fitting:
            kept.append((need, fitting))
    sums = [_beyond_sum(same, eligible, own) for eligible, same in _by_eligible(kept, everyone)]
    return [*left, *max(sums, key=_pods_of, default=[])]


def are_placed(demands: Sequence[Demand], own: int, *, everyone: EligibleNodes) -> bool:
    """Whether one of two attempts places all pods, on nodes except that of the number ``own``.

    The first begins with those that the fewest nodes may take, and fills the roomiest nodes; the second
    begins with the largest, and fills the fullest nodes.
    """
    fussiest = sorted(demands, key=lambda each: (len(each[0].eligible.sure), *_by_key(each)))
    largest = sorted(demands, key=_by_key)
    steps = min(STEPS_OF_ALL // max(len(everyone.possible), 1), MOST_STEPS)
    return _attempt(fussiest, own, steps, roomiest=True) or _attempt(largest, own, steps, roomiest=False)


def _attempt(demands: Iterable[Demand], own: int, steps: int, *, roomiest: bool) -> bool:
    left: dict[int, FreeCapacity] = {}
    for need, number in demands:
        cpu, memory = need.cpu, need.memory
        capacities = need.eligible.sure
        for full in capacities if roomiest else reversed(capacities):
            if not steps:
                return False
            steps -= 1
            if full[0] == own:
                continue
            free = left.get(full[0], full)
            placed = min(slots_on(free, cpu, memory), number)
            if placed:
                left[full[0]] = (free[0], free[1] - placed * cpu, free[2] - placed * memory, free[3] - placed)
                number -= placed  # noqa: PLW2901
                if not number:
                    break
        else:
            return False
    return True


def _by_eligible(
    demands: Sequence[Demand], everyone: EligibleNodes
) -> list[tuple[EligibleNodes, list[Demand]]]:
    together = grouped((id(each[0].eligible), each) for each in demands)
    found = [(same[0][0].eligible, same) for same in together.values()]
    return found if len(found) == 1 else [*found, (everyone, list(demands))]


def _beyond_sum(demands: Sequence[Demand], eligible: EligibleNodes, own: int) -> list[Demand]:
    """Return the pods that do not fit into what all eligible nodes have together, of one resource."""
    _, cpu, memory, pods = eligible.total
    if free := eligible.possible_by_number.get(own):
        cpu, memory, pods = cpu - free[1], memory - free[2], pods - free[3]
    return max(
        _beyond(demands, [need.cpu for need, _ in demands], cpu),
        _beyond(demands, [need.memory for need, _ in demands], memory),
        _beyond(demands, [1] * len(demands), pods),
        key=_pods_of,
    )


def _beyond(demands: Sequence[Demand], amounts: Sequence[int], free: int) -> list[Demand]:
    """Return as few pods as must be left out, so that the others need no more than ``free``."""
    excess = sum(amount * number for (_, number), amount in zip(demands, amounts, strict=True)) - free
    found: list[Demand] = []
    if excess <= 0:
        return found
    ordered = sorted(zip(amounts, demands, strict=True), key=lambda each: (-each[0], _by_key(each[1])))
    for amount, (need, number) in ordered:
        if excess <= 0 or not amount:
            break
        left = min(number, -(-excess // amount))
        found.append((need, left))
        excess -= left * amount
    return found


def _by_key(demand: Demand) -> tuple[object, ...]:
    return demand[0].key


def _pods_of(demands: Iterable[Demand]) -> int:
    return sum(number for _, number in demands)


LABELS_SAID: Final = 3
"""Labels of a nodeSelector in the words about a pod."""


class Fit(msgspec.Struct, frozen=True):
    """Whether the moving pods of a node fit on others.

    ``unfit`` is how many certainly do not, at least, and ``examples`` says what the first of them request.
    ``unclear`` are those of which it is not known which nodes would take them. ``unknown`` says that it is
    not known whether all others fit. So all fit where none is unfit or unclear, and it is not unknown.
    """

    unfit: int = 0
    unclear: int = 0
    examples: tuple[str, ...] = ()
    unknown: bool = False


FITS: Final = Fit()
NOT_KNOWN: Final = Fit(unknown=True)


@dataclass(kw_only=True, eq=False)
class CapacityJudge:
    """Judges for one pass whether the pods of a node fit on others.

    Pods move among ``nodes``. ``workloads`` are by the name of the node, each of this very node and recent.
    ``build_of`` is the Windows build of a node, such as 10.0.20348, empty where it is not known. A node of
    unknown build, without a workload, with an incomplete one, or that does not report how much it has takes
    no pods; but where it may have room, no misfit is certain. So it is with ``others``, the nodes outside of
    the pool, which are read only where pods do not fit on ``nodes``. Pods that ask for another build,
    since their RuntimeClass has changed, would go to nodes that are not read here: they are unclear.
    """

    nodes: Sequence[Node]
    workloads: Mapping[str, Workload]
    build_of: Callable[[Node], str]
    others: Sequence[Node] = ()

    def __post_init__(self) -> None:
        """Have judged nothing yet."""
        ordered = sorted(self.nodes, key=lambda node: node.name)
        self._of_build = grouped((self.build_of(node), node) for node in ordered)
        self._groups: dict[tuple[str, bool], _Group] = {}

    def judge(self, node: Node) -> Fit:
        """Return whether the moving pods of ``node``, which is one of ``nodes``, fit on the others."""
        workload = self.workloads.get(node.name)
        if workload is None:
            return NOT_KNOWN
        build = self.build_of(node)
        if not build:
            return FITS if workload.is_complete and not workload.moving else NOT_KNOWN
        fit = self._group(build, is_wide=False).judge(node)
        return self._group(build, is_wide=True).judge(node) if fit.unfit and self.others else fit

    def _group(self, build: str, *, is_wide: bool) -> _Group:
        """Return the nodes of that build; if ``is_wide`` with those outside of the pool."""
        group = self._groups.get((build, is_wide))
        if group is None:
            there = [node for node in (self.others if is_wide else ()) if self.build_of(node) in (build, "")]
            unknown = [*self._of_build.get("", ()), *sorted(there, key=lambda node: node.name)]
            group = _Group(build, self._of_build.get(build, ()), unknown, self.workloads)
            self._groups[build, is_wide] = group
        return group


class _Group:
    """The ``nodes`` of one ``build``, and others that may have room, of which that is ``unknown``."""

    def __init__(
        self, build: str, nodes: Sequence[Node], unknown: Sequence[Node], workloads: Mapping[str, Workload]
    ) -> None:
        listed = [*nodes, *unknown]
        self._numbers = {node.name: number for number, node in enumerate(listed)}
        # Kept, since shapes are known by their identity: pods that are alike share one, and to compare those
        # that do not would cost more than it saves.
        self.workloads = {node.name: workloads[node.name] for node in nodes if node.name in workloads}
        shapes = {id(shape): shape for each in self.workloads.values() for shape, _ in each.moving}
        available = [(number, node) for number, node in enumerate(listed) if is_available(node)]
        sure = [
            free
            for number, node in available
            if number < len(nodes) and (free := certain_capacity(number, node, workloads.get(node.name)))
        ]
        possible = [possible_capacity(number, node, workloads.get(node.name)) for number, node in available]
        self._eligibility = Eligibility(
            listed,
            sure=roomiest_first(sure, listed),
            possible=roomiest_first(possible, listed),
            shapes=shapes.values(),
        )
        self._needs = _needs_of(shapes, self._eligibility, build)

    def judge(self, node: Node) -> Fit:
        workload, needs = self.workloads.get(node.name), self._needs
        if workload is None:
            return NOT_KNOWN
        together: dict[Need, int] = {}
        unclear = 0
        for shape, number in workload.moving:
            need = needs[id(shape)]
            if need is None:
                unclear += number
            else:
                together[need] = together.get(need, 0) + number
        own, demands = self._numbers[node.name], list(together.items())
        everyone = self._eligibility.everyone
        if not have_a_node_each(demands):
            if left := left_over(demands, own, everyone=everyone):
                return Fit(sum([number for _, number in left]), unclear, _examples(left))
            if not are_placed(demands, own, everyone=everyone):
                return Fit(0, unclear, unknown=True)
        return Fit(0, unclear, unknown=not workload.is_complete)


def _needs_of(shapes: Mapping[int, PodShape], eligibility: Eligibility, build: str) -> dict[int, Need | None]:
    """Return what pods of each shape need, by the identity of the shape; None where that is not clear.

    ``build`` is that of the nodes that are looked at.
    """
    asked = {
        name: (eligible, max(shape.requests.cpu_milli, 0), max(shape.requests.memory, 0))
        for name, shape in shapes.items()
        if not shape.unclear and not _is_for_another(shape, build) and (eligible := eligibility.of(shape))
    }
    bits = grid_of(list(asked.values()))
    largest_cpu = max([1, *(cpu for _, cpu, _ in asked.values())])
    largest_memory = max([1, *(memory for _, _, memory in asked.values())])
    made: dict[tuple[object, ...], Need] = {}
    found: dict[int, Need | None] = dict.fromkeys(shapes)
    for name, (eligible, cpu, memory) in asked.items():
        selector = shapes[name].selector
        same = (id(eligible), cpu, memory, selector)
        if same not in made:
            size = max(cpu * largest_memory, memory * largest_cpu)
            made[same] = Need(
                eligible=eligible,
                cpu=cpu,
                memory=memory,
                low=(rounded_down(cpu, bits), rounded_down(memory, bits)),
                nodes=eligible.nodes_for(rounded_up(cpu, bits), rounded_up(memory, bits)),
                key=(-size, -cpu, -memory, eligible.key, selector),
                selector=selector,
            )
        found[name] = made[same]
    return found


def _is_for_another(shape: PodShape, build: str) -> bool:
    """Whether pods of ``shape`` ask for nodes of another Windows build."""
    asked = next((value for key, value in shape.selector if key == WINDOWS_BUILD_LABEL), "")
    return build_text_of(asked) not in ("", build)


def _examples(demands: Iterable[Demand]) -> tuple[str, ...]:
    """Return the first of them in words; those that request the same are one."""
    found: dict[str, None] = {}
    for need, _ in demands:
        found[_said(need)] = None
        if len(found) == WORKLOAD_EXAMPLES_KEPT:
            break
    return tuple(found)


def _said(need: Need) -> str:
    """Return a pod in words; a label is at most 380 characters long (the API server checks that)."""
    requests = f"requests {need.cpu}m CPU and {rounded(need.memory)} memory"
    if not need.selector:
        return requests
    labels = [f"{key}={value}" for key, value in need.selector[:LABELS_SAID]]
    more = ", ..." if len(need.selector) > LABELS_SAID else ""
    return f"{requests}, on nodes with {', '.join(labels)}{more}"
