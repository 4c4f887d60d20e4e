"""Whether the other nodes of the same Windows build can take the pods of a node.

That is asked of every node that is due, up to thousands a pass, so it must cost little: pods that are alike
are one shape, and where each pod can have a node for itself, nothing has to be placed.

A misfit is only reported where it is certain; that pods fit, only where all were placed. Everything else is
unknown. It is by what pods request, and leaves out all that would be scheduled meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.quantity import rounded
from winpool.pods.workloads import EXAMPLES_KEPT
from winpool.upgrade.audiences import Audiences
from winpool.upgrade.packing import Need, are_placed, have_a_node_each, left_over
from winpool.upgrade.rounding import grid_of, rounded_down, rounded_up
from winpool.upgrade.spots import is_available, possible_spot, roomiest_first, sure_spot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from winpool.objects.node import Node
    from winpool.pods.workloads import PodShape, Workload
    from winpool.upgrade.packing import Demand

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


class CapacityJudge:
    """Judges for one pass whether the pods of a node fit on others."""

    def __init__(
        self,
        *,
        nodes: Sequence[Node],
        workloads: Mapping[str, Workload],
        build_of: Callable[[Node], str],
        others: Sequence[Node] = (),
    ) -> None:
        """Prepare to judge ``nodes``, among which pods move.

        ``workloads`` are by the name of the node, each of this very node and recent. ``build_of`` is the
        Windows build of a node, such as 10.0.20348, empty where it is not known. A node of unknown build,
        without a workload, with an incomplete one, or that does not report how much it has takes no pods;
        but where it may have room, no misfit is certain. So it is with ``others``, the nodes outside of the
        pool, which are read only where pods do not fit on ``nodes``.
        """
        self._workloads = workloads
        self._build_of = build_of
        self._others = others
        ordered = sorted(nodes, key=lambda node: node.name)
        self._of_build: dict[str, list[Node]] = {}
        for node in ordered:
            self._of_build.setdefault(build_of(node), []).append(node)
        self._groups: dict[str, _Group] = {}
        self._wide: dict[str, _Group] = {}
        self._found: dict[str, Fit] = {}

    def judge(self, node: Node) -> Fit:
        """Return whether the moving pods of ``node``, which is one of ``nodes``, fit on the others.

        The answer is kept: to ask again costs nothing.
        """
        found = self._found.get(node.name)
        if found is None:
            found = self._found[node.name] = self._judged(node)
        return found

    def _judged(self, node: Node) -> Fit:
        workload = self._workloads.get(node.name)
        if workload is None:
            return NOT_KNOWN
        build = self._build_of(node)
        if not build:
            return FITS if workload.is_complete and not workload.moving else NOT_KNOWN
        group = self._groups.get(build)
        if group is None:
            group = self._groups[build] = self._group(build, ())
        fit = group.judge(node)
        if not fit.unfit or not self._others:
            return fit
        wide = self._wide.get(build)
        if wide is None:
            wide = self._wide[build] = self._group(build, self._others)
        return wide.judge(node)

    def _group(self, build: str, others: Sequence[Node]) -> _Group:
        there = [node for node in others if self._build_of(node) in (build, "")]
        unknown = [*self._of_build.get("", ()), *sorted(there, key=lambda node: node.name)]
        return _Group(self._of_build.get(build, ()), unknown, self._workloads)


class _Group:
    """The ``nodes`` of one build, and others that may have room, of which that is ``unknown``."""

    def __init__(
        self, nodes: Sequence[Node], unknown: Sequence[Node], workloads: Mapping[str, Workload]
    ) -> None:
        listed = [*nodes, *unknown]
        self._numbers = {node.name: number for number, node in enumerate(listed)}
        # Kept, since shapes are known by their identity: pods that are alike share one, and to compare those
        # that do not would cost more than it saves.
        self._workloads = {node.name: workloads[node.name] for node in nodes if node.name in workloads}
        shapes = {id(shape): shape for each in self._workloads.values() for shape, _ in each.moving}
        available = [(number, node) for number, node in enumerate(listed) if is_available(node)]
        sure = [
            spot
            for number, node in available
            if number < len(nodes) and (spot := sure_spot(number, node, workloads.get(node.name)))
        ]
        possible = [possible_spot(number, node, workloads.get(node.name)) for number, node in available]
        self._audiences = Audiences(
            listed,
            sure=roomiest_first(sure, listed),
            possible=roomiest_first(possible, listed),
            shapes=shapes.values(),
        )
        self._needs = _needs_of(shapes, self._audiences)

    def judge(self, node: Node) -> Fit:
        workload, needs = self._workloads.get(node.name), self._needs
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
        everyone = self._audiences.everyone
        if not have_a_node_each(demands):
            if left := left_over(demands, own, everyone=everyone):
                return Fit(sum([number for _, number in left]), unclear, _examples(left))
            if not are_placed(demands, own, everyone=everyone):
                return Fit(0, unclear, unknown=True)
        if unclear or not workload.is_complete:
            return Fit(0, unclear, unknown=not workload.is_complete)
        return FITS


def _needs_of(shapes: Mapping[int, PodShape], audiences: Audiences) -> dict[int, Need | None]:
    """Return what pods of each shape need, by the identity of the shape; None where that is not clear."""
    asked = {
        name: (audience, max(shape.requests.cpu_milli, 0), max(shape.requests.memory, 0))
        for name, shape in shapes.items()
        if not shape.unclear and (audience := audiences.of(shape))
    }
    bits = grid_of(list(asked.values()))
    largest_cpu = max([1, *(cpu for _, cpu, _ in asked.values())])
    largest_memory = max([1, *(memory for _, _, memory in asked.values())])
    made: dict[tuple[object, ...], Need] = {}
    found: dict[int, Need | None] = dict.fromkeys(shapes)
    for name, (audience, cpu, memory) in asked.items():
        selector = shapes[name].selector
        same = (id(audience), cpu, memory, selector)
        if same not in made:
            size = max(cpu * largest_memory, memory * largest_cpu)
            made[same] = Need(
                audience=audience,
                cpu=cpu,
                memory=memory,
                low=(rounded_down(cpu, bits), rounded_down(memory, bits)),
                nodes=audience.nodes_for(rounded_up(cpu, bits), rounded_up(memory, bits)),
                key=(-size, -cpu, -memory, audience.key, selector),
                selector=selector,
            )
        found[name] = made[same]
    return found


def _examples(demands: Iterable[Demand]) -> tuple[str, ...]:
    """Return the first of them in words; those that request the same are one."""
    found: dict[str, None] = {}
    for need, _ in demands:
        found[_said(need)] = None
        if len(found) == EXAMPLES_KEPT:
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
