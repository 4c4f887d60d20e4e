"""The fleet's side of its control socket: HTTP on a Unix socket, JSON both ways.

Who can open the socket may do everything to the simulated nodes; the socket belongs to its user alone.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from testbed.control import address

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import BaseModel

    from testbed.winsim.fleet import Fleet


class ControlServer:
    """Answers questions about one fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def serve(self, path: Path) -> None:
        """Listen on a Unix socket until cancelled."""
        application = web.Application()
        application.router.add_get("/v1/summary", self._summary)
        # Nobody needs a line per question; what is done to nodes the fleet says itself.
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            with _listener(path) as listener:
                await web.SockSite(runner, listener).start()
                await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _summary(self, _request: web.Request) -> web.Response:
        return _json(self._fleet.summary())


@contextmanager
def _listener(path: Path) -> Iterator[socket.socket]:
    path.unlink(missing_ok=True)  # of a process that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with address(path) as name:
            listener.bind(name)
        path.chmod(0o600)
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


def _json(model: BaseModel, *, status: int = 200) -> web.Response:
    return web.Response(body=model.model_dump_json(), status=status, content_type="application/json")
