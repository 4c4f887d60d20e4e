"""Lists objects page by page, and reads lists and watches, by the same rules for every kind.

An answer counts only if it is a list of the right kind and version, with items: an empty JSON object from
some proxy must not mean that there are none (P4). One page is in memory at a time (P7).
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from winpool.kube.errors import ApiError, Gone, StreamGarbled, TooLarge, Unavailable, event_error
from winpool.kube.request import REPLY_LIMIT, Request, Send
from winpool.kube.wire import BROKEN, ListOf, identified_object, raw_event

ItemT = TypeVar("ItemT")
ObjectT = TypeVar("ObjectT")

log = logging.getLogger(__name__)

LIST_ATTEMPTS: Final = 3
"""A continue token is valid for about five minutes. If one expires in a list of a few pages that is collected
as a whole, the API server was restarted in between. Three times in a row is not an accident."""

RESIZE: Final = 2
"""The factor by which pages get smaller and larger: halves end within a factor of two of what fits. Fifths
end at 4 to a page where 19 would fit, which is almost five times as many requests."""

OBJECTS_A_PAGE: Final = 500
"""What client-go and kubectl ask for. Decoding a page of nodes takes about 4 ms, in which the event loop does
nothing else."""


class Page(Protocol):
    """One page of a list."""

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the list."""

    @property
    def continue_token(self) -> str:
        """The token to ask for the next page; empty on the last."""


PageT = TypeVar("PageT", bound=Page)


class UnreadableObjectError(ValueError):
    """An object that cannot be read. ``name`` is empty where even the name cannot be read."""

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(f"{kind} {name or 'without a readable name'}: {problem}")
        self.name = name


class ListPage(msgspec.Struct, Generic[ItemT], frozen=True):
    """One page of a list of objects. ``unreadable`` are those on it that could not be read."""

    items: tuple[ItemT, ...]
    resource_version: str
    continue_token: str = ""
    unreadable: tuple[UnreadableObjectError, ...] = ()


class PageTooLarge(TooLarge):
    """A page was larger than the limit. A new list may succeed: it asks for smaller ones."""


class Listing(msgspec.Struct, Generic[PageT], frozen=True, kw_only=True):
    """Which objects are listed and watched, and the limits of a page.

    ``collection`` is their path, of which ``selectors`` select some, and ``name`` is for messages. ``decode``
    reads a page, or raises StreamGarbled. ``page_limit`` is in objects, ``page_bytes`` is what a request
    allows its answer.
    """

    resource: str
    collection: str
    decode: Callable[[bytes | bytearray], PageT]
    selectors: Mapping[str, str] = msgspec.field(default_factory=dict)
    name: str = ""
    page_limit: int = OBJECTS_A_PAGE
    page_bytes: int = REPLY_LIMIT

    def list_request(self, limit: int = OBJECTS_A_PAGE, token: str = "") -> Request:
        """Return the request of a page of ``limit`` objects; ``token`` is that of the page before."""
        return self._request("list", {"limit": str(limit), **({"continue": token} if token else {})})

    def watch_request(self, position: str, seconds: float) -> Request:
        """Return the request of a watch from ``position`` on, which the API server ends after ``seconds``."""
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": position,
            "timeoutSeconds": str(max(1, int(seconds))),
        }
        return self._request("watch", query)

    def _request(self, verb: str, query: Mapping[str, str]) -> Request:
        path = f"{self.collection}?{urlencode({**self.selectors, **query}, quote_via=quote)}"
        return Request(
            verb=verb, resource=self.resource, name=self.name, path=path, reply_limit=self.page_bytes
        )


