"""The known nodes, and the rules by which new states are stored.

New states come from four sources: a list, a watch, another list after an error, and the answers
to our own writes. In any order of arrival, a node never returns to an older state than was already
seen, and counts as gone only for one of three reasons: a DELETED event, another UID under its name,
or a *complete* list without it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from winpool.cluster.versions import is_older
from winpool.ownership.reading import record_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from winpool.objects.node import Node

    OnChange = Callable[[Node | None, Node | None], None]


class NodeStore:
    """Nodes by name. ``on_change(old, new)`` is called for every difference in a field that is read.

    A node that appears has no old, one that is gone has no new; another UID under the same
    name causes both calls, one after the other. It is called after the store has changed.
    """

    __slots__ = ("_nodes", "_on_change", "nodes")

    def __init__(self, on_change: OnChange) -> None:
        self._nodes: dict[str, Node] = {}
        self._on_change = on_change
        self.nodes: Mapping[str, Node] = MappingProxyType(self._nodes)

    def put(self, node: Node, *, even_older: bool = False) -> bool:
        """Store a node from a list or a watch; False where a newer state is already known.

        States whose resourceVersions have no order are stored: the stream that brings them has an order.
        ``even_older`` is for a server that was restored to an earlier state.
        """
        held = self._nodes.get(node.name)
        if held is not None and not even_older and is_older(node.resource_version, held.resource_version):
            return False
        self._nodes[node.name] = node
        record_of(node)  # read now, page by page; otherwise the first pass would read thousands at once
        if held is None:
            self._on_change(None, node)
        elif held.uid != node.uid:
            # Between the two there was a moment without either, so these are two changes.
            self._on_change(held, None)
            self._on_change(None, node)
        elif held != node:
            self._on_change(held, node)
        return True

    def accept_written(self, node: Node) -> bool:
        """Store the answer to a write of our own; False where it is not new.

        A node that is gone or replaced meanwhile stays so. States whose versions have no order are
        not stored: the watch is about to bring this very state.
        """
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid:
            return False
        if not is_older(held.resource_version, node.resource_version):
            return False
        return self.put(node)

    def remove(self, node: Node) -> bool:
        """Remove ``node``, which was deleted; False where it is unknown, known newer, or exists again."""
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid or is_older(node.resource_version, held.resource_version):
            return False
        del self._nodes[node.name]
        self._on_change(held, None)
        return True

    def keep_only(self, names: Collection[str], *, resource_version: str, even_newer: bool = False) -> int:
        """Remove all nodes that are not among ``names``, those of a complete list; return how many.

        A node that is newer than the list (``resource_version``) stays: the list could not have it.
        ``even_newer`` is for a server that was restored to an earlier state.
        """
        gone = [
            held
            for name, held in self._nodes.items()
            if name not in names and (even_newer or not is_older(resource_version, held.resource_version))
        ]
        for held in gone:
            del self._nodes[held.name]
            self._on_change(held, None)
        return len(gone)
