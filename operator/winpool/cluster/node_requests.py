"""The requests for nodes: a list of them, page by page, and a watch."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, urlencode

from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.cluster.nodes import NodePage, decode_page
from winpool.cluster.pager import Listing
from winpool.cluster.request import Request

NODES_PATH: Final = "/api/v1/nodes"
WINDOWS_SELECTOR: Final = f"{OS_LABEL}={OS_WINDOWS}"

PAGE_LIMIT: Final = 500
"""Nodes per page: what client-go and kubectl ask for. Decoding a page takes about 4 ms, in which the event
loop does nothing else."""

PAGE_BYTES: Final = 32 * 1024 * 1024
"""In memory at once. Real nodes have 8 to 55 kB, so a page of 500 fits; where it does not, the next list asks
for smaller pages."""

MOST: Final = 50_000
"""Nodes of a list, ten times as many as Kubernetes supports. Each takes some 2 kB for as long as it exists.
https://kubernetes.io/docs/setup/best-practices/cluster-large/"""


def listing_of(selector: str) -> Listing[NodePage]:
    """Return the listing of the nodes that ``selector`` selects."""

    def request(limit: int, token: str) -> Request:
        return list_request(selector=selector, limit=limit, token=token)

    return Listing(
        resource="nodes",
        request=request,
        decode=decode_page,
        page_limit=PAGE_LIMIT,
        page_bytes=PAGE_BYTES,
        most=MOST,
    )


def list_request(*, selector: str, limit: int = PAGE_LIMIT, token: str = "") -> Request:
    """Return the request of one page; ``token`` is that of the page before."""
    query = {"labelSelector": selector, "limit": str(limit), **({"continue": token} if token else {})}
    return Request(verb="list", resource="nodes", path=_path(query), reply_limit=PAGE_BYTES)


def watch_request(*, position: str, seconds: float) -> Request:
    """Return the request of a watch of Windows nodes from ``position`` on, which ends after ``seconds``."""
    query = {
        "watch": "1",
        "labelSelector": WINDOWS_SELECTOR,
        "allowWatchBookmarks": "true",
        "resourceVersion": position,
        "timeoutSeconds": str(max(1, int(seconds))),
    }
    return Request(verb="watch", resource="nodes", path=_path(query))


def _path(query: dict[str, str]) -> str:
    return f"{NODES_PATH}?{urlencode(query, quote_via=quote)}"
