"""Ownership records of nodes without a pool that are left alone, since their kubelets may have forged them.

No status tells of such a node: its pool is gone, or never was. So the log does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.api.keys import APPLIED_ANNOTATION
from winpool.report.left_alone import named

if TYPE_CHECKING:
    from collections.abc import Iterable

    from winpool.objects.node import Node
    from winpool.ownership.conformity import Conformity

log = logging.getLogger(__name__)

TOLD_AT_ONCE: Final = 10
"""Lines for one look. More are no accident, and a hostile fleet must not fill the log."""


class DoubtedRecords:
    """Tells of each such node once, as long as it stays one."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()

    def tell(self, found: Iterable[tuple[Node, Conformity]]) -> None:
        """Log what is new in ``found``, which is all there is now."""
        left = {node.uid: (node.name, state.left_alone) for node, state in found if state.is_doubted}
        new = [left[uid] for uid in left if uid not in self._told]
        for name, claimed in new[:TOLD_AT_ONCE]:
            log.warning(
                "node %s: annotation %s says that a pool has set %s here; it was written without the guard "
                "and may be forged, so all of it stays. To have what is under winpool.dev/ taken off: "
                "kubectl annotate node %s %s-",
                name,
                APPLIED_ANNOTATION,
                named(claimed) or "nothing",
                name,
                APPLIED_ANNOTATION,
            )
        if len(new) > TOLD_AT_ONCE:
            log.warning("and so on %d more nodes", len(new) - TOLD_AT_ONCE)
        self._told = frozenset(left)
