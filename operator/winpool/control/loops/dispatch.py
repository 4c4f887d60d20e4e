"""From a change to the pools that need another pass."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.control.faults import Faults
from winpool.ownership.membership import concerns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from winpool.control.relist.pools import Pools
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool

log = logging.getLogger(__name__)


class Dispatcher:
    """Wakes pools. ``wake`` may be called for a pool that does not exist."""

    def __init__(self, *, pools: Pools, wake: Callable[[str], None]) -> None:
        self._pools = pools
        self._wake = wake
        self._faults = Faults("whether a node concerns it", logger=log)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Wake each pool that the node concerns, or did."""
        seen = [node for node in (old, new) if node is not None]
        for pool in self._pools.all():
            if self._is_concerned(pool, seen):
                self._wake(pool.name)

    def _is_concerned(self, pool: Pool, seen: Iterable[Node]) -> bool:
        try:
            is_concerned = any(concerns(node, pool) for node in seen)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the watch of all nodes
            self._faults.failed(pool.name, error)
            return True
        self._faults.ended(pool.name)
        return is_concerned

    def pool_changed(self, name: str, *, for_rivals: bool) -> None:
        """Wake the pool; and all others where the owner of a node may have changed."""
        self._wake(name)
        if for_rivals:
            for pool in self._pools.all():
                self._wake(pool.name)
