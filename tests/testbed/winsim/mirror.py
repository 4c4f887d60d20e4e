"""What the nodes look like on the API server: one watch that stands for every kubelet's informer.

A kubelet keeps its own Node by a watch and compares its status with that copy. Thousands of
watches would need thousands of connections, so all simulated kubelets read from this one.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from testbed.winsim import images
from testbed.winsim.clock import Backoff
from testbed.winsim.identities import SIMULATOR
from testbed.winsim.objects import Node
from testbed.winsim.wire import ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

NODES: Final = "/api/v1/nodes"
_PAGE: Final = 500
# client-go ends its watches after five to ten minutes; the server's clock, not ours, decides.
_WATCH_SECONDS: Final = 300


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _NodeList(msgspec.Struct):
    metadata: _ListMetadata
    items: list[Node] = []


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LIST: Final = msgspec.json.Decoder(_NodeList)
_EVENT: Final = msgspec.json.Decoder(_Event)
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
        self._wire = wire
        self._troubles = troubles
        self._clock = clock
        self._random = random
        self._on_change = on_change
        self._nodes: dict[str, Node] = {}

    def get(self, name: str) -> Node | None:
        """Return the node as last seen, or None where there is none."""
        return self._nodes.get(name)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """All nodes as last seen, by name."""
        return self._nodes

    async def run(self) -> None:
        """List and watch for ever; after any failure list anew, with growing pauses."""
        backoff = Backoff(random=self._random)
        while True:
            try:
                version = await self._list()
                backoff = Backoff(random=self._random)
                await self._follow(version)
            except UnreachableError:
                pass
            except ApiError as error:
                self._troubles.report(SIMULATOR.user, "watching nodes", error)
            else:
                continue
            await self._clock.sleep(backoff.next())

    async def _list(self) -> str:
        found, version = await list_nodes(self._wire)
        for name in self._nodes.keys() - found.keys():
            self._forget(name)
        for node in found.values():
            self._store(node)
        self.synced.set()
        return version

    async def _follow(self, version: str) -> None:
        """Watch from a version on, again and again, until the server no longer knows it."""
        while True:
            query = {
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(_WATCH_SECONDS),
            }
            async with aclosing(self._wire.stream(NODES, identity=SIMULATOR, query=query)) as lines:
                async for line in lines:
                    event = _EVENT.decode(line)
                    if event.type == "ERROR":
                        return
                    version = self._apply(event.type, _NODE.decode(event.object))

    def _apply(self, kind: str, node: Node) -> str:
        if kind == "DELETED":
            self._forget(node.metadata.name)
        elif kind != "BOOKMARK":
            self._store(node)
        return node.metadata.resource_version

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


async def list_nodes(wire: Wire) -> tuple[dict[str, Node], str]:
    """List all nodes, page by page; return them by name with the version of the list.

    Raises:
        UnreachableError: no answer.
        ApiError: the list was refused, or took so long that its version is forgotten.

    """
    found: dict[str, Node] = {}
    query = {"limit": str(_PAGE)}
    while True:
        page = _LIST.decode(await wire.request("GET", NODES, identity=SIMULATOR, query=query))
        found.update((node.metadata.name, node) for node in page.items)
        if not page.metadata.continue_token:
            return found, page.metadata.resource_version
        query["continue"] = page.metadata.continue_token
