"""A list and a watch, for ever: how the simulator keeps up with what stands on the API server."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import msgspec

from testbed.winsim.clock import Backoff
from testbed.winsim.identities import SIMULATOR
from testbed.winsim.wire import ApiError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from testbed.winsim.clock import Clock
    from testbed.winsim.troubles import Troubles
    from testbed.winsim.wire import Wire

_PAGE: Final = 500
# client-go ends its watches after five to ten minutes; the server's clock, not ours, decides.
_WATCH_SECONDS: Final = 300


class _Metadata(Protocol):
    @property
    def resource_version(self) -> str: ...


class Watchable(Protocol):
    """An object with a version."""

    @property
    def metadata(self) -> _Metadata:
        """Where the version is."""


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_token: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw] = []


class _Bookmark(msgspec.Struct):
    metadata: _ListMetadata


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_PAGE_DECODER: Final = msgspec.json.Decoder(_Page)
_EVENT: Final = msgspec.json.Decoder(_Event)
_BOOKMARK: Final = msgspec.json.Decoder(_Bookmark)
Thing = TypeVar("Thing", bound=Watchable)


class Reflector(Generic[Thing]):
    """Tells of every object of a resource: all of them once, then each change.

    Args of the constructor besides the shared ones: ``path`` and ``query`` choose what is listed and
    watched; ``kind`` is what an object is decoded to; ``replace`` is told the whole list, ``change`` one
    object and whether it is gone.

    """

    def __init__(
        self,
        wire: Wire,
        *,
        path: str,
        kind: type[Thing],
        query: Mapping[str, str] | None = None,
        clock: Clock,
        random: Random,
        troubles: Troubles,
        replace: Callable[[list[Thing]], None],
        change: Callable[[Thing, bool], None],
    ) -> None:
        self._wire = wire
        self._path = path
        self._query = dict(query or {})
        self._decoder = msgspec.json.Decoder(kind)
        self._clock = clock
        self._random = random
        self._troubles = troubles
        self._replace = replace
        self._change = change

    async def run(self) -> None:
        """List and watch for ever; after any failure list anew, with growing pauses."""
        backoff = Backoff(random=self._random)
        while True:
            try:
                found, version = await list_all(
                    self._wire, path=self._path, decoder=self._decoder, query=self._query
                )
                self._replace(found)
                del found  # thousands of objects, for as long as the watch lasts
                backoff = Backoff(random=self._random)
                await self._follow(version)
            except UnreachableError:
                pass
            except ApiError as error:
                self._troubles.report(SIMULATOR.user, f"watching {self._path.rpartition('/')[2]}", error)
            else:
                continue
            await self._clock.sleep(backoff.next())

    async def _follow(self, version: str) -> None:
        """Watch from a version on, again and again, until the server no longer knows it."""
        while True:
            query = {
                **self._query,
                "watch": "1",
                "allowWatchBookmarks": "true",
                "resourceVersion": version,
                "timeoutSeconds": str(_WATCH_SECONDS),
            }
            async with aclosing(self._wire.stream(self._path, identity=SIMULATOR, query=query)) as lines:
                async for line in lines:
                    event = _EVENT.decode(line)
                    if event.type == "ERROR":
                        return
                    if event.type == "BOOKMARK":
                        version = bookmark_version(event.object)
                        continue
                    thing = self._decoder.decode(event.object)
                    version = thing.metadata.resource_version
                    self._change(thing, event.type == "DELETED")


def bookmark_version(content: bytes | msgspec.Raw) -> str:
    """Return the version that a bookmark tells; nothing else in it means anything, and lists are null."""
    return _BOOKMARK.decode(content).metadata.resource_version


async def list_all(
    wire: Wire,
    *,
    path: str,
    decoder: msgspec.json.Decoder[Thing],
    query: Mapping[str, str] | None = None,
) -> tuple[list[Thing], str]:
    """List a resource, page by page; return the objects and the version of the list.

    Raises:
        UnreachableError: no answer.
        ApiError: the list was refused, or took so long that its version is forgotten.

    """
    found: list[Thing] = []
    asked = {**(query or {}), "limit": str(_PAGE)}
    while True:
        page = _PAGE_DECODER.decode(await wire.request("GET", path, identity=SIMULATOR, query=asked))
        found.extend(decoder.decode(item) for item in page.items)
        if not page.metadata.continue_token:
            return found, page.metadata.resource_version
        asked["continue"] = page.metadata.continue_token
