"""The part of the proxy that lives on its loop: its port, the connections to it, the rules in force."""

from __future__ import annotations

import asyncio
import logging
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import Any, Self

import aiohttp
from aiohttp import hdrs, web

from testbed.components import LOOPBACK
from testbed.faults.exchange import Log
from testbed.faults.journey import Journey, Surroundings
from testbed.faults.record import Record
from testbed.faults.rule import Rule
from testbed.faults.stream import StreamAction
from testbed.faults.target import target_of
from testbed.faults.upstream import HEADER_LIMIT, Upstream
from testbed.faults.watch import Watch
from testbed.pki import Pki

log = logging.getLogger("testbed.faults")


class Failures:
    """Remembers what functions of tests raised; a context manager around whatever calls them."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, Exception):
            self.errors.append(error)
            return True
        return False


class Relay:
    """One port on loopback and the API server behind it; use it as an async context manager."""

    def __init__(self, *, server: str, pki: Pki, port: int, requests: Log) -> None:
        self.watches: list[Watch] = []
        self.failures = Failures()
        self._port = port
        self._log = requests
        self._rules: list[Rule] = []
        self._number = 0
        # The last one is in use.
        self._fronts: list[web.Server] = []
        self._listener: asyncio.Server | None = None
        self._handling: set[asyncio.Task[Any]] = set()
        self._upstream = Upstream(server=server, ca_file=str(pki.ca.certificate))
        self._around = Surroundings(
            upstream=self._upstream,
            rules=self._rules,
            watches=self.watches,
            break_off_all=self._break_off_all,
        )
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(pki.serving.certificate, pki.serving.key)

    async def __aenter__(self) -> Self:
        self._break_off_all()
        await self._upstream.__aenter__()
        await self.listen()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()  # before rules go: what they hold is to be cut and not to go on
        if self._handling:
            await asyncio.wait(self._handling)
        await self._upstream.__aexit__(kind, error, trace)
        self._break_off_all()  # and whoever was just connecting
        for front in self._fronts:
            await front.shutdown(0)

    async def listen(self) -> None:
        """Accept connections; nothing happens where they are accepted already."""
        if self._listener is None:
            self._listener = await asyncio.get_running_loop().create_server(
                self._accept, LOOPBACK, self._port, ssl=self._tls, reuse_address=True
            )

    def _accept(self) -> asyncio.Protocol:
        return self._fronts[-1]()

    def refuse(self) -> None:
        """Refuse connections and break off those there are."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        self._break_off_all()

    async def add(self, rule: Rule) -> None:
        """Have a rule act from now on; one for lines on the watches that are open already, too."""
        self._rules[:] = [each for each in self._rules if not each.removed]
        self._rules.append(rule)
        if isinstance(rule.action, StreamAction):
            for watch in list(self.watches):
                if not watch.over and rule.selects(watch.exchange.record):
                    with suppress(aiohttp.ClientError, OSError):  # of a client that leaves at this moment
                        await watch.take_in(rule)

    def remove_all(self) -> None:
        """Remove all rules."""
        for rule in self._rules:
            rule.drop()
        self._rules.clear()

    def _break_off_all(self) -> None:
        """Break off every connection, and let no request through of those that are being made.

        Those are not known yet, but each belongs to the front of the time when it was accepted.
        """
        for front in self._fronts:
            for connection in front.connections:
                if connection.transport is not None:
                    connection.transport.abort()
        self._fronts.append(
            web.Server(
                partial(self._handle, len(self._fronts)),
                handler_cancellation=True,  # or a watch would outlive its client until the next line
                access_log=None,
                logger=log,
                auto_decompress=False,
                max_line_size=HEADER_LIMIT,
                max_field_size=HEADER_LIMIT,
            )
        )

    async def _handle(self, front: int, http: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handling.add(task)
        task.add_done_callback(self._handling.discard)
        transport = http.transport
        answer: web.StreamResponse | None = None
        with self.failures:
            answer = await self._answer(front, http)
        if answer is None:
            if transport is not None:
                transport.abort()
            answer = web.Response()  # which aiohttp then fails to send, as it does where a client left
        return answer

    async def _answer(self, front: int, http: web.BaseRequest) -> web.StreamResponse | None:
        try:
            body = await http.content.read()
        except (aiohttp.ClientError, web.RequestPayloadError, OSError):
            return None  # the client left in mid-request
        if front != len(self._fronts) - 1:
            return None  # of a connection that was broken off
        self._number += 1
        exchange = self._log.add(_record(http, number=self._number, body=body))
        return await Journey(self._around, http=http, exchange=exchange).run()


def _record(http: web.BaseRequest, *, number: int, body: bytes) -> Record:
    target = target_of(http.method, http.raw_path)
    return Record(
        number=number,
        time=datetime.now(UTC),
        verb=target.verb,
        resource=target.resource,
        group=target.group,
        namespace=target.namespace,
        name=target.name,
        path=http.raw_path,
        user_agent=http.headers.get(hdrs.USER_AGENT, ""),
        body=body,
    )
