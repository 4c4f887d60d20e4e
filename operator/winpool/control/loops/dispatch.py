"""From a change to the pools that have to look again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.ownership.membership import concerns

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.control.relist.pools import Pools
    from winpool.objects.node import Node


class Dispatcher:
    """Wakes pools. ``wake`` may be called for a pool that does not exist."""

    def __init__(self, *, pools: Pools, wake: Callable[[str], None]) -> None:
        self._pools = pools
        self._wake = wake

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Wake each pool that the node concerns, or did."""
        seen = [node for node in (old, new) if node is not None]
        for pool in self._pools.all():
            if any(concerns(node, pool) for node in seen):
                self._wake(pool.name)

    def pool_changed(self, name: str, *, for_rivals: bool) -> None:
        """Wake the pool; and all others where whose a node is may have changed."""
        self._wake(name)
        if for_rivals:
            for pool in self._pools.all():
                self._wake(pool.name)
