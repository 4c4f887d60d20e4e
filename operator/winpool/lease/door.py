"""The requests about the Lease, over a connection of their own, and what failed of them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

from winpool.cluster.access import explained
from winpool.cluster.errors import ApiError, NoAnswer
from winpool.cluster.outage import Outage
from winpool.lease.wire import Found, create_request, get_request, patch_request, read_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.request import Request
    from winpool.cluster.transport import Transport

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 4.0
"""For one request. An API server that works answers in milliseconds. A connection that was cut shows by this
limit only, and a term of 10 s then has the time for a second attempt, on a new connection."""


class Door:
    """Reads and writes the Lease. ``transport`` is used for nothing else, and has no gate.

    All methods raise the ApiError of the request.
    """

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def read(self) -> Found:
        """Return the Lease as the API server has it now. Raises NotFound where there is none."""
        return await self._ask(get_request())

    async def create(self, spec: Mapping[str, Any]) -> Found:
        """Create the Lease. Raises AlreadyExists where there is one."""
        return await self._ask(create_request(spec))

    async def change(self, found: Found, spec: Mapping[str, Any]) -> Found:
        """Change the Lease. Raises Conflict where it is no longer ``found``."""
        return await self._ask(patch_request(spec, resource_version=found.resource_version))

    async def _ask(self, request: Request) -> Found:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._transport.request(request)
        except TimeoutError:
            raise NoAnswer(f"{request.label}: no answer within {REQUEST_SECONDS:.0f} s") from None
        return read_lease(answer, label=request.label)


class Faults:
    """Logs failed attempts. ``last`` is what went wrong last, empty after a success."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self.last = ""
        self._outage = Outage("Lease", logger=log, monotonic=monotonic, meanwhile="the operator tries again")

    def note(self, error: ApiError | TimeoutError) -> None:
        """Note a failed attempt; a TimeoutError is the end of the term during one."""
        told = (
            explained(error) if isinstance(error, ApiError) else NoAnswer("no answer before the term ended")
        )
        self.last = told.message
        self._outage.failed(told)

    def ended(self) -> None:
        """Note a success."""
        self.last = ""
        self._outage.ended()
