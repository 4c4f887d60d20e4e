"""The strays that are not released, since no one has deleted their pools.

The status of these pools reports them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.ownership.strays import owner_of, strays_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.relist.pools import Pools
    from winpool.objects.node import Node
    from winpool.objects.others import PoolName
    from winpool.objects.pool import Pool


class KeptStrays:
    """Those of the last list; ``wake`` asks for a pass of a pool."""

    def __init__(self, *, pools: Pools, wake: Callable[[str], None]) -> None:
        self._pools = pools
        self._wake = wake
        self._strays: tuple[Node, ...] | None = None

    @property
    def owners(self) -> frozenset[str | PoolName]:
        """The UIDs of their pools; names, where their records cannot be read."""
        return frozenset(owner for node in self._strays or () if (owner := owner_of(node)))

    def of(self, pool: Pool) -> tuple[Node, ...] | None:
        """Return those of ``pool``; None before the first list."""
        return None if self._strays is None else strays_of(pool, self._strays)

    def note(self, strays: tuple[Node, ...]) -> None:
        """Note those of a new list, and ask for a pass of each pool for which they have changed."""
        before = {pool.uid: self.of(pool) for pool in self._pools.all()}
        self._strays = strays
        for pool in self._pools.all():
            if before[pool.uid] != self.of(pool):
                self._wake(pool.name)
