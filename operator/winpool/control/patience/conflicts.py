"""Nodes that someone else wrote after we had read them (409, 404): when to try again.

That is not an error: once the newer state is known, the next try follows at once. Until then another
try would fail like the last, so it waits, and longer each time. The watch brings the newer state
within milliseconds. If a second try fails as well, the watch has missed a change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.control.patience.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.objects.node import Node

LOOK_SECONDS: Final = 0.2
"""How soon to check whether the newer state is known: it wakes no pool where no field that we ask for has
changed. The next check comes after twice the time, also after the same state has conflicted again,
so that a dead watch costs a few checks and not hundreds, however many nodes it concerns."""


@dataclass(frozen=True, slots=True)
class _Conflict:
    version: str
    since: float


class Conflicts:
    """The nodes of one pool whose last write was a conflict."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._pacer = Pacer(monotonic=monotonic)
        self._nodes: dict[str, _Conflict] = {}

    def note(self, node: Node) -> int:
        """Note a conflict on ``node``, as it is known; return how many there were on this state."""
        known = self._nodes.get(node.uid)
        if known is None or known.version != node.resource_version:
            self._pacer.forget(node.uid)
            self._nodes[node.uid] = _Conflict(node.resource_version, self._monotonic())
        return self._pacer.note(node.uid)

    def forget(self, uid: str) -> None:
        """Note that the node has been written."""
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
        """Return in how many seconds one may be written, or is to be checked again; None where none waits."""
        seconds = self._pacer.seconds_to_next()
        if seconds is None:
            return None
        passed = self._monotonic() - max(each.since for each in self._nodes.values())
        return min(seconds, max(LOOK_SECONDS, passed))
