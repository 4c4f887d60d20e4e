"""The HTTP server of /metrics, /healthz and /readyz.

Alive means: this process answers. Its event loop is the one that does the work, so a loop that
hangs does not answer. Ready means: nodes and pools have been listed and the API server was heard of
lately. Neither is derived from Kopf, which calls itself ready before it has asked anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.aiohttp import make_aiohttp_handler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client.registry import Collector


class Server:
    """Serves until closed. ``unready`` returns why the operator is not ready; nothing where it is."""

    def __init__(self, *, collector: Collector, unready: Callable[[], Sequence[str]]) -> None:
        self._unready = unready
        registry = CollectorRegistry()
        registry.register(collector)
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", make_aiohttp_handler(registry))
        # A scrape under way at the end is cut: nobody waits for the last numbers of a process.
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self, *, host: str, port: int) -> int:
        """Listen, and return the port (a free one was taken where ``port`` is 0). Raises OSError."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        _, bound, *_ = self._runner.addresses[0]
        return int(bound)

    async def close(self) -> None:
        """Stop listening and close all connections."""
        await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        reasons = self._unready()
        if reasons:
            return web.Response(status=503, text="".join(f"not ready: {reason}\n" for reason in reasons))
        return web.Response(text="ok\n")
