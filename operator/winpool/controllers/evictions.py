"""Sends evictions, one request at a time for a pod and none once it was evicted (P5), and keeps the answers.

A refusal by a disruption budget concerns one pod: that pod waits, and the others continue. The same holds for
an eviction that is not answered in time. A webhook, or a budget that many clients write, may delay one pod.
Whether its eviction was carried out is not known, so the operator does not ask again before the API server
has given up by itself.

What a 429 of a disruption budget leads to:

1. Here: ``Answers.failed`` keeps REFUSED with the words of the API server for REFUSED_SECONDS. Until then the
   pod is not chosen again. The pauses of ``Evictor`` between two requests for one pod are shorter.
2. Of memory: in the next pass ``features/memory/eviction.py`` (``state_of``) sees that the intent on the node
   is over. Unless the node is held, it is removed, and another pod may be chosen
   (``features/memory/victims.py``). Where none is left, ``features/memory/findings.py`` (``_blocked``)
   reports the issue EvictionBlocked.
3. Of an upgrade: ``features/upgrade/drain.py`` names the budget as a blocker, and waits for newer budgets.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from msgspec.structs import replace

from winpool.controllers.memory import MemoryCollector
from winpool.controllers.memory_polls import EvictionResult, MemoryStats
from winpool.controllers.writes import Outcome, WorkerPool, is_of_one_object
from winpool.features.memory.eviction import objection
from winpool.features.upgrade.drain import objection as drain_objection
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
    explain,
)
from winpool.kube.request import unless
from winpool.kube.writer import Writer
from winpool.loops import Clock, keep_newest
from winpool.model.node import Eviction, Node
from winpool.model.node_pods import Answer, Answered, NodePods, PodListRequest

log = logging.getLogger(__name__)

_INTERNAL_ERROR: Final = 500

_OF_ETCD: Final = re.compile(r"\betcdserver: |\brpc error: ")
"""In the message of a 500 that the API server passes on from etcd. A write that timed out there, or met a
change of the leader, may have been carried out."""

_NOT_CARRIED_OUT: Final = (TooManyRequests, UnconfirmedRefusal, Unauthorized, Conflict, NotLeading)
"""Requests that failed for a reason that is not of the pod."""

REPORTED_SECONDS: Final = 600.0
"""How long after its last refusal a right is reported as missing. While it is needed it is refused again
within three minutes: a pod without an eviction gets a new intent at the deadline of the last one."""


class MissingRights:
    """Which rights are missing, by the resource asked for. ``monotonic`` is the clock of the samples.

    A right counts as missing until a request that needs it is answered otherwise. Requests come only while a
    node is short of memory, so a refusal is forgotten some time after the last one: no one can show that the
    right was granted since.
    """

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused: dict[str, tuple[str, float]] = {}
        """The sentence of the first refusal, which stays, and when the last was: refusals in two namespaces
        must not change the report in turn."""

    def refused(self, resource: str, error: Forbidden) -> None:
        """Note that a request about ``resource`` is not permitted."""
        sentence = self._reported().get(resource) or explain(error)
        self._refused[resource] = (sentence, self._monotonic())

    def granted(self, resource: str) -> None:
        """Note that a request about ``resource`` was permitted."""
        self._refused.pop(resource, None)

    @contextmanager
    def noting(self, resource: str) -> Iterator[None]:
        """Note whether a request about ``resource`` is permitted; other errors say nothing of that."""
        try:
            yield
        except Forbidden as error:
            self.refused(resource, error)
            raise
        self.granted(resource)

    def sentence(self) -> str:
        """Return what is missing, in words for people; empty where nothing is."""
        return next(iter(self._reported().values()), "")

    def seconds_left(self) -> float | None:
        """Return after how long time alone changes the sentence; None where nothing is missing."""
        left = (at + REPORTED_SECONDS - self._monotonic() for _, at in self._refused.values())
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _reported(self) -> Mapping[str, str]:
        """Return the sentences of what is reported now, by resource."""
        now = self._monotonic()
        return {each: said for each, (said, at) in self._refused.items() if now < at + REPORTED_SECONDS}


REFUSED_SECONDS: Final = 120.0
"""How long a pod that was refused is not chosen again: each try costs two writes to the node. A budget
permits the next eviction as soon as a replacement is ready, usually within a minute."""

ANSWERS_KEPT_SECONDS: Final = 3600.0
"""How long other answers are kept. Where one is forgotten, a list of the pods shows the same."""

DrainResult = Literal["Evicted", "Refused", "Gone", "Failed", "Unanswered", "Forced"]
"""Forced: the pod is being deleted, since it was not evicted in time."""

EVICTION: Final = "pods/eviction"
"""The resource that requests to evict create."""

MOST: Final = 4096
"""Answers that are kept, some 300 bytes each. Beyond it, the oldest is forgotten."""


class Detectors(Protocol):
    """The detectors of the nodes, which wait for the memory of an evicted pod to come back."""

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        """Note that a pod is being deleted that was measured to have ``share`` bytes, None if unknown."""

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod is gone."""

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod was not evicted."""


@dataclass(kw_only=True, eq=False, slots=True)
class Answers:
    """The last answer to a request to evict each pod. ``monotonic`` is the clock of the samples.

    They are of this process alone. What has to hold over a crash is on the nodes
    (``features/memory/intents.py``) and in their pods.

    ``rights`` has which right is missing to list what an eviction needs, or to evict, ``protected`` which
    namespaces the settings protect. ``detectors`` is None where no memory is sampled. ``results`` counts the
    requests that memory pressure is the reason of, ``drains`` those of drains. What a list of pods shows
    later is no answer to a request, and is not counted.
    """

    detectors: Detectors | None
    results: Counter[EvictionResult]
    monotonic: Callable[[], float]
    protected: frozenset[str] = frozenset()
    drains: Counter[DrainResult] = field(default_factory=Counter, init=False)
    rights: MissingRights = field(init=False)
    _answers: dict[str, Answered] = field(default_factory=dict, init=False)
    """In the order of their times."""

    def __post_init__(self) -> None:
        """Know of no missing right yet."""
        self.rights = MissingRights(monotonic=self.monotonic)

    def known(self) -> Mapping[str, Answered]:
        """Return what is known now."""
        now = self.monotonic()
        old = [uid for uid, each in self._answers.items() if now - each.at > _kept_seconds(each)]
        for uid in old:
            del self._answers[uid]
        return dict(self._answers)

    def asked(self, eviction: Eviction) -> None:
        """Note that a request is sent: from now on it may be carried out.

        What refused the last one remains known until this one is answered.
        """
        before = self._answers.get(eviction.uid)
        said, times = (before.said, before.times) if before else ("", 0)
        self._note(eviction, Answer.ASKED, said, times=times)

    def accepted(self, eviction: Eviction) -> None:
        """Note that the pod is being deleted."""
        if eviction.deletion is None:
            self._count(eviction, "Evicted")
            self.rights.granted(EVICTION)
        else:
            self.drains["Forced"] += 1
        self._note(eviction, Answer.ACCEPTED)
        if eviction.node_uid and self.detectors:
            self.detectors.eviction_begun(eviction.node_uid, eviction.uid, eviction.share)

    def refused(self, eviction: Eviction, said: str) -> None:
        """Note that the pod is not evicted now, and why."""
        self._count(eviction, "Refused")
        if eviction.deletion is None:
            self.rights.granted(EVICTION)
        before = self._answers.get(eviction.uid)
        self._note(eviction, Answer.REFUSED, said, times=1 + (before.times if before else 0))
        if eviction.node_uid and self.detectors:
            self.detectors.eviction_refused(eviction.node_uid, eviction.uid)

    def failed(self, eviction: Eviction, error: ApiError) -> None:
        """Note a request that failed. Without an answer it may still be carried out: it remains asked for.

        A 429 of flow control says nothing about the pod, and neither does a missing permission. A budget
        whose status is invalid answers 403, two budgets answer 500, and so does a webhook that fails. A 500
        of etcd says as little as no answer. The right to delete pods is reviewed before it is needed
        (``RolloutFacts``), and only some pools need it.
        """
        lacks_right = isinstance(error, Forbidden) and error.permission is not None
        is_verdict = isinstance(error, DisruptionBudget | Invalid | Forbidden) or (
            error.status == _INTERNAL_ERROR and _OF_ETCD.search(error.message) is None
        )
        if isinstance(error, Forbidden) and lacks_right and eviction.deletion is None:
            self.rights.refused(EVICTION, error)
        if isinstance(error, NotWanted):
            self._answers.pop(eviction.uid, None)
        elif is_verdict and not lacks_right:
            self.refused(eviction, error.message)
        elif lacks_right or isinstance(error, _NOT_CARRIED_OUT):
            self._count(eviction, "Failed")
            self._answers.pop(eviction.uid, None)
        else:
            self._count(eviction, "Unanswered")

    def gone(self, eviction: Eviction) -> None:
        """Note that there was no pod of that UID to evict."""
        self._count(eviction, "Gone")
        self._note_gone(eviction.node_uid, eviction.uid)

    def seen(self, look: PodListRequest, pods: NodePods) -> None:
        """Note what a list says of the pods that are watched: which are gone, and which are being deleted.

        A pod may have been evicted by a request without an answer, or by an earlier process. One that is
        known to be on another node is not gone because this one lacks it: any text can be on a node.
        """
        for uid in look.watched:
            pod, known = pods.of(uid), self._answers.get(uid)
            if pod is None or pod.is_finished:
                if known is None or known.answer is Answer.GONE or known.is_about(look.node.uid):
                    self._note_gone(look.node.uid, uid)
            elif pod.is_terminating and (known is None or known.answer is not Answer.ACCEPTED):
                self._note_seen(Answer.ACCEPTED, look.node.uid, uid)
                if self.detectors:
                    self.detectors.eviction_begun(look.node.uid, uid, None)

    def _note_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that there is no pod of that UID on the node. The first time is the one that is kept."""
        known = self._answers.get(pod_uid)
        if known is not None and known.answer is Answer.GONE and known.is_about(node_uid):
            return
        self._note_seen(Answer.GONE, node_uid, pod_uid)
        if node_uid and self.detectors:
            self.detectors.eviction_gone(node_uid, pod_uid)

    def _note_seen(self, answer: Answer, node_uid: str, pod_uid: str) -> None:
        """Note what a list shows. What the pod took from a budget stays as it was."""
        found, known = Answered(answer, self.monotonic(), node_uid=node_uid), self._answers.get(pod_uid)
        if known is not None and known.budget:
            found = replace(found, budget=known.budget, asked_at=known.taken_at)
        self._keep(pod_uid, found)

    def _count(self, eviction: Eviction, result: EvictionResult) -> None:
        if eviction.node_uid:
            self.results[result] += 1
        else:
            self.drains[result] += 1

    def _note(self, eviction: Eviction, answer: Answer, said: str = "", *, times: int = 0) -> None:
        node_uid, budget = eviction.node_uid, eviction.budget
        self._keep(eviction.uid, Answered(answer, self.monotonic(), said, node_uid, times, budget))

    def _keep(self, uid: str, answered: Answered) -> None:
        keep_newest(self._answers, uid, answered, most=MOST)


