"""The outcome of earlier writes to the nodes of a pool, as far as a pass needs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.objects.acts import NodePatch

_NEVER: Final = object()


@dataclass(frozen=True, slots=True)
class Attempts:
    """The outcome of earlier writes. All by the UIDs of nodes; ``Attempts()``: nothing was tried yet.

    ``waiting`` are the goals that must not be tried again now, and ``waiting_nodes`` the nodes that must not
    be written now with any goal. ``refused`` says why the API server refused the last write to a node, and
    ``contested`` what someone keeps undoing on a node, in the words of kubectl. ``written`` is the goal of
    the last write that was carried out. Both it and ``written_generation``, the generation of the spec for
    which nodes were last written, 0 where that is not known, are of this process alone. ``written_nodes``
    counts the nodes that it has written for this generation, including those that are gone by now; with
    ``is_from_start`` no other process has written any for it before. Nothing in this record changes while a
    pass decides on it.
    """

    waiting: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    waiting_nodes: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    contested: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    written: Mapping[str, object] = field(default_factory=dict)
    written_generation: int = 0
    written_nodes: int = 0
    is_from_start: bool = False

    def holds_back(self, patch: NodePatch) -> bool:
        """Whether ``patch`` must not be sent now, even if it is due."""
        uid = patch.node.uid
        return uid in self.waiting_nodes or patch.goal in self.waiting.get(uid, ())

    def holds_back_some(self, node_uid: str) -> bool:
        """Whether some goal must not be tried now on that node: for callers without a patch."""
        return node_uid in self.waiting_nodes or node_uid in self.waiting

    def has_written(self, node_uid: str, goal: object) -> bool:
        """Whether the last write of this process to that node had this very goal."""
        return bool(self.written.get(node_uid, _NEVER) == goal)


NOTHING_TRIED: Final = Attempts()
