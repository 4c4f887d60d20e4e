"""Nodes whose release is refused: when the operator tries each again, and what it reports.

The pauses are those of a pool's own writes, see ``patience``. No status can report the refusal: the pool is
gone, or does not see the node any more. So the log has one warning for each node and reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.control.patience.writes import Advice, Patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from winpool.cluster.errors import ApiError
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node


class Refusals:
    """The outcome of the last tries to release nodes that no pool releases any more."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._patience = Patience(monotonic=monotonic)
        # UIDs with the HTTP statuses that were logged. There are few statuses, while a webhook can invent any
        # number of reasons.
        self._told: dict[str, set[int | None]] = {}

    def note_released(self, patch: NodePatch) -> None:
        """Note a release that was carried out."""
        self._told.pop(patch.node.uid, None)
        self._patience.note_written(patch)

    def note_stopped(self, patch: NodePatch, error: ApiError) -> Advice:
        """Note a release that was not carried out. TELL comes once for each node and HTTP status."""
        advice = self._patience.note_stopped(patch, error)
        if not self._patience.is_refused(patch.node):
            return advice  # it may be over in a moment
        told = self._told.setdefault(patch.node.uid, set())
        if error.status in told:
            return Advice.WAIT
        told.add(error.status)
        return Advice.TELL

    def due(self, releases: Iterable[NodePatch], *, known: Mapping[str, Node]) -> list[NodePatch]:
        """Return those that may be sent now; nodes whose writes failed lately come last.

        Otherwise a few of them could block all others. ``known`` are all nodes that exist, by name; the
        others are forgotten.
        """
        if self._told:
            uids = {node.uid for node in known.values()}
            self._told = {uid: told for uid, told in self._told.items() if uid in uids}
        attempts, failing = self._patience.attempts(known), self._patience.failing
        free = (patch for patch in releases if not attempts.holds_back(patch))
        return sorted(free, key=lambda patch: patch.node.uid in failing)

    def seconds_to_next(self) -> float | None:
        """Return in how many seconds a node that has to wait may be tried again; None where none waits."""
        return self._patience.seconds_to_next()
