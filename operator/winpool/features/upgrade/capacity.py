"""Says whether the other nodes of the same Windows build can take the pods of a node that is due.

That is asked of every node that is due, up to thousands a pass, so it must cost little: pods that are alike
are one shape, and where each pod can have a node for itself, nothing has to be placed. A misfit is only
reported where it is certain; that pods fit, only where all were placed. Everything else is unknown. It is by
what pods request, and leaves out all that would be scheduled meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from winpool.api.keys import WINDOWS_BUILD_LABEL
from winpool.api.quantity import rounded
from winpool.api.text import grouped
from winpool.features.upgrade.eligible import (
    Eligibility,
    EligibleNodes,
    FreeCapacity,
    certain_capacity,
    grid_of,
    possible_capacity,
    roomiest_first,
    rounded_down,
    rounded_up,
    slots_on,
)
from winpool.model.node import Node, is_available
from winpool.model.pods import WORKLOAD_EXAMPLES_KEPT, PodShape, Workload
from winpool.support.versions import build_text_of

MOST_STEPS: Final = 4096
"""Nodes that one attempt tries, over all pods: a millisecond."""

STEPS_OF_ALL: Final = 1_500_000
"""The same for all nodes of a build together, half a second at most. Of 5,000 nodes each attempt tries 300:
more than its pods, and the roomiest come first, so that more of them seldom help."""

Demand = tuple["Need", int]
"""A need, and how many pods have it."""


@dataclass(frozen=True, eq=False, slots=True)
class Need:
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
    for need, number in sorted(demands, key=_by_nodes):
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
                left[full[0]] = (
                    free[0],
                    free[1] - placed * cpu,
                    free[2] - placed * memory,
                    free[3] - placed,
                )
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


def _by_nodes(demand: Demand) -> int:
    return demand[0].nodes


def _by_key(demand: Demand) -> tuple[object, ...]:
    return demand[0].key


def _pods_of(demands: Iterable[Demand]) -> int:
    return sum(number for _, number in demands)


LABELS_SAID: Final = 3
"""Labels of a nodeSelector in the words about a pod."""


@dataclass(frozen=True, slots=True)
class Fit:
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
        self,
        build: str,
        nodes: Sequence[Node],
        unknown: Sequence[Node],
        workloads: Mapping[str, Workload],
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
