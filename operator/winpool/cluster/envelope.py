"""Reading lists: what the answer has to be before its items, or the absence of an item, count.

An empty JSON object from some proxy must not mean "there are none" (P4). Nor must a list of another kind, or
of another version of the same kind, whose fields may mean something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from winpool.cluster import wire
from winpool.cluster.errors import StreamGarbled

if TYPE_CHECKING:
    from winpool.cluster.wire import ListOf

ItemT = TypeVar("ItemT")

_raw_list: Final = msgspec.json.Decoder(wire.ListOf[msgspec.Raw])


class ListReader(Generic[ItemT]):
    """Reads pages of lists of ``resource``, which are of this kind and version."""

    def __init__(
        self,
        decoder: msgspec.json.Decoder[ListOf[ItemT]],
        *,
        resource: str,
        kind: str,
        api_version: str,
    ) -> None:
        self._decoder = decoder
        self._resource = resource
        self._kind = kind
        self._api_version = api_version

    def read(self, body: bytes | bytearray) -> ListOf[ItemT] | ListOf[msgspec.Raw]:
        """Read one page; with raw items where one cannot be read, so that the others are still read.

        Raises StreamGarbled for anything else than a list of that kind and version, with items and with a
        resourceVersion.
        """
        page: ListOf[ItemT] | ListOf[msgspec.Raw]
        try:
            page = self._decoder.decode(body)
        except wire.BROKEN:
            page = self._read_raw(body)
        self._check(page)
        return page

    def _read_raw(self, body: bytes | bytearray) -> ListOf[msgspec.Raw]:
        try:
            return _raw_list.decode(body)
        except wire.BROKEN as error:
            raise StreamGarbled(f"list {self._resource}: the answer is not a list ({error})") from None

    def _check(self, page: ListOf[Any]) -> None:
        is_right = page.kind == self._kind and page.api_version == self._api_version
        if not is_right or not page.metadata.resource_version:
            raise StreamGarbled(
                f"list {self._resource}: the answer is not a {self._kind} of {self._api_version}"
                " with a resourceVersion"
            )
