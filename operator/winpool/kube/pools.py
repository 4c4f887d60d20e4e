"""Lists WindowsNodePools with only the needed fields of each, and watches their CRD.

The watch of pools belongs to Kopf, and ends without a notice to us where the CRD is deleted; the next list
of pools may come five minutes later. The CRD is listed at the start only: what its watch misses, the list of
pools shows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final, TypedDict

import msgspec
from msgspec.structs import replace

from winpool.api.crd import FieldPath, lacking_fields, name_of
from winpool.api.keys import API_VERSION, APPLY_CRD, CRD_NAME, GROUP, KIND, PLURAL, VERSION
from winpool.kube.errors import StreamGarbled
from winpool.kube.lists import Kind
from winpool.kube.request import ApiServer
from winpool.kube.watch import NamedObject, NamedWatch, Target
from winpool.kube.wire import BROKEN

POOLS_PATH: Final = f"/apis/{GROUP}/{VERSION}/{PLURAL}"

PAGE_LIMIT: Final = 50
"""Pools on a page: those of nearly every cluster. One has a few kB, and up to 70 kB by its selector alone."""

PAGE_BYTES: Final = 32 * 1024 * 1024
"""In memory at once. The annotations of a pool may have 256 KiB; where a page does not fit, the next list
asks for smaller pages."""


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


_pool: Final = msgspec.json.Decoder(PoolObject)


def _read(item: msgspec.Raw) -> dict[str, Any]:
    """Read a pool. Raises StreamGarbled: without that item, the list would mean that the pool is gone."""
    try:
        pool = _pool.decode(item)
        msgspec.convert(pool.get("metadata"), _Required)
    except BROKEN as error:
        raise StreamGarbled(f"list {PLURAL}: an item has no readable metadata: {error}") from None
    return dict(pool)


_POOLS: Final = Kind(msgspec.Raw, _read, resource=PLURAL, kind=KIND, api_version=API_VERSION)

LISTING: Final = replace(_POOLS.listing, page_limit=PAGE_LIMIT, page_bytes=PAGE_BYTES)


log = logging.getLogger(__name__)

NOT_INSTALLED: Final = f"the CRD {CRD_NAME} is not installed. {APPLY_CRD}"

OLDER: Final = f"the CRD {CRD_NAME} is older than this operator: it lacks"

_CRD: Final = Target(
    group="apiextensions.k8s.io",
    version="v1",
    resource="customresourcedefinitions",
    kind="CustomResourceDefinition",
    name=CRD_NAME,
)


class PoolKind:
    """What is known of the CRD while ``run`` runs.

    ``lacking_fields`` are the fields of spec and status that this operator knows and the CRD lacks, since it
    is older. It is None until the CRD was read, or the first try to read it has failed.

    ``on_change`` is called, synchronously, when the CRD was changed, created or deleted; not for its state at
    the start. ``on_fields`` is called, synchronously, when ``lacking_fields`` has changed. Both must not
    block and must not raise. Without the right to watch the CRD, nothing is known of it.
    """

    def __init__(
        self,
        transport: ApiServer,
        *,
        on_change: Callable[[], None],
        on_fields: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self.lacking_fields: tuple[FieldPath, ...] | None = None
        self._on_change = on_change
        self._on_fields = on_fields
        self._watch = NamedWatch(
            transport, target=_CRD, on_change=self._look, monotonic=monotonic, relist_seconds=float("inf")
        )
        self._is_seen = False
        self._found: NamedObject | None = None

    @property
    def is_missing(self) -> bool:
        """Whether there is no such CRD, as last seen; False where it cannot be read."""
        return self._is_seen and self._found is None and self._watch.refusal is None

    async def run(self) -> None:
        """Watch until cancelled. Survives everything that the API server may answer."""
        await self._watch.run()

    def _look(self) -> None:
        found = self._watch.found
        if found is not None and (found != self._found or self.lacking_fields is None):
            self._compare(found)
        elif found is None and (self._watch.synced or self._watch.failing is not None):
            self._set_lacking(())
        if not self._watch.synced:
            return
        is_news = self._is_seen and found != self._found
        self._is_seen, self._found = True, found
        if is_news:
            self._on_change()

    def _compare(self, found: NamedObject) -> None:
        lacking = lacking_fields(found.spec)
        is_news = lacking != (self.lacking_fields or ())
        if is_news and lacking:
            log.warning(
                f"{OLDER} %s; no spec can set these fields, and the status of pools is written without "
                f"them. {APPLY_CRD}",
                ", ".join(map(name_of, lacking)),
            )
        elif is_news:
            log.info("the CRD %s has all fields of this operator", CRD_NAME)
        self._set_lacking(lacking)

    def _set_lacking(self, lacking: tuple[FieldPath, ...]) -> None:
        is_news = lacking != self.lacking_fields
        self.lacking_fields = lacking
        if is_news:
            self._on_fields()
