"""One request from its arrival to its end: which rules act on it, and what the client gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
from aiohttp import web

from testbed.faults.actions import Cut, Outcome, RequestAction, When
from testbed.faults.exchange import Exchange
from testbed.faults.rule import Rule
from testbed.faults.stream import StreamAction
from testbed.faults.upstream import Upstream, passed_on
from testbed.faults.watch import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a request needs of the proxy; the lists change while it lives."""

    upstream: Upstream
    rules: list[Rule]
    """Oldest first."""
    watches: list[Watch]
    """Open ones, oldest first."""
    break_off_all: Callable[[], None]
    """Breaks off all connections of clients."""


class Journey:
    """Takes one request through; make one for each."""

    def __init__(self, surroundings: Surroundings, *, http: web.BaseRequest, exchange: Exchange) -> None:
        self._around = surroundings
        self._http = http
        self._exchange = exchange
        # Selected before anything is awaited: the counts follow the order of arrival.
        self._rules = [
            (rule, rule.action)
            for rule in surroundings.rules
            if isinstance(rule.action, RequestAction) and rule.selects(exchange.record)
        ]

    async def run(self) -> web.StreamResponse | None:
        """Return the answer that is to be sent or was sent; None for a connection to be broken off."""
        try:
            return await self._run()
        except (aiohttp.ClientError, OSError) as error:
            self._exchange.update(problem=f"{type(error).__name__}: {error}")
            return None
        finally:
            self._exchange.finish()

    async def _run(self) -> web.StreamResponse | None:
        if outcome := await self._act("before"):
            return self._conclude(outcome)
        record = self._exchange.record
        if record.verb == "watch":
            return await self._watch()
        if record.writes or any(action.when == "after" for _, action in self._rules):
            return await self._whole()
        return await self._streamed()

    async def _act(self, when: When) -> Outcome | None:
        for rule, action in self._rules:
            if action.when == when and not rule.removed:
                self._exchange.note(str(action))
                self._exchange.released = rule.released
                if outcome := await action.act(self._exchange):
                    return outcome
        return None

    def _conclude(self, outcome: Outcome) -> web.StreamResponse | None:
        if outcome is Cut.ALL:
            self._around.break_off_all()
        if isinstance(outcome, Cut):
            return None
        self._exchange.update(status=outcome.status, bytes_sent=len(outcome.body))
        return web.Response(
            status=outcome.status, reason=outcome.reason, headers=outcome.headers, body=outcome.body
        )

    async def _whole(self) -> web.StreamResponse | None:
        """Forward and read the answer before anything of it is passed on."""
        reply = await self._around.upstream.fetch(
            self._exchange, method=self._http.method, headers=self._http.headers
        )
        if any(action.when == "after" for _, action in self._rules):
            self._exchange.update(reply=reply.body)
        return self._conclude(await self._act("after") or reply)

    async def _streamed(self) -> web.StreamResponse:
        """Forward, and pass the answer on as it comes."""
        async with self._around.upstream.open(
            self._exchange, method=self._http.method, headers=self._http.headers
        ) as upstream:
            return await self._pass_on(upstream)

    async def _watch(self) -> web.StreamResponse | None:
        async with self._around.upstream.open(
            self._exchange, method=self._http.method, headers=self._http.headers
        ) as upstream:
            if outcome := await self._act("after"):
                return self._conclude(outcome)
            if upstream.status != 200 or upstream.content_type != "application/json":
                return await self._pass_on(upstream)
            return await self._pass_on_lines(upstream)

    async def _pass_on(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        response = await self._begin(upstream)
        async for chunk in upstream.content.iter_any():
            await response.write(chunk)
            self._exchange.update(bytes_sent=self._exchange.record.bytes_sent + len(chunk))
        await response.write_eof()
        return response

    async def _pass_on_lines(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse | None:
        transport = self._http.transport
        if transport is None:
            return None
        response = await self._begin(upstream)
        watch = Watch(self._exchange, upstream=upstream, response=response, transport=transport)
        self._around.watches.append(watch)
        try:
            for rule in list(self._around.rules):  # one that is added meanwhile finds the watch by itself
                if isinstance(rule.action, StreamAction) and rule.selects(self._exchange.record):
                    await watch.take_in(rule)
            await watch.pump()
            await response.write_eof()
        finally:
            self._around.watches.remove(watch)
        return response

    async def _begin(self, upstream: aiohttp.ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(
            status=upstream.status, reason=upstream.reason, headers=passed_on(upstream.headers)
        )
        await response.prepare(self._http)
        self._exchange.update(status=upstream.status)
        return response
