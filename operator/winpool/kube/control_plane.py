"""Asks the API server which Kubernetes version it is.

At the start, and whenever the watch of nodes broke or ended early, as it does when the API server restarts
with another version. In a quiet cluster it never asks (P2), but where a pool has upgrades: then it asks
every few minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Final

from winpool.kube.client import Transport
from winpool.kube.errors import ApiError
from winpool.kube.request import Request
from winpool.kube.wire import BROKEN, server_version
from winpool.loops import utc_now

log = logging.getLogger(__name__)

VERSION_PATH: Final = "/version"
"""Every authenticated user may read it, by the ClusterRole system:public-info-viewer.
https://kubernetes.io/docs/reference/access-authn-authz/rbac/#api-discovery-roles"""

STALE_SECONDS: Final = 900.0
"""A version that was last read so long ago is not known to be unchanged: three regular reads have failed."""


@dataclass(eq=False)
class ControlPlane:
    """The version of the API server as last read. ``on_change`` is called when it has changed."""

    transport: Transport
    _: KW_ONLY
    on_change: Callable[[], None]
    now: Callable[[], datetime] = utc_now
    monotonic: Callable[[], float] = time.monotonic
    version: str = field(default="", init=False)
    """``gitVersion``, such as v1.36.3; empty before it was first read."""
    is_first: bool = field(default=True, init=False)
    """Whether no other version was ever read, and there was no gap in regular reads."""
    _since: datetime | None = field(default=None, init=False)
    _read_at: float = field(default=float("-inf"), init=False)
    _regular_from: float = field(default=float("inf"), init=False)

    @property
    def unchanged_since(self) -> datetime | None:
        """Since when that version was read, and no other one; None where it was not read lately.

        After a gap in regular reads it begins again.
        """
        return self._since if self.age_seconds < STALE_SECONDS else None

    @property
    def age_seconds(self) -> float:
        """Seconds since the version was last read; infinite before the first time."""
        return self.monotonic() - self._read_at

    def read_regularly(self, *, is_on: bool) -> None:
        """Note whether it is read regularly from now on: then it is a gap where it is not."""
        self._regular_from = self.monotonic() if is_on else float("inf")

    async def ask(self) -> bool:
        """Ask for the version, and return whether it was read.

        Never raises an ApiError: the known version stays, and nodes matter more.
        """
        try:
            answer = await self.transport.request(Request(verb="get", resource="version", path=VERSION_PATH))
            found = server_version.decode(answer).git_version
        except (ApiError, *BROKEN) as error:
            known = self.version or "none"
            log.warning("cannot read the version of the API server: %s; the last known is %s", error, known)
            return False
        if not found:
            return False
        is_after_gap = self.monotonic() - max(self._read_at, self._regular_from) >= STALE_SECONDS
        self._read_at = self.monotonic()
        if found != self.version:
            log.info("the API server runs Kubernetes %s", found)
            self.is_first = not (self.version or is_after_gap)
            self.version, self._since = found, self.now()
            self.on_change()
        elif is_after_gap:
            self.is_first, self._since = False, self.now()
        return True
