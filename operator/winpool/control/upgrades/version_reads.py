"""Reads the version of the API server every few minutes, while a pool has upgrades.

An upgrade does not begin while the control plane changes. Where several API servers answer in turn, and some
have been upgraded, the reads show both versions. While no pool has upgrades, nothing is read (P2).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Final

from winpool.cluster.control_plane import STALE_SECONDS
from winpool.control.loops.wake import Wake

if TYPE_CHECKING:
    from collections.abc import Callable

    from winpool.cluster.control_plane import ControlPlane

PERIOD_SECONDS: Final = 300.0
"""Between two reads: three of them are in the 15 minutes for which the version has to be unchanged."""

LEAST_SECONDS: Final = 1.0
"""The least time until it is looked whether to read: times are sums of floats, which may be a hair early."""

JITTER: Final = 0.1
"""The period is longer by up to this share, never shorter, so that operators do not read in step. The wait of
LEAST_SECONDS after one that ended a hair early is a part of it."""

_uniform: Final = random.SystemRandom().uniform


class VersionReads:
    """Reads until cancelled.

    ``is_wanted`` says whether a pool has upgrades now; call ``check`` when that may have changed.
    ``on_change`` is called when it has become known, or unknown, since when the version is unchanged.
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        *,
        is_wanted: Callable[[], bool],
        on_change: Callable[[], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._control_plane = control_plane
        self._is_wanted = is_wanted
        self._on_change = on_change
        self._monotonic = monotonic
        self._is_reading = False
        self._due_at = float("-inf")
        self._was_known = False
        self._wake = Wake()

    def check(self) -> None:
        """Begin to read, or end, if that has become necessary."""
        if self._is_wanted() != self._is_reading:
            self._wake.set()

    async def run(self) -> None:
        """Read when it is due until cancelled."""
        while True:
            await self._wake.wait(seconds=self._seconds_to_next())
            self._begin_or_end()
            if self._is_reading:
                await self._read_if_due()
                self._report()

    def _begin_or_end(self) -> None:
        is_wanted = self._is_wanted()
        if is_wanted != self._is_reading:
            self._is_reading = is_wanted
            self._control_plane.read_regularly(is_on=is_wanted)
            self._was_known = self._is_known

    async def _read_if_due(self) -> None:
        if self._monotonic() < self._due_at:
            return
        if self._control_plane.age_seconds >= PERIOD_SECONDS:
            await self._control_plane.ask()
        latest = PERIOD_SECONDS * (1 + JITTER) - LEAST_SECONDS
        self._due_at = self._monotonic() + _uniform(PERIOD_SECONDS, latest)

    def _report(self) -> None:
        if self._is_known != self._was_known:
            self._was_known = self._is_known
            self._on_change()

    @property
    def _is_known(self) -> bool:
        return self._control_plane.unchanged_since is not None

    def _seconds_to_next(self) -> float | None:
        """Return when to read again, or when the version is no longer known to be unchanged."""
        if not self._is_reading:
            return None
        seconds = self._due_at - self._monotonic()
        if self._was_known:
            seconds = min(seconds, STALE_SECONDS - self._control_plane.age_seconds)
        return max(LEAST_SECONDS, seconds)
