"""The nodes as far as they are known, and the rules by which news is taken in.

News comes from four sides: a list, a watch, a list anew after trouble, and the answers to
our own writes. Whatever the order of arrival, a node never goes back to an older state
than was already seen, and one is taken for gone only where that was said: by a DELETED
event, by another UID under its name, or by a *complete* list without it.
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
    """Nodes by name. ``on_change(old, new)`` is told of every difference in a wanted field.

    A node that appears has no old, one that goes has no new; another UID under the same
    name is both, one after the other. It is called after the store has changed.
    """

    __slots__ = ("_nodes", "_on_change", "nodes")

    def __init__(self, on_change: OnChange) -> None:
        self._nodes: dict[str, Node] = {}
        self._on_change = on_change
        self.nodes: Mapping[str, Node] = MappingProxyType(self._nodes)

    def put(self, node: Node, *, even_older: bool = False) -> bool:
        """Take in a node from a list or a watch; False where a newer state is already known.

        resourceVersions that have no order are taken in: the stream that brings them has one.
        ``even_older`` is for a server that was put back to an earlier state.
        """
        held = self._nodes.get(node.name)
        if held is not None and not even_older and is_older(node.resource_version, held.resource_version):
            return False
        self._nodes[node.name] = node
        record_of(node)  # read now, page by page, lest the first pass stand still over thousands
        if held is None:
            self._on_change(None, node)
        elif held.uid != node.uid:
            # Between the two there was a moment without either; so whoever looks sees them apart.
            self._on_change(held, None)
            self._on_change(None, node)
        elif held != node:
            self._on_change(held, node)
        return True

    def accept_written(self, node: Node) -> bool:
        """Take in the answer to a write of our own; False where it says nothing new.

        A node that is gone or replaced meanwhile stays so. Versions without an order are
        left to the watch, which is about to bring this very state.
        """
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid:
            return False
        if not is_older(held.resource_version, node.resource_version):
            return False
        return self.put(node)

    def remove(self, node: Node) -> bool:
        """Take in that ``node`` was deleted; False where it is unknown, or known newer or anew."""
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid or is_older(node.resource_version, held.resource_version):
            return False
        del self._nodes[node.name]
        self._on_change(held, None)
        return True

    def keep_only(self, names: Collection[str], *, resource_version: str, even_newer: bool = False) -> int:
        """Take in that a complete list of ``resource_version`` had only ``names``; give how many went.

        A node that is known from after the list stays: the list could not have had it.
        ``even_newer`` is for a server that was put back to an earlier state.
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
