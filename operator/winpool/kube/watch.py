"""Keeps objects in memory, by one list and then one watch: all Windows nodes, or one object by its name.

The known nodes, and the rules by which new states are stored.

New states come from four sources: a list, a watch, another list after an error, and the answers
to our own writes. In any order of arrival, a node never returns to an older state than was already
seen, and counts as gone only for one of three reasons: a DELETED event, another UID under its name,
or a *complete* list without it.

Lists all Windows nodes, page by page, into the store.

Each page is stored as it arrives, since it is true even if the rest of the list fails. Only a
complete list shows that a node is gone.

Keeps the Windows nodes of the cluster in memory, by one list and then one watch.

``recovery`` says what happens after which error, and why. While requests fail, everything
stays as last seen: a node never counts as gone because the API server does not answer (P4).

Keeps one object in memory, known by its name: by one list and then one watch.

After an error it continues as the watch of nodes does (``recovery``): what was last seen stays until more is
known. It does not log errors at the level of warnings: most errors concern the whole API server, and the
watch of nodes logs those. The owner of the watch reports the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from winpool.kube.backoff import SHORT_LIFE_SECONDS, Backoff, Openings, Outage, recovery_after
from winpool.kube.client import Transport
from winpool.kube.errors import ApiError, Forbidden, Gone, NotFound, StreamCut, explained
from winpool.kube.lists import (
    NamedObject,
    Pager,
    PageTooLarge,
    Rewind,
    Target,
    decode_list,
    decode_named_event,
)
from winpool.kube.nodes import (
    WINDOWS_SELECTOR,
    NodePage,
    UndecodableNodeError,
    decode_event,
    listing_of,
    watch_request,
)
from winpool.kube.wire import is_older
from winpool.model.node import Node
from winpool.ownership.record import record_of

OnChange = Callable[[Node | None, Node | None], None]


class NodeStore:
    """Nodes by name. ``on_change(old, new)`` is called for every difference in a field that is read.

    A node that appears has no old, one that is gone has no new; another UID under the same
    name causes both calls, one after the other. It is called after the store has changed.
    """

    __slots__ = ("_nodes", "_on_change", "nodes")

    def __init__(self, on_change: OnChange) -> None:
        self._nodes: dict[str, Node] = {}
        self._on_change = on_change
        self.nodes: Mapping[str, Node] = MappingProxyType(self._nodes)

    def put(self, node: Node, *, even_older: bool = False) -> bool:
        """Store a node from a list or a watch; False where a newer state is already known.

        States whose resourceVersions have no order are stored: the stream that brings them has an order.
        ``even_older`` is for a server that was restored to an earlier state.
        """
        held = self._nodes.get(node.name)
        if held is not None and not even_older and is_older(node.resource_version, held.resource_version):
            return False
        self._nodes[node.name] = node
        record_of(node)  # read now, page by page; otherwise the first pass would read thousands at once
        if held is None:
            self._on_change(None, node)
        elif held.uid != node.uid:
            # Between the two there was a moment without either, so these are two changes.
            self._on_change(held, None)
            self._on_change(None, node)
        elif held != node:
            self._on_change(held, node)
        return True

    def accept_written(self, node: Node) -> bool:
        """Store the answer to a write of our own; False where it is not new.

        A node that is gone or replaced meanwhile stays so. States whose versions have no order are
        not stored: the watch is about to bring this very state.
        """
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid:
            return False
        if not is_older(held.resource_version, node.resource_version):
            return False
        return self.put(node)

    def remove(self, node: Node) -> bool:
        """Remove ``node``, which was deleted; False where it is unknown, known newer, or exists again."""
        held = self._nodes.get(node.name)
        if held is None or held.uid != node.uid or is_older(node.resource_version, held.resource_version):
            return False
        del self._nodes[node.name]
        self._on_change(held, None)
        return True

    def keep_only(self, names: Collection[str], *, resource_version: str, even_newer: bool = False) -> int:
        """Remove all nodes that are not among ``names``, those of a complete list; return how many.

        A node that is newer than the list (``resource_version``) stays: the list could not have it.
        ``even_newer`` is for a server that was restored to an earlier state.
        """
        gone = [
            held
            for name, held in self._nodes.items()
            if name not in names and (even_newer or not is_older(resource_version, held.resource_version))
        ]
        for held in gone:
            del self._nodes[held.name]
            self._on_change(held, None)
        return len(gone)


log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReflectorStats:
    """Counters since the start.

    ``restarts`` are watches that ended with an error, ``expired`` the 410s, ``dropped`` states
    older than the known one, ``undecodable`` nodes that could not be read.
    """

    lists: int = 0
    watches: int = 0
    restarts: int = 0
    expired: int = 0
    events: int = 0
    dropped: int = 0
    undecodable: int = 0


def report_undecodable(error: UndecodableNodeError, stats: ReflectorStats) -> None:
    """Count and log a node that could not be read."""
    stats.undecodable += 1
    log.warning("%s; the node is kept as last seen", error)


class NodeLister:
    """Lists into ``store``. ``on_page`` is called for each page that arrived."""

    def __init__(
        self,
        transport: Transport,
        store: NodeStore,
        *,
        stats: ReflectorStats,
        on_page: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._store = store
        self._stats = stats
        self._on_page = on_page
        self._pager = Pager(transport.request, listing_of(WINDOWS_SELECTOR))
        self._rewind = Rewind("nodes", monotonic=monotonic)

    async def list(self, *, seen: str) -> str:
        """Store all nodes that exist, and return the resourceVersion of the list.

        ``seen`` is the latest resourceVersion known from before: an older list is refused
        (StreamGarbled), until it has come several times in a row (see ``rewind``). Begins again where a page
        was too large. Raises ApiErrors; the pages before the error stay stored.
        """
        while True:
            try:
                return await self._list(seen=seen)
            except PageTooLarge:
                continue

    async def _list(self, *, seen: str) -> str:
        self._stats.lists += 1
        names: set[str] = set()
        rewound: bool | None = None

        def take(page: NodePage) -> None:
            nonlocal rewound
            self._on_page()
            if rewound is None:
                rewound = self._rewind.check(page.resource_version, seen=seen)
            self._take(page, names, even_older=rewound)

        version = await self._pager.show(take)
        # A node whose name could not be read may be any of those that the list seems to lack.
        if "" not in names:
            self._store.keep_only(names, resource_version=version, even_newer=bool(rewound))
        self._rewind.done()
        return version

    def _take(self, page: NodePage, names: set[str], *, even_older: bool) -> None:
        """Store a page; ``names`` gets the names of its nodes, "" for a node without a readable name."""
        for node in page.nodes:
            names.add(node.name)
            self._stats.dropped += not self._store.put(node, even_older=even_older)
        for error in page.undecodable:
            names.add(error.name)
            report_undecodable(error, self._stats)


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

_uniform: Final = random.SystemRandom().uniform


class NodeReflector:
    """The Windows nodes of the cluster, kept up to date while ``run`` runs.

    ``on_change(old, new)`` is called, synchronously, when a field that winpool reads has
    changed: old is None for a node that appears, new for one that is gone. It must not block and
    must not raise. ``on_contact`` is awaited after the first list, before ``synced``, and after every
    watch that ended early: the API server may be another one now. It must not raise; where
    it returns False it is awaited again with the next watch.
    ``last_error`` is the present error, None where there is none.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        on_change: Callable[[Node | None, Node | None], None],
        on_contact: Callable[[], Awaitable[bool]] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        silence_seconds: float = SILENCE_SECONDS,
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        self.stats = ReflectorStats()
        self.last_error: ApiError | None = None
        self._transport = transport
        self._on_contact = on_contact
        self._monotonic = monotonic
        self._silence_seconds = silence_seconds
        self._relist_seconds = relist_seconds
        self._store = NodeStore(on_change)
        self._lister = NodeLister(
            transport, self._store, stats=self.stats, on_page=self._note_contact, monotonic=monotonic
        )
        self._backoff = Backoff()
        self._openings = Openings(monotonic)
        self._outage = Outage(
            "nodes",
            logger=log,
            monotonic=monotonic,
            meanwhile="the operator keeps them as last seen, and tries again",
        )
        self._synced = False
        self._is_new_contact = True
        self._contact = float("-inf")
        # The resourceVersion to continue from; "" asks for a list.
        self._position = ""
        # The last known position, kept when a list is needed.
        self._seen = ""
        # When a list was last tried, when the next one is due, and when the watch has to end for it.
        self._tried_at = float("-inf")
        self._relist_at = float("-inf")
        self._watch_until = float("inf")
        self._watch_limit = asyncio.timeout(None)
        # Whether a list was asked for since the last one began.
        self._is_asked = False
        # Whether a watch has brought anything since the last error, and whether that error was a 410.
        self._progressed = False
        self._expired = False

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name: a live, read-only view."""
        return self._store.nodes

    @property
    def synced(self) -> bool:
        """Whether a list was ever complete. Before that, the absence of a node means nothing."""
        return self._synced

    @property
    def last_contact_seconds(self) -> float:
        """Seconds since the API server last sent anything about nodes; infinite before the first time.

        In a quiet cluster it sends a bookmark once a minute, so below SILENCE_SECONDS the contact is good.
        """
        return self._monotonic() - self._contact

    def accept_written(self, node: Node) -> None:
        """Store the answer to a PATCH of ours, so that the next pass does not have to wait for its event."""
        self._store.accept_written(node)

    def ask_for_list(self) -> None:
        """Ask for a list soon: the watch has missed a change.

        It costs nothing where one is due anyway; two that were asked for are at least ASKED_SECONDS apart.
        """
        self._is_asked = True
        due = max(self._monotonic(), self._tried_at + ASKED_SECONDS)
        if due < self._relist_at:
            log.info("nodes: the watch missed a change, so the operator lists all nodes again")
            self._relist_at = self._watch_until = due
            self._limit_watch()

    async def run(self) -> None:
        """List and watch until cancelled. Survives everything that the API server may answer."""
        while True:
            try:
                if not self._position or self._monotonic() >= self._relist_at:
                    await self._list()
                if not self._synced:
                    await self._make_contact()
                    self._synced = True
                await self._watch()
            except ApiError as error:
                self._is_new_contact = True
                await self._recover(error)

    async def _make_contact(self) -> None:
        if self._is_new_contact and self._on_contact is not None:
            self._is_new_contact = not await self._on_contact()

    async def _list(self) -> None:
        """List all nodes. Where the watch can continue from its position, a failure is only logged."""
        self._tried_at, self._is_asked = self._monotonic(), False
        try:
            version = await self._lister.list(seen=self._seen)
        except ApiError as error:
            if not self._position or isinstance(error, Gone):
                raise
            pause = ASKED_SECONDS if self._is_asked else RELIST_RETRY_SECONDS
            self._relist_in(pause)
            log.warning("nodes: a list that was due failed: %s; the watch continues", error)
            return
        self._position = self._seen = version
        self._relist_in(self._relist_seconds * _uniform(1, 1 + RELIST_JITTER))

    def _relist_in(self, seconds: float) -> None:
        self._relist_at = self._monotonic() + seconds
        self._watch_until = self._relist_at + OVERTIME_SECONDS

    async def _watch(self) -> None:
        await self._openings.take()
        started = self._monotonic()
        lines = 0
        seconds = min(_uniform(*WATCH_SECONDS), self._relist_at - started)
        request = watch_request(position=self._position, seconds=seconds)
        async with self._transport.stream(request, silence_seconds=self._silence_seconds) as stream:
            self._note_watching()
            await self._make_contact()  # only now: the API server is known to answer
            try:
                async with asyncio.timeout(None) as self._watch_limit:
                    self._limit_watch()
                    async for line in stream:
                        lines += 1
                        self._take(line)
            except TimeoutError:  # of ours: those of the stream are ApiErrors
                return
        lived = self._monotonic() - started
        # An API server that shuts down properly ends its watches as if their time were over.
        self._is_new_contact = self._is_new_contact or lived < seconds - EARLY_SECONDS
        if not lines and lived < SHORT_LIFE_SECONDS:
            raise StreamCut("watch nodes: the API server ended it at once, without anything")

    def _limit_watch(self) -> None:
        """End the open watch, if there is one, when it is time."""
        with contextlib.suppress(RuntimeError):  # there is none
            now = asyncio.get_running_loop().time()
            self._watch_limit.reschedule(now + max(0.0, self._watch_until - self._monotonic()))

    def _take(self, line: bytes) -> None:
        """Process one line of the watch."""
        try:
            event = decode_event(line)
        except UndecodableNodeError as error:
            report_undecodable(error, self.stats)
            return
        if event.error is not None:
            raise event.error
        if is_older(event.resource_version, self._position):
            self.stats.dropped += 1  # versions in a stream only grow: this line was replayed on the way
            return
        if event.resource_version:
            self._position = self._seen = event.resource_version
        if event.node is not None:
            self.stats.events += 1
            taken = self._store.remove(event.node) if event.type == "DELETED" else self._store.put(event.node)
            self.stats.dropped += not taken
        self._note_contact()
        self._progressed = True
        self._backoff.reset()  # not when the watch opens: one that ends at once is not a success

    async def _recover(self, error: ApiError) -> None:
        recovery = recovery_after(error, progressed=self._progressed, expired_before=self._expired)
        self._progressed, self._expired = False, isinstance(error, Gone)
        self.last_error = explained(error)
        self.stats.restarts += 1
        self.stats.expired += isinstance(error, Gone)
        if recovery.relist:
            self._position = ""
        pause = self._backoff.next(asked=error.retry_after) if recovery.pause else 0.0
        if recovery.pause:
            self._outage.failed(explained(error))
        else:
            log.info("nodes: the watch cannot continue, so the operator lists all nodes again: %s", error)
        await asyncio.sleep(pause)

    def _note_watching(self) -> None:
        """Note that the API server answers and permits the watch."""
        self.stats.watches += 1
        self.last_error = None
        self._note_contact()
        self._outage.ended()

    def _note_contact(self) -> None:
        self._contact = self._monotonic()


class NamedWatch:
    """One object, kept up to date while ``run`` runs.

    ``found`` is the object as last seen, None where there is none. ``watched`` says whether it was ever
    listed and then watched: before that, ``found`` means nothing. ``refusal`` is why it may not be read,
    in words for people: a right that is missing, or an API that is not served; None where it may be read.
    ``failing`` is since when (monotonic seconds) requests have failed, None where they succeed.

    ``on_change`` is called, synchronously, when any of these has changed. It must not block and must not
    raise.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        target: Target,
        on_change: Callable[[], None],
        monotonic: Callable[[], float],
        silence_seconds: float = SILENCE_SECONDS,
        relist_seconds: float = RELIST_SECONDS,
    ) -> None:
        self.found: NamedObject | None = None
        self.watched = False
        self.refusal: ApiError | None = None
        self.failing: float | None = None
        self._transport = transport
        self._target = target
        self._on_change = on_change
        self._monotonic = monotonic
        self._silence_seconds = silence_seconds
        self._relist_seconds = relist_seconds
        self._backoff = Backoff()
        self._openings = Openings(monotonic)
        # The resourceVersion to continue from; "" asks for a list. When the next list is due anyway.
        self._position = ""
        self._relist_at = float("-inf")
        # Whether a watch has brought anything since the last error, and whether that error was a 410.
        self._progressed = False
        self._expired = False

    async def run(self) -> None:
        """List and watch until cancelled. Survives everything that the API server may answer."""
        while True:
            try:
                if not self._position or self._monotonic() >= self._relist_at:
                    await self._list()
                await self._watch()
            except ApiError as error:
                await self._recover(error)

    async def _list(self) -> None:
        self._relist_at = self._monotonic() + RELIST_RETRY_SECONDS  # where it fails, the watch continues
        answer = await self._transport.request(self._target.list_request())
        listed = decode_list(answer, target=self._target)
        self._relist_at = self._monotonic() + self._relist_seconds * _uniform(1, 1 + RELIST_JITTER)
        self._position = listed.resource_version
        self._see(listed.found)

    async def _watch(self) -> None:
        await self._openings.take()
        started = self._monotonic()
        lines = 0
        seconds = min(_uniform(*WATCH_SECONDS), self._relist_at - started)
        request = self._target.watch_request(position=self._position, seconds=seconds)
        async with self._transport.stream(request, silence_seconds=self._silence_seconds) as stream:
            self._note_watching()
            try:
                async with asyncio.timeout(seconds + OVERTIME_SECONDS):
                    async for line in stream:
                        lines += 1
                        self._take(line)
            except TimeoutError:  # of ours: those of the stream are ApiErrors
                return
        if not lines and self._monotonic() - started < SHORT_LIFE_SECONDS:
            raise StreamCut(f"{request.label}: the API server ended it at once, without anything")

    def _take(self, line: bytes) -> None:
        """Process one line of the watch."""
        event = decode_named_event(line, target=self._target)
        if event.error is not None:
            raise event.error
        self._progressed = True
        self._backoff.reset()
        if is_older(event.resource_version, self._position):
            return  # versions in a stream only grow: this line was replayed on the way
        if event.resource_version:
            self._position = event.resource_version
        if event.says:
            self._see(event.found)

    def _see(self, found: NamedObject | None) -> None:
        if found != self.found:
            self.found = found
            self._on_change()

    def _note_watching(self) -> None:
        """Note that the API server answers and permits the watch."""
        is_news = not self.watched or self.refusal is not None or self.failing is not None
        self.watched, self.refusal, self.failing = True, None, None
        if is_news:
            self._on_change()

    async def _recover(self, error: ApiError) -> None:
        recovery = recovery_after(error, progressed=self._progressed, expired_before=self._expired)
        self._progressed, self._expired = False, isinstance(error, Gone)
        if recovery.relist:
            self._position = ""
        if not recovery.pause:
            return
        told = explained(error)
        log.debug("%s; the operator tries again after a pause", told)
        if isinstance(error, Forbidden | NotFound):
            self.refusal = told
        if self.failing is None:
            self.failing = self._monotonic()
        self._on_change()
        await asyncio.sleep(self._backoff.next(asked=error.retry_after))
