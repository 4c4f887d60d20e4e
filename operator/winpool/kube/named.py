"""Lists and watches one object by its name, such as a policy, a CRD or the Lease.

It may be of any kind that has a spec and a generation. RBAC permits this by ``resourceNames``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from winpool.api.text import read_moment
from winpool.kube.lists import Kind
from winpool.kube.request import ApiServer
from winpool.kube.watch import RELIST_SECONDS, SILENCE_SECONDS, ListWatch, Source
from winpool.kube.wire import Base, ObjectMeta


@dataclass(frozen=True, slots=True)
class NamedObject:
    """An object as the API server has it.

    ``generation`` grows with each change of the spec. ``changed`` is the time of the last write to any part
    of it, None where the object does not say.
    """

    name: str
    uid: str
    resource_version: str = field(compare=False)
    generation: int
    spec: Mapping[str, Any]
    changed: datetime | None


class _ManagedFields(Base):
    time: str | None = None


class _Metadata(ObjectMeta):
    creation_timestamp: str | None = None
    managed_fields: list[_ManagedFields] | None = None


class _Object(Base):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: dict[str, Any] | None = None


_object: Final = msgspec.json.Decoder(_Object)


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

    @property
    def source(self) -> Source[NamedObject]:
        """The list and the watch that hold this object or nothing."""
        kind = Kind(
            _Object,
            _found,
            resource=self.resource,
            kind=self.kind,
            api_version=f"{self.group}/{self.version}",
        )
        listing = kind.listing(
            namespace=self.namespace,
            # RBAC permits list and watch by resourceNames only with exactly this field selector:
            # https://kubernetes.io/docs/reference/access-authn-authz/rbac/#referring-to-resources
            selectors={"fieldSelector": f"metadata.name={self.name}"},
            name=self.name,
        )
        return Source(listing=listing, decode_event=kind.event)


def decode_object(body: bytes | bytearray | msgspec.Raw) -> NamedObject:
    """Read an object. Raises what BROKEN names."""
    return _found(_object.decode(body))


def _found(item: _Object) -> NamedObject:
    metadata = item.metadata
    written = (metadata.creation_timestamp, *(each.time for each in metadata.managed_fields or ()))
    times = [moment for text in written if (moment := read_moment(text))]
    return NamedObject(
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        spec=item.spec or {},
        changed=max(times, default=None),
    )


class NamedWatch(ListWatch[NamedObject]):
    """One object, kept up to date while ``run`` runs.

    ``on_change`` is called where the object, ``synced``, ``failing`` or ``refusal`` has changed. Errors are
    not logged at the level of warnings: most concern the whole API server, and the watch of nodes logs those.
    """

    def __init__(
        self,
        transport: ApiServer,
        *,
        target: Target,
        on_change: Callable[[], None],
        monotonic: Callable[[], float],
        silence_seconds: float = SILENCE_SECONDS,
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        super().__init__(
            transport,
            target.source,
            on_change=lambda _old, _new: on_change(),
            on_state=on_change,
            monotonic=monotonic,
            silence_seconds=silence_seconds,
            relist_seconds=relist_seconds,
            level=logging.DEBUG,
        )
        self._name = target.name

    @property
    def found(self) -> NamedObject | None:
        """The object as last seen, None where there is none. Before ``synced`` it means nothing."""
        return self.objects.get(self._name)
