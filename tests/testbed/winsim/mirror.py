"""What the nodes look like on the API server: one watch that stands for every kubelet's informer.

A kubelet keeps its own Node by a watch and compares its status with that copy. Thousands of
watches would need thousands of connections, so all simulated kubelets read from this one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from testbed.winsim import images
from testbed.winsim.objects import Node
from testbed.winsim.reflector import Reflector, list_all

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

NODES: Final = "/api/v1/nodes"
_NODE: Final = msgspec.json.Decoder(Node)
_KNOWN_IMAGES: Final = {each: each for each in (images.WINDOWS, images.LINUX)}


class Mirror:
    """A local copy of all nodes; ``on_change`` is told the name and the new state, None for gone."""

    def __init__(
        self,
        wire: Wire,
        *,
        clock: Clock,
        random: Random,
        troubles: Troubles,
        on_change: Callable[[str, Node | None], None],
    ) -> None:
        self.synced = asyncio.Event()
        self._on_change = on_change
        self._nodes: dict[str, Node] = {}
        self._reflector = Reflector(
            wire,
            path=NODES,
            kind=Node,
            clock=clock,
            random=random,
            troubles=troubles,
            replace=self._replace,
            change=self._change,
        )

    def get(self, name: str) -> Node | None:
        """Return the node as last seen, or None where there is none."""
        return self._nodes.get(name)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes as last seen, by name."""
        return self._nodes

    async def run(self) -> None:
        """Keep up for ever."""
        await self._reflector.run()

    def _replace(self, nodes: list[Node]) -> None:
        for name in self._nodes.keys() - {node.metadata.name for node in nodes}:
            self._forget(name)
        for node in nodes:
            self._store(node)
        self.synced.set()

    def _change(self, node: Node, gone: bool) -> None:
        if gone:
            self._forget(node.metadata.name)
        else:
            self._store(node)

    def _store(self, node: Node) -> None:
        name = node.metadata.name
        seen = self._nodes.get(name)
        if seen is not None and seen.metadata.resource_version == node.metadata.resource_version:
            return
        self._nodes[name] = _slim(node)
        self._on_change(name, node)

    def _forget(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._on_change(name, None)


def _slim(node: Node) -> Node:
    """Let the image lists of thousands of nodes be the two that exist; of a node they are the most."""
    known = _KNOWN_IMAGES.get(node.status.images)
    if known is None:
        return node
    return replace(node, status=replace(node.status, images=known))


async def node_names_on(wire: Wire) -> frozenset[str]:
    """Ask the API server for the names of all nodes there are.

    Raises:
        UnreachableError: no answer.
        ApiError: the list was refused, or took so long that its version is forgotten.

    """
    found, _ = await list_all(wire, path=NODES, decoder=_NODE)
    return frozenset(node.metadata.name for node in found)
