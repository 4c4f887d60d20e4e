"""The HTTP server of /metrics, /memory, /healthz and /readyz.

Alive means: this process answers. Its event loop is the one that does the work, so a loop that
hangs does not answer. Ready means: nodes and pools have been listed and the API server has answered
lately. Neither is derived from Kopf, which reports itself ready before its first request.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from aiohttp import web

from winpool.serve.access import Access
from winpool.serve.connections import MAX_CONNECTIONS, BoundedServer, Turns
from winpool.serve.memory import MEMORY_PATH, Memory
from winpool.serve.metrics import CONTENT_TYPE, Source, exposition
from winpool.serve.tls import ServingTls

Routes = dict[str, Callable[[web.BaseRequest], Awaitable[web.Response]]]

METRICS_PATH: Final = "/metrics"

METRICS_TURN_SECONDS: Final = 0.05
"""Between two answers of /metrics, which may have a megabyte: twenty a second are more than all scrapers of a
cluster request, and take a few percent of the event loop."""

HEALTH_TURN_SECONDS: Final = 0.01
"""Between two answers of /healthz and /readyz. If MAX_CONNECTIONS wait for their turn, the last one waits a
third of a second, and probes wait a second by default."""

REFUSAL_TURN_SECONDS: Final = METRICS_TURN_SECONDS
"""Between two refusals: of /metrics and /memory without permission, of an unknown path, of another method
than GET and HEAD, and of a body. So refusals cost no more than answers. A client that is refused again and
again delays only others like it: those who are permitted do not take this turn."""

_SERVICE_UNAVAILABLE: Final = 503


class Server:
    """Serves until closed. ``unready`` returns why the operator is not ready; nothing where it is.

    ``health_port`` is, once started, the port of /healthz and /readyz: that of the metrics, or another one.
    With ``access`` /metrics is for those whom it permits; health never needs a token, since the kubelet has
    none. With ``memory`` the port of the metrics serves /memory too. With ``tls`` that port speaks HTTPS, and
    a port of its own for health does not.
    """

    def __init__(
        self,
        *,
        metrics: Source,
        unready: Callable[[], Sequence[str]],
        monotonic: Callable[[], float] = time.monotonic,
        access: Access | None = None,
        memory: Memory | None = None,
        tls: ServingTls | None = None,
    ) -> None:
        self.health_port = 0
        self._memory = memory
        self._access = access
        self._tls = tls
        self._unready = unready
        self._pages = exposition(metrics, monotonic=monotonic)
        self._metrics_turns = Turns(METRICS_TURN_SECONDS)
        self._health_turns = Turns(HEALTH_TURN_SECONDS)
        self._refusal_turns = Turns(REFUSAL_TURN_SECONDS)
        self._runners: list[web.ServerRunner] = []

    async def start(self, *, host: str, port: int, health_port: int | None = None) -> int:
        """Listen, and return the port of the metrics (a free one was taken where ``port`` is 0).

        With a ``health_port`` health is served there, and only there. Raises OSError.
        """
        metrics: Routes = {METRICS_PATH: self._metrics}
        if self._memory is not None:
            metrics[MEMORY_PATH] = self._answer_memory
        health: Routes = {"/healthz": self._healthz, "/readyz": self._readyz}
        if health_port is None:
            self.health_port = await self._listen({**metrics, **health}, host=host, port=port, tls=self._tls)
            return self.health_port
        bound = await self._listen(metrics, host=host, port=port, tls=self._tls)
        self.health_port = await self._listen(health, host=host, port=health_port, tls=None)
        return bound

    async def close(self) -> None:
        """Stop listening and close all connections."""
        for runner in self._runners:
            await runner.cleanup()
        await self._pages.close()
        if self._access is not None:
            await self._access.close()
        if self._memory is not None:
            await self._memory.close()

    async def _listen(self, routes: Routes, *, host: str, port: int, tls: ServingTls | None) -> int:
        # A scrape that is under way at the end is cut: the last numbers of a process are not needed.
        server = BoundedServer(routes, refusals=self._refusal_turns, tls=None if tls is None else tls.context)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        self._runners.append(runner)
        await runner.setup()
        # The kernel queues connections that wait to be accepted: not more than there is room for.
        await web.TCPSite(runner, host, port, backlog=MAX_CONNECTIONS).start()
        _, bound, *_ = runner.addresses[0]
        return int(bound)

    async def _metrics(self, request: web.BaseRequest) -> web.Response:
        if self._access is not None and (refusal := await self._access.refusal(request)) is not None:
            await self._refusal_turns.take()
            return refusal
        await self._metrics_turns.take()
        page = await self._pages.page()
        return page.answer(request, content_type=CONTENT_TYPE)

    async def _answer_memory(self, request: web.BaseRequest) -> web.Response:
        assert self._memory is not None  # or there is no route to it
        if (refusal := await self._memory.refusal(request)) is not None:
            await self._refusal_turns.take()
            return refusal
        return await self._memory.answer(request)

    async def _healthz(self, _: web.BaseRequest) -> web.Response:
        await self._health_turns.take()
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.BaseRequest) -> web.Response:
        await self._health_turns.take()
        if reasons := self._unready():
            text = "".join(f"not ready: {reason}\n" for reason in reasons)
            return web.Response(status=_SERVICE_UNAVAILABLE, text=text)
        return web.Response(text="ok\n")
