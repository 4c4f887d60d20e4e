"""Lists page by page, by the same rules for everything that is listed.

- A list is of one moment: all its pages have the same resourceVersion (meta/v1 ListMeta, ``continue``).
- It has an end: no page is requested twice, and there are no more objects than a cluster can have.
- One page is in memory at a time. Where one is too large, the next list asks for smaller ones. After a list
  that was read to its end they grow again, as far as its pages show that larger ones would fit.

The number of objects per page is the same for a whole list. The API promises to continue a list for unchanged
parameters only (meta/v1 ListOptions, ``continue``).
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from winpool.cluster.errors import Gone, StreamGarbled, TooLarge

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from winpool.cluster.request import Request

log = logging.getLogger(__name__)

LIST_ATTEMPTS: Final = 3
"""A continue token is valid for about five minutes. If one expires in a list of a few pages that is collected
as a whole, the API server was restarted in between. Three times in a row is not an accident."""

SHRINK: Final = 2
"""The factor by which pages get smaller: halves end within a factor of two of what fits. Fifths end at 4 to a
page where 19 would fit, which is almost five times as many requests."""


class Page(Protocol):
    """One page of a list."""

    @property
    def resource_version(self) -> str:
        """The resourceVersion of the list."""

    @property
    def continue_token(self) -> str:
        """The token to ask for the next page; empty on the last."""

    @property
    def size(self) -> int:
        """How many objects are on it, including those that could not be read."""


PageT = TypeVar("PageT", bound=Page)
ItemT = TypeVar("ItemT")


class PageTooLarge(TooLarge):
    """A page was larger than the limit. A new list may succeed: it asks for smaller ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(Generic[PageT]):
    """What is listed, and its limits.

    ``request`` makes the request of one page, given the number of objects and the token of the page before
    ("" for the first); ``decode`` reads its answer, or raises StreamGarbled. ``page_limit`` is in objects,
    ``page_bytes`` is what a request allows its answer, ``most`` how many objects a whole list may have.
    """

    resource: str
    request: Callable[[int, str], Request]
    decode: Callable[[bytes | bytearray], PageT]
    page_limit: int
    page_bytes: int
    most: int


@dataclass(slots=True)
class _Course:
    """The progress of a list.

    Tokens are kept as hashes. Two with the same hash end the list, which costs no more than another try.
    """

    version: str = ""
    token: str = ""
    tokens: set[int] = field(default_factory=set)
    objects: int = 0
    largest: int = 0


class Pager(Generic[PageT]):
    """Lists any number of times, and remembers how many objects fit a page.

    ``send`` sends a request to the API server and returns its answer, as ``Transport.request`` does.
    """

    def __init__(
        self, send: Callable[[Request], Awaitable[bytes | bytearray]], listing: Listing[PageT]
    ) -> None:
        self._send = send
        self._listing = listing
        self._limit = listing.page_limit

    async def show(self, take: Callable[[PageT], None]) -> str:
        """Call ``take`` with every page as it comes, and return the resourceVersion that all of them had.

        Raises ApiErrors, at any page; the pages until then are not a complete list. After PageTooLarge a new
        list may succeed. What ``take`` raises ends the list, too.
        """
        course = _Course()
        try:
            while True:
                await self._page(course, take)
                if not course.token:
                    break
        except TooLarge as error:
            raise self._shrunk(error) from None
        except Gone:
            # It may have been too slow because it had so many pages. Then it would never be complete.
            self._grow(course.largest, at_most=2)
            raise
        self._grow(course.largest)
        return course.version

    async def collect(self, items: Callable[[PageT], Iterable[ItemT]]) -> tuple[tuple[ItemT, ...], str]:
        """Return the items of all pages and their resourceVersion; complete or not at all.

        Begins again where a page was too large, and where a token has expired. Raises ApiErrors.
        """
        collected: list[ItemT] = []
        expired = 0
        while True:
            collected.clear()
            try:
                version = await self.show(lambda page: collected.extend(items(page)))
            except PageTooLarge:
                continue
            except Gone:
                expired += 1
                if expired == LIST_ATTEMPTS:
                    raise
                continue
            return tuple(collected), version

    async def _page(self, course: _Course, take: Callable[[PageT], None]) -> None:
        """Ask for the next page. When this returns, nothing but ``take`` may still have a reference to it."""
        answer = await self._send(self._listing.request(self._limit, course.token))
        course.largest = max(course.largest, len(answer))
        page = self._listing.decode(answer)
        del answer
        self._go_on(course, page)
        await asyncio.sleep(0)  # other tasks may run between decoding a page and processing it
        take(page)

    def _go_on(self, course: _Course, page: PageT) -> None:
        """Note what ``page`` says of the list. Raises StreamGarbled if it is not a page of this list."""
        label = f"list {self._listing.resource}"
        course.version = course.version or page.resource_version
        if page.resource_version != course.version:
            raise StreamGarbled(
                f"{label}: a page as of {page.resource_version} in a list as of {course.version}"
            )
        # At least one: pages may be empty (all their objects are gone by now), but not for ever.
        course.objects += max(1, page.size)
        if course.objects > self._listing.most:
            raise StreamGarbled(f"{label}: more than {self._listing.most} of them, which no cluster has")
        course.token = page.continue_token
        if course.token:
            mark = hash(course.token)
            if mark in course.tokens:
                raise StreamGarbled(f"{label}: a page that continues with one that came before")
            course.tokens.add(mark)

    def _shrunk(self, error: TooLarge) -> TooLarge:
        """Ask for smaller pages from now on, if there are any; return what to raise."""
        if self._limit == 1:
            return error
        self._limit = max(1, self._limit // SHRINK)
        log.warning("%s; winpool asks for %d %s a page now", error, self._limit, self._listing.resource)
        return PageTooLarge(error.message, status=error.status, reason=error.reason)

    def _grow(self, largest: int, *, at_most: int | None = None) -> None:
        """Ask for larger pages, after a list whose largest page had ``largest`` bytes.

        Wherever they begin, the objects of k pages in a row lie on k + 1 pages of the list that was read. So
        k times as many fit where k + 1 of its largest page do, even if large objects lie unevenly. While
        nothing changes, a list with larger pages does not exceed the limit, and no list is wasted.
        """
        most = self._listing.page_limit
        if self._limit == most or not largest:
            return
        times = self._listing.page_bytes // largest - 1
        if at_most is not None:
            times = min(times, at_most)
        if times > 1:
            self._limit = min(most, self._limit * times)
            log.info("list %s: winpool asks for %d a page again", self._listing.resource, self._limit)
