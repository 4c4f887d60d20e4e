"""Keeps the objects of one kind in memory, by one list and then one watch, until it is cancelled.

While requests fail, everything stays as last seen: an object never counts as gone because the API server does
not answer (P4). ``recovery_after`` says what happens after which error, and why.

``NamedWatch`` does so for one object by its name, such as a policy, a CRD or the Lease. It may be of any kind
that has a spec and a generation. RBAC permits this by ``resourceNames``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from winpool.api.text import read_moment
from winpool.kube.backoff import Backoff, Outage, uniform
from winpool.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    NotFound,
    StreamCut,
    StreamGarbled,
    StreamSilent,
    TooLarge,
    explained,
)
from winpool.kube.lists import Kind, Listing, ListPage, Pager, PageTooLarge, UnreadableObjectError, WatchEvent
from winpool.kube.request import ApiServer
from winpool.kube.wire import Base, ObjectMeta, is_older

log = logging.getLogger(__name__)


class ApiObject(Protocol):
    """What every object of the API server has. Two are equal where no field that winpool reads differs."""

    @property
    def name(self) -> str:
        """Its name, by which one kind of object is kept."""

    @property
    def uid(self) -> str:
        """Another UID under the same name is another object."""

    @property
    def resource_version(self) -> str:
        """The version of this state."""


ObjectT = TypeVar("ObjectT", bound=ApiObject)


class Source(msgspec.Struct, Generic[ObjectT], frozen=True, kw_only=True):
    """What is listed and watched.

    ``decode_event`` reads a line: it raises StreamGarbled for one that is no event, and UnreadableObjectError
    for an event about an object that cannot be read.
    """

    listing: Listing[ListPage[ObjectT]]
    decode_event: Callable[[bytes], WatchEvent[ObjectT]]


class Store(Generic[ObjectT]):
    """Objects by name. ``on_change(old, new)`` is called for every difference in a field that is read.

    New states come from lists, a watch, and the answers to our own writes. In any order of arrival, an object
    never returns to an older state than was already seen, and counts as gone only for one of three reasons:
    a DELETED event, another UID under its name, or a *complete* list without it.

    An object that appears has no old, one that is gone has no new; another UID under the same name causes
    both calls, one after the other. It is called after the store has changed.
    """

    __slots__ = ("_objects", "_on_change", "objects")

    def __init__(self, on_change: Callable[[ObjectT | None, ObjectT | None], None]) -> None:
        self._objects: dict[str, ObjectT] = {}
        self._on_change = on_change
        self.objects: Mapping[str, ObjectT] = MappingProxyType(self._objects)

    def put(self, new: ObjectT, *, even_older: bool = False) -> bool:
        """Store an object from a list or a watch; False where a newer state is already known.

        States whose resourceVersions have no order are stored: the stream that brings them has an order.
        ``even_older`` is for a server that was restored to an earlier state.
        """
        held = self._objects.get(new.name)
        if held is not None and not even_older and is_older(new.resource_version, held.resource_version):
            return False
        self._objects[new.name] = new
        if held is None:
            self._on_change(None, new)
        elif held.uid != new.uid:
            # Between the two there was a moment without either, so these are two changes.
            self._on_change(held, None)
            self._on_change(None, new)
        elif held != new:
            self._on_change(held, new)
        return True

    def accept_written(self, new: ObjectT) -> bool:
        """Store the answer to a write of our own; False where it is not new.

        An object that is gone or replaced meanwhile stays so. States whose versions have no order are not
        stored: the watch is about to bring this very state.
        """
        held = self._objects.get(new.name)
        if held is None or held.uid != new.uid:
            return False
        return bool(is_older(held.resource_version, new.resource_version)) and self.put(new)

    def remove(self, gone: ObjectT) -> bool:
        """Remove an object that was deleted; False where it is unknown, known newer, or exists again."""
        held = self._objects.get(gone.name)
        if held is None or held.uid != gone.uid or is_older(gone.resource_version, held.resource_version):
            return False
        del self._objects[gone.name]
        self._on_change(held, None)
        return True

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all objects that are not among ``names``, those of a complete list."""
        for held in [held for name, held in self._objects.items() if name not in names]:
            del self._objects[held.name]
            self._on_change(held, None)


class WatchStats(msgspec.Struct):
    """Counters since the start.

    ``restarts`` are watches that ended with an error, ``expired`` the 410s, ``dropped`` states
    older than the known one, ``undecodable`` objects that could not be read.
    """

    lists: int = 0
    watches: int = 0
    restarts: int = 0
    expired: int = 0
    events: int = 0
    dropped: int = 0
    undecodable: int = 0


