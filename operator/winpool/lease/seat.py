"""The connections of one operator, and what says whether it leads."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Protocol

from winpool.cluster.transport import Transport
from winpool.lease.keeper import Keeper
from winpool.lease.others import OtherOperator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from winpool.cluster.credentials import Connection
    from winpool.cluster.first_refusals import FirstRefusals
    from winpool.lease.skew import Skew


class Seat(Protocol):
    """What the application needs to know of the Lease, with leader election and without."""

    skew: Skew

    @property
    def leads(self) -> bool:
        """Whether this process may write now."""

    @property
    def holder(self) -> str:
        """Who leads, as far as this process has seen; empty where no one does, or it is not known."""

    @property
    def other(self) -> str | None:
        """The identity of an operator that writes although this one does; empty for none, None: not known."""

    async def run(self, on_lead: Callable[[], None], on_other: Callable[[], None], /) -> None:
        """Call ``on_lead`` once, when this process leads, and ``on_other`` when ``other`` has changed.

        Raises LeaseLostError when it no longer leads.
        """

    async def release(self) -> None:
        """Let another operator lead; this process may not write any more."""


@asynccontextmanager
async def seated(
    connection: Connection, *, identity: str, elects: bool, refusals: FirstRefusals
) -> AsyncIterator[tuple[Transport, Seat]]:
    """Open the transport of the operator, and its seat. ``elects`` is whether there is leader election."""
    async with AsyncExitStack() as stack:
        if not elects:
            plain = Transport(connection, refusals=refusals, identity=identity)
            await stack.enter_async_context(plain)
            yield plain, OtherOperator(plain)
            return
        apart = await stack.enter_async_context(Transport(connection, identity=identity))
        keeper = Keeper(apart, identity=identity)
        gated = Transport(
            connection,
            stats=apart.stats,
            refusals=refusals,
            identity=identity,
            may_write=lambda: keeper.leads,
        )
        await stack.enter_async_context(gated)
        yield gated, keeper
