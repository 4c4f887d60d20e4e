"""What came of earlier writes to the nodes of a pool, as far as a pass goes by it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from winpool.objects.acts import NodePatch

_NEVER: Final = object()


@dataclass(frozen=True, slots=True)
class Attempts:
    """What came of earlier writes. All by the UIDs of nodes; ``Attempts()``: nothing was tried yet.

    ``waiting`` are the goals that are not to be tried again now, and ``waiting_nodes`` the nodes that are not
    to be written now whatever the goal. ``refused`` says why the API server did not let us write a node when
    we last tried, and ``contested`` what of a node somebody keeps undoing, in the words of kubectl.
    ``written`` is the goal of the last write that was carried out. Both it and ``written_generation``, the
    generation of the spec for which nodes were last written, 0 where that is not known, are of this process
    alone. ``written_nodes`` counts the nodes that it has written for this generation, those that are gone by
    now too; with ``is_from_start`` nobody has written any for it before. Nothing that this holds changes
    while a pass decides on it.
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
        """Whether ``patch`` is not to be sent now, though it may be due."""
        uid = patch.node.uid
        return uid in self.waiting_nodes or patch.goal in self.waiting.get(uid, ())

    def holds_back_some(self, node_uid: str) -> bool:
        """Whether some goal is not to be tried now on that node: for who has no patch to ask for."""
        return node_uid in self.waiting_nodes or node_uid in self.waiting

    def has_written(self, node_uid: str, goal: object) -> bool:
        """Whether the last write of this process to that node had this very goal."""
        return bool(self.written.get(node_uid, _NEVER) == goal)


NOTHING_TRIED: Final = Attempts()
