"""Asks the API server itself which nodes have the label of a pool.

This is for the two questions that the watch of Windows nodes cannot answer: which nodes that are not Windows
nodes have it, and whether any node has it when the finalizer of a pool is about to be removed.
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


# Both return all that exist, and raise ApiErrors, also for a node that cannot be read: what it has is not
# known (P4).
async def list_strays(transport: Transport) -> tuple[Node, ...]:
    """Return those that are not Windows nodes, also those without an OS label, which ``!=`` selects too."""
    return await _list(transport, selector=STRAYS)


async def list_labelled(transport: Transport, *, pool_name: str) -> tuple[Node, ...]:
    """Return the Windows nodes that have the label of this pool."""
    return await _list(transport, selector=f"{POOL_LABEL}={pool_name},{WINDOWS_SELECTOR}")


async def _list(transport: Transport, *, selector: str) -> tuple[Node, ...]:
    nodes, _ = await Pager(transport.request, listing_of(selector)).collect(_nodes)
    return nodes


def _nodes(page: NodePage) -> tuple[Node, ...]:
    if page.undecodable:
        raise StreamGarbled(f"list nodes: {page.undecodable[0]}")
    return page.nodes
