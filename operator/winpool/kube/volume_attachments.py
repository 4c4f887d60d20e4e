"""Lists the volumes that are attached to nodes, to know when those of a drained node are detached.

The API server selects VolumeAttachments by no field of theirs, so all of the cluster are listed. They are
written by the control plane alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from winpool.api.text import grouped
from winpool.kube.errors import StreamGarbled, TooLarge
from winpool.kube.lists import Listing, ListPage, ListReader, Pager
from winpool.kube.request import Send
from winpool.kube.wire import Base, Bounded, ListOf
from winpool.model.rollout import Attachments


class _Metadata(Base):
    name: Bounded = ""


class _Source(Base):
    persistent_volume_name: Bounded | None = None


class _Spec(Base):
    node_name: Bounded = ""
    source: _Source | None = None


class _Attachment(Base):
    """The part of storage.k8s.io/v1 VolumeAttachment that is read."""

    metadata: _Metadata
    spec: _Spec


ATTACHMENTS_PATH: Final = "/apis/storage.k8s.io/v1/volumeattachments"

MOST_KEPT: Final = 200_000
"""Of the cluster: for each of 5,000 nodes 40, which is more than most machines can attach. They take 300
bytes each."""

LIST_SECONDS: Final = 15.0
"""For the whole list. What it says counts from its begin."""

_list: Final = ListReader(
    msgspec.json.Decoder(ListOf[_Attachment]),
    resource="volumeattachments",
    kind="VolumeAttachmentList",
    api_version="storage.k8s.io/v1",
)


class Attachment(NamedTuple):
    """A VolumeAttachment: its name, its node, and its volume."""

    name: str
    node: str
    volume: str


def decode_attachments(body: bytes | bytearray) -> ListPage[Attachment]:
    """Read one page.

    Raises StreamGarbled where one cannot be read: its volume may be in use (P4).
    """
    page = _list.read(body)
    found: list[Attachment] = []
    for item in page.items or ():
        if not isinstance(item, _Attachment) or not (item.metadata.name and item.spec.node_name):
            raise StreamGarbled("list volumeattachments: one that cannot be read")
        name, source = item.metadata.name, item.spec.source or _Source()
        found.append(Attachment(name, item.spec.node_name, source.persistent_volume_name or name))
    return ListPage(tuple(found), page.metadata.resource_version, page.metadata.continue_)


ATTACHMENT_LISTING: Final = Listing(
    resource="volumeattachments", collection=ATTACHMENTS_PATH, decode=decode_attachments
)


class AttachmentLister:
    """Lists the VolumeAttachments of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, ATTACHMENT_LISTING)

    async def list(self, *, started: datetime, began: float) -> Attachments:
        """Return all of them, by a list that begins now, at ``started``. Raises ApiErrors."""
        kept: dict[str, tuple[str, str]] = {}

        def keep(page: ListPage[Attachment]) -> tuple[Attachment, ...]:
            kept.update((each.name, (each.node, each.volume)) for each in page.items)
            if len(kept) > MOST_KEPT:
                raise TooLarge(f"list volumeattachments: there are more than {MOST_KEPT}")
            return ()

        await self._pager.collect_within(LIST_SECONDS, keep)
        volumes = {node: tuple(sorted(each)) for node, each in grouped(kept.values()).items()}
        return Attachments(started, began, volumes)
