"""Pools that are gone and did not release their nodes: deleted by force, whether an operator ran or not.

Their status is gone with them. So an event and the log report each: once for a pool, not for each node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.api.keys import POOL_LABEL
from winpool.api.syntax import is_pool_name
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record
from winpool.report.pool_gone import pool_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from winpool.control.relist.pools import Pools
    from winpool.objects.node import Node
    from winpool.ownership.rights import Rights
    from winpool.report.announce import Announcement

log = logging.getLogger(__name__)


class GonePools:
    """Reports each such pool once, as long as nodes name it; ``announce`` emits an event."""

    def __init__(self, *, pools: Pools, announce: Callable[[Announcement], None]) -> None:
        self._pools = pools
        self._absences = pools.absences
        self._announce = announce
        self._told: set[str] = set()

    def tell(self, nodes: Iterable[Node], *, rights: Rights) -> None:
        """Report the pools that records on ``nodes`` name and that the last list of all pools lacked.

        A record that may be forged does not count: it can name any pool, see ``doubted``.
        """
        left: dict[str, list[Node]] = {}
        named: set[str] = set()
        for node in nodes:
            found = record_of(node)
            if not isinstance(found, Record):
                continue
            named.add(found.pool_uid)
            if self._absences.is_missed(found.pool_uid) and rights.know_owner(found):
                left.setdefault(found.pool_uid, []).append(node)
        self._told &= named
        for uid, there in left.items():
            if uid not in self._told:
                self._told.add(uid)
                self._tell_of(uid, there)

    def _tell_of(self, uid: str, nodes: list[Node]) -> None:
        name = self._name_of(uid, nodes)
        told = pool_gone(name, uid, nodes=len(nodes), decided_at=self._absences.decided_at(uid))
        log.warning("pool %s (UID %s): %s", name, uid, told.note)
        self._announce(told)

    def _name_of(self, uid: str, nodes: list[Node]) -> str:
        """Return the name that the pool had; where this process has not seen it, what the nodes say.

        Someone may have removed or changed the label there. So it counts where all nodes that have it agree,
        and it can be the name of a pool but is not that of another one. Otherwise it is the UID.
        """
        if known := self._pools.name_of(uid):
            return known
        labels = {name for node in nodes if (name := node.labels.get(POOL_LABEL))}
        name = labels.pop() if len(labels) == 1 else ""
        return name if is_pool_name(name) and self._pools.get(name) is None else uid
