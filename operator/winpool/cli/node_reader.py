"""What the nodes of a pool run, as they report it to the API server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.model import InvalidSpecError
from winpool.api.v1alpha1 import WindowsNodePool
from winpool.cli.pool_reader import read_pool
from winpool.cli.reasons import GARBLED, NotAskedError, reason_of
from winpool.cli.workloads import Host
from winpool.kube.client import Transport
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError
from winpool.kube.lists import Pager
from winpool.kube.nodes import WINDOWS_SELECTOR, listing_of
from winpool.kube.wire import BROKEN
from winpool.ownership.members import selects

if TYPE_CHECKING:
    from winpool.kube.lists import ListPage
    from winpool.model.node import Node


@dataclass(frozen=True, slots=True)
class PoolHosts:
    """The nodes of a pool by what they run, and what is wrong with nodes that could not be read."""

    hosts: dict[Host, list[str]]
    unread: tuple[str, ...]


def read_hosts(pool: str, *, kubeconfig: str | None, context: str | None) -> PoolHosts:
    """Return what the Windows nodes that the pool selects run, with the names of the nodes, in order.

    By the pool's own selector, so that it is known also where the operator is down or two pools overlap.
    Raises NoSuchPoolError, and NotAskedError where there are no usable credentials, no answer, or no right
    to ask, or where the pool is none that can be read.
    """
    found = read_pool(pool, kubeconfig=kubeconfig, context=context)
    try:
        selector = WindowsNodePool.from_object(found.content).spec.node_selector
    except InvalidSpecError as error:
        raise NotAskedError(f"the pool {pool} cannot be read: {'; '.join(error.problems)}") from None
    try:
        pages = asyncio.run(_read(kubeconfig=kubeconfig, context=context))
    except ApiError as error:
        raise NotAskedError(reason_of(error)) from error
    except BROKEN as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error
    hosts: dict[Host, list[str]] = {}
    for node in sorted((node for page in pages for node in page.items), key=lambda each: each.name):
        if selects(selector, node.labels):
            host = Host(node.versions.kernel, node.versions.runtime)
            hosts.setdefault(host, []).append(node.name)
    return PoolHosts(hosts, tuple(str(error) for page in pages for error in page.unreadable))


async def _read(*, kubeconfig: str | None, context: str | None) -> tuple[ListPage[Node], ...]:
    connection = await load_connection(kubeconfig=kubeconfig, context=context)
    async with Transport(connection) as transport:
        pages, _ = await Pager(transport.request, listing_of(WINDOWS_SELECTOR)).collect(lambda page: (page,))
    return pages
