"""The requests about our Lease, and the JSON of a Lease into a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.keys import FIELD_MANAGER, NAMESPACE
from winpool.cluster import wire
from winpool.cluster.errors import StreamGarbled
from winpool.cluster.named import Target
from winpool.cluster.request import MERGE_PATCH, Request
from winpool.lease.terms import Record, read_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.cluster.named import NamedObject

NAME: Final = "winpool"
"""Of the Lease. It is the same for every operator of a cluster, wherever it was installed: the second one
must find it."""

TARGET: Final = Target(
    group="coordination.k8s.io",
    version="v1",
    resource="leases",
    kind="Lease",
    name=NAME,
    namespace=NAMESPACE,
)
"""For the watch by name."""

_COLLECTION: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
_BY_US: Final = f"fieldManager={FIELD_MANAGER}"


@dataclass(frozen=True, slots=True)
class Found:
    """A Lease as the API server answers it, with the version that a write of it must name."""

    record: Record
    resource_version: str


class _Metadata(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Lease(msgspec.Struct):
    metadata: _Metadata
    spec: dict[str, Any] | None = None


_lease: Final = msgspec.json.Decoder(_Lease)


def get_request() -> Request:
    """Return the request for the Lease as it is now, not as a cache has it."""
    return Request(verb="get", resource="leases", path=f"{_COLLECTION}/{NAME}", name=NAME)


def create_request(spec: Mapping[str, Any]) -> Request:
    """Return the request that creates the Lease."""
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": NAMESPACE},
        "spec": spec,
    }
    return Request(
        verb="create",
        resource="leases",
        path=f"{_COLLECTION}?{_BY_US}",
        name=NAME,
        body=msgspec.json.encode(body),
    )


def patch_request(spec: Mapping[str, Any], *, resource_version: str) -> Request:
    """Return the request that changes the Lease, if it is still as it was read.

    It is not marked as guarded, so the transport does not repeat it: the keeper decides when, since the term
    counts from before each attempt.
    """
    body = {"metadata": {"resourceVersion": resource_version}, "spec": spec}
    return Request(
        verb="patch",
        resource="leases",
        path=f"{_COLLECTION}/{NAME}?{_BY_US}",
        name=NAME,
        body=msgspec.json.encode(body),
        content_type=MERGE_PATCH,
    )


def read_lease(body: bytes | bytearray, *, label: str) -> Found:
    """Read an answer. Raises StreamGarbled for what is no object with a resourceVersion."""
    try:
        lease = _lease.decode(body)
    except wire.BROKEN as error:
        raise StreamGarbled(f"{label}: unreadable answer: {error}") from None
    if not lease.metadata.resource_version:
        raise StreamGarbled(f"{label}: the answer has no resourceVersion")
    return Found(
        read_record(lease.spec or {}, uid=lease.metadata.uid),
        resource_version=lease.metadata.resource_version,
    )


def record_in(found: NamedObject) -> Record:
    """Return the record of a Lease as a watch has brought it."""
    return read_record(found.spec, uid=found.uid)
