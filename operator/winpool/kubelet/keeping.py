"""For which nodes a connection is kept from one poll to the next: hot nodes first, and a bounded number."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from winpool.kubelet import limits

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet


@dataclass(slots=True)
class Keeping:
    """The nodes whose connection may be open between polls, or is about to be closed."""

    _kept: set[str] = field(default_factory=set)
    _closing: set[str] = field(default_factory=set)
    """Nodes of ``_kept`` whose poll in flight keeps no connection."""

    def keeps(self, name: str, *, hot: AbstractSet[str]) -> bool:
        """Return whether the poll that starts now keeps its connection.

        A node that is not hot gives its place away while there are hot nodes without one. The place is free
        when that poll has ended: until then, the old connection may be open.
        """
        free = limits.MAX_KEPT - len(self._kept)
        if name in self._kept:
            hot_without = len(hot) - len(hot & self._kept)
            is_needed = name not in hot and hot_without > free + len(self._closing)
            if is_needed:
                self._closing.add(name)
            return not is_needed
        if free <= 0:
            return False
        self._kept.add(name)
        return True

    def done(self, name: str, *, sampled: bool) -> None:
        """Note that a poll has ended: after a failure, its connection is closed."""
        if not sampled or name in self._closing:
            self.forget(name)

    def forget(self, name: str) -> None:
        """Note that a node has no connection."""
        self._kept.discard(name)
        self._closing.discard(name)
