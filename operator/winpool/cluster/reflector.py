"""Keeps the Windows nodes of the cluster in memory, by one list and then one watch.

``recovery`` says what happens after which error, and why. While requests fail, everything
stays as last seen: a node never counts as gone because the API server does not answer (P4).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from typing import TYPE_CHECKING, Final

from winpool.cluster.access import explained
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, Gone, StreamCut
from winpool.cluster.lister import NodeLister, ReflectorStats, report_undecodable
from winpool.cluster.node_requests import watch_request
from winpool.cluster.nodes import UndecodableNodeError, decode_event
from winpool.cluster.openings import SHORT_LIFE_SECONDS, Openings
from winpool.cluster.outage import Outage
from winpool.cluster.recovery import recovery_after
from winpool.cluster.store import NodeStore
from winpool.cluster.versions import is_older

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from winpool.cluster.transport import Transport
    from winpool.objects.node import Node

log = logging.getLogger(__name__)

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
