"""Performs the node patches of a pass: many at once, for a bounded time, each with its precondition.

A conflict is not an error: somebody wrote the node between our read and our write, the
reflector will bring what they wrote, and the next pass decides on that. Between deciding and sending
lie up to some seconds, in which kubelets report: a patch is sent on the newest state that is known,
and not at all where that differs in anything that the decision had looked at.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import ApiError, Conflict, Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from winpool.cluster.writer import Writer
    from winpool.snapshot import Node, NodePatch

PATCHES_IN_FLIGHT: Final = 32
"""Where the API server's own throughput levels off: 32 in flight give 375 patches a second on two
cores, 100 give 413 and triple the latency of each (measured against a raw loader)."""

SLICE_SECONDS: Final = 5.0
"""How long a pass keeps starting patches. Then it reports, looks at the world again, and goes on, so that a
pool of thousands shows its progress. Between two slices the API server idles for about 0.2 s."""

INTERNAL_ERRORS: Final = 3
"""As many in one pass, and no success, are not the fault of single nodes."""

_INTERNAL_ERROR: Final = 500


@dataclass(slots=True)
class Outcome:
    """What became of the patches of a pass.

    ``stopped`` are those that failed for a reason of this one node, with the reason. ``remaining``
    counts those that were not started, for lack of time or because of ``error``, the failure that
    ended the work for all.
    """

    written: list[NodePatch] = field(default_factory=list)
    stopped: list[tuple[NodePatch, ApiError]] = field(default_factory=list)
    remaining: int = 0
    error: ApiError | None = None

    def concludes(self, error: ApiError) -> bool:
        """Whether ``error`` ends the work for all: it is of the cluster, and the others would fail as well.

        An internal error (500) is mostly a webhook that fails for one node; several without any success
        are an API server that is out of order.
        """
        if isinstance(error, Conflict | NotFound | Invalid):
            return False
        if isinstance(error, Forbidden):
            return error.permission is not None  # RBAC; else a policy, which may be about this node
        if error.status != _INTERNAL_ERROR:
            return True
        alike = sum(each.status == _INTERNAL_ERROR for _, each in self.stopped)
        return not self.written and alike + 1 >= INTERNAL_ERRORS


class Executor:
    """Sends node patches through ``writer`` and hands each answer to ``accept_written``.

    ``known`` are the nodes as last heard of, by name; who is not among them is patched as decided.
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
        self._monotonic = monotonic
        # For all pools together: they share the connections with everything else that we ask.
        self._in_flight = asyncio.Semaphore(PATCHES_IN_FLIGHT)

    async def run(
        self, patches: Sequence[NodePatch], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Outcome:
        """Send ``patches``, in order, at most PATCHES_IN_FLIGHT at once. Never raises an ApiError.

        No more are started once ``is_wanted`` says no: what they were decided on has changed.
        """
        outcome = Outcome()
        waiting = iter(patches)
        deadline = self._monotonic() + SLICE_SECONDS
        async with asyncio.TaskGroup() as group:
            for _ in range(min(PATCHES_IN_FLIGHT, len(patches))):
                group.create_task(
                    self._work(waiting, deadline=deadline, is_wanted=is_wanted, outcome=outcome)
                )
        outcome.remaining = len(patches) - len(outcome.written) - len(outcome.stopped)
        return outcome

    async def _work(
        self,
        waiting: Iterator[NodePatch],
        *,
        deadline: float,
        is_wanted: Callable[[], bool],
        outcome: Outcome,
    ) -> None:
        while outcome.error is None and self._monotonic() < deadline and is_wanted():
            patch = next(waiting, None)
            if patch is None:
                return
            now = self._known.get(patch.node.name, patch.node)
            if now == patch.node:  # in all that is looked at; the resourceVersion may be a newer one
                await self._send(patch if now is patch.node else replace(patch, node=now), outcome)

    async def _send(self, patch: NodePatch, outcome: Outcome) -> None:
        try:
            async with self._in_flight:
                node = await self._writer.patch_node(patch)
        except ApiError as error:
            if outcome.concludes(error):
                outcome.error = error
            else:
                outcome.stopped.append((patch, error))
        else:
            outcome.written.append(patch)
            self._accept_written(node)
