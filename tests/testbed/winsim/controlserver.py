"""The fleet's side of its control socket: HTTP on a Unix socket, JSON both ways.

``GET /v1/summary``, ``/v1/nodes``, ``/v1/unready``, ``/v1/asked`` and ``/v1/truth/<node>`` tell;
``POST /v1/<verb>`` takes a verb's arguments and answers with the names of the nodes, and with ``?choose`` it
does nothing else. Errors are ``{"error": sentence}``.

Who can open the socket may do everything to the simulated nodes; the socket belongs to its user alone.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from aiohttp import web
from pydantic import ValidationError

from testbed.control import address
from testbed.winsim.mistakes import sentences
from testbed.winsim.replies import Asked, Nodes, Outcome, Refusal, Truth
from testbed.winsim.verbs import VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pydantic import BaseModel

    from testbed.winsim.fleet import Fleet

# Names of 63 letters for a hundred thousand nodes.
_BODY_BYTES: Final = 8 * 1024 * 1024
# Whoever waits for an answer at the end of the process waits no longer than the supervisor does.
_END_SECONDS: Final = 1.0


class ControlServer:
    """Answers questions about one fleet, and passes on what is to be done to it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    async def serve(self, path: Path) -> None:
        """Listen on a Unix socket until cancelled."""
        application = web.Application(client_max_size=_BODY_BYTES)
        application.router.add_get("/v1/summary", self._summary)
        application.router.add_get("/v1/nodes", self._nodes)
        application.router.add_get("/v1/unready", self._unready)
        application.router.add_get("/v1/asked", self._asked)
        application.router.add_get("/v1/truth/{node}", self._truth)
        application.router.add_post("/v1/{verb}", self._act)
        # Nobody needs a line per question; what is done to nodes the fleet says itself.
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_END_SECONDS)
        await runner.setup()
        with _listener(path) as listener:
            try:
                await web.SockSite(runner, listener).start()
                await asyncio.Event().wait()
            finally:
                await runner.cleanup()

    async def _summary(self, _request: web.Request) -> web.Response:
        return _json(self._fleet.summary())

    async def _nodes(self, _request: web.Request) -> web.Response:
        return _json(Nodes(items=self._fleet.views()))

    async def _unready(self, _request: web.Request) -> web.Response:
        return _json(Outcome(names=self._fleet.unready()))

    async def _asked(self, _request: web.Request) -> web.Response:
        endpoint = self._fleet.endpoint
        if endpoint is None:
            return _refusal("no node of this fleet serves a kubelet endpoint", status=404)
        tally = endpoint.tally
        return _json(
            Asked(
                requests=dict(tally.requests),
                most_of_a_node=tally.most_of_a_node,
                connections=endpoint.connections,
            )
        )

    async def _truth(self, request: web.Request) -> web.Response:
        name, endpoint = request.match_info["node"], self._fleet.endpoint
        if endpoint is None or not endpoint.knows(name):
            return _refusal(f"the memory of {name} is not simulated", status=404)
        return _json(Truth.model_validate(asdict(endpoint.truth(name))))

    async def _act(self, request: web.Request) -> web.Response:
        name = request.match_info["verb"]
        model = VERBS.get(name)
        if model is None:
            return _refusal(f"there is no verb {name!r}; there are: {', '.join(VERBS)}", status=404)
        try:
            verb = model.model_validate_json(await request.read())
        except ValidationError as error:
            return _refusal("; ".join(sentences(error, model=model, where=name)), status=400)
        await self._fleet.open.wait()
        try:
            names = verb.choose(self._fleet)
        except ValueError as error:
            return _refusal(str(error), status=409)
        if "choose" not in request.query:
            names = await verb.act(self._fleet, names)
        return _json(Outcome(names=names))


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


def _refusal(error: str, *, status: int) -> web.Response:
    return _json(Refusal(error=error), status=status)


def _json(model: BaseModel, *, status: int = 200) -> web.Response:
    return web.Response(body=model.model_dump_json(), status=status, content_type="application/json")
