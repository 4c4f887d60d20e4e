"""The lane of node patches: many at once, for a bounded time, each with its precondition.

A conflict is not an error: someone wrote the node between our read and our write. The reflector
brings what they wrote, and the next pass decides on that. Between deciding and sending lie up to
some seconds, in which kubelets report. So a patch is sent on the newest known state of the node,
and not sent at all where that state differs in anything that the decision used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.control.act.lane import Lane, is_of_one_object, on_newest_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from winpool.cluster.writer import Writer
    from winpool.control.act.lane import Outcome
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node

PATCHES_IN_FLIGHT: Final = 32
"""Where the API server's own throughput levels off: 32 in flight give 375 patches a second on two
cores, 100 give 413 and triple the latency of each (measured against a raw loader)."""


class PatchLane:
    """Sends node patches through ``writer`` and hands each answer to ``accept_written``.

    ``known`` are the nodes as last seen, by name; a node that is not among them is patched as decided.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        known: Mapping[str, Node],
        accept_written: Callable[[Node], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._writer = writer
        self._known = known
        self._accept_written = accept_written
        self._lane = Lane(
            perform=self._send,
            is_of_one=is_of_one_object,
            in_flight=PATCHES_IN_FLIGHT,
            monotonic=monotonic,
        )

    async def run(
        self, patches: Sequence[NodePatch], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Outcome[NodePatch]:
        """Send ``patches``, in order, at most PATCHES_IN_FLIGHT at once. Never raises an ApiError.

        No more are started once ``is_wanted`` returns False: what they were decided on has changed.
        """
        return await self._lane.run(patches, ready=self._on_newest_state, is_wanted=is_wanted)

    def _on_newest_state(self, patch: NodePatch) -> NodePatch | None:
        return on_newest_state(patch, self._known)

    async def _send(self, patch: NodePatch) -> None:
        self._accept_written(await self._writer.patch_node(patch))
