"""Makes the workloads of nodes from their pods, one after the other.

Pods that are alike share one shape, over all nodes. Numbers stand for shapes while pods are counted: a shape
is compared once for each pod, and sorted once for all nodes.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from winpool.pods.first_kept import keep_first
from winpool.pods.workloads import (
    BLOCKS_KEPT,
    EXAMPLES_KEPT,
    SHAPES_KEPT,
    Block,
    DeclaredBuild,
    Requests,
    Workload,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from winpool.pods.budget_book import BudgetBook
    from winpool.pods.pod import Pod
    from winpool.pods.pod_work import PodWork
    from winpool.pods.workloads import PodShape

MOST_SHAPES: Final = 10_000
"""Shapes of all nodes together that are kept, of up to 2 kB of text each: the workloads of the largest
clusters. A node with a pod of another shape is incomplete."""

BUILDS_KEPT: Final = 16
"""Builds that the pods of one node declare: there are six releases of Windows Server. A node with more is
incomplete."""


class WorkloadTally:
    """Counts the pods of ``nodes``. ``budgets`` is None where they are not known."""

    def __init__(self, nodes: Iterable[str], budgets: BudgetBook | None) -> None:
        self._budgets = budgets
        self._nodes = {name: _NodeTally() for name in nodes}
        self._shapes: dict[PodShape, int] = {}

    def add(self, pod: Pod, *, node: str) -> None:
        """Count ``pod``, which is on ``node``."""
        tally = self._nodes.get(node)
        if tally is None or pod.is_finished:
            return
        if pod.work is None:
            tally.is_complete = False
            return
        tally.use(pod.work.shape.requests)
        if pod.is_evicted_by_drain:
            block = None if self._budgets is None else self._budgets.block_of(pod)
            tally.move(pod, pod.work, shape=self._number(pod.work.shape), block=block)

    def _number(self, shape: PodShape) -> int | None:
        """Return the number of ``shape``; None where it is one too many."""
        number = self._shapes.get(shape)
        if number is None and len(self._shapes) < MOST_SHAPES:
            number = self._shapes[shape] = len(self._shapes)
        return number

    def result(self, *, unreadable: Collection[str]) -> Mapping[str, Workload]:
        """Return the workloads by the names of the nodes. ``unreadable`` have a pod that was not counted."""
        shapes = tuple(self._shapes)
        order = sorted(range(len(shapes)), key=lambda number: _place(shapes[number]))
        places = {number: place for place, number in enumerate(order)}
        pairs: dict[tuple[int, int], tuple[PodShape, int]] = {}

        def moving(found: Counter[int]) -> tuple[tuple[PodShape, int], ...]:
            there = sorted(found.items(), key=lambda each: places[each[0]])
            return tuple([pairs.setdefault(each, (shapes[each[0]], each[1])) for each in there])

        return {
            name: tally.result(
                moving(tally.moving),
                budgets_known=self._budgets is not None,
                is_readable=name not in unreadable,
            )
            for name, tally in self._nodes.items()
        }


@dataclass(slots=True)
class _BuildTally:
    """The pods of a node that declare one build in one way."""

    pods: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _NodeTally:
    """What was counted so far on one node."""

    cpu_milli: int = 0
    memory: int = 0
    pods: int = 0
    moving: Counter[int] = field(default_factory=Counter)
    builds: dict[tuple[str, bool], _BuildTally] = field(default_factory=dict)
    undeclared: int = 0
    blocks: list[Block] = field(default_factory=list)
    blocked: int = 0
    unmanaged: int = 0
    local: int = 0
    longest_grace: int = 0
    is_complete: bool = True

    def use(self, requests: Requests) -> None:
        """Count what a pod requests that has not finished."""
        self.cpu_milli += requests.cpu_milli
        self.memory += requests.memory
        self.pods += requests.pods

    def move(self, pod: Pod, work: PodWork, *, shape: int | None, block: Block | None) -> None:
        """Count a pod that a drain moves."""
        if shape is None or (shape not in self.moving and len(self.moving) >= SHAPES_KEPT):
            self.is_complete = False
        else:
            self.moving[shape] += 1
        self._declare(pod, work)
        if block is not None:
            self.blocked += 1
            if len(self.blocks) < BLOCKS_KEPT or block.pod < self.blocks[-1].pod:
                insort(self.blocks, block, key=_pod_of)
                del self.blocks[BLOCKS_KEPT:]
        self.unmanaged += not pod.controller_kind
        self.local += work.is_local
        self.longest_grace = max(self.longest_grace, work.grace_seconds)

    def _declare(self, pod: Pod, work: PodWork) -> None:
        if not work.build:
            self.undeclared += 1
            return
        tally = self.builds.get((work.build, work.is_bound))
        if tally is None:
            if len(self.builds) >= BUILDS_KEPT:
                self.is_complete = False
                return
            tally = self.builds[work.build, work.is_bound] = _BuildTally()
        tally.pods += 1
        keep_first(tally.examples, pod.full_name, limit=EXAMPLES_KEPT)

    def result(
        self, moving: tuple[tuple[PodShape, int], ...], *, budgets_known: bool, is_readable: bool
    ) -> Workload:
        """Return the workload of the node, with the shapes of its moving pods in order."""
        return Workload(
            used=Requests(self.cpu_milli, self.memory, self.pods),
            moving=moving,
            declared=tuple(
                DeclaredBuild(build, tally.pods, tuple(tally.examples), is_bound)
                for (build, is_bound), tally in sorted(self.builds.items(), key=_key_of)
            ),
            undeclared=self.undeclared,
            blocks=tuple(self.blocks),
            blocked=self.blocked,
            budgets_known=budgets_known,
            unmanaged=self.unmanaged,
            local=self.local,
            longest_grace=self.longest_grace,
            is_complete=self.is_complete and is_readable,
        )


def _pod_of(block: Block) -> str:
    return block.pod


def _key_of(each: tuple[tuple[str, bool], _BuildTally]) -> tuple[str, bool]:
    return each[0]


def _place(shape: PodShape) -> tuple[object, ...]:
    """Return what orders shapes: the largest first, and the same order whatever came first."""
    asked = shape.requests
    tolerations = tuple(
        (each.key, each.operator, each.value, each.effect, each.seconds is not None, each.seconds or 0)
        for each in shape.tolerations
    )
    return (-asked.memory, -asked.cpu_milli, shape.selector, shape.unclear, tolerations)