class Recovery(msgspec.Struct, frozen=True):
    """What to do after an error: list, or continue from the last good version; at once or after a pause."""

    relist: bool
    pause: bool = True


def recovery_after(error: ApiError, *, progressed: bool, expired_before: bool) -> Recovery:
    """Decide how to continue after ``error``.

    ``progressed`` says whether anything had come in since the error before, ``expired_before``
    whether that was a 410 too.

    - 410: the version is too old to continue from; only a list shows what was missed. The first
      time it is listed at once, as after any outage that was long enough: waiting changes nothing.
    - Silence: either the connection is dead, and continuing would be enough. Or the server does
      not know the version yet (etcd was restored from a backup), and the watch is silent for ever.
      The client cannot distinguish the two, so it lists.
    - A line too large: it would come again, so it lists.
    - A line cut off, garbage, a broken connection, no server, a refusal: all that was stored before
      is good, so it continues from there; the server sends again what came after. If garbage comes
      again at the same place, with nothing good in between, it lists.
    """
    if isinstance(error, Gone):
        return Recovery(relist=True, pause=expired_before and not progressed)
    if isinstance(error, StreamSilent | TooLarge):
        return Recovery(relist=True)
    if isinstance(error, StreamGarbled):
        return Recovery(relist=not progressed)
    return Recovery(relist=False)


WATCH_SECONDS: Final = (260.0, 300.0)
"""The time after which the server ends a watch properly, a random value between the two so that clients do
not return in step. Proxies and load balancers on the way often cut idle or old connections at 5 minutes."""

SILENCE_SECONDS: Final = 70.0
"""The API server sends a bookmark every minute, so a watch without a line for this long is dead. Below the 75
s for which the API server keeps events in memory, so that the watch could still continue from its
position."""

RELIST_SECONDS: Final = 600.0
"""A periodic list repairs what a watch missed without an error. Not more often than every 10 minutes (P2)."""

