"""Nodes that somebody else wrote after we had read them (409, 404): when to try again.

That is no fault: once the newer state is known, the next try is at once. Until it is known another
try would fail like the last, so it has to wait, and longer each time. The watch brings the newer state
within milliseconds; if a second try fails as well, the watch has lost something.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.control.patience.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.objects.node import Node

LOOK_SECONDS: Final = 0.2
"""How soon to look whether the newer state is known: it wakes nobody where no field that we ask for has
changed. Then after as long as has passed already, so that a dead watch costs a few looks and not hundreds."""


@dataclass(frozen=True, slots=True)
class _Conflict:
    version: str
    at: float


class Conflicts:
    """The nodes of one pool whose last write came too late."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pacer = Pacer(monotonic=monotonic)
        self._nodes: dict[str, _Conflict] = {}

    def note(self, node: Node) -> int:
        """Take note that a write to ``node``, as it is known, came too late; give how often on this state."""
        known = self._nodes.get(node.uid)
        if known and known.version != node.resource_version:
            self._pacer.forget(node.uid)
        self._nodes[node.uid] = _Conflict(node.resource_version, self._monotonic())
        return self._pacer.note(node.uid)

    def forget(self, uid: str) -> None:
        """Take note that the node has been written."""
        self._nodes.pop(uid, None)
        self._pacer.forget(uid)

    def held_back(self, nodes: Mapping[str, Node]) -> frozenset[str]:
        """Return the UIDs of those that have to wait. ``nodes`` are all that are known, by name."""
        if not self._nodes:
            return frozenset()
        versions = {node.uid: node.resource_version for node in nodes.values() if node.uid in self._nodes}
        for uid, each in tuple(self._nodes.items()):
            if versions.get(uid) != each.version:
                self.forget(uid)
        return self._pacer.held_back()

    def seconds_to_next(self) -> float | None:
        """Return how long until one may be written, or until to look again; None where none waits."""
        seconds = self._pacer.seconds_to_next()
        if seconds is None:
            return None
        passed = self._monotonic() - max(each.at for each in self._nodes.values())
        return min(seconds, max(LOOK_SECONDS, passed))