def _kept_seconds(answered: Answered) -> float:
    return REFUSED_SECONDS if answered.answer is Answer.REFUSED else ANSWERS_KEPT_SECONDS


EVICTIONS_IN_FLIGHT: Final = 8
"""An eviction takes some milliseconds, and up to 10 s where others write the same budget: the API server
tries again for so long. So the 110 pods of a node are evicted within a second. Evictions that hang occupy an
eighth of the connections, and no place of a patch."""

LONGEST_REFUSAL_SECONDS: Final = 16.0
"""Between two tries of one pod; ``kubectl drain`` asks each 5 s. Those who decide on evictions have longer
pauses: memory REFUSED_SECONDS, and a drain up to 20 s (``features/upgrade/drain.py``). So this one only holds
up who asks too soon. There is none where a drain knows the budget that refused, and counts what it allows."""

UNANSWERED_SECONDS: Final = 60.0
"""The pause after an eviction without an answer: as long as the API server works on a request, so that no pod
has two outstanding."""

SETTLED_SECONDS: Final = 600.0
"""How long a pod is not evicted again. It may need its whole grace period, which is 30 s by default. A second
eviction changes nothing for it, but costs a write."""

SETTLED_KEPT: Final = 8192
"""Bound of memory, some 200 bytes each: the pods of 70 full nodes in ten minutes. Beyond it, the one settled
longest ago is forgotten; at worst it is evicted once more."""


