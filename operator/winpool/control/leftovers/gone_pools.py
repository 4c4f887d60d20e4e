"""Pools that are gone and did not release their nodes: deleted by force, whether an operator ran or not.

Their status is gone with them. So an event and the log tell of each: once for a pool, not for each node.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from winpool.api.keys import POOL_LABEL
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record
from winpool.report.pool_gone import pool_gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from winpool.control.relist.absences import Absences
    from winpool.objects.node import Node
    from winpool.ownership.rights import Rights
    from winpool.report.announce import Announcement

log = logging.getLogger(__name__)


class GonePools:
    """Tells of each such pool once, as long as nodes name it; ``announce`` emits an event."""

    def __init__(self, *, absences: Absences, announce: Callable[[Announcement], None]) -> None:
        self._absences = absences
        self._announce = announce
        self._told: set[str] = set()

    def tell(self, nodes: Iterable[Node], *, rights: Rights) -> None:
        """Tell of the pools that records on ``nodes`` name and that the last list of all pools lacked.

        Not of a record that may be forged: it can name any pool, see ``doubted``.
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
        names = (node.labels.get(POOL_LABEL) for node in nodes)
        name = next((each for each in names if each), uid)  # somebody may have removed the label
        told = pool_gone(name, uid, nodes=len(nodes), decided_at=self._absences.decided_at(uid))
        log.warning("pool %s (UID %s): %s", name, uid, told.note)
        self._announce(told)
