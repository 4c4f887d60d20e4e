"""Ownership records on nodes without a pool that have no effect, since their kubelets may have forged them.

No status reports such a node: its pool is gone, or never existed. So the log reports it.
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
"""Lines in the log for one list. More are not an accident, and a hostile fleet must not fill the log."""


class DoubtedRecords:
    """Logs each such node once, as long as it remains one."""

    def __init__(self) -> None:
        self._told: frozenset[str] = frozenset()

    def tell(self, found: Iterable[tuple[Node, Conformity]]) -> None:
        """Log what is new in ``found``, which is all there are now."""
        left = {node.uid: (node.name, state.left_alone) for node, state in found if state.is_doubted}
        new = [left[uid] for uid in left if uid not in self._told]
        for name, claimed in new[:TOLD_AT_ONCE]:
            log.warning(
                "node %s: annotation %s says that a pool set %s on this node. It was written without the "
                "guard and may be forged, so the operator removes nothing. To have it remove what is under "
                "winpool.dev/: kubectl annotate node %s %s-",
                name,
                APPLIED_ANNOTATION,
                named(claimed) or "nothing",
                name,
                APPLIED_ANNOTATION,
            )
        if len(new) > TOLD_AT_ONCE:
            log.warning(
                "%d more nodes have such an annotation; the operator removes nothing from them",
                len(new) - TOLD_AT_ONCE,
            )
        self._told = frozenset(left)
