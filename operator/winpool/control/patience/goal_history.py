"""What was tried on each node, and what our last write set there. A repeat is recognized by these.

A node whose goal changes is written at once, and a goal may follow what the node's own kubelet reports, such
as the label of its Windows revision. So goals can change at any rate, and only so many changes are without a
pause (P7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import APPLIED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.upgrade import UpgradeState
from winpool.control.patience.recurrence import Recurrence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from winpool.objects.acts import NodePatch

FREE_CHANGES: Final = 32
"""Changes of the goal of one node that are written at once, each within ten minutes of the one before. Twice
the thirteen states that a node has in an OS upgrade, and some for what changes meanwhile. A node can cost the
API server as many writes in a burst; after that they come at the pace of repeated repairs."""


_PERMISSIONS: Final = (UpgradeState.REQUIRED, UpgradeState.GATED)


def is_permission_alone(patch: NodePatch) -> bool:
    """Whether ``patch`` gives or withdraws the permission to upgrade a node, and changes nothing else.

    The room of upgrades itself gives it at most once a minute, and a rollout of a pool changes it on every
    node, twice for each node that is upgraded. A pause would leave a permission where it does not hold.
    """
    return (
        patch.labels.keys() == {UPGRADE_STATE_LABEL}
        and patch.labels[UPGRADE_STATE_LABEL] in _PERMISSIONS
        and patch.node.labels.get(UPGRADE_STATE_LABEL) in _PERMISSIONS
        and patch.annotations.keys() <= {APPLIED_ANNOTATION}
        and patch.taints is None
        and patch.unschedulable is None
    )


class GoalHistory:
    """The goals of the nodes of one pool, by their UIDs. A goal is only compared.

    ``written_nodes`` counts the nodes that were ever written, including those that are forgotten.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._tried: dict[str, object] = {}
        self._written: dict[str, object] = {}
        self.written_nodes = 0
        self._changes = Recurrence(monotonic=monotonic, most=FREE_CHANGES + 1)

    def __len__(self) -> int:
        """Return how many nodes are known."""
        return len(self._tried)

    def note_tried(self, node_uid: str, goal: object, *, is_free: bool = False) -> bool:
        """Note a try, whatever its outcome; return whether the free changes of that node are used up.

        One that ``is_free`` uses up none.
        """
        if node_uid in self._tried and self._tried[node_uid] != goal and not is_free:
            self._changes.note(node_uid)
        self._tried[node_uid] = goal
        return self._changes.times_of(node_uid) > FREE_CHANGES

    def note_written(self, node_uid: str, goal: object) -> bool:
        """Note a write that was carried out; return whether it was for the goal of the one before."""
        self.written_nodes += node_uid not in self._written
        is_repeat = node_uid in self._written and self._written[node_uid] == goal
        self._written[node_uid] = goal
        return is_repeat

    def written(self) -> dict[str, object]:
        """Return the goal of the last write to each node that was carried out."""
        return self._written.copy()

    def forget_all_but(self, node_uids: Collection[str]) -> None:
        """Forget the nodes that are gone."""
        self._tried = {uid: goal for uid, goal in self._tried.items() if uid in node_uids}
        self._written = {uid: goal for uid, goal in self._written.items() if uid in node_uids}
        for gone in self._changes.known().difference(node_uids):
            self._changes.forget(gone)
