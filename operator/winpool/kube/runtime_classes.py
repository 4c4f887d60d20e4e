"""Lists the RuntimeClasses, to know which nodes may take the pods that replace those of a drained node."""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.kube import wire
from winpool.kube.errors import StreamGarbled
from winpool.kube.lists import Listing, ListPage, ListReader, Pager
from winpool.kube.pods import placement_of
from winpool.kube.request import Send
from winpool.kube.wire import BROKEN, Base, Bounded, ListOf
from winpool.model.runtime_classes import RuntimeClass, RuntimeClasses


class _Metadata(Base):
    name: Bounded = ""


class _RuntimeClass(Base):
    """The part of node.k8s.io/v1 RuntimeClass that is read.

    ``scheduling`` has ``nodeSelector`` and ``tolerations`` as the spec of a pod has them.
    """

    metadata: _Metadata
    scheduling: wire.PodSpec | None = None


RUNTIME_CLASSES_PATH: Final = "/apis/node.k8s.io/v1/runtimeclasses"

LIST_SECONDS: Final = 10.0
"""For the whole list. Clusters have a handful, and a pass over all pods ends with it."""

_list: Final = ListReader(
    msgspec.json.Decoder(ListOf[_RuntimeClass]),
    resource="runtimeclasses",
    kind="RuntimeClassList",
    api_version="node.k8s.io/v1",
)


def decode_runtime_classes(body: bytes | bytearray) -> ListPage[tuple[str, RuntimeClass | None]]:
    """Read one page, each with its name. Raises StreamGarbled where one cannot be read."""
    page = _list.read(body)
    found: list[tuple[str, RuntimeClass | None]] = []
    for item in page.items or ():
        if not isinstance(item, _RuntimeClass) or not item.metadata.name:
            raise StreamGarbled("list runtimeclasses: one that cannot be read")
        found.append((item.metadata.name, _runtime_class(item)))
    return ListPage(tuple(found), page.metadata.resource_version, page.metadata.continue_)


def _runtime_class(item: _RuntimeClass) -> RuntimeClass | None:
    try:
        placement = placement_of(item.scheduling or wire.PodSpec())
    except BROKEN as error:
        raise StreamGarbled(f"list runtimeclasses: {item.metadata.name}: {error}") from None
    return RuntimeClass(*placement) if placement else None


RUNTIME_CLASS_LISTING: Final = Listing(
    resource="runtimeclasses", collection=RUNTIME_CLASSES_PATH, decode=decode_runtime_classes
)


class RuntimeClassLister:
    """Lists the RuntimeClasses of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, RUNTIME_CLASS_LISTING)

    async def list(self) -> RuntimeClasses:
        """Return all of them within LIST_SECONDS. Raises ApiErrors."""
        found, _ = await self._pager.collect_within(LIST_SECONDS, lambda page: page.items)
        return dict(found)
