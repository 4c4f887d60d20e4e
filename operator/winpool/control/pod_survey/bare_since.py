"""Since when nodes lack the NoExecute taints that they lack, as far as the operator has seen.

A list of the pods of a node that began before a taint was gone says nothing of the pods that were bound
since. There is one moment for each node, not for each taint: other taints that are removed make it later,
which costs one more list. So a client that writes taints cannot make the operator remember any number of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.syntax import NO_EXECUTE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from winpool.objects.node import Node


class BareSince:
    """Gets every change of a node, and knows when it last lost a NoExecute taint, or was first seen."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._moments: dict[str, float] = {}

    def note(self, old: Node | None, new: Node | None) -> None:
        """Note a change. None: the node did not exist before, or is gone."""
        if new is None:
            if old is not None:
                self._moments.pop(old.uid, None)
        elif old is None or _no_execute(old) - _no_execute(new):
            self._moments[new.uid] = self._monotonic()

    def moments(self) -> Mapping[str, float]:
        """Return those moments by the UIDs of the nodes, in monotonic seconds."""
        return dict(self._moments)


def _no_execute(node: Node) -> set[tuple[str, str]]:
    return {(taint.key, taint.value) for taint in node.taints if taint.effect == NO_EXECUTE}
