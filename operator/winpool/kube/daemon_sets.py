"""Lists the DaemonSets that are made for Windows nodes, to find those whose pods a taint keeps away.

No pod shows that. For a node with a taint that a DaemonSet does not tolerate it creates none, so the agent
is missing without a word (https://github.com/rancher/rancher/issues/22857). A DaemonSet without a label or a
field that names Windows is left out: most such are made for Linux, and a taint is there to keep them away.
"""

from __future__ import annotations

from typing import Final

import msgspec

from winpool.api.keys import OS_LABEL, OS_WINDOWS
from winpool.kube import wire
from winpool.kube.lists import Listing, ListPage, ListReader, Pager
from winpool.kube.pods import placement_of
from winpool.kube.request import Send
from winpool.kube.wire import BROKEN, Base, Bounded, ListOf
from winpool.model.pods import DaemonSet
from winpool.model.survey import daemon_set_place


class _Metadata(Base):
    namespace: Bounded = ""
    name: Bounded = ""
    deletion_timestamp: str | None = None


class _Template(Base):
    spec: wire.PodSpec


class _Spec(Base):
    template: _Template


class _DaemonSet(Base):
    """The part of apps/v1 DaemonSet that is read."""

    metadata: _Metadata
    spec: _Spec


DAEMON_SETS_PATH: Final = "/apis/apps/v1/daemonsets"
PAGE_BYTES: Final = 8 * 1024 * 1024
"""A DaemonSet has 5 to 20 kB."""

MOST_KEPT: Final = 128
"""DaemonSets for Windows nodes, those of kube-system first. Clusters have about ten. Each is compared with
every node, so that anyone who may create DaemonSets could otherwise hold up the operator."""

LIST_SECONDS: Final = 10.0
"""For the whole list. The surveys of the pods that are listed meanwhile wait for it, and permit nothing after
a minute (``model.evidence``)."""

_list: Final = ListReader(
    msgspec.json.Decoder(ListOf[_DaemonSet]),
    resource="daemonsets",
    kind="DaemonSetList",
    api_version="apps/v1",
)
_one: Final = msgspec.json.Decoder(_DaemonSet)


def decode_daemon_sets(body: bytes | bytearray) -> ListPage[DaemonSet]:
    """Read those on a page that are made for Windows nodes. One that cannot be read is left out.

    Raises StreamGarbled for what is no list of DaemonSets.
    """
    page = _list.read(body)
    found = (_daemon_set(item) for item in page.items or ())
    kept = tuple(each for each in found if each is not None)
    return ListPage(kept, page.metadata.resource_version, page.metadata.continue_)


def _daemon_set(item: _DaemonSet | msgspec.Raw) -> DaemonSet | None:
    try:
        found = item if isinstance(item, _DaemonSet) else _one.decode(item)
        placement = placement_of(found.spec.template.spec)
    except BROKEN:
        return None
    metadata, os = found.metadata, found.spec.template.spec.os
    if placement is None or metadata.deletion_timestamp is not None:
        return None
    labels, tolerations = placement
    if any(each.operator == "Exists" and not each.key and not each.effect for each in tolerations):
        return None  # it tolerates all, as most agents do
    if (OS_LABEL, OS_WINDOWS) not in labels and (os is None or os.name != OS_WINDOWS):
        return None
    return DaemonSet(f"{metadata.namespace}/{metadata.name}", labels, tolerations)


DAEMON_SET_LISTING: Final = Listing(
    resource="daemonsets",
    collection=DAEMON_SETS_PATH,
    decode=decode_daemon_sets,
    page_bytes=PAGE_BYTES,
)


class DaemonSetLister:
    """Lists the DaemonSets of the cluster."""

    def __init__(self, send: Send) -> None:
        self._pager = Pager(send, DAEMON_SET_LISTING)

    async def list(self) -> tuple[DaemonSet, ...]:
        """Return those made for Windows nodes, MOST_KEPT at most. Raises ApiErrors."""
        kept: dict[str, DaemonSet] = {}

        def keep(page: ListPage[DaemonSet]) -> tuple[DaemonSet, ...]:
            kept.update((each.name, each) for each in page.items)
            for name in sorted(kept, key=daemon_set_place)[MOST_KEPT:]:
                del kept[name]
            return ()

        await self._pager.collect_within(LIST_SECONDS, keep)
        return tuple(kept.values())