@dataclass(kw_only=True, eq=False)
class Evictor:
    """Evicts pods of all pools through ``writer``. ``answers`` remembers what is answered.

    ``objection`` returns why an eviction is not right any more, by what is known at that moment; empty where
    it is. It is asked when the turn of an eviction comes, and again right before the request is written.
    """

    writer: Writer
    monotonic: Callable[[], float]
    answers: Answers
    objection: Callable[[Eviction], str] = lambda _: ""
    _outstanding: set[str] = field(default_factory=set, init=False)
    _settled: OrderedDict[str, float] = field(default_factory=OrderedDict, init=False)
    """UIDs of pods that were evicted or are gone, and until when each is not evicted again; in that order."""

    def __post_init__(self) -> None:
        self._pauses = KeyedBackoff[str](monotonic=self.monotonic, cap=LONGEST_REFUSAL_SECONDS)
        self._workers = WorkerPool(self._evict, is_of_one_pod, EVICTIONS_IN_FLIGHT, self.monotonic)

    async def run(
        self,
        evictions: Sequence[Eviction],
        *,
        newest: Callable[[Eviction], Eviction | None] = lambda each: each,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Outcome[Eviction]:
        """Ask for ``evictions``, in order, at most EVICTIONS_IN_FLIGHT at once. Never raises an ApiError.

        Pods that have to wait, whose request is under way, or that were evicted are left out, and not counted
        as remaining. A pod that is gone counts as stopped, with NotFound: the operator did not evict it.

        ``newest`` returns an eviction as it was last decided, None where it is not to be any more. No more
        are started once ``is_wanted`` returns False: what they were decided on has changed.
        """
        due = [each for each in evictions if not self.is_needless(each)]
        with unless(lambda: "" if is_wanted() else "its pool has changed"):
            return await self._workers.run(
                due, ready=lambda each: self._ready(each, newest(each)), is_wanted=is_wanted
            )

    def seconds_to_next(self, evictions: Iterable[Eviction]) -> float | None:
        """Return in how many seconds one of these that wait may be tried again; None where none waits.

        0 where one may be tried now.
        """
        return self._pauses.seconds_to_next(each.uid for each in evictions)

    def is_needless(self, eviction: Eviction) -> bool:
        """Whether no request is to be sent now: one is under way or was accepted, or the pod has to wait."""
        uid, now = eviction.uid, self.monotonic()
        while self._settled and next(iter(self._settled.values())) <= now:
            self._settled.popitem(last=False)
        return uid in self._outstanding or uid in self._settled or self._pauses.is_waiting(uid)

    def _ready(self, eviction: Eviction, newest: Eviction | None) -> Eviction | None:
        """Return the eviction as it is to be sent now; None to leave it out."""
        if self.is_needless(eviction):
            return None
        said = "a later pass decided otherwise" if newest is None else self.objection(newest)
        if said:
            _log_unsent(eviction, said)
            return None
        return newest

    async def _evict(self, eviction: Eviction) -> None:
        self._outstanding.add(eviction.uid)
        self.answers.asked(eviction)
        try:
            with unless(lambda: self.objection(eviction)):
                await self.writer.evict(eviction)
        except NotFound:
            self._settle(eviction.uid)
            self.answers.gone(eviction)
            log.info("pod %s on node %s was gone before its eviction", eviction.full_name, eviction.node)
            raise
        except ApiError as error:
            self._note_failed(eviction, error)
            raise
        else:
            self._settle(eviction.uid)
            self.answers.accepted(eviction)
            done = "evicted" if eviction.deletion is None else "deleted"
            log.info(
                "the operator %s pod %s on node %s: %s", done, eviction.full_name, eviction.node, eviction.why
            )
        finally:
            self._outstanding.discard(eviction.uid)

    def _settle(self, uid: str) -> None:
        self._pauses.forget(uid)
        keep_newest(self._settled, uid, self.monotonic() + SETTLED_SECONDS, most=SETTLED_KEPT)

    def _note_failed(self, eviction: Eviction, error: ApiError) -> None:
        self.answers.failed(eviction, error)
        if isinstance(error, NotWanted):
            _log_unsent(eviction, error.message)
        elif isinstance(error, DisruptionBudget) and eviction.budget:
            # A drain, which waits for newer budgets: a pause would only let others be faster.
            log.info("pod %s on node %s is not evicted now: %s", eviction.full_name, eviction.node, error)
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


def make_evictor(
    transport: Transport,
    *,
    answers: Answers,
    memory: MemoryCollector | None,
    known: Mapping[str, Node],
    clock: Clock,
) -> Evictor:
    """Make what evicts. ``memory`` has detectors, ``known`` are the nodes as the watch last reported them."""

    def still(eviction: Eviction) -> str:
        node, pool = known.get(eviction.node), {} if memory is None else memory.beside(eviction.node_uid)
        now = clock.now()
        return drain_objection(eviction, node=node, now=now) or objection(
            eviction, node=node, pool=pool, now=now
        )

    return Evictor(writer=Writer(transport), monotonic=clock.monotonic, answers=answers, objection=still)


def eviction_answers(memory: MemoryCollector | None, *, clock: Clock) -> Answers:
    """Return what remembers the answers to evictions, for the detectors and counters of ``memory``."""
    time = clock.monotonic
    stats = MemoryStats() if memory is None else memory.stats
    protected = frozenset() if memory is None else memory.protected_namespaces
    return Answers(detectors=memory, results=stats.evictions, monotonic=time, protected=protected)
