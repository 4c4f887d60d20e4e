"""The operator's report of memory: once, or again and again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.cli.memory_reader import MemoryReader
from winpool.cli.reasons import NotAskedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cli.memory_reader import Way
    from winpool.model.memory_report import MemoryReport

REFRESH_SECONDS: Final = 5.0
"""From one reading to the next. A node under pressure has a new sample every ten seconds."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The last report, and why there is no newer one; empty where it is new."""

    report: MemoryReport
    trouble: str = ""


def look(way: Way) -> MemoryReport:
    """Return the report. Raises NotAskedError where there is none."""

    async def read() -> MemoryReport:
        async with MemoryReader(way) as reader:
            return await reader.read()

    return asyncio.run(read())


def watch(way: Way, *, draw: Callable[[Seen], None]) -> None:
    """Call ``draw`` with a new report every few seconds, until Ctrl-C.

    Raises what ``look`` raises, for the first one only: what fails later is told in the picture.
    """

    async def run() -> None:
        async with MemoryReader(way) as reader:
            await watched(reader, draw=draw)

    asyncio.run(run())


async def watched(reader: MemoryReader, *, draw: Callable[[Seen], None]) -> None:
    """Read and draw until cancelled. Raises NotAskedError for the first report only."""
    report = await reader.read()
    draw(Seen(report))
    while True:
        await asyncio.sleep(REFRESH_SECONDS)
        try:
            report, trouble = await reader.read(), ""
        except NotAskedError as error:
            trouble = str(error)
        draw(Seen(report, trouble))
