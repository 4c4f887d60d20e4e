"""Keeps the answers to requests to evict pods, and which right that evictions need is missing.

They are of this process alone. What has to hold over a crash is on the nodes (``memory.intents``) and in
their pods.

A right counts as missing until a request that needs it is answered otherwise. Requests come only while a node
is short of memory, so a refusal is forgotten some time after the last one: no one can show that the right was
granted since.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from winpool.controllers.memory_polls import EvictionResult
from winpool.kube.errors import Forbidden, explain
from winpool.model.node import Eviction
from winpool.model.node_pods import Answer, Answered, NodePods, PodListRequest

REPORTED_SECONDS: Final = 600.0
"""How long after its last refusal a right is reported as missing. While it is needed it is refused again
within three minutes: a pod without an eviction gets a new intent at the deadline of the last one."""


@dataclass(slots=True)
class _Refused:
    """The first ``sentence`` stays: refusals in two namespaces must not change the report in turn."""

    sentence: str
    at: float


class MissingRights:
    """What was refused, by the resource that was asked for. ``monotonic`` is the clock of the samples."""

    def __init__(self, *, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._refused: dict[str, _Refused] = {}

    def refused(self, resource: str, error: Forbidden) -> None:
        """Note that a request about ``resource`` is not permitted."""
        known = self._refused.get(resource) if self._is_reported(resource) else None
        sentence = explain(error) if known is None else known.sentence
        self._refused[resource] = _Refused(sentence, self._monotonic())

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
        found = (each.sentence for resource, each in self._refused.items() if self._is_reported(resource))
        return next(found, "")

    def seconds_left(self) -> float | None:
        """Return after how long time alone changes the sentence; None where nothing is missing."""
        left = (each.at + REPORTED_SECONDS - self._monotonic() for each in self._refused.values())
        return min((seconds for seconds in left if seconds > 0), default=None)

    def _is_reported(self, resource: str) -> bool:
        known = self._refused.get(resource)
        return known is not None and self._monotonic() < known.at + REPORTED_SECONDS


REFUSED_SECONDS: Final = 120.0
"""How long a pod that was refused is not chosen again: each try costs two writes to the node. A budget
permits the next eviction as soon as a replacement is ready, usually within a minute."""

ANSWERS_KEPT_SECONDS: Final = 3600.0
"""How long other answers are kept. Where one is forgotten, a list of the pods shows the same."""

EVICTION: Final = "pods/eviction"
"""The resource that requests to evict create."""

MOST: Final = 4096
"""Answers that are kept, some 300 bytes each. Beyond it, the oldest is forgotten."""


class Detectors(Protocol):
    """The detectors of the nodes, which wait for the memory of an evicted pod to come back."""

    def eviction_begun(self, node_uid: str, pod_uid: str, share: float | None) -> None:
        """Note that a pod is being deleted that was measured to have ``share`` bytes, None if unknown."""
        ...

    def eviction_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod is gone."""
        ...

    def eviction_refused(self, node_uid: str, pod_uid: str) -> None:
        """Note that the pod was not evicted."""
        ...


class Answers:
    """The last answer about each pod. ``monotonic`` is the clock of the samples.

    ``rights`` has which right is missing to list what an eviction needs, or to evict, ``protected`` which
    namespaces the settings protect.

    ``results`` counts the requests that memory pressure is the reason of. What a list of pods shows later is
    no answer to a request, and is not counted.
    """

    def __init__(
        self,
        *,
        detectors: Detectors,
        results: Counter[EvictionResult],
        monotonic: Callable[[], float],
        protected: frozenset[str] = frozenset(),
    ) -> None:
        self._detectors = detectors
        self._results = results
        self._monotonic = monotonic
        self.rights = MissingRights(monotonic=monotonic)
        self.protected = protected
        # In the order of their times.
        self._answers: OrderedDict[str, Answered] = OrderedDict()

    def known(self) -> Mapping[str, Answered]:
        """Return what is known now."""
        now = self._monotonic()
        old = [uid for uid, each in self._answers.items() if now - each.at > _kept_seconds(each)]
        for uid in old:
            del self._answers[uid]
        return dict(self._answers)

    def asked(self, eviction: Eviction) -> None:
        """Note that a request is sent: from now on it may be carried out."""
        self._note(eviction.node_uid, eviction.uid, Answer.ASKED)

    def accepted(self, eviction: Eviction) -> None:
        """Note that the pod is being deleted."""
        self._count(eviction, "evicted")
        self.rights.granted(EVICTION)
        self._note(eviction.node_uid, eviction.uid, Answer.ACCEPTED)
        if eviction.node_uid:
            self._detectors.eviction_begun(eviction.node_uid, eviction.uid, eviction.share)

    def refused(self, eviction: Eviction, said: str) -> None:
        """Note that the pod is not evicted now, and why."""
        self._count(eviction, "refused")
        self.rights.granted(EVICTION)
        self._note(eviction.node_uid, eviction.uid, Answer.REFUSED, said)
        if eviction.node_uid:
            self._detectors.eviction_refused(eviction.node_uid, eviction.uid)

    def unheard(self, eviction: Eviction) -> None:
        """Note that the request was not carried out, for a reason that is not of the pod."""
        self._count(eviction, "failed")
        self._answers.pop(eviction.uid, None)

    def forbidden(self, error: Forbidden) -> None:
        """Note that the operator may evict no pods."""
        self.rights.refused(EVICTION, error)

    def unsent(self, eviction: Eviction) -> None:
        """Note that the request was not sent after all: it was none."""
        self._answers.pop(eviction.uid, None)

    def unanswered(self, eviction: Eviction) -> None:
        """Note that the request may still be carried out: the pod stays asked for."""
        self._count(eviction, "unanswered")

    def gone(self, eviction: Eviction) -> None:
        """Note that there was no pod of that UID to evict."""
        self._count(eviction, "gone")
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
                self._note(look.node.uid, uid, Answer.ACCEPTED)
                self._detectors.eviction_begun(look.node.uid, uid, None)

    def _note_gone(self, node_uid: str, pod_uid: str) -> None:
        """Note that there is no pod of that UID on the node. The first time is the one that is kept."""
        known = self._answers.get(pod_uid)
        if known is not None and known.answer is Answer.GONE and known.is_about(node_uid):
            return
        self._note(node_uid, pod_uid, Answer.GONE)
        if node_uid:
            self._detectors.eviction_gone(node_uid, pod_uid)

    def _count(self, eviction: Eviction, result: EvictionResult) -> None:
        if eviction.node_uid:
            self._results[result] += 1

    def _note(self, node_uid: str, uid: str, answer: Answer, said: str = "") -> None:
        self._answers.pop(uid, None)
        self._answers[uid] = Answered(answer, self._monotonic(), said, node_uid)
        if len(self._answers) > MOST:
            self._answers.popitem(last=False)


def _kept_seconds(answered: Answered) -> float:
    return REFUSED_SECONDS if answered.answer is Answer.REFUSED else ANSWERS_KEPT_SECONDS
