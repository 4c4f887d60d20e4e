"""What can be done to a request: before it is forwarded, or after the API server has answered it.

Each is a value to be given to ``FaultProxy.add``. With ``when="before"`` the API server has not seen the
request; with ``when="after"`` it has carried it out, and the client does not know yet.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Literal

from multidict import CIMultiDict

from testbed.faults.exchange import Exchange, Reply
from testbed.faults.kinds import phrase, status_object
from testbed.faults.record import Record

When = Literal["before", "after"]
"""Before the request is forwarded, or after it was answered by the API server."""


class Cut(Enum):
    """Endings without an answer."""

    THIS = auto()
    """The connection of the request is broken off."""
    ALL = auto()
    """Those of all other requests too; what was forwarded already is carried out."""


Outcome = Reply | Cut
"""How a request ends that an action does not let pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestAction:
    """Something that is done to a request."""

    label: str
    when: When
    act: Callable[[Exchange], Awaitable[Outcome | None]]
    """Does it; says how the request ends, None lets it pass."""

    def __str__(self) -> str:
        return f"{self.label} {self.when}"


def cut(*, when: When = "before") -> RequestAction:
    """Break the connection off without an answer; after: the write is applied and its reply lost."""

    async def act(_: Exchange) -> Outcome | None:
        return Cut.THIS

    return RequestAction(label="cut", when=when, act=act)


def delay(seconds: float, *, when: When = "before") -> RequestAction:
    """Wait so long, or until the rule is released or removed; then go on."""

    async def act(exchange: Exchange) -> Outcome | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await exchange.released.wait()
        return None

    return RequestAction(label=f"delay {seconds:g} s", when=when, act=act)


def stall(*, when: When = "before") -> RequestAction:
    """Take the request and say nothing, until the rule is released or removed; then go on."""

    async def act(exchange: Exchange) -> Outcome | None:
        await exchange.released.wait()
        return None

    return RequestAction(label="stall", when=when, act=act)


def answer(
    status: int,
    *,
    reason: str | None = None,
    message: str | None = None,
    retry_after: int | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    when: When = "before",
) -> RequestAction:
    """Answer in place of the API server; after: it has carried the request out and answered otherwise.

    Args:
        status: HTTP status.
        reason: of the ``v1.Status`` that is the body; by default what goes with the status.
        message: of that Status.
        retry_after: seconds, for the header Retry-After and the details of that Status.
        headers: further ones, or another Content-Type than ``application/json``.
        body: in place of the Status.
        when: before the request is forwarded, or after the API server has answered it.

    """
    if body is None:
        told = status_object(status, reason=reason, message=message, retry_after=retry_after)
        body = json.dumps(told).encode()
    given = CIMultiDict({"Content-Type": "application/json"})
    if retry_after is not None:
        given["Retry-After"] = str(retry_after)
    given.update(headers or {})
    reply = Reply(status=status, reason=phrase(status), headers=given, body=body)

    async def act(_: Exchange) -> Outcome | None:
        return reply

    return RequestAction(label=f"answer {status}", when=when, act=act)


def call(hook: Callable[[Record], object], *, when: When = "before") -> RequestAction:
    """Call a function with the record and wait for it; it may block, and may use the proxy.

    After, the API server's answer is in the record. An exception it raises breaks the request off
    and is raised again where the proxy is closed.
    """

    async def act(exchange: Exchange) -> Outcome | None:
        await asyncio.to_thread(hook, exchange.record)
        return None

    return RequestAction(label="call", when=when, act=act)


def kill(pid: Callable[[], int], *, when: When = "before") -> RequestAction:
    """SIGKILL the client and cut all its connections; before: the API server never sees the request.

    Writes that were forwarded by then are carried out; of what arrives later nothing is.
    """

    async def act(_: Exchange) -> Outcome | None:
        # Here and not in a thread: no other request can move between the signal and the cut.
        os.kill(pid(), signal.SIGKILL)
        return Cut.ALL

    return RequestAction(label="kill", when=when, act=act)


def rewrite(change: Callable[[str], str]) -> RequestAction:
    """Forward with another path and query, such as a smaller ``limit`` to have pages with few objects."""

    async def act(exchange: Exchange) -> Outcome | None:
        exchange.path = change(exchange.path)
        return None

    return RequestAction(label="rewrite", when="before", act=act)
