"""How an answer reaches the client: at once, late, byte by byte, or never."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from aiohttp import web

from testbed.winsim.endpoint.faults import is_kind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from testbed.winsim.endpoint.faults import Fault
    from testbed.winsim.endpoint.served import Answer

# IdleTimeout of the kubelet's server (pkg/kubelet/server/server.go).
_IDLE_SECONDS: Final = 90.0


def http_server(answer: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> web.Server:
    """Return what speaks HTTP on connections."""
    # A client that hangs up ends the work for it: hanging and trickling nodes pile up nothing.
    return web.Server(answer, access_log=None, keepalive_timeout=_IDLE_SECONDS, handler_cancellation=True)


async def delay(fault: Fault | None) -> None:
    """Return when a node with this fault begins to answer; that may be never."""
    if is_kind(fault, "hang"):
        await asyncio.Event().wait()
    if fault is not None and fault.kind == "slow":
        await asyncio.sleep(fault.seconds)


async def send(request: web.BaseRequest, answer: Answer, fault: Fault | None) -> web.StreamResponse:
    """Return the answer to be sent, or send it byte by byte."""
    headers = {"Content-Type": answer.content_type}
    if answer.location is not None:
        headers["Location"] = answer.location
    if fault is None or fault.kind != "trickle":
        return web.Response(body=answer.body, status=answer.status, headers=headers)
    response = web.StreamResponse(status=answer.status, headers=headers)
    response.content_length = len(answer.body)
    await response.prepare(request)
    for index in range(len(answer.body)):
        await response.write(answer.body[index : index + 1])
        await asyncio.sleep(fault.seconds)
    return response
