"""Asks the API server itself which nodes carry the label of a pool.

For the two questions that the watch of Windows nodes cannot answer: which nodes carry it that are not
Windows nodes, and whether anything is left of a pool that is about to be let go for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.cluster.errors import StreamGarbled
from winpool.cluster.node_requests import WINDOWS_SELECTOR, listing_of
from winpool.cluster.pager import Pager

if TYPE_CHECKING:
    from winpool.cluster.nodes import NodePage
    from winpool.cluster.transport import Transport
    from winpool.objects.node import Node

STRAYS: Final = f"{POOL_LABEL},{OS_LABEL}!={OS_WINDOWS}"


# Both give all there are, and raise ApiErrors, also for a node that cannot be read: what it carries is not
# known (P4).
async def list_strays(transport: Transport) -> tuple[Node, ...]:
    """Return those that are no Windows nodes, also without an OS label: ``!=`` selects what lacks the key."""
    return await _list(transport, selector=STRAYS)


async def list_labelled(transport: Transport, *, pool_name: str) -> tuple[Node, ...]:
    """Return the Windows nodes that carry the label of this pool."""
    return await _list(transport, selector=f"{POOL_LABEL}={pool_name},{WINDOWS_SELECTOR}")


async def _list(transport: Transport, *, selector: str) -> tuple[Node, ...]:
    nodes, _ = await Pager(transport.request, listing_of(selector)).collect(_nodes)
    return nodes


def _nodes(page: NodePage) -> tuple[Node, ...]:
    if page.undecodable:
        raise StreamGarbled(f"list nodes: {page.undecodable[0]}")
    return page.nodes
