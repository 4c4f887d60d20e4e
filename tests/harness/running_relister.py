"""A relister that runs, in virtual time, on what a test has written down, and what it makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, cast

from harness.scripted_transport import ScriptedTransport
from harness.virtual_time import running
from winpool.cluster.transport import Transport
from winpool.cluster.writer import Writer
from winpool.control.relist.pools import Pools
from winpool.control.relist.relister import Relister

PERIOD: Final = 300.0
LONGEST_PERIOD: Final = 330.0 + 2
"""With what is added by chance, and the least time between two lists."""
GRACE: Final = 60.0
"""Lists that count are so far apart at least."""


class RunningRelister:
    """A relister that runs; ``after`` is when it told that it had listed."""

    def __init__(self, server: ScriptedTransport) -> None:
        self.after: list[float] = []
        self.pools = Pools(on_change=lambda *_, **__: None)
        self.relister = Relister(
            writer=Writer(cast("Transport", server)),
            pools=self.pools,
            period_seconds=PERIOD,
            orphan_grace_seconds=GRACE,
            after=lambda: self.after.append(server.time),
            monotonic=asyncio.get_running_loop().time,
        )

    @property
    def names(self) -> set[str]:
        """Those of the pools that are known."""
        return {pool.name for pool in self.pools.all()}


@asynccontextmanager
async def a_relister(server: ScriptedTransport) -> AsyncIterator[RunningRelister]:
    """Run a relister as long as the context lasts."""
    relisting = RunningRelister(server)
    async with running(relisting.relister.run()):
        yield relisting
