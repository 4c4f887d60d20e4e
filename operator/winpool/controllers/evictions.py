"""Sends evictions, one request at a time for a pod, and no more once the pod was evicted (P5).

A refusal by a disruption budget concerns one pod: that pod waits, and the others continue. The same holds for
an eviction that is not answered in time. A webhook, or a budget that many clients write, may delay one pod.
Whether its eviction was carried out is not known, so the operator does not ask again before the API server
has given up by itself.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol

from winpool.controllers.eviction_answers import Answers
from winpool.controllers.memory import MemoryCollector, NoDetectors
from winpool.controllers.memory_polls import MemoryStats
from winpool.controllers.services import Clock
from winpool.controllers.writes import Lane, Outcome, is_of_one_object
from winpool.features.memory.eviction import objection
from winpool.kube.backoff import KeyedBackoff
from winpool.kube.client import Transport
from winpool.kube.errors import (
    ApiError,
    Conflict,
    DisruptionBudget,
    Forbidden,
    Invalid,
    NoAnswer,
    NotFound,
    NotLeading,
    NotWanted,
    TooManyRequests,
    Unauthorized,
    UnconfirmedRefusal,
)
from winpool.kube.request import unless
from winpool.kube.writer import Writer
from winpool.model.node import Eviction, Node
from winpool.model.pressure import NodePressure

_INTERNAL_ERROR: Final = 500

_OF_ETCD: Final = re.compile(r"\betcdserver: |\brpc error: ")
"""In the message of a 500 that the API server passes on from etcd. A write that timed out there, or met a
change of the leader, may have been carried out."""


class Notes(Protocol):
    """Remembers the answers, see ``eviction_answers``."""

    def asked(self, eviction: Eviction) -> None:
        """Note that a request is sent."""
        ...

    def accepted(self, eviction: Eviction) -> None:
        """Note that the pod is being deleted."""
        ...

    def refused(self, eviction: Eviction, said: str) -> None:
        """Note that this pod is not evicted now."""
        ...

    def unheard(self, eviction: Eviction) -> None:
        """Note that the request was not carried out, for a reason that is not of the pod."""
        ...

    def forbidden(self, error: Forbidden) -> None:
        """Note that the operator lacks the right to evict."""
        ...

    def unanswered(self, eviction: Eviction) -> None:
        """Note that it is not known whether the request was or will be carried out."""
        ...

    def unsent(self, eviction: Eviction) -> None:
        """Note that the request was not sent after all."""
        ...

    def gone(self, eviction: Eviction) -> None:
        """Note that there is no such pod."""
        ...


def note_failed(notes: Notes, eviction: Eviction, error: ApiError) -> None:
    """Note an eviction that failed. Without an answer it may still be carried out: it remains asked for.

    A 429 of flow control says nothing about the pod, and neither does a missing permission. A budget whose
    status is invalid answers 403, two budgets answer 500, and so does a webhook that fails. A 500 of etcd
    says as little as no answer.
    """
    is_verdict = (
        isinstance(error, DisruptionBudget | Invalid)
        or (isinstance(error, Forbidden) and error.permission is None)
        or (error.status == _INTERNAL_ERROR and _OF_ETCD.search(error.message) is None)
    )
    if isinstance(error, Forbidden) and error.permission is not None:
        notes.forbidden(error)
    if isinstance(error, NotWanted):
        notes.unsent(eviction)
    elif is_verdict:
        notes.refused(eviction, error.message)
    elif isinstance(
        error, TooManyRequests | Forbidden | UnconfirmedRefusal | Unauthorized | Conflict | NotLeading
    ):
        notes.unheard(eviction)
    else:
        notes.unanswered(eviction)


log = logging.getLogger(__name__)

EVICTIONS_IN_FLIGHT: Final = 8
"""An eviction takes some milliseconds, and up to 10 s where others write the same budget: the API server
tries again for so long. So the 110 pods of a node are evicted within a second. Evictions that hang occupy an
eighth of the connections, and no place of a patch."""

LONGEST_REFUSAL_SECONDS: Final = 30.0
"""Between two tries of one pod. A budget permits the next as soon as one replacement is ready, usually within
a minute; ``kubectl drain`` asks each 5 s."""

UNANSWERED_SECONDS: Final = 60.0
"""The pause after an eviction without an answer: as long as the API server works on a request, so that no pod
has two outstanding."""

SETTLED_SECONDS: Final = 600.0
"""How long a pod is not evicted again. It may need its whole grace period, which is 30 s by default. A second
eviction changes nothing for it, but costs a write."""

SETTLED_KEPT: Final = 8192
"""Bound of memory, some 200 bytes each: the pods of 70 full nodes in ten minutes. Beyond it, the one settled
longest ago is forgotten; at worst it is evicted once more."""


def _unchanged(eviction: Eviction) -> Eviction:
    return eviction


def _no_objection(_: Eviction) -> str:
    return ""


class EvictionLane:
    """Evicts pods of all pools through ``writer``. ``notes`` remembers the answers.

    ``objection`` returns why an eviction is not right any more, by what is known at that moment; empty where
    it is. It is asked when the turn of an eviction comes, and again right before the request is written.
    """

    def __init__(
        self,
        *,
        writer: Writer,
        monotonic: Callable[[], float],
        notes: Notes | None = None,
        objection: Callable[[Eviction], str] = _no_objection,
    ) -> None:
        self._writer = writer
        self._notes = notes
        self._objection = objection
        self._monotonic = monotonic
        self._outstanding: set[str] = set()
        # UIDs of pods that were evicted or are gone, and until when each is not evicted again; in that order.
        self._settled: OrderedDict[str, float] = OrderedDict()
        self._pauses: KeyedBackoff[str] = KeyedBackoff(monotonic=monotonic, cap=LONGEST_REFUSAL_SECONDS)
        self._lane = Lane(
            perform=self._evict,
            is_of_one=is_of_one_pod,
            in_flight=EVICTIONS_IN_FLIGHT,
            monotonic=monotonic,
        )

    async def run(
        self,
        evictions: Sequence[Eviction],
        *,
        newest: Callable[[Eviction], Eviction | None] = _unchanged,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Outcome[Eviction]:
        """Ask for ``evictions``, in order, at most EVICTIONS_IN_FLIGHT at once. Never raises an ApiError.

        Pods that have to wait, whose request is under way, or that were evicted are left out, and not counted
        as remaining. A pod that is gone counts as stopped, with NotFound: the operator did not evict it.

        ``newest`` returns an eviction as it was last decided, None where it is not to be any more. No more
        are started once ``is_wanted`` returns False: what they were decided on has changed.
        """
        due = [each for each in evictions if not self._is_needless(each)]
        with unless(lambda: "" if is_wanted() else "its pool has changed"):
            return await self._lane.run(
                due, ready=lambda each: self._ready(each, newest(each)), is_wanted=is_wanted
            )

    def forget(self, uid: str) -> None:
        """Forget the history of a pod: it may be evicted at once."""
        self._settled.pop(uid, None)
        self._pauses.forget(uid)

    def seconds_to_next(self, evictions: Iterable[Eviction]) -> float | None:
        """Return in how many seconds one of these that wait may be tried again; None where none waits.

        0 where one may be tried now.
        """
        return self._pauses.seconds_to_next(each.uid for each in evictions)

    def _is_needless(self, eviction: Eviction) -> bool:
        uid, now = eviction.uid, self._monotonic()
        while self._settled and next(iter(self._settled.values())) <= now:
            self._settled.popitem(last=False)
        return uid in self._outstanding or uid in self._settled or self._pauses.is_waiting(uid)

    def _ready(self, eviction: Eviction, newest: Eviction | None) -> Eviction | None:
        """Return the eviction as it is to be sent now; None to leave it out."""
        if self._is_needless(eviction):
            return None
        said = "a later pass decided otherwise" if newest is None else self._objection(newest)
        if said:
            _log_unsent(eviction, said)
            return None
        return newest

    async def _evict(self, eviction: Eviction) -> None:
        self._outstanding.add(eviction.uid)
        if self._notes is not None:
            self._notes.asked(eviction)
        try:
            with unless(lambda: self._objection(eviction)):
                await self._writer.evict(eviction)
        except NotFound:
            self._settle(eviction.uid)
            if self._notes is not None:
                self._notes.gone(eviction)
            log.info("pod %s on node %s was gone before its eviction", eviction.full_name, eviction.node)
            raise
        except ApiError as error:
            self._note_failed(eviction, error)
            raise
        else:
            self._settle(eviction.uid)
            if self._notes is not None:
                self._notes.accepted(eviction)
            log.info(
                "the operator evicted pod %s on node %s: %s", eviction.full_name, eviction.node, eviction.why
            )
        finally:
            self._outstanding.discard(eviction.uid)

    def _settle(self, uid: str) -> None:
        self._pauses.forget(uid)
        self._settled.pop(uid, None)
        self._settled[uid] = self._monotonic() + SETTLED_SECONDS
        if len(self._settled) > SETTLED_KEPT:
            self._settled.popitem(last=False)

    def _note_failed(self, eviction: Eviction, error: ApiError) -> None:
        if self._notes is not None:
            note_failed(self._notes, eviction, error)
        if isinstance(error, NotWanted):
            _log_unsent(eviction, error.message)
        elif is_of_one_pod(error):
            self._note_refused(eviction, error)
        elif isinstance(error, Forbidden):
            # The error ends the pass, and the one after it asks again: it is not to ask each second.
            self._pauses.note(eviction.uid, at_least=error.retry_after or 0.0)

    def _note_refused(self, eviction: Eviction, error: ApiError) -> None:
        asked = UNANSWERED_SECONDS if isinstance(error, NoAnswer) else error.retry_after or 0.0
        if self._pauses.note(eviction.uid, at_least=asked) == 1:
            log.warning(
                "the operator cannot evict pod %s on node %s now: %s; it tries again after longer and longer "
                "pauses",
                eviction.full_name,
                eviction.node,
                error,
            )


def is_of_one_pod(error: ApiError) -> bool:
    """Whether a failure concerns only the pod that was to be evicted, or its disruption budget."""
    return isinstance(error, DisruptionBudget | NoAnswer | NotWanted) or is_of_one_object(error)


def _log_unsent(eviction: Eviction, said: str) -> None:
    log.info(
        "the operator does not evict pod %s on node %s now: %s; it decides again",
        eviction.full_name,
        eviction.node,
        said,
    )


def eviction_lane(
    transport: Transport,
    *,
    answers: Answers,
    memory: MemoryCollector | None,
    known: Mapping[str, Node],
    clock: Clock,
) -> EvictionLane:
    """Make the lane. ``memory`` has detectors, ``known`` are the nodes as the watch last reported them."""

    def still(eviction: Eviction) -> str:
        pool = _pool_of(memory, eviction.node_uid, now=clock.monotonic())
        return objection(eviction, node=known.get(eviction.node), pool=pool, now=clock.now())

    return EvictionLane(writer=Writer(transport), monotonic=clock.monotonic, notes=answers, objection=still)


def eviction_answers(memory: MemoryCollector | None, *, clock: Clock) -> Answers:
    """Return what remembers the answers to evictions, for the detectors and counters of ``memory``."""
    time = clock.monotonic
    detectors = NoDetectors() if memory is None else memory
    stats = MemoryStats() if memory is None else memory.stats
    protected = frozenset() if memory is None else memory.protected_namespaces
    return Answers(detectors=detectors, results=stats.evictions, monotonic=time, protected=protected)


def _pool_of(
    memory: MemoryCollector | None, node_uid: str, *, now: float
) -> dict[str, tuple[Node, NodePressure]]:
    """Return what is known ``now`` of the nodes of the pool of a node; nothing where it is not watched."""
    return (
        {}
        if memory is None
        else {each.node.uid: (each.node, each.memory_at(now)) for each in memory.watched.beside(node_uid)}
    )
