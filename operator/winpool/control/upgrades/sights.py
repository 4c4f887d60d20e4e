"""Assembles what passes know for upgrades beside the objects in the cluster (``objects.upgrades``)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.control.upgrades.seen_machines import SeenMachines
from winpool.control.upgrades.version_reads import VersionReads
from winpool.objects.upgrades import NOTHING_SEEN_OF_UPGRADES, KnownUpgrades
from winpool.ownership.membership import is_asked_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.control_plane import ControlPlane
    from winpool.control.clock import Clock
    from winpool.control.relist.pools import Pools
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.objects.upgrades import Surprise, SurpriseKind


@dataclass(slots=True)
class UpgradeStats:
    """Surprises by their kind, each of a node of a pool with upgrades, as a pass first knew of it."""

    surprises: Counter[SurpriseKind] = field(default_factory=Counter)


class UpgradeSights:
    """``nodes`` are those that are known, by name. ``on_change`` wakes all pools."""

    def __init__(
        self,
        *,
        pools: Pools,
        nodes: Mapping[str, Node],
        control_plane: ControlPlane,
        on_change: Callable[[], None],
        clock: Clock,
    ) -> None:
        self._pools = pools
        self._nodes = nodes
        self._control_plane = control_plane
        self._machines = SeenMachines(now=clock.now, monotonic=clock.monotonic)
        self._version = VersionReads(
            control_plane,
            is_wanted=lambda: any(has_upgrades(pool) for pool in pools.all()),
            on_change=on_change,
            monotonic=clock.monotonic,
        )
        self._counted: dict[str, dict[SurpriseKind, Surprise]] = {}
        self.stats = UpgradeStats()

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Note a change of a node. None: it did not exist before, or is gone."""
        self._machines.note(old, new)
        if old is not None and new is None:
            self._counted.pop(old.uid, None)

    def pool_changed(self) -> None:
        """Note that a pool was added, has changed or is gone."""
        self._version.check()

    def known(self, pool: Pool) -> KnownUpgrades:
        """Return what is known for a pass of ``pool``; nothing for a pool without upgrades."""
        if not has_upgrades(pool):
            return NOTHING_SEEN_OF_UPGRADES
        surprises = tuple(each for each in self._machines.surprises() if self._is_of(each, pool))
        self._count(surprises)
        return KnownUpgrades(
            control_plane_since=self._control_plane.unchanged_since,
            control_plane_is_first=self._control_plane.is_first,
            labelled_at=self._machines.labelled_at(),
            surprises=surprises,
        )

    async def run(self) -> None:
        """Read the version of the API server while a pool has upgrades, until cancelled."""
        await self._version.run()

    def _is_of(self, surprise: Surprise, pool: Pool) -> bool:
        node = self._nodes.get(surprise.node)
        return node is not None and node.uid == surprise.node_uid and is_asked_for(node, by=pool)

    def _count(self, surprises: tuple[Surprise, ...]) -> None:
        for each in surprises:
            counted = self._counted.setdefault(each.node_uid, {})
            if counted.get(each.kind) != each:
                counted[each.kind] = each
                self.stats.surprises[each.kind] += 1


def has_upgrades(pool: Pool) -> bool:
    """Whether the pool says anything of upgrades, and stays."""
    return pool.spec is not None and pool.spec.upgrade is not None and not pool.deleting