RELIST_JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not list in step."""

RELIST_RETRY_SECONDS: Final = 60.0
"""The pause after such a list has failed. Meanwhile the watch continues."""

OVERTIME_SECONDS: Final = 30.0
"""If the server does not end a watch in time, the client ends it so long after the list was due."""

ASKED_SECONDS: Final = 10.0
"""Least time from a list to one that is asked for: a list of thousands of nodes is expensive."""

EARLY_SECONDS: Final = 2.0
"""A watch that ends so long before its time did not end because its time was over."""

SHORT_LIFE_SECONDS: Final = 1.0
"""The least time from opening a watch to opening it again. Otherwise a proxy that ends each at once, properly
or with a 410, would get requests in a tight loop. A watch that ends sooner and brought nothing is a
failure."""


@dataclass(eq=False)
class ListWatch(Generic[ObjectT]):
    """The objects of one source, kept up to date while ``run`` runs.

    ``on_change(old, new)`` is called, synchronously, when a field that winpool reads has changed: old is None
    for an object that appears, new for one that is gone. ``on_state`` is called, synchronously, when
    ``synced``, ``failing`` or ``refusal`` has changed. Both must not block and must not raise. ``on_contact``
    is awaited after the first list, before ``synced``, and after every watch that ended early: the API server
    may be another one now. It must not raise; where it returns False it is awaited again with the next watch.

    ``synced`` says whether a list was ever complete: before that, the absence of an object means nothing.
    ``last_error`` is the present error, and ``failing`` since when (monotonic seconds) requests have failed;
    both are None where there is none. ``refusal`` is why the objects may not be read, in words for people: a
    right that is missing, or an API that is not served; None where they may be read. ``level`` is that of
    log lines about errors.
    """

    transport: ApiServer
    source: Source[ObjectT]
    _: KW_ONLY
    on_change: Callable[[ObjectT | None, ObjectT | None], None]
    on_state: Callable[[], None] = lambda: None
    on_contact: Callable[[], Awaitable[bool]] | None = None
    monotonic: Callable[[], float] = time.monotonic
    silence_seconds: float = SILENCE_SECONDS
    relist_seconds: float = RELIST_SECONDS
    level: int = logging.WARNING
    stats: WatchStats = field(default_factory=WatchStats, init=False)
    synced: bool = field(default=False, init=False)
    last_error: ApiError | None = field(default=None, init=False)
    failing: float | None = field(default=None, init=False)
    refusal: ApiError | None = field(default=None, init=False)
    objects: Mapping[str, ObjectT] = field(init=False)
    """The objects by name: a live, read-only view."""
    _is_new_contact: bool = field(default=True, init=False)
    _contact: float = field(default=float("-inf"), init=False)
    _position: str = field(default="", init=False)
    """The resourceVersion to continue from; "" asks for a list."""
    _seen: str = field(default="", init=False)
    """The last known position, kept when a list is needed."""
    _tried_at: float = field(default=float("-inf"), init=False)
    _relist_at: float = field(default=float("-inf"), init=False)
    _watch_until: float = field(default=float("inf"), init=False)
    """When a list was last tried, when the next one is due, and when the watch has to end for it."""
    _opens_at: float = field(default=float("-inf"), init=False)
    """When a watch may be opened again."""
    _is_asked: bool = field(default=False, init=False)
    """Whether a list was asked for since the last one began."""
    _progressed: bool = field(default=False, init=False)
    _expired: bool = field(default=False, init=False)
    """Whether a watch has brought anything since the last error, and whether that error was a 410."""
    _has_news: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Begin with nothing known."""
        self._store: Store[ObjectT] = Store(self._note_change)
        self.objects = self._store.objects
        self._what = self.source.listing.resource
        self._pager = Pager(self.transport.request, self.source.listing)
        self._backoff = Backoff()
        meanwhile = "the operator keeps them as last seen, and tries again"
        self._outage = Outage(self._what, log, self.monotonic, meanwhile, level=self.level)
        self._watch_limit = asyncio.Timeout(None)

    @property
    def last_contact_seconds(self) -> float:
        """Seconds since the API server last sent anything about them; infinite before the first time.

        In a quiet cluster it sends a bookmark once a minute, so below SILENCE_SECONDS the contact is good.
        """
        return self.monotonic() - self._contact

    def accept_written(self, written: ObjectT) -> None:
        """Store the answer to a PATCH of ours, so that the next pass does not have to wait for its event."""
        self._store.accept_written(written)

    def ask_for_list(self) -> None:
        """Ask for a list soon: the watch has missed a change.

        It costs nothing where one is due anyway; two that were asked for are at least ASKED_SECONDS apart.
        """
        self._is_asked = True
        due = max(self.monotonic(), self._tried_at + ASKED_SECONDS)
        if due < self._relist_at:
            log.info("%s: the watch missed a change, so the operator lists all again", self._what)
            self._relist_at = self._watch_until = due
            self._limit_watch()

    async def run(self) -> None:
        """List and watch until cancelled. Survives everything that the API server may answer."""
        while True:
            try:
                if not self._position or self.monotonic() >= self._relist_at:
                    await self._list_when_due()
                if not self.synced:
                    await self._make_contact()
                    self.synced = True
                    self.on_state()
                await self._watch()
            except ApiError as error:
                self._is_new_contact = True
                await self._recover(error)

    async def _make_contact(self) -> None:
        if self._is_new_contact and self.on_contact is not None:
            self._is_new_contact = not await self.on_contact()

    async def _list_when_due(self) -> None:
        """List all. Where the watch can continue from its position, a failure is only logged."""
        self._tried_at, self._is_asked = self.monotonic(), False
        try:
            version = await self._list()
        except ApiError as error:
            if not self._position or isinstance(error, Gone):
                raise
            self._relist_in(ASKED_SECONDS if self._is_asked else RELIST_RETRY_SECONDS)
            log.log(self.level, "%s: a list that was due failed: %s; the watch continues", self._what, error)
            return
        self._position = self._seen = version
        self._relist_in(self.relist_seconds * uniform(1, 1 + RELIST_JITTER))

    def _relist_in(self, seconds: float) -> None:
        self._relist_at = self.monotonic() + seconds
        self._watch_until = self._relist_at + OVERTIME_SECONDS

    async def _list(self) -> str:
        """Store all objects that exist, and return the resourceVersion of the list.

        Each page is stored as it arrives, since it is true even if the rest of the list fails. Begins again
        where a page was too large. Raises ApiErrors.
        """
        while True:
            self.stats.lists += 1
            names: set[str] = set()
            try:
                version = await self._pager.show(partial(self._take_page, names))
            except PageTooLarge:
                continue
            # An object whose name could not be read may be any of those that the list seems to lack.
            if "" not in names:
                self._store.keep_only(names)
            return version

    def _take_page(self, names: set[str], page: ListPage[ObjectT]) -> None:
        """Store a page of a list; ``names`` gets the names of its objects, "" for one that is not readable.

        A list is of the newest state. One that is older than what was seen is of a cluster that was restored
        from a backup.
        """
        self._contact = self.monotonic()
        is_restored = bool(self._seen) and bool(is_older(page.resource_version, self._seen))
        if is_restored and not names:
            log.warning(
                "%s: the cluster was restored from version %s to the older %s",
                self._what,
                self._seen,
                page.resource_version,
            )
        for each in page.items:
            names.add(each.name)
            self.stats.dropped += not self._store.put(each, even_older=is_restored)
        for error in page.unreadable:
            names.add(error.name)
            self._note_unreadable(error)

    async def _watch(self) -> None:
        await asyncio.sleep(self._opens_at - self.monotonic())
        started = self.monotonic()
        self._opens_at = started + SHORT_LIFE_SECONDS
        lines = 0
        seconds = min(uniform(*WATCH_SECONDS), self._relist_at - started)
        request = self.source.listing.watch_request(self._position, seconds)
        opened = self.transport.stream(request, silence_seconds=self.silence_seconds, is_calm=self._is_calm)
        async with opened as stream:
            self._note_watching()
            await self._make_contact()  # only now: the API server is known to answer
            try:
                async with asyncio.timeout(None) as self._watch_limit:
                    self._limit_watch()
                    async for line in stream:
                        lines += 1
                        self._take_line(line)
            except TimeoutError:  # of ours: those of the stream are ApiErrors
                return
        lived = self.monotonic() - started
        # An API server that shuts down properly ends its watches as if their time were over.
        self._is_new_contact = self._is_new_contact or lived < seconds - EARLY_SECONDS
        if not lines and lived < SHORT_LIFE_SECONDS:
            raise StreamCut(f"{request.label}: the API server ended it at once, without anything")

    def _limit_watch(self) -> None:
        """End the open watch, if there is one, when it is time."""
        with contextlib.suppress(RuntimeError):  # there is none
            now = asyncio.get_running_loop().time()
            self._watch_limit.reschedule(now + max(0.0, self._watch_until - self.monotonic()))

    def _take_line(self, line: bytes) -> None:
        """Process one line of the watch."""
        try:
            event = self.source.decode_event(line)
        except UnreadableObjectError as error:
            self._note_unreadable(error)
            return
        if event.error is not None:
            raise event.error
        if event.resource_version:
            self._position = self._seen = event.resource_version
        if event.object is not None:
            self.stats.events += 1
            put = self._store.remove if event.type == "DELETED" else self._store.put
            self.stats.dropped += not put(event.object)
        self._contact = self.monotonic()
        self._progressed = True
        self._backoff.reset()  # not when the watch opens: one that ends at once is not a success

    async def _recover(self, error: ApiError) -> None:
        recovery = recovery_after(error, progressed=self._progressed, expired_before=self._expired)
        self._progressed, self._expired = False, isinstance(error, Gone)
        self.stats.restarts += 1
        self.stats.expired += isinstance(error, Gone)
        if recovery.relist:
            self._position = ""
        if not recovery.pause:
            log.info("%s: the watch cannot continue, so the operator lists all again: %s", self._what, error)
            return
        self.last_error = explained(error)
        if isinstance(error, Forbidden | NotFound):
            self.refusal = self.last_error
        if self.failing is None:
            self.failing = self.monotonic()
        self._outage.failed(self.last_error)
        self.on_state()
        await asyncio.sleep(self._backoff.next(asked=error.retry_after))

    def _note_watching(self) -> None:
        """Note that the API server answers and permits the watch."""
        is_news = self.failing is not None
        self.stats.watches += 1
        self.last_error = self.failing = self.refusal = None
        self._contact = self.monotonic()
        self._outage.ended()
        if is_news:
            self.on_state()

    def _note_change(self, old: ObjectT | None, new: ObjectT | None) -> None:
        self._has_news = True
        self.on_change(old, new)

    def _is_calm(self) -> bool:
        """Whether nothing that winpool reads has changed since the last call."""
        has_news, self._has_news = self._has_news, False
        return not has_news

    def _note_unreadable(self, error: UnreadableObjectError) -> None:
        self.stats.undecodable += 1
        log.warning("%s; it is kept as last seen", error)


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


class Target(msgspec.Struct, frozen=True, kw_only=True):
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
        inside = f"namespaces/{self.namespace}/" if self.namespace else ""
        listing = replace(
            kind.listing,
            collection=f"/apis/{self.group}/{self.version}/{inside}{self.resource}",
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
