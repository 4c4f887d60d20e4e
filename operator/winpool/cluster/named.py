"""Reading one object by its name: the requests, and its JSON into the fields that are needed.

It may be of any kind that has a spec and a generation. As with nodes, what cannot be read does not count as
absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import msgspec

from winpool.api.moments import read_moment
from winpool.cluster import wire
from winpool.cluster.errors import ApiError, StreamGarbled, error_of
from winpool.cluster.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

_DEFAULT_ERROR_STATUS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which object: ``group``, ``version`` and ``resource`` as in its URL, its ``kind`` and its ``name``.

    ``namespace`` is empty for an object in none.
    """

    group: str
    version: str
    resource: str
    kind: str
    name: str
    namespace: str = ""

    def list_request(self) -> Request:
        """Return the request of the list that holds this object or nothing."""
        return self._request("list", {})

    def watch_request(self, *, position: str, seconds: float) -> Request:
        """Return the request of a watch of it from ``position`` on, which ends after ``seconds``."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": position,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        return self._request("watch", query)

    @property
    def list_kind(self) -> str:
        """The kind of the answer to ``list_request``."""
        return f"{self.kind}List"

    def _request(self, verb: str, more: Mapping[str, str]) -> Request:
        # RBAC permits list and watch by resourceNames only with exactly this field selector:
        # https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
        query = {"fieldSelector": f"metadata.name={self.name}", **more}
        inside = f"namespaces/{self.namespace}/" if self.namespace else ""
        collection = f"/apis/{self.group}/{self.version}/{inside}{self.resource}"
        path = f"{collection}?{urlencode(query, quote_via=quote)}"
        return Request(
            verb=verb,
            resource=self.resource,
            path=path,
            name=self.name,
        )


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object as the API server has it.

    ``generation`` grows with each change of the spec. ``changed`` is the time of the last write to any part
    of it, None where the object does not say.
    """

    uid: str
    generation: int
    spec: Mapping[str, Any]
    changed: datetime | None


@dataclass(frozen=True, slots=True)
class Listed:
    """A list by name: the object, None where there is none, and where to watch from."""

    found: NamedObject | None
    resource_version: str


@dataclass(frozen=True, slots=True)
class NamedEvent:
    """A line of a watch. ``says``: whether it is about the object, whose present state is ``found``."""

    resource_version: str = ""
    says: bool = False
    found: NamedObject | None = None
    error: ApiError | None = None


class _Base(msgspec.Struct, rename="camel"):
    """Names as in JSON."""


class _ManagedFields(_Base):
    time: str | None = None


class _Metadata(_Base):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    managed_fields: list[_ManagedFields] | None = None


class _Object(_Base):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: dict[str, Any] | None = None
    code: int | None = None


class _List(_Base):
    kind: str
    metadata: wire.ListMetadata
    items: list[_Object] | None
    """None is an empty list, as Go may write it."""


class _Event(_Base):
    type: str
    object: _Object


_list: Final = msgspec.json.Decoder(_List)
_event: Final = msgspec.json.Decoder(_Event)


def decode_list(body: bytes | bytearray, *, target: Target) -> Listed:
    """Read the answer to ``list_request``. Raises StreamGarbled for anything that is not such a list."""
    request = f"list {target.resource}"
    try:
        listed = _list.decode(body)
    except wire.BROKEN as error:
        raise StreamGarbled(f"{request}: unreadable answer: {error}") from None
    if listed.kind != target.list_kind or not listed.metadata.resource_version:
        raise StreamGarbled(f"{request}: the answer is not a {target.list_kind} with a resourceVersion")
    named = [item for item in listed.items or () if item.metadata.name == target.name]
    return Listed(_found(named[0]) if named else None, listed.metadata.resource_version)


def decode_event(line: bytes, *, target: Target) -> NamedEvent:
    """Read one line of a watch. Raises StreamGarbled."""
    try:
        event = _event.decode(line)
    except wire.BROKEN as error:
        raise StreamGarbled(f"watch {target.resource}: unreadable line: {error}") from None
    metadata = event.object.metadata
    match event.type:
        case "ERROR":
            status = event.object.code or _DEFAULT_ERROR_STATUS
            body = bytes(wire.raw_event.decode(line).object)
            return NamedEvent(error=error_of(status=status, body=body, request=f"watch {target.resource}"))
        case "ADDED" | "MODIFIED" if metadata.name == target.name:
            return NamedEvent(metadata.resource_version, says=True, found=_found(event.object))
        case "DELETED" if metadata.name == target.name:
            return NamedEvent(metadata.resource_version, says=True)
        case _:  # BOOKMARK, and types that a later Kubernetes may add
            return NamedEvent(metadata.resource_version)


def _found(item: _Object) -> NamedObject:
    metadata = item.metadata
    written = (metadata.creation_timestamp, *(each.time for each in metadata.managed_fields or ()))
    times = [moment for text in written if (moment := read_moment(text))]
    return NamedObject(
        uid=metadata.uid,
        generation=metadata.generation,
        spec=item.spec or {},
        changed=max(times, default=None),
    )
