"""How much room nodes have for further pods: at least, by what is known, and at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.pods.workloads import NO_WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from winpool.objects.node import Node
    from winpool.pods.workloads import Workload

Spot = tuple[int, int, int, int]
"""The number of a node, and its room: thousandths of a core, bytes, and pods."""

UNLIMITED: Final = 2**80
"""The room at most of a node that does not report how much it has: more than any sum of what nodes report,
which are numbers of 64 bits."""

READY: Final = "True"


def is_available(node: Node) -> bool:
    """Whether the scheduler may give pods to ``node``: it is Ready, not cordoned and not being deleted."""
    return node.ready == READY and not node.unschedulable and not node.deleting


def sure_spot(number: int, node: Node, workload: Workload | None) -> Spot | None:
    """Return the room that ``node`` certainly has; None where that is not known, or is none."""
    cpu, memory, pods = node.allocatable.cpu_milli, node.memory.allocatable, node.allocatable.pods
    if workload is None or not workload.is_complete or cpu is None or memory is None or pods is None:
        return None
    used = workload.used
    if pods <= used.pods:
        return None
    return (number, max(cpu - used.cpu_milli, 0), max(memory - used.memory, 0), pods - used.pods)


def possible_spot(number: int, node: Node, workload: Workload | None) -> Spot:
    """Return the room that ``node`` has at most: what it reports, without the pods that are known there."""
    used = (workload or NO_WORKLOAD).used
    return (
        number,
        _left(node.allocatable.cpu_milli, used.cpu_milli),
        _left(node.memory.allocatable, used.memory),
        _left(node.allocatable.pods, used.pods),
    )


def roomiest_first(spots: Iterable[Spot], nodes: Sequence[Node]) -> list[Spot]:
    """Return the spots in the order in which pods are tried on them: the most balanced room first.

    It is by the resource of which a node has the smaller share of what any node has, then by name.
    """
    listed = list(spots)
    cpu_scale = max([1, *(spot[1] for spot in listed if spot[1] < UNLIMITED)])
    memory_scale = max([1, *(spot[2] for spot in listed if spot[2] < UNLIMITED)])
    return sorted(
        listed,
        key=lambda spot: (-min(spot[1] * memory_scale, spot[2] * cpu_scale), nodes[spot[0]].name),
    )


def slots_on(spot: Spot, cpu: int, memory: int) -> int:
    """Return how many pods that request so much have room in ``spot``.

    A pod that requests nothing of a resource needs none of it, also where all of it is in use
    (``fitsRequest`` of the plugin NodeResourcesFit).
    """
    _, free_cpu, free_memory, pods = spot
    if cpu and free_cpu < cpu * pods:
        pods = free_cpu // cpu
    if memory and free_memory < memory * pods:
        pods = free_memory // memory
    return pods


def _left(has: int | None, used: int) -> int:
    return UNLIMITED if has is None else max(has - used, 0)
