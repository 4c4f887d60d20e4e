"""Keeps one object in memory, known by its name: by one list and then one watch.

After an error it continues as the watch of nodes does (``recovery``): what was last seen stays until more is
known. It does not log errors at the level of warnings: most errors concern the whole API server, and the
watch of nodes logs those. The owner of the watch reports the others.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Final

from winpool.cluster.access import explained
from winpool.cluster.backoff import Backoff
from winpool.cluster.errors import ApiError, Forbidden, Gone, NotFound, StreamCut
from winpool.cluster.named import decode_event, decode_list
from winpool.cluster.openings import SHORT_LIFE_SECONDS, Openings
from winpool.cluster.recovery import recovery_after
from winpool.cluster.reflector import (
    OVERTIME_SECONDS,
    RELIST_JITTER,
    RELIST_RETRY_SECONDS,
    RELIST_SECONDS,
    SILENCE_SECONDS,
    WATCH_SECONDS,
)
from winpool.cluster.versions import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.named import NamedObject, Target
    from winpool.cluster.transport import Transport

log = logging.getLogger(__name__)

_uniform: Final = random.SystemRandom().uniform


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
        event = decode_event(line, target=self._target)
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
