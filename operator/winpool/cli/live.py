"""The pools of a cluster and the nodes of one, as the API server has them: once, or with every change."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import POOL_LABEL
from winpool.cli.pool_feed import PoolFeed
from winpool.cli.reasons import NoSuchPoolError, NotAskedError, reason_of
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError
from winpool.kube.lists import Pager
from winpool.kube.nodes import listing_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from winpool.model.node import Node

REFRESH_SECONDS: Final = 10.0
"""After which a picture is drawn again although nothing has changed: ages go on."""

SETTLE_SECONDS: Final = 0.5
"""From one picture to the next. A burst of changes is one picture."""

LISTED_SECONDS: Final = 3.0
"""The same where the nodes are listed for it: a pool may have thousands, and its status changes every second
while they join."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What was read. ``nodes`` are those of the only pool, none where there are several.

    ``nodes_problem`` is why they could not be listed, ``trouble`` why what is here may be out of date.
    ``is_news`` says that it differs from what was seen before, but for the time.
    """

    pools: tuple[Mapping[str, Any], ...]
    nodes: tuple[Node, ...] = ()
    nodes_problem: str = ""
    trouble: str = ""
    is_news: bool = True


def look(name: str | None, *, kubeconfig: str | None, context: str | None) -> Seen:
    """Return the pool ``name`` with its nodes, or all pools.

    Raises NoSuchPoolError, and NotAskedError where there are no usable credentials, no answer, or no right
    to ask.
    """
    return asyncio.run(_look(name, kubeconfig=kubeconfig, context=context))


def watch(
    name: str | None, *, kubeconfig: str | None, context: str | None, draw: Callable[[Seen], None]
) -> None:
    """Call ``draw`` with what ``look`` returns and with every change of it, until Ctrl-C.

    Raises what ``look`` raises, before the first picture only: what fails later is told in the picture.
    """
    asyncio.run(_watch(name, kubeconfig=kubeconfig, context=context, draw=draw))


async def _look(name: str | None, *, kubeconfig: str | None, context: str | None) -> Seen:
    with _explained():
        async with Transport(await load_connection(kubeconfig=kubeconfig, context=context)) as transport:
            return await _seen(await _listed(transport, name), transport)


async def _watch(
    name: str | None, *, kubeconfig: str | None, context: str | None, draw: Callable[[Seen], None]
) -> None:
    with _explained():
        async with Transport(await load_connection(kubeconfig=kubeconfig, context=context)) as transport:
            feed = await _listed(transport, name)
            task = asyncio.create_task(feed.run(), name="pools")
            # It ends by a fault of ours only; whoever waits for a change must not wait for ever then.
            task.add_done_callback(lambda _: feed.changed.set())
            try:
                await _draw(feed, transport, draw=draw, goes_on=lambda: not task.done())
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)


async def _draw(
    feed: PoolFeed, transport: Transport, *, draw: Callable[[Seen], None], goes_on: Callable[[], bool]
) -> None:
    feed.changed.set()
    while goes_on():
        if feed.changed.is_set():
            feed.changed.clear()
            seen = await _seen(feed, transport)
            draw(seen)
        else:
            draw(replace(seen, is_news=False))
        await asyncio.sleep(LISTED_SECONDS if len(seen.pools) == 1 else SETTLE_SECONDS)
        with suppress(TimeoutError):
            async with asyncio.timeout(REFRESH_SECONDS):
                await feed.changed.wait()


async def _listed(transport: Transport, name: str | None) -> PoolFeed:
    feed = PoolFeed(transport, name=name)
    await feed.list()
    if name is not None and not feed.pools:
        raise NoSuchPoolError(name)
    return feed


async def _seen(feed: PoolFeed, transport: Transport) -> Seen:
    pools = feed.pools
    if len(pools) != 1:
        return Seen(pools=pools, trouble=feed.trouble)
    selector = f"{POOL_LABEL}={pools[0]['metadata']['name']}"
    try:
        nodes, _ = await Pager(transport.request, listing_of(selector)).collect(lambda page: page.items)
    except ApiError as error:
        return Seen(pools=pools, nodes_problem=reason_of(error), trouble=feed.trouble)
    return Seen(pools=pools, nodes=nodes, trouble=feed.trouble)


@contextmanager
def _explained() -> Iterator[None]:
    """Raise what the API server did as a NotAskedError, which says why."""
    try:
        yield
    except ApiError as error:
        raise NotAskedError(reason_of(error)) from error
