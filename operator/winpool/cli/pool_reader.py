"""A pool as the API server has it, and the version of that API server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from winpool.api.keys import GROUP, PLURAL, VERSION
from winpool.cli.reasons import GARBLED, NoSuchPoolError, NotAskedError, is_about, reason_of
from winpool.kube.client import Transport
from winpool.kube.control_plane import VERSION_PATH
from winpool.kube.credentials import load_connection
from winpool.kube.errors import ApiError, NotFound
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN
from winpool.kube.wire import server_version as wire_server_version

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class FoundPool:
    """A pool as the API server sent it, and the ``gitVersion`` of that API server."""

    content: Mapping[str, Any]
    server_version: str


def read_pool(name: str, *, kubeconfig: str | None, context: str | None) -> FoundPool:
    """Return the pool ``name``.

    Raises NoSuchPoolError, and NotAskedError where there are no usable credentials, no answer, or no
    right to ask.
    """
    try:
        return asyncio.run(_read(name, kubeconfig=kubeconfig, context=context))
    except ApiError as error:
        if isinstance(error, NotFound) and is_about(error, name):
            raise NoSuchPoolError(name) from error
        raise NotAskedError(reason_of(error)) from error
    except BROKEN as error:
        raise NotAskedError(f"{GARBLED} ({error})") from error


async def _read(name: str, *, kubeconfig: str | None, context: str | None) -> FoundPool:
    connection = await load_connection(kubeconfig=kubeconfig, context=context)
    path = f"/apis/{GROUP}/{VERSION}/{PLURAL}/{quote(name, safe='')}"
    async with Transport(connection) as transport:
        pool = await transport.request(Request(verb="get", resource=PLURAL, name=name, path=path))
        version = await transport.request(Request(verb="get", resource="version", path=VERSION_PATH))
    return FoundPool(
        msgspec.json.decode(pool, type=dict[str, Any]), wire_server_version.decode(version).git_version
    )
