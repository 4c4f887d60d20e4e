"""What runs on each node of a pool and would have to move for an upgrade: records only.

Pods that are alike share one shape, so that a pool of thousands of nodes costs little. Only pools with
``spec.upgrade`` ask for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.pods.pod import Toleration

SHAPES_KEPT: Final = 256
"""Shapes of the pods of one node; more pods than this run on no Windows node (a kubelet permits 110 by
default). The workload of a node with more is incomplete."""

BLOCKS_KEPT: Final = 5
"""Pods of a node that are named as not evictable; all are counted."""

EXAMPLES_KEPT: Final = 3


@dataclass(frozen=True, slots=True)
class Requests:
    """What pods request: CPU in thousandths of a core, memory in bytes, and how many pods they are."""

    cpu_milli: int = 0
    memory: int = 0
    pods: int = 0

    def __add__(self, other: Requests) -> Requests:
        """Return both together."""
        return Requests(self.cpu_milli + other.cpu_milli, self.memory + other.memory, self.pods + other.pods)


NOTHING_REQUESTED: Final = Requests()


@dataclass(frozen=True, slots=True)
class PodShape:
    """What the scheduler asks of a node for a pod; pods of one workload share one.

    ``selector`` are the labels of ``spec.nodeSelector``, and of required node affinity where that is one term
    of ``In`` with one value each. ``unclear`` says why it is not known which other nodes would take the
    pod (other affinity, topology spread, a volume, a resource that is not CPU or memory, host ports, a
    scheduler of its own); empty where it is.
    """

    requests: Requests
    selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    unclear: str = ""


class BlockedBy(StrEnum):
    """Why the API server would not evict a pod now."""

    NONE_ALLOWED = "NoneAllowed"
    """Its PodDisruptionBudget allows no disruption now."""
    SEVERAL_BUDGETS = "SeveralBudgets"
    """Two PodDisruptionBudgets are about it: the API server refuses to evict such a pod."""
    UNREADABLE = "Unreadable"
    """It was not found out, since there are too many budgets in the namespace."""


@dataclass(frozen=True, slots=True)
class Block:
    """A pod that cannot be evicted now. ``pod`` is "namespace/name", ``budgets`` the names of its budgets."""

    pod: str
    why: BlockedBy
    budgets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredBuild:
    """Pods of a node that declare the Windows build they are made for, such as 10.0.17763.

    ``examples`` are the first of them as "namespace/name". ``is_bound`` says that they can only be scheduled
    to nodes of that build (nodeSelector or required affinity), not only annotated with it.
    """

    build: str
    pods: int
    examples: tuple[str, ...] = ()
    is_bound: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """What runs on one node, from a list of all pods.

    ``used`` are the requests of all pods there that have not finished, agents included. ``moving`` are the
    pods that a drain moves, by shape: not those of DaemonSets, mirror pods, or finished or terminating ones.
    ``declared`` are the builds that moving pods declare, ``undeclared`` how many declare none. ``blocks`` are
    the first pods that cannot be evicted now, ``blocked`` counts all; ``budgets_known`` is False where the
    list of budgets failed or was forbidden. ``unmanaged`` pods have no controller and ``local`` ones use an
    emptyDir: both are lost by a drain. ``longest_grace`` is the longest grace of a moving pod in seconds.
    ``is_complete`` is False where a pod of the node could not be read, or there are more shapes than kept.
    """

    used: Requests = NOTHING_REQUESTED
    moving: tuple[tuple[PodShape, int], ...] = ()
    declared: tuple[DeclaredBuild, ...] = ()
    undeclared: int = 0
    blocks: tuple[Block, ...] = ()
    blocked: int = 0
    budgets_known: bool = True
    unmanaged: int = 0
    local: int = 0
    longest_grace: int = 0
    is_complete: bool = True

    @property
    def moving_pods(self) -> int:
        """How many pods a drain moves."""
        return sum(number for _, number in self.moving)


NO_WORKLOAD: Final = Workload()


@dataclass(frozen=True, slots=True)
class Workloads:
    """The workloads of the nodes of a pool, by the names of the nodes, as of one list."""

    of_node: Mapping[str, Workload] = field(default_factory=dict)
