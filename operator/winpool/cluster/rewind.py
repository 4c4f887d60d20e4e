"""Lists that are older than what was seen before: from a stale cache, or after a restore of etcd."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import StreamGarbled
from winpool.cluster.versions import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

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
