"""The lane of evictions: a pod is asked for once at a time, and not again once it is told to end (P5).

What a disruption budget refuses is of one pod: that pod waits, the others go on. So is an eviction that is
not answered in time. A webhook or a budget that many write may hold up one pod, and whether it was
carried out is not known, so that nobody asks again before the API server has given up by itself.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from winpool.cluster.errors import ApiError, DisruptionBudget, NoAnswer, NotFound
from winpool.control.act.lane import Lane, is_of_one_object
from winpool.control.act.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from winpool.cluster.writer import Writer
    from winpool.control.act.lane import Outcome
    from winpool.objects.acts import Eviction

log = logging.getLogger(__name__)

EVICTIONS_IN_FLIGHT: Final = 8
"""An eviction takes some milliseconds, and up to 10 s where others write the same budget: for so long the API
server tries again. So the 110 pods of a node are asked for in a second, and evictions that hang hold an
eighth of the connections and no place of a patch."""

LONGEST_REFUSAL_SECONDS: Final = 30.0
"""Between two tries of one pod. A budget permits the next as soon as one replacement is ready, mostly within
a minute; ``kubectl drain`` asks each 5 s."""

UNANSWERED_SECONDS: Final = 60.0
"""After an eviction without an answer: as long as the API server works on a request, so that of one pod there
are no two outstanding."""

SETTLED_SECONDS: Final = 600.0
"""How long a pod that was told to end is left alone. It may take its whole grace period, which is 30 s if
nobody says otherwise. Being told again changes nothing for it, but costs a write."""

SETTLED_KEPT: Final = 8192
"""Bound of memory, some 200 bytes each: the pods of 70 full nodes in ten minutes. The one settled longest ago
is forgotten, which at worst has it told once more."""


class EvictionLane:
    """Evicts pods of all pools through ``writer``."""

    def __init__(self, *, writer: Writer, monotonic: Callable[[], float]) -> None:
        self._writer = writer
        self._monotonic = monotonic
        self._outstanding: set[str] = set()
        # UIDs of pods that need no eviction any more, and until when they are left alone; in that order.
        self._settled: OrderedDict[str, float] = OrderedDict()
        self._pauses: Pauses[str] = Pauses(monotonic=monotonic, longest=LONGEST_REFUSAL_SECONDS)
        self._lane = Lane(
            ready=self._unless_needless,
            perform=self._evict,
            is_of_one=is_of_one_pod,
            in_flight=EVICTIONS_IN_FLIGHT,
            monotonic=monotonic,
        )

    async def run(
        self, evictions: Sequence[Eviction], *, is_wanted: Callable[[], bool] = lambda: True
    ) -> Outcome[Eviction]:
        """Ask for ``evictions``, in order, at most EVICTIONS_IN_FLIGHT at once. Never raises an ApiError.

        Left out, and not counted as remaining, are pods that have to wait, that are being asked for, or that
        were told to end. A pod that is gone is stopped with NotFound: it was not we who ended it.
        No more are started once ``is_wanted`` says no: what they were decided on has changed.
        """
        due = [each for each in evictions if self._unless_needless(each)]
        return await self._lane.run(due, is_wanted=is_wanted)

    def forget(self, uid: str) -> None:
        """Begin anew with a pod: it may be asked for at once."""
        self._settled.pop(uid, None)
        self._pauses.forget(uid)

    def seconds_to_next(self, evictions: Iterable[Eviction]) -> float | None:
        """Return how long until one of these that has to wait is worth another try, None where none has to.

        0 where it is by now.
        """
        return self._pauses.seconds_to_next(each.uid for each in evictions)

    def _unless_needless(self, eviction: Eviction) -> Eviction | None:
        uid, now = eviction.uid, self._monotonic()
        while self._settled and next(iter(self._settled.values())) <= now:
            self._settled.popitem(last=False)
        is_needless = uid in self._outstanding or uid in self._settled or self._pauses.has_to_wait(uid)
        return None if is_needless else eviction

    async def _evict(self, eviction: Eviction) -> None:
        self._outstanding.add(eviction.uid)
        try:
            await self._writer.evict(eviction)
        except NotFound:
            self._settle(eviction.uid)
            log.info("pod %s on node %s is gone before its eviction", eviction.full_name, eviction.node)
            raise
        except ApiError as error:
            if is_of_one_pod(error):
                self._note_refused(eviction, error)
            raise
        else:
            self._settle(eviction.uid)
            log.info("pod %s on node %s is evicted: %s", eviction.full_name, eviction.node, eviction.why)
        finally:
            self._outstanding.discard(eviction.uid)

    def _settle(self, uid: str) -> None:
        self._pauses.forget(uid)
        self._settled.pop(uid, None)
        self._settled[uid] = self._monotonic() + SETTLED_SECONDS
        if len(self._settled) > SETTLED_KEPT:
            self._settled.popitem(last=False)

    def _note_refused(self, eviction: Eviction, error: ApiError) -> None:
        asked = UNANSWERED_SECONDS if isinstance(error, NoAnswer) else error.retry_after or 0.0
        if self._pauses.note(eviction.uid, at_least=asked) == 1:
            log.warning(
                "pod %s on node %s cannot be evicted now: %s; trying again, later and later",
                eviction.full_name,
                eviction.node,
                error,
            )


def is_of_one_pod(error: ApiError) -> bool:
    """Whether a failure is of the one pod that was to be evicted, or of its disruption budget."""
    return isinstance(error, DisruptionBudget | NoAnswer) or is_of_one_object(error)
