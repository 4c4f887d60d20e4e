"""Reads lists page by page, and single objects by their name, by the same rules for everything that is read.

Reading lists: what the answer has to be before its items, or the absence of an item, count.

An empty JSON object from some proxy must not mean "there are none" (P4). Nor must a list of another kind, or
of another version of the same kind, whose fields may mean something else.

Lists that are older than what was seen before: from a stale cache, or after a restore of etcd.

Lists page by page, by the same rules for everything that is listed.

- A list is of one moment: all its pages have the same resourceVersion (meta/v1 ListMeta, ``continue``).
- It has an end: no page is requested twice, and there are no more objects than a cluster can have.
- One page is in memory at a time. Where one is too large, the next list asks for smaller ones. After a list
  that was read to its end they grow again, as far as its pages show that larger ones would fit.

The number of objects per page is the same for a whole list. The API promises to continue a list for unchanged
parameters only (meta/v1 ListOptions, ``continue``).

Reading one object by its name: the requests, and its JSON into the fields that are needed.

It may be of any kind that has a spec and a generation. As with nodes, what cannot be read does not count as
absent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Generic, Protocol, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from winpool.api.text import read_moment
from winpool.kube.errors import ApiError, Gone, StreamGarbled, TooLarge, error_of
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN, ListMetadata, ListOf, is_older, raw_event

ItemT = TypeVar("ItemT")

_raw_list: Final = msgspec.json.Decoder(ListOf[msgspec.Raw])


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
        except BROKEN:
            page = self._read_raw(body)
        self._check(page)
        return page

    def _read_raw(self, body: bytes | bytearray) -> ListOf[msgspec.Raw]:
        try:
            return _raw_list.decode(body)
        except BROKEN as error:
            raise StreamGarbled(f"list {self._resource}: the answer is not a list ({error})") from None

    def _check(self, page: ListOf[Any]) -> None:
        is_right = page.kind == self._kind and page.api_version == self._api_version
        if not is_right or not page.metadata.resource_version:
            raise StreamGarbled(
                f"list {self._resource}: the answer is not a {self._kind} of {self._api_version}"
                " with a resourceVersion"
            )


log = logging.getLogger(__name__)

REWOUND_LISTS: Final = 3
REWOUND_SECONDS: Final = 30.0
"""After so many lists in a row, over so long, that are older than what was seen before, the server is
believed. A stale cache on the way is up to date within seconds."""


class Rewind:
    """Decides, for the lists of one resource, when to believe an older one. ``what`` names the resource."""

    __slots__ = ("_lists", "_monotonic", "_since", "_what")

    def __init__(self, what: str, *, monotonic: Callable[[], float]) -> None:
        self._what = what
        self._monotonic = monotonic
        self._lists = 0
        self._since = 0.0

    def check(self, version: str, *, seen: str) -> bool:
        """Whether a list at ``version`` shows that the cluster was restored to before ``seen`` ("": none).

        Raises StreamGarbled for an older list that is not believed yet.
        """
        if not seen or not is_older(version, seen):
            self._lists = 0
            return False
        if not self._lists:
            self._since = self._monotonic()
        self._lists += 1
        if self._lists < REWOUND_LISTS or self._monotonic() - self._since < REWOUND_SECONDS:
            raise StreamGarbled(
                f"list {self._what}: version {version} is older than {seen}, which was already seen"
            )
        log.warning("%s: the cluster was restored from version %s to the older %s", self._what, seen, version)
        return True

    def done(self) -> None:
        """Note that the list was stored."""
        self._lists = 0


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
    metadata: ListMetadata
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
    except BROKEN as error:
        raise StreamGarbled(f"{request}: unreadable answer: {error}") from None
    if listed.kind != target.list_kind or not listed.metadata.resource_version:
        raise StreamGarbled(f"{request}: the answer is not a {target.list_kind} with a resourceVersion")
    named = [item for item in listed.items or () if item.metadata.name == target.name]
    return Listed(_found(named[0]) if named else None, listed.metadata.resource_version)


def decode_named_event(line: bytes, *, target: Target) -> NamedEvent:
    """Read one line of a watch. Raises StreamGarbled."""
    try:
        event = _event.decode(line)
    except BROKEN as error:
        raise StreamGarbled(f"watch {target.resource}: unreadable line: {error}") from None
    metadata = event.object.metadata
    match event.type:
        case "ERROR":
            status = event.object.code or _DEFAULT_ERROR_STATUS
            body = bytes(raw_event.decode(line).object)
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
