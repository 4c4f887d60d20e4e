"""Lists the pods of one node, in one answer: half a list says nothing.

Without ``limit`` and without ``resourceVersion``. The API server answers that from its watch cache, which
has an index of ``spec.nodeName``, once the cache has caught up with etcd (KEP-2340, on by default from 1.31):
as fresh as a read of etcd, and it touches no other pod. With a limit, servers before 1.34 read all pods from
etcd; with ``resourceVersion=0`` the answer may be of any age, and evidence has to be younger than what it
permits.
https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlencode

from winpool.cluster.errors import StreamGarbled, Unavailable
from winpool.cluster.pod_lister import PODS_PATH
from winpool.cluster.pods import decode_pod_page
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from winpool.pods.pod import Pod

log = logging.getLogger(__name__)

ANSWER_BYTES: Final = 8 * 1024 * 1024
"""A kubelet takes 110 pods unless told otherwise, of 5 to 20 kB each. Eight answers are held at once."""

ANSWER_SECONDS: Final = 10.0
"""For the whole answer, with what the transport tries again: a later one is too old to write by."""


async def list_node_pods(
    request: Callable[[Request], Awaitable[bytes | bytearray]], node: str, *, see: Callable[[Pod], None]
) -> bool:
    """Show every pod on ``node`` to ``see``; return whether all of them could be read.

    ``request`` sends a request to the API server and gives its answer. Raises ApiErrors, TooLarge among them;
    what was shown by then means nothing.
    """
    asked = node_request(node)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answer = await request(asked)
    except TimeoutError:
        raise Unavailable(f"{asked.label}: no answer within {ANSWER_SECONDS:g} s", reason="Timeout") from None
    page = decode_pod_page(answer)
    if page.continue_token:
        raise StreamGarbled(f"{asked.label}: half a list, though all of it was asked for")
    for pod in page.pods:
        see(pod)
    if page.unreadable:
        log.warning("%s: %s; what is on it counts as unknown", asked.label, page.unreadable[0])
    return not page.unreadable


def node_request(node: str) -> Request:
    """Return the request for the pods on ``node`` that have not ended well."""
    query = {"fieldSelector": f"spec.nodeName={node},status.phase!=Succeeded"}
    path = f"{PODS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, name=f"of node {node}", reply_limit=ANSWER_BYTES)
