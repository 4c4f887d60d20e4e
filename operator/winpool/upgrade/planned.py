"""The plan of the upgrades of a pool, as records of plain values: equal plans are equal byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winpool.api.upgrade import Gate
    from winpool.pods.workloads import Block
    from winpool.upgrade.records import DueReason, Stop


class PlannedAction(StrEnum):
    """What may be done with a node."""

    UPGRADE = "Upgrade"
    """Nothing keeps it from being upgraded, once its batch is next."""
    WAIT = "Wait"
    """A gate is closed, or something stops it: of the pool or of the node itself."""


@dataclass(frozen=True, slots=True)
class PlannedGate:
    """How a gate stands ("open", "closed", "unknown"), why, and what opens it (empty where it is open).

    ``permits`` says whether it keeps no node from being upgraded; ``override`` until when an override opens
    it, as a time of RFC 3339 in UTC, empty where there is none in force.
    """

    gate: Gate
    stand: str
    message: str
    opens: str
    permits: bool
    override: str = ""


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """What would happen to a node that is due.

    ``place`` is from 1. ``batch`` is the number of its batch, None where the budget permits none. ``zone`` is
    the value of ``topologyKey``, empty where the node has none or zones are off. ``why`` says in sentences
    why it has its place. ``closed`` are its own gates that keep it from being upgraded and ``stops`` what
    else does, without those of the pool.

    The rest is of the last list of all pods; with ``pods_known`` False there is none, and all of it is empty.
    ``blockers`` are the first pods that cannot be evicted now, and ``blocked_pods`` counts them.
    ``moving_pods`` are those that a drain moves. Of these ``unfit_pods`` fit on no other node, at least so
    many, and ``unfit_examples`` says what they request; of ``unclear_pods`` it is not known who takes them,
    and ``is_fit_unknown`` says that of the others. ``unmanaged_pods`` have no controller, and ``local_pods``
    lose an emptyDir.
    """

    node: str
    place: int
    batch: int | None
    zone: str
    why: str
    action: PlannedAction
    due: tuple[DueReason, ...]
    closed: tuple[PlannedGate, ...] = ()
    stops: tuple[Stop, ...] = ()
    pods_known: bool = False
    moving_pods: int = 0
    blockers: tuple[Block, ...] = ()
    blocked_pods: int = 0
    unfit_pods: int = 0
    unfit_examples: tuple[str, ...] = ()
    unclear_pods: int = 0
    is_fit_unknown: bool = False
    unmanaged_pods: int = 0
    local_pods: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Nodes that can be upgraded at the same time; the next batch follows when all of them are done.

    ``number`` is from 1. All ``nodes`` are of one ``zone``. Seconds are from the first drain until the next
    batch may begin.
    """

    number: int
    zone: str
    is_canary: bool
    nodes: tuple[str, ...]
    likely_seconds: int
    worst_case_seconds: int


@dataclass(frozen=True, slots=True)
class UpgradePlan:
    """How the nodes of a pool that are due would be upgraded, one batch after the other.

    ``target`` is what they are brought to. ``gates`` are all gates of the pool and ``stops`` what else keeps
    all nodes. ``max_unavailable`` is how many nodes of the pool may be unavailable, None where that cannot be
    read; ``unavailable`` how many are now, and ``batch_size`` how many nodes a batch has at most, 0 where
    there are no batches. ``unknown`` are the names of nodes of which it is not known whether they are due.
    Seconds are those of all batches, without the time for which gates are closed; None without batches.
    """

    target: str
    gates: tuple[PlannedGate, ...]
    stops: tuple[Stop, ...]
    max_unavailable: int | None
    unavailable: int
    batch_size: int
    nodes: tuple[PlannedNode, ...] = ()
    batches: tuple[Batch, ...] = ()
    unknown: tuple[str, ...] = ()
    up_to_date: int = 0
    likely_seconds: int | None = None
    worst_case_seconds: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether nothing keeps the pool as a whole from being upgraded."""
        return not self.stops and all(each.permits for each in self.gates)
