"""Lists the pods of one node, in one answer: a part of a list means nothing.

The request has no ``limit`` and no ``resourceVersion``. The API server answers it from its watch cache, which
has an index of ``spec.nodeName``, once the cache has caught up with etcd (KEP-2340, on by default from 1.31).
Such an answer is as fresh as a read of etcd, and reads no other pod. With a limit, servers before 1.34 read
all pods from etcd. With ``resourceVersion=0`` the answer may be of any age, while evidence has to be younger
than what it permits. https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
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
"""A kubelet runs 110 pods by default, of 5 to 20 kB each. Eight answers are in memory at once."""

ANSWER_SECONDS: Final = 10.0
"""For the whole answer, including retries of the transport: a later one is too old to decide a write on."""


async def list_node_pods(
    request: Callable[[Request], Awaitable[bytes | bytearray]], node: str, *, see: Callable[[Pod], None]
) -> bool:
    """Call ``see`` with every pod on ``node``; return whether all of them could be read.

    ``request`` sends a request to the API server and returns its answer. Raises ApiErrors, TooLarge among
    them; the pods seen until then mean nothing.
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
        log.warning("%s: %s; the pods of the node count as unknown", asked.label, page.unreadable[0])
    return not page.unreadable


def node_request(node: str, *, with_failed: bool = True) -> Request:
    """Return the request for the pods on ``node`` that have not succeeded; failed ones may be left out."""
    phases = ["Succeeded"] if with_failed else ["Succeeded", "Failed"]
    selected = [f"spec.nodeName={node}", *(f"status.phase!={each}" for each in phases)]
    query = {"fieldSelector": ",".join(selected)}
    path = f"{PODS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource="pods", path=path, name=f"of node {node}", reply_limit=ANSWER_BYTES)
