"""A relister that runs, in virtual time, on what a test has written down, and what it makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final, cast

from harness.builders import NOON
from harness.scripted_transport import ScriptedTransport
from harness.virtual_time import running
from winpool.controllers.pools import Absences, Pools, Relister
from winpool.kube.client import Transport
from winpool.kube.writer import Writer
from winpool.loops import Clock

PERIOD: Final = 300.0
LONGEST_PERIOD: Final = 330.0 + 2
"""With what is added by chance, and the least time between two lists."""
GRACE: Final = 60.0
"""Between the two lists that tell that a pool has vanished."""


class RunningRelister:
    """A relister that runs; ``after`` is when it told that it had listed."""

    def __init__(self, server: ScriptedTransport) -> None:
        self.after: list[float] = []
        monotonic = asyncio.get_running_loop().time
        self.absences = Absences(
            grace_seconds=GRACE,
            clock=Clock(now=lambda: NOON + timedelta(seconds=server.time), monotonic=monotonic),
            on_doubt=self._doubted,
        )
        self.pools = Pools(on_change=lambda *_, **__: None, absences=self.absences)
        self.relister = Relister(
            writer=Writer(cast("Transport", server)),
            pools=self.pools,
            period_seconds=PERIOD,
            after=lambda: self.after.append(server.time),
            monotonic=monotonic,
        )

    def _doubted(self) -> None:
        self.relister.doubted()

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
