"""What the lanes of acts share: many acts at once, for a bounded time, until an error of the whole cluster.

All pools share a lane, since they share the connections with all other requests of the operator. Each lane
has its own limit: where one hangs, the others continue. Each has its own rule for which error concerns one
object and which the cluster.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from winpool.cluster.errors import ApiError, Conflict, Forbidden, Invalid, NotFound
from winpool.cluster.versions import is_older
from winpool.objects.acts import ConditionsPatch, NodePatch

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from winpool.objects.node import Node

ActT = TypeVar("ActT")
NodeActT = TypeVar("NodeActT", NodePatch, ConditionsPatch)

SLICE_SECONDS: Final = 10.0
"""How long a pass starts acts. Then it reports, takes a new snapshot, and continues, so that a pool of
thousands of nodes shows its progress. Between two slices the API server idles for about 0.2 s, while the
operator decides again on all nodes."""

INTERNAL_ERRORS: Final = 32
"""So many in one pass, and no success, mean that the API server is out of order. As many as there are patches
in flight at once, so that they cost it no more than a moment of ordinary work."""

_INTERNAL_ERROR: Final = 500


@dataclass(slots=True)
class Outcome(Generic[ActT]):
    """What became of the acts of a pass.

    ``stopped`` are those that failed for a reason of this one object, with the reason;
    ``internal_errors`` counts the 500s among them. ``remaining``
    counts those that were not started: the time was over, they are not wanted any more,
    their objects changed, or ``error``, a failure of the whole cluster, ended the work.
    """

    done: list[ActT] = field(default_factory=list)
    stopped: list[tuple[ActT, ApiError]] = field(default_factory=list)
    internal_errors: int = 0
    remaining: int = 0
    error: ApiError | None = None

    @property
    def is_halted(self) -> bool:
        """Whether so many acts failed with internal errors, and none succeeded, that the others can wait.

        A single internal error is usually a webhook that fails for one object, and says nothing of the
        others.
        """
        return not self.done and self.internal_errors >= INTERNAL_ERRORS


class Lane(Generic[ActT]):
    """Performs acts of one kind, at most ``in_flight`` at once.

    ``perform`` performs one and raises ApiErrors; ``is_of_one`` says whether an error concerns that one
    object only.
    """

    def __init__(
        self,
        *,
        perform: Callable[[ActT], Awaitable[None]],
        is_of_one: Callable[[ApiError], bool],
        in_flight: int,
        monotonic: Callable[[], float],
    ) -> None:
        self._perform = perform
        self._is_of_one = is_of_one
        self._limit = in_flight
        self._monotonic = monotonic
        self._in_flight = asyncio.Semaphore(in_flight)

    async def run(
        self,
        acts: Sequence[ActT],
        *,
        ready: Callable[[ActT], ActT | None],
        is_wanted: Callable[[], bool],
    ) -> Outcome[ActT]:
        """Perform ``acts``, in order. Never raises an ApiError.

        ``ready`` returns an act as it is to be performed when its turn comes; None to leave it out. No more
        are started once ``is_wanted`` returns False: what they were decided on has changed.
        """
        outcome: Outcome[ActT] = Outcome()
        waiting = iter(acts)
        deadline = self._monotonic() + SLICE_SECONDS
        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._limit, len(acts))):
                group.create_task(
                    self._work(waiting, ready, deadline=deadline, is_wanted=is_wanted, outcome=outcome)
                )
        outcome.remaining = len(acts) - len(outcome.done) - len(outcome.stopped)
        return outcome

    async def _work(
        self,
        waiting: Iterator[ActT],
        ready: Callable[[ActT], ActT | None],
        *,
        deadline: float,
        is_wanted: Callable[[], bool],
        outcome: Outcome[ActT],
    ) -> None:
        while True:
            async with self._in_flight:
                # Checked only now: with many pools, the wait for this place may have been long.
                if outcome.error or outcome.is_halted or self._monotonic() >= deadline or not is_wanted():
                    return
                act = next(waiting, None)
                if act is None:
                    return
                if (current := ready(act)) is not None:
                    await self._do(current, outcome)

    async def _do(self, act: ActT, outcome: Outcome[ActT]) -> None:
        try:
            await self._perform(act)
        except ApiError as error:
            if self._is_of_one(error):
                outcome.stopped.append((act, error))
                outcome.internal_errors += error.status == _INTERNAL_ERROR
            elif outcome.error is None or (error.retry_after or 0) > (outcome.error.retry_after or 0):
                outcome.error = error  # of the cluster: the others would fail as well
        else:
            outcome.done.append(act)


def is_of_one_object(error: ApiError) -> bool:
    """Whether a failure concerns only the written object. A 403 that is not from RBAC is from a policy."""
    if isinstance(error, Forbidden):
        return error.permission is None
    return isinstance(error, Conflict | NotFound | Invalid) or error.status == _INTERNAL_ERROR


def on_newest_state(act: NodeActT, known: Mapping[str, Node]) -> NodeActT | None:
    """Return the act on the newest known state of its node; None where what the decision used has changed.

    Between deciding and sending lie up to some seconds, in which kubelets report. A node that is not known
    keeps the state that was decided on.
    """
    node = known.get(act.node.name)
    if node is None or is_older(node.resource_version, than=act.node.resource_version):
        return act
    return replace(act, node=node) if node == act.node else None
