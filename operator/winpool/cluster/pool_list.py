"""The list of pools: complete or not at all, with only the needed fields of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypedDict
from urllib.parse import quote, urlencode

import msgspec

from winpool.api.keys import API_VERSION, GROUP, KIND, PLURAL, VERSION
from winpool.cluster import wire
from winpool.cluster.envelope import ListReader
from winpool.cluster.errors import StreamGarbled
from winpool.cluster.pager import Listing
from winpool.cluster.request import Request

POOLS_PATH: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"

PAGE_LIMIT: Final = 500
"""Pools per page: what client-go and kubectl ask for."""

PAGE_BYTES: Final = 32 * 1024 * 1024
"""In memory at once. A pool has a few kB, but its annotations may have 256 KiB; where a page does not fit,
the next list asks for smaller pages."""

MOST: Final = 10_000
"""Pools of a list, twice as many as a cluster may have nodes: more select nothing. All are in memory at
once."""


class Metadata(TypedDict, total=False):
    """What is read of a pool's metadata. Annotations and managedFields are not: they have no useful limit."""

    name: str
    uid: str
    resourceVersion: str
    generation: int
    creationTimestamp: str
    deletionTimestamp: str | None
    finalizers: list[str] | None


class PoolObject(TypedDict, total=False):
    """A pool as the API server writes it, without what is not read."""

    apiVersion: str
    kind: str
    metadata: Metadata
    spec: Any
    status: Any


class _Required(msgspec.Struct, rename="camel"):
    """What the metadata of every object of the API server has."""

    name: str
    uid: str
    resource_version: str
    creation_timestamp: datetime


@dataclass(frozen=True, slots=True)
class PoolPage:
    """One page of a list."""

    pools: tuple[dict[str, Any], ...]
    resource_version: str
    continue_token: str

    @property
    def size(self) -> int:
        """How many pools are on it."""
        return len(self.pools)


_list: Final = ListReader(
    msgspec.json.Decoder(wire.ListOf[msgspec.Raw]),
    resource=PLURAL,
    kind=f"{KIND}List",
    api_version=API_VERSION,
)
_pool: Final = msgspec.json.Decoder(PoolObject)


def decode_pool_page(body: bytes | bytearray) -> PoolPage:
    """Read one page of a list of pools.

    Raises StreamGarbled for anything that is not a list of pools (see ``envelope``), and for one with an item
    that cannot be read: without that item, the list would mean that a pool is gone.
    """
    page = _list.read(body)
    pools = tuple([_read(item) for item in page.items or ()])
    return PoolPage(pools, page.metadata.resource_version, page.metadata.continue_)


def _read(item: msgspec.Raw) -> dict[str, Any]:
    try:
        pool = _pool.decode(item)
        msgspec.convert(pool.get("metadata"), _Required)
    except wire.BROKEN as error:
        raise StreamGarbled(f"list {PLURAL}: an item has no readable metadata: {error}") from None
    return dict(pool)


def _request(limit: int, token: str) -> Request:
    query = {"limit": str(limit), **({"continue": token} if token else {})}
    path = f"{POOLS_PATH}?{urlencode(query, quote_via=quote)}"
    return Request(verb="list", resource=PLURAL, path=path, reply_limit=PAGE_BYTES)


LISTING: Final = Listing(
    resource=PLURAL,
    request=_request,
    decode=decode_pool_page,
    page_limit=PAGE_LIMIT,
    page_bytes=PAGE_BYTES,
    most=MOST,
)
