"""How often a watch is opened when something on the way ends each: counted, in virtual time.

What ends them stands in the transport's place, since the loop is looked at here, not Kubernetes.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.virtual_time import run_virtually
from winpool.kube.client import Transport
from winpool.kube.nodes import WINDOWS_NODES
from winpool.kube.request import Request
from winpool.kube.watch import ListWatch, NamedWatch, Target
from winpool.model.node import Node

TARGET = Target(group="example.dev", version="v1", resource="examples", kind="Example", name="one")
MINUTE = 60.0
BOOKMARK = b'{"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"7"}}}'
GONE = b'{"type":"ERROR","object":{"kind":"Status","metadata":{},"code":410,"reason":"Expired"}}'
ENOUGH = 1000


@dataclass
class OnTheWay:
    """Answers each list, and ends each watch after ``lines`` and ``lasting`` seconds."""

    kind: str
    api_version: str
    lines: tuple[bytes, ...]
    lasting: float = 0.0
    listed: list[float] = field(default_factory=list)
    opened: list[float] = field(default_factory=list)

    async def request(self, request: Request) -> bytes:
        assert request.verb == "list"
        self._note(self.listed)
        head = f'"kind":"{self.kind}List","apiVersion":"{self.api_version}"'
        return f'{{{head},"metadata":{{"resourceVersion":"7"}},"items":[]}}'.encode()

    @asynccontextmanager
    async def stream(
        self,
        request: Request,
        *,
        silence_seconds: float,
        is_calm: Callable[[], bool],  # noqa: ARG002 - nothing waits
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert (request.verb, silence_seconds) == ("watch", 70.0)
        self._note(self.opened)
        yield self._lines()

    async def _lines(self) -> AsyncIterator[bytes]:
        for line in self.lines:
            yield line
        await asyncio.sleep(self.lasting)

    def _note(self, moments: list[float]) -> None:
        moments.append(asyncio.get_running_loop().time())
        assert len(moments) <= ENOUGH, "a tight loop"


def of_nodes(lines: tuple[bytes, ...], lasting: float = 0.0) -> tuple[OnTheWay, Callable[[], Any]]:
    way = OnTheWay("Node", "v1", lines, lasting)

    def make() -> ListWatch[Node]:
        transport, time = cast("Transport", way), asyncio.get_running_loop().time
        return ListWatch(transport, WINDOWS_NODES, on_change=lambda _old, _new: None, monotonic=time)

    return way, make


def of_one_object(lines: tuple[bytes, ...], lasting: float = 0.0) -> tuple[OnTheWay, Callable[[], Any]]:
    way = OnTheWay("Example", "example.dev/v1", lines, lasting)

    def make() -> NamedWatch:
        loop = asyncio.get_running_loop()
        return NamedWatch(cast("Transport", way), target=TARGET, on_change=lambda: None, monotonic=loop.time)

    return way, make


def run_for(seconds: float, make: Callable[[], Any]) -> None:
    async def run() -> None:
        try:
            async with asyncio.timeout(seconds):
                await make().run()
        except TimeoutError:
            return

    run_virtually(run())


def gaps(moments: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(moments)]


both = pytest.mark.parametrize("of", [of_nodes, of_one_object])


@both
def test_watches_that_end_properly_after_one_line_are_opened_once_a_second(of: Callable[..., Any]) -> None:
    way, make = of((BOOKMARK,))
    run_for(MINUTE, make)
    assert 55 <= len(way.opened) <= 61
    assert min(gaps(way.opened)) >= 1.0
    assert len(way.listed) == 1


@both
def test_watches_that_say_410_after_a_good_line_are_opened_once_a_second(of: Callable[..., Any]) -> None:
    way, make = of((BOOKMARK, GONE))
    run_for(MINUTE, make)
    assert 55 <= len(way.opened) <= 61
    assert min(gaps(way.opened)) >= 1.0
    assert len(way.listed) <= 61


@both
def test_watches_that_end_without_anything_are_opened_ever_more_seldom(of: Callable[..., Any]) -> None:
    way, make = of(())
    run_for(MINUTE, make)
    assert min(gaps(way.opened)) >= 1.0
    assert 3 <= len(way.opened) <= 10


@both
@pytest.mark.parametrize("lasting", [2.0, 240.0])
def test_one_that_lived_longer_is_followed_by_the_next_at_once(
    of: Callable[..., Any], lasting: float
) -> None:
    way, make = of((BOOKMARK,), lasting)
    run_for(2 * lasting + 1, make)
    assert gaps(way.opened) == pytest.approx([lasting, lasting])


@both
def test_a_410_of_one_that_lived_longer_is_listed_and_watched_on_at_once(of: Callable[..., Any]) -> None:
    way, make = of((BOOKMARK,), 30.0)
    lines = way._lines

    async def and_gone() -> AsyncIterator[bytes]:
        async for line in lines():
            yield line
        yield GONE

    way._lines = and_gone
    run_for(61.0, make)
    assert gaps(way.opened) == pytest.approx([30.0, 30.0])
    assert len(way.listed) == 3
