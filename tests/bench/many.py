"""Many requests of the bench itself at once, bounded, over one session."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

import aiohttp

from bench.api import SECONDS, USER
from bench.errors import BenchError
from bench.ground import Ground

IN_FLIGHT: Final = 32
"""More gained nothing on two cores."""

_FAILED_FROM: Final = 300

Item = TypeVar("Item")


class Requests:
    """Sends requests as the bench's user, who may do anything."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def send(
        self, method: str, path: str, body: dict[str, Any], *, content_type: str = "application/json"
    ) -> bytes:
        """Return the body of the answer.

        Raises:
            BenchError: it was an error.

        """
        data = json.dumps(body).encode()
        headers = {"Content-Type": content_type}
        async with self._session.request(method, path, data=data, headers=headers) as answer:
            content = await answer.read()
        if answer.status >= _FAILED_FROM:
            raise BenchError(f"{method} {path}: {answer.status} {content[:500].decode(errors='replace')}")
        return content


def for_each(ground: Ground, items: Iterable[Item], do: Callable[[Requests, Item], Awaitable[None]]) -> None:
    """Do something for all items, ``IN_FLIGHT`` at once, and return when all is done.

    Raises:
        BenchError: it failed for one of them; the others may be done or not.

    """
    try:
        asyncio.run(_all(ground, iter(items), do))
    except ExceptionGroup as errors:
        raise BenchError(str(errors.exceptions[0])) from errors


async def _all(
    ground: Ground, waiting: Iterator[Item], do: Callable[[Requests, Item], Awaitable[None]]
) -> None:
    certificate, key = ground.testbed.front_proxy
    context = ssl.create_default_context(cafile=str(ground.testbed.ca_file))
    context.load_cert_chain(certificate, key)
    async with aiohttp.ClientSession(
        ground.testbed.server,
        connector=aiohttp.TCPConnector(ssl=context, limit=IN_FLIGHT),
        headers={"X-Remote-User": USER, "X-Remote-Group": "system:masters"},
        timeout=aiohttp.ClientTimeout(total=SECONDS),
    ) as session:
        requests = Requests(session)

        async def work() -> None:
            for item in waiting:
                await do(requests, item)

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(work())
