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
from winpool.cluster.versions import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from winpool.cluster.writer import Writer
    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node

PATCHES_IN_FLIGHT: Final = 32
"""Where the API server's own throughput levels off: 32 in flight give 375 patches a second on two
cores, 100 give 413 and triple the latency of each (measured against a raw loader)."""

SLICE_SECONDS: Final = 10.0
"""How long a pass keeps starting patches. Then it reports, looks at the world again, and goes on, so that a
pool of thousands shows its progress. Between two slices the API server idles for about 0.2 s, and all nodes
are decided on anew."""

INTERNAL_ERRORS: Final = 32
"""So many in one pass, and no success, say that the API server is out of order: as many as are in flight
at once, so that it costs it no more than a moment of ordinary work."""

_INTERNAL_ERROR: Final = 500


@dataclass(slots=True)
class Outcome:
    """What became of the patches of a pass.

    ``stopped`` are those that failed for a reason of this one node, with the reason;
    ``internal_errors`` counts the 500s among them. ``remaining``
    counts those that were not started: for lack of time, because they are not wanted any more, because
    their nodes changed, or because of ``error``, the failure that ended the work for all.
    """

    written: list[NodePatch] = field(default_factory=list)
    stopped: list[tuple[NodePatch, ApiError]] = field(default_factory=list)
    internal_errors: int = 0
    remaining: int = 0
    error: ApiError | None = None

    @property
    def is_halted(self) -> bool:
        """Whether nothing but internal errors came of so many patches that the others can wait.

        One is mostly a webhook that fails for one node, and says nothing of the others.
        """
        return not self.written and self.internal_errors >= INTERNAL_ERRORS


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
        while True:
            async with self._in_flight:
                # Asked only now: with many pools the wait for this place may have been long.
                if outcome.error or outcome.is_halted or self._monotonic() >= deadline or not is_wanted():
                    return
                patch = next(waiting, None)
                if patch is None:
                    return
                if current := self._on_newest_state(patch):
                    await self._send(current, outcome)

    def _on_newest_state(self, patch: NodePatch) -> NodePatch | None:
        """Return the patch for the newest state that is known; None where that is another to look at."""
        known = self._known.get(patch.node.name)
        if known is None or is_older(known.resource_version, than=patch.node.resource_version):
            return patch
        return replace(patch, node=known) if known == patch.node else None

    async def _send(self, patch: NodePatch, outcome: Outcome) -> None:
        try:
            node = await self._writer.patch_node(patch)
        except ApiError as error:
            if is_of_one_node(error):
                outcome.stopped.append((patch, error))
                outcome.internal_errors += error.status == _INTERNAL_ERROR
            elif outcome.error is None or (error.retry_after or 0) > (outcome.error.retry_after or 0):
                outcome.error = error  # of the cluster: the others would fail as well
        else:
            outcome.written.append(patch)
            self._accept_written(node)


def is_of_one_node(error: ApiError) -> bool:
    """Whether a failure is of the one node that was patched. A 403 that is not of RBAC is of a policy."""
    if isinstance(error, Forbidden):
        return error.permission is None
    return isinstance(error, Conflict | NotFound | Invalid) or error.status == _INTERNAL_ERROR
