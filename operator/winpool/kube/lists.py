"""Lists objects page by page, by the same rules for everything that is listed.

An answer counts only if it is a list of the right kind and version, with items: an empty JSON object from
some proxy must not mean that there are none (P4). One page is in memory at a time (P7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Final, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from winpool.kube.errors import Gone, StreamGarbled, TooLarge, Unavailable
from winpool.kube.request import REPLY_LIMIT, Request, Send
from winpool.kube.wire import BROKEN, ListOf

ItemT = TypeVar("ItemT")

log = logging.getLogger(__name__)

_raw_list: Final = msgspec.json.Decoder(ListOf[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class ListReader(Generic[ItemT]):
    """Reads pages of lists of ``resource``, which are of this kind and version."""

    decoder: msgspec.json.Decoder[ListOf[ItemT]]
    _: KW_ONLY
    resource: str
    kind: str
    api_version: str

    def read(self, body: bytes | bytearray) -> ListOf[ItemT] | ListOf[msgspec.Raw]:
        """Read one page; with raw items where one cannot be read, so that the others are still read.

        Raises StreamGarbled for anything else than a list of that kind and version, with items and with a
        resourceVersion.
        """
        page: ListOf[ItemT] | ListOf[msgspec.Raw]
        try:
            page = self.decoder.decode(body)
        except BROKEN:
            page = self._read_raw(body)
        is_right = page.kind == self.kind and page.api_version == self.api_version
        if not is_right or not page.metadata.resource_version:
            raise StreamGarbled(
                f"list {self.resource}: the answer is not a {self.kind} of {self.api_version}"
                " with a resourceVersion"
            )
        return page

    def _read_raw(self, body: bytes | bytearray) -> ListOf[msgspec.Raw]:
        try:
            return _raw_list.decode(body)
        except BROKEN as error:
            raise StreamGarbled(f"list {self.resource}: the answer is not a list ({error})") from None


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


@dataclass(frozen=True, slots=True)
class ListPage(Generic[ItemT]):
    """One page of a list of objects. ``unreadable`` are those on it that could not be read."""

    items: tuple[ItemT, ...]
    resource_version: str
    continue_token: str = ""
    unreadable: tuple[UnreadableObjectError, ...] = ()


class PageTooLarge(TooLarge):
    """A page was larger than the limit. A new list may succeed: it asks for smaller ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[PageT]):
    """Which objects are listed and watched, and the limits of a page.

    ``collection`` is their path, of which ``selectors`` select some, and ``name`` is for messages. ``decode``
    reads a page, or raises StreamGarbled. ``page_limit`` is in objects, ``page_bytes`` is what a request
    allows its answer.
    """

    resource: str
    collection: str
    decode: Callable[[bytes | bytearray], PageT]
    selectors: Mapping[str, str] = field(default_factory=dict)
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