class Pager(Generic[PageT]):
    """Lists any number of times, and remembers how many objects fit a page.

    That number is the same for a whole list: the API promises to continue a list for unchanged parameters
    only (meta/v1 ListOptions, ``continue``).
    """

    def __init__(self, send: Send, listing: Listing[PageT]) -> None:
        self._send = send
        self._listing = listing
        self._limit = listing.page_limit

    async def show(self, take: Callable[[PageT], Iterable[None] | None]) -> str:
        """Call ``take`` with every page as it comes, and return the resourceVersion of the list.

        Where ``take`` yields, other tasks run before it continues with the page.

        Raises ApiErrors, at any page; the pages until then are not a complete list. After PageTooLarge a new
        list may succeed. What ``take`` raises ends the list, too.
        """
        version, token, largest = "", "", 0
        try:
            while True:
                listed, token, size = await self._page(token, take)
                version, largest = version or listed, max(largest, size)
                if not token:
                    break
        except TooLarge as error:
            raise self._shrunk(error) from None
        except Gone:
            # It may have been too slow because it had so many pages. Then it would never be complete.
            self._grow(largest)
            raise
        self._grow(largest)
        return version

    async def collect(
        self, items: Callable[[PageT], Iterable[ItemT]], *, begin: Callable[[], object] = tuple
    ) -> tuple[tuple[ItemT, ...], str]:
        """Return the items of all pages and their resourceVersion; complete or not at all.

        Begins again where a page was too large, and where a token has expired; ``begin`` is called each time
        before the first page. Raises ApiErrors.
        """
        collected: list[ItemT] = []
        expired = 0
        while True:
            collected.clear()
            begin()
            try:
                version = await self.show(lambda page: collected.extend(items(page)))
            except PageTooLarge:
                continue
            except Gone:
                expired += 1
                if expired == LIST_ATTEMPTS:
                    raise
            else:
                return tuple(collected), version

    async def collect_within(
        self, seconds: float, items: Callable[[PageT], Iterable[ItemT]]
    ) -> tuple[tuple[ItemT, ...], str]:
        """Return the same within so many seconds. Raises Unavailable where it takes longer."""
        try:
            async with asyncio.timeout(seconds):
                return await self.collect(items)
        except TimeoutError:
            said = f"list {self._listing.resource}: not all of them within {seconds:g} s"
            raise Unavailable(said, reason="Timeout") from None

    async def _page(self, token: str, take: Callable[[PageT], Iterable[None] | None]) -> tuple[str, str, int]:
        """Take a page; return the version of the list, the token of the next page, and the bytes of this one.

        When this returns, nothing but ``take`` may still have a reference to it.
        """
        answer = await self._send(self._listing.list_request(self._limit, token))
        size = len(answer)
        page = self._listing.decode(answer)
        del answer
        await asyncio.sleep(0)  # other tasks may run between decoding a page and processing it
        for _ in take(page) or ():
            await asyncio.sleep(0)
        return page.resource_version, page.continue_token, size

    def _shrunk(self, error: TooLarge) -> TooLarge:
        """Ask for smaller pages from now on, if there are any; return what to raise."""
        if self._limit == 1:
            return error
        self._limit = max(1, self._limit // RESIZE)
        log.warning("%s; winpool asks for %d %s a page now", error, self._limit, self._listing.resource)
        return PageTooLarge(error.message, status=error.status, reason=error.reason)

    def _grow(self, largest: int) -> None:
        """Ask for larger pages again where the largest of a list, of that many bytes, leaves the room.

        The objects of two pages in a row may lie on three pages of this list.
        """
        most = self._listing.page_limit
        if self._limit < most and 0 < largest * (RESIZE + 1) <= self._listing.page_bytes:
            self._limit = min(most, self._limit * RESIZE)
            log.info("list %s: winpool asks for %d a page again", self._listing.resource, self._limit)


class NamespaceStore(Generic[ItemT]):
    """Keeps the objects of a list by their namespaces, in bounded memory; ``size_of`` returns bytes.

    Of a namespace with more than ``most_of_namespace`` bytes none is kept. Where all together have more than
    ``most``, the namespaces with the most are left out until so many bytes are ``free`` that it is not done
    again for each page: a cluster may have very many namespaces. So no one can have those of others left out.
    """

    def __init__(
        self, size_of: Callable[[ItemT], int], *, most: int, free: int, most_of_namespace: float = math.inf
    ) -> None:
        self.left_out: dict[str, str] = {}
        """The namespaces that are left out, each with the key of one of its objects."""
        self._size_of = size_of
        self._most = most
        self._free = free
        self._most_of_namespace = most_of_namespace
        self._found: dict[str, dict[str, ItemT]] = {}
        self._sizes: Counter[str] = Counter()
        self._size = 0

    def keep(self, namespace: str, key: str, item: ItemT) -> None:
        """Keep an object. One that comes again, in a list that begins again, replaces what it was."""
        if namespace in self.left_out:
            return
        own = self._found.setdefault(namespace, {})
        before = own.get(key)
        added = self._size_of(item) - (0 if before is None else self._size_of(before))
        own[key] = item
        self._sizes[namespace] += added
        self._size += added
        if self._sizes[namespace] > self._most_of_namespace:
            self._leave_out(namespace)
        if self._size > self._most:
            for largest, _ in self._sizes.most_common():
                if self._size <= self._most - self._free:
                    break
                self._leave_out(largest)

    def _leave_out(self, namespace: str) -> None:
        self.left_out[namespace] = next(iter(self._found.pop(namespace)))
        self._size -= self._sizes.pop(namespace)

    def items(self) -> Iterator[tuple[str, ItemT]]:
        """Yield what is kept, each with its key."""
        return (each for own in self._found.values() for each in own.items())


class WatchEvent(msgspec.Struct, Generic[ItemT], frozen=True):
    """One line of a watch: its type as the server wrote it, and its object.

    ``object`` is set for ADDED, MODIFIED and DELETED, ``error`` for ERROR. Of an object that could not be
    read but was deleted, only the identity is true. ``resource_version`` is the position of the stream, empty
    where the line does not say.
    """

    type: str
    resource_version: str = ""
    object: ItemT | None = None
    error: ApiError | None = None


CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
"""The types of events that have an object. The others are BOOKMARK, and what a later Kubernetes may add."""

_raw_list: Final = msgspec.json.Decoder(ListOf[msgspec.Raw])


@dataclass(eq=False)
class Kind(Generic[ObjectT, ItemT]):
    """Reads lists and watches of the objects of one kind: of each what ``shape`` declares.

    ``keep`` makes of that what is kept, None where the object is left out. It raises ValueError, or what
    BROKEN names, for one that cannot be read.
    """

    shape: type[ObjectT]
    keep: Callable[[ObjectT], ItemT | None]
    _: KW_ONLY
    resource: str
    kind: str
    api_version: str

    def __post_init__(self) -> None:
        """Make the decoders of an object and of a page."""
        self._one = msgspec.json.Decoder(self.shape)
        self._list = msgspec.json.Decoder(ListOf[self.shape])  # type: ignore[name-defined]

    @property
    def listing(self) -> Listing[ListPage[ItemT]]:
        """The listing of all objects of the kind, with the usual limits."""
        root = "apis" if "/" in self.api_version else "api"
        collection = f"/{root}/{self.api_version}/{self.resource}"
        return Listing(resource=self.resource, collection=collection, decode=self.page)

    def read(self, body: bytes | bytearray) -> ListOf[ObjectT] | ListOf[msgspec.Raw]:
        """Read one page; with raw items where one cannot be read, so that the others are still read.

        Raises StreamGarbled for anything else than a list of that kind and version, with items and with a
        resourceVersion.
        """
        page: ListOf[ObjectT] | ListOf[msgspec.Raw]
        try:
            page = self._list.decode(body)
        except BROKEN:
            page = self._read_raw(body)
        kind = f"{self.kind}List"
        is_right = page.kind == kind and page.api_version == self.api_version
        if not is_right or not page.metadata.resource_version:
            raise StreamGarbled(
                f"list {self.resource}: the answer is not a {kind} of {self.api_version}"
                " with a resourceVersion"
            )
        return page

    def _read_raw(self, body: bytes | bytearray) -> ListOf[msgspec.Raw]:
        try:
            return _raw_list.decode(body)
        except BROKEN as error:
            raise StreamGarbled(f"list {self.resource}: the answer is not a list ({error})") from None

    def page(self, body: bytes | bytearray) -> ListPage[ItemT]:
        """Read one page.

        Raises StreamGarbled also where an object on it cannot be read: what it has is not known (P4).
        """
        page = self.read(body)
        try:
            found = [self.keep(self._decoded(item)) for item in page.items or ()]
        except (*BROKEN, ValueError) as error:
            raise StreamGarbled(f"list {self.resource}: one that cannot be read ({error})") from None
        kept = tuple([each for each in found if each is not None])
        return ListPage(kept, page.metadata.resource_version, page.metadata.continue_)

    def _decoded(self, item: ObjectT | msgspec.Raw) -> ObjectT:
        return self._one.decode(item) if isinstance(item, msgspec.Raw) else item

    def event(self, line: bytes) -> WatchEvent[ItemT]:
        """Read one line of a watch. Raises StreamGarbled, also where its object cannot be read."""
        try:
            event = raw_event.decode(line)
            if event.type == "ERROR":
                error = event_error(event.object, request=f"watch {self.resource}")
                return WatchEvent(event.type, error=error)
            version = identified_object.decode(event.object).metadata.resource_version
            found = self.keep(self._one.decode(event.object)) if event.type in CHANGES else None
        except (*BROKEN, ValueError) as fault:
            raise StreamGarbled(f"watch {self.resource}: unreadable line: {fault}") from None
        return WatchEvent(event.type, version, found)
