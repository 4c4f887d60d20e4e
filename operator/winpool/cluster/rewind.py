"""Lists that are older than what was seen before: a stale cache on the way, or etcd put back to a backup."""

from __future__ import annotations

import logging
from typing import Final

from winpool.cluster.errors import StreamGarbled
from winpool.cluster.versions import is_older

log = logging.getLogger(__name__)

REWOUND_LISTS: Final = 3
"""After this many lists in a row that are older than what we have seen, the server is believed. One or two
may come from a stale cache."""


class Rewind:
    """Decides, for the lists of one resource, when to believe an older one. ``what`` names the resource."""

    __slots__ = ("_lists", "_what")

    def __init__(self, what: str) -> None:
        self._what = what
        self._lists = 0

    def check(self, version: str, *, seen: str) -> bool:
        """Tell whether a list at ``version`` shows that the cluster was put back behind ``seen`` ("": none).

        Raises StreamGarbled for an older list that is not to be believed yet.
        """
        if not seen or not is_older(version, seen):
            self._lists = 0
            return False
        self._lists += 1
        if self._lists < REWOUND_LISTS:
            raise StreamGarbled(
                f"list {self._what}: version {version} is older than {seen}, which was already seen"
            )
        log.warning("%s: the cluster was put back from version %s to %s", self._what, seen, version)
        return True

    def done(self) -> None:
        """Take note that the list that was believed is taken in."""
        self._lists = 0
