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
from winpool.kube.nodes import WINDOWS_SELECTOR, decode_page, list_request
from winpool.kube.wire import BROKEN
from winpool.ownership.members import selects

if TYPE_CHECKING:
    from winpool.kube.nodes import NodePage


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
    for node in sorted((node for page in pages for node in page.nodes), key=lambda each: each.name):
        if selects(selector, node.labels):
            host = Host(node.versions.kernel, node.versions.runtime)
            hosts.setdefault(host, []).append(node.name)
    return PoolHosts(hosts, tuple(str(error) for page in pages for error in page.undecodable))


async def _read(*, kubeconfig: str | None, context: str | None) -> list[NodePage]:
    connection = await load_connection(kubeconfig=kubeconfig, context=context)
    pages: list[NodePage] = []
    async with Transport(connection) as transport:
        while not pages or pages[-1].continue_token:
            token = pages[-1].continue_token if pages else ""
            answer = await transport.request(list_request(selector=WINDOWS_SELECTOR, token=token))
            pages.append(decode_page(answer))
    return pages
