"""What gates are judged by: made once for a pass, and the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.support.versions import Minor, parse_minor
from winpool.upgrade.records import GateFinding, Stand
from winpool.upgrade.settled import settled_since

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import datetime

    from winpool.api.upgrade import Gate, Upgrade
    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.objects.node import Node
    from winpool.pods.workloads import Workload
    from winpool.snapshot import Snapshot
    from winpool.support.judge import Judgement
    from winpool.support.rows import Layered
    from winpool.upgrade.capacity import Fit


@dataclass(frozen=True, slots=True)
class World:
    """What the gates of a pool are judged by.

    ``release`` is what nodes are brought to, as the support matrix names it. ``minor`` is that of the control
    plane, None where its version is not known. ``nodes`` are those of the pool. ``budgets_forbidden``
    says which right is missing to list PodDisruptionBudgets; empty where none is known to be.
    """

    spec: WindowsNodePoolSpec
    upgrade: Upgrade
    layers: Layered
    release: str
    control_plane: str
    minor: Minor | None
    control_plane_since: datetime | None
    now: datetime
    nodes: tuple[Node, ...]
    budgets_forbidden: str = ""
    _found: dict[Hashable, GateFinding] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: Hashable, judge: Callable[[], GateFinding]) -> GateFinding:
        """Return what ``judge`` finds; nodes with the same ``key`` are alike, and are judged once."""
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = judge()
        return found


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that is due, with its judgement by the support matrix.

    ``workload`` is what runs there, and ``fit`` says whether that fits on other nodes; None where unknown.
    """

    node: Node
    judgement: Judgement
    workload: Workload | None = None
    fit: Fit | None = None


def world_of(
    snapshot: Snapshot,
    spec: WindowsNodePoolSpec,
    upgrade: Upgrade,
    *,
    layers: Layered,
    nodes: tuple[Node, ...],
) -> World:
    """Return what the gates of the pool are judged by."""
    return World(
        spec=spec,
        upgrade=upgrade,
        layers=layers,
        release=layers.matrix.judged_as(spec.os.version),
        control_plane=snapshot.support.control_plane,
        minor=parse_minor(snapshot.support.control_plane),
        control_plane_since=settled_since(snapshot),
        now=snapshot.now,
        nodes=nodes,
        budgets_forbidden=snapshot.pods.budgets_forbidden,
    )


def opened(gate: Gate, message: str, *, changes_at: datetime | None = None) -> GateFinding:
    """Return that ``gate`` is open."""
    return GateFinding(gate, Stand.OPEN, message, changes_at=changes_at)


def closed(gate: Gate, message: str, opens: str, *, changes_at: datetime | None = None) -> GateFinding:
    """Return that ``gate`` is closed, and what opens it."""
    return GateFinding(gate, Stand.CLOSED, message, opens, changes_at=changes_at)


def unknown(gate: Gate, message: str, opens: str, *, changes_at: datetime | None = None) -> GateFinding:
    """Return that it is not known whether ``gate`` is open, and what to do about that."""
    return GateFinding(gate, Stand.UNKNOWN, message, opens, changes_at=changes_at)
