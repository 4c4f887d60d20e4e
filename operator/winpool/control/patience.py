"""When a node may be written again, after whatever came of the last write.

- *Repaired*: somebody undid what we wrote, and we put it back. Once more comes later and later.
- *Overtaken* (409, 404): see ``overtaken``.
- *Refused* (422, or 403 by a policy): the API server will not have it, today and likely tomorrow.
- *Failed* (500 for this node, while others went well): a webhook, mostly; it may be well again soon.

Kept in memory only: after a restart everything is tried at once, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import Conflict, NotFound, Unavailable
from winpool.control.overtaken import Overtaken
from winpool.control.pacing import Pacer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.cluster.errors import ApiError
    from winpool.snapshot import Node

LONGEST_AFTER_FAILURE_SECONDS: Final = 30.0
"""As long as the pauses of a pool whose API server is out of order: not longer for one node."""


class Patience:
    """What came of the last writes to the nodes of one pool."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._repairs = Pacer(monotonic=monotonic)
        self._refusals = Pacer(monotonic=monotonic)
        self._failures = Pacer(monotonic=monotonic, longest=LONGEST_AFTER_FAILURE_SECONDS)
        self._overtaken = Overtaken(monotonic=monotonic)
        self._refused: dict[str, str] = {}

    @property
    def refused(self) -> Mapping[str, str]:
        """Why the API server does not let nodes be written, in its own words, by their UIDs."""
        return dict(self._refused)

    @property
    def lost_news(self) -> bool:
        """Whether the watch has missed something about a node: list all nodes."""
        return self._overtaken.lost_news

    def note_repaired(self, node: Node) -> None:
        """Take note that a write put back what somebody had undone."""
        self._repairs.note(node.uid)

    def note_written(self, node: Node) -> None:
        """Take note that a write was carried out."""
        self._refused.pop(node.uid, None)
        self._overtaken.forget(node.uid)
        self._refusals.forget(node.uid)
        self._failures.forget(node.uid)

    def note_stopped(self, node: Node, error: ApiError) -> bool:
        """Take note of a write that was not carried out; tell whether people have to hear of it now."""
        if isinstance(error, Conflict | NotFound):
            self._overtaken.note(node)
            return False
        (self._failures if isinstance(error, Unavailable) else self._refusals).note(node.uid)
        is_news = node.uid not in self._refused
        self._refused[node.uid] = error.message
        for uid in self._refused.keys() - self._refusals.known() - self._failures.known():
            del self._refused[uid]
        return is_news

    def held_back(self, nodes: Mapping[str, Node]) -> frozenset[str]:
        """Return the UIDs of the nodes that have to wait. ``nodes`` are all that are known, by name."""
        return (
            self._repairs.held_back()
            | self._refusals.held_back()
            | self._failures.held_back()
            | self._overtaken.held_back(nodes)
        )

    def seconds_to_next(self) -> float | None:
        """Return how long until a node that has to wait is worth another look; None where none waits."""
        kinds = (self._repairs, self._refusals, self._failures, self._overtaken)
        return min((wait for kind in kinds if (wait := kind.seconds_to_next()) is not None), default=None)
