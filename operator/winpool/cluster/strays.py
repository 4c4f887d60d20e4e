"""Finds nodes that carry our pool label and are not Windows nodes: the watch of Windows nodes misses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.api.keys import OS_LABEL, OS_WINDOWS, POOL_LABEL
from winpool.cluster.lister import NODES_PATH, PAGE_BYTES, PAGE_LIMIT
from winpool.cluster.nodes import decode_page
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from winpool.cluster.transport import Transport
    from winpool.snapshot import Node

SELECTOR: Final = f"{POOL_LABEL},{OS_LABEL}!={OS_WINDOWS}"


async def list_strays(transport: Transport) -> tuple[Node, ...]:
    """Return the first page of them, which is all but in a disaster; the next look finds the next ones.

    A node without the OS label is one too: ``!=`` also selects what lacks the key.
    """
    path = f"{NODES_PATH}?{urlencode({'labelSelector': SELECTOR, 'limit': str(PAGE_LIMIT)}, quote_via=quote)}"
    request = Request(verb="list", resource="nodes", path=path, reply_limit=PAGE_BYTES)
    return decode_page(await transport.request(request)).nodes
