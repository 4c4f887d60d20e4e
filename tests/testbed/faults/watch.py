"""One open watch: takes lines from the API server, has rules work on them, sends them to the client."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Final

import aiohttp
from aiohttp import web

from testbed.faults.exchange import Exchange
from testbed.faults.rule import Rule
from testbed.faults.stream import Filter, LineBuffer, Mark, Step, StreamAction
from testbed.faults.upstream import break_off

FLUSH_SECONDS: Final = 0.5
"""For what was sent before a cut to leave: a client that reads takes microseconds."""
FLUSH_POLL_SECONDS: Final = 0.002


class Watch:
    """Lives on the loop of the proxy, from the answer of the API server until either side ends it."""

    def __init__(
        self,
        exchange: Exchange,
        *,
        upstream: aiohttp.ClientResponse,
        response: web.StreamResponse,
        transport: asyncio.Transport,
    ) -> None:
        self.exchange = exchange
        self._upstream = upstream
        self._response = response
        self._transport = transport
        self._filters: list[tuple[Rule, Filter]] = []
        self._noted: set[Rule] = set()
        # Nothing is forwarded before all of these are set.
        self._gates: list[asyncio.Event] = []
        self._over = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether it has ended, by a rule or by the client, even if that is still being tidied up."""
        return self._over.is_set() or self._transport.is_closing()

    async def take_in(self, rule: Rule) -> None:
        """Have a rule for lines work on this watch from now on."""
        if not isinstance(rule.action, StreamAction):
            raise TypeError(f"{rule.action} is nothing that is done to lines")
        work = rule.action.open()
        self._filters.append((rule, work))
        steps = [(rule, step) for step in work(None)]
        if steps:
            self._note(rule)
        await self._perform(steps, behind_gates=False)

    async def pump(self) -> None:
        """Forward until the watch ends.

        Raises:
            aiohttp.ClientError: the API server broke it off.
            ConnectionError: the client left.

        """
        buffer = LineBuffer()
        try:
            while chunk := await self._upstream.content.readany():
                steps = [step for line in buffer.feed(chunk) for step in self._filtered(line)]
                await self._perform(steps, behind_gates=True)
                if self._over.is_set():
                    return
        except aiohttp.ClientError:
            if not self._over.is_set():
                raise
        await self._pass_gates()
        await self._write(buffer.rest())

    def _note(self, rule: Rule) -> None:
        """Note what a rule does, the first time: it may do it to every line."""
        if rule not in self._noted and isinstance(rule.action, StreamAction):
            self._noted.add(rule)
            self.exchange.note(rule.action.label)

    def _filtered(self, line: bytes) -> Iterator[tuple[Rule | None, Step]]:
        """Give what becomes of a line: each rule sees what those added before it made of it."""
        steps: list[tuple[Rule | None, Step]] = [(None, line)]
        for rule, work in self._filters:
            if not rule.removed:
                steps = list(self._through(rule, work, steps))
        yield from steps

    def _through(
        self, rule: Rule, work: Filter, steps: Iterable[tuple[Rule | None, Step]]
    ) -> Iterator[tuple[Rule | None, Step]]:
        for origin, step in steps:
            if isinstance(step, Mark):
                yield origin, step
                continue
            made = list(work(step))
            if made != [step]:
                self._note(rule)
            for each in made:
                yield rule, each

    async def _perform(self, steps: Iterable[tuple[Rule | None, Step]], *, behind_gates: bool) -> None:
        """Send lines and do what is to happen between them; lines that belong together go in one piece.

        ``behind_gates``: what the API server sent waits while a rule holds the watch. What a rule does at
        once does not wait, not even for itself.
        """
        waiting: list[bytes] = []

        async def send() -> None:
            if behind_gates:
                await self._pass_gates()
            await self._write(b"".join(waiting))
            waiting.clear()

        for rule, step in steps:
            if isinstance(step, bytes):
                waiting.append(step)
                continue
            await send()
            if step is Mark.HOLD and rule is not None:
                self._gates.append(rule.released)
            else:
                await self._end(step)
        await send()

    async def _pass_gates(self) -> None:
        while self._gates and not self._over.is_set():
            waits = [asyncio.create_task(event.wait()) for event in (self._gates[0], self._over)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            if self._gates[0].is_set():
                del self._gates[0]

    async def _write(self, data: bytes) -> None:
        if data and not self._over.is_set():
            await self._response.write(data)
            record = self.exchange.record
            self.exchange.update(
                lines=record.lines + data.count(b"\n"), bytes_sent=record.bytes_sent + len(data)
            )

    async def _end(self, how: Mark) -> None:
        self._over.set()
        if how is Mark.CUT:
            await flush(self._transport)
            self._transport.abort()
        break_off(self._upstream)


async def flush(transport: asyncio.Transport) -> None:
    """Return when what was written has been handed to the kernel, or the client does not read."""
    deadline = asyncio.get_running_loop().time() + FLUSH_SECONDS
    while transport.get_write_buffer_size() and not transport.is_closing():
        if asyncio.get_running_loop().time() > deadline:
            return
        await asyncio.sleep(FLUSH_POLL_SECONDS)
