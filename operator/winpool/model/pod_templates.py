"""Counts the pods of a cluster by their controllers: what their templates leave open that Windows needs.

Two things: nothing says for which OS the pods are, so that the scheduler may place them on nodes of a pool;
and containers on the nodes of a pool have no memory limit. Pods that a controller makes from one template are
alike, so the first pod is judged, and the others are counted: with 150,000 pods that costs a look-up for
each, and none where taints keep them off all pools. No pod is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Final

from winpool.model.pods import JOB, MemoryLimits, Pod, Toleration, tolerates
from winpool.model.survey import NOTHING_COUNTED, CountedPods, PoolQuestion, TaintKey

MOST_TEMPLATES: Final = 20_000
"""Templates that are told apart, of some 300 bytes each: those of the largest clusters. Pods of further ones
do not count."""

TITLES_KEPT: Final = 64
"""Controllers of which a survey says how many pods they have. An issue names five."""

TITLE_LENGTH: Final = 120
"""Characters of a title that are kept. Whoever may create pods writes kind and name of their owner."""

MOST_COMPARED: Final = 500_000
"""Selectors times nodes that are compared in a pass over all pods, a quarter of a second. Real pods have a
handful of different selectors. What is beyond it counts as kept off."""

_SETS_KEPT: Final = 256
_LONGEST_SET_KEPT: Final = 32
"""Sets of tolerations that are told apart, and how long they are: clusters have a dozen. Pods with others do
not count."""

_REVISION: Final = "controller-revision-hash"
"""Label of the pods of a DaemonSet or StatefulSet, whose name is the same for each template.
https://kubernetes.io/docs/reference/labels-annotations-taints/#controller-revision-hash"""

_HASH: Final = "pod-template-hash"
"""Label of the pods of a Deployment, and the end of the name of their ReplicaSet."""

_MINUTE: Final = re.compile(r"-(?:2[5-9]|[34]\d)\d{6}$", re.ASCII)
"""The end of the name of a Job of a CronJob: minutes since 1970, here from 2017 to 2065. A date of eight
digits is less (k8s.io/kubernetes, pkg/controller/cronjob/utils.go)."""

Selector = tuple[tuple[str, str], ...]
_Key = tuple[str, str, str, str]


def title_of(pod: Pod) -> str:
    """Return kind, namespace and name of what a person edits to change the pod.

    The Deployment in place of its ReplicaSet, the CronJob in place of its Job, and of a static pod the name
    in its file. A pod without a controller stands for itself.
    """
    kind, name, template_hash = pod.controller_kind, pod.controller, pod.labels.get(_HASH)
    if pod.is_static or not kind:
        kind, name = "Pod", pod.name.removesuffix(f"-{pod.node}") if pod.is_static else pod.name
    elif kind == "ReplicaSet" and template_hash and name.endswith(f"-{template_hash}"):
        kind, name = "Deployment", name.removesuffix(f"-{template_hash}")
    elif kind == JOB and (minute := _MINUTE.search(name)):
        kind, name = "CronJob", name[: minute.start()]
    # As one word each: titles are listed with commas.
    words = f"{kind} {pod.namespace}/{name}".replace(",", " ").split()
    return " ".join(words)[:TITLE_LENGTH]


class _Count:
    """How many pods the templates of a controller have."""

    __slots__ = ("pods",)

    def __init__(self) -> None:
        self.pods = 0


_NEW: Final = _Count()


class _Set:
    """Tolerations that pods share, and the pods with them by the labels that they select, and by title.

    ``passes``: a node of a pool has no taint that they do not tolerate.
    """

    __slots__ = ("by_selector", "passes", "tolerations")

    def __init__(self, tolerations: tuple[Toleration, ...], *, passes: bool) -> None:
        self.tolerations, self.passes = tolerations, passes
        self.by_selector: dict[Selector, dict[str, _Count]] = {}


class OpenTemplates:
    """Counts the pods of templates without any evidence of their OS that a node of a pool may take.

    ``is_exempt`` says of a namespace that its pods do not count.
    """

    def __init__(self, questions: Iterable[PoolQuestion], is_exempt: Callable[[str], bool]) -> None:
        self._bars = frozenset(bars for each in questions for bars in each.bars.values())
        self._is_exempt = is_exempt
        self._sets: dict[tuple[Toleration, ...], _Set] = {}
        self._by_id: dict[int, _Set] = {}
        self._counts: dict[_Key, _Count | None] = {}
        self._compared = 0

    def add(self, pod: Pod) -> None:
        """Count a pod that has its template."""
        # Equal tolerations are the same object, as a rule, and comparing them takes longer than all else.
        found = self._by_id.get(id(pod.tolerations)) or self._set_of(pod.tolerations)
        if found is None or not found.passes:
            return
        key = (pod.namespace, pod.controller_kind, pod.controller or pod.name, pod.labels.get(_REVISION, ""))
        count = self._counts.get(key, _NEW)
        if count is _NEW:
            count = self._count_of(key, pod, found) if len(self._counts) < MOST_TEMPLATES else None
        if count is not None and pod.heeds_taints:
            count.pods += 1

    def _set_of(self, tolerations: tuple[Toleration, ...]) -> _Set | None:
        """Return the set; None of one too many, and of one that is too long to be kept."""
        if len(tolerations) > _LONGEST_SET_KEPT:
            return None
        found = self._sets.get(tolerations)
        if found is None and len(self._sets) < _SETS_KEPT:
            passes = any(_passes(bars, tolerations) for bars in self._bars)
            found = self._sets[tolerations] = self._by_id[id(tolerations)] = _Set(tolerations, passes=passes)
        return found

    def _count_of(self, key: _Key, pod: Pod, found: _Set) -> _Count | None:
        selector = None
        if pod.template is not None and not (pod.is_static or self._is_exempt(pod.namespace)):
            selector = pod.template.labels_without_os()
        count = None
        if selector is not None:
            count = found.by_selector.setdefault(selector, {}).setdefault(title_of(pod), _Count())
        self._counts[key] = count
        return count

    def result(self, question: PoolQuestion) -> CountedPods:
        """Return those that a node of the pool may take."""
        counts: dict[str, int] = {}
        for each in self._sets.values():
            for selector, group in each.by_selector.items():
                if self._lands(question, each.tolerations, selector):
                    for title, count in group.items():
                        counts[title] = counts.get(title, 0) + count.pods
        return counted(counts)

    def _lands(self, question: PoolQuestion, tolerations: tuple[Toleration, ...], selector: Selector) -> bool:
        open_to = {bars for bars in {*question.bars.values()} if _passes(bars, tolerations)}
        if not selector or not open_to:
            return bool(open_to)
        self._compared += len(question.labels)
        return self._compared <= MOST_COMPARED and any(
            question.bars.get(name) in open_to and all(labels.get(key) == value for key, value in selector)
            for name, labels in question.labels.items()
        )


def _passes(bars: Collection[TaintKey], tolerations: Iterable[Toleration]) -> bool:
    return all(tolerates(tolerations, key=key, value=value, effect=effect) for key, effect, value in bars)


def counted(counts: Mapping[str, int]) -> CountedPods:
    """Return the titles with the largest counts, the largest first, and the sum of all."""
    found = [(title, count) for title, count in counts.items() if count]
    if not found:
        return NOTHING_COUNTED
    worst = nsmallest(TITLES_KEPT, found, key=lambda each: (-each[1], each[0]))
    return CountedPods(tuple(worst), sum(count for _, count in found))


@dataclass(slots=True)
class LimitTally:
    """The memory limits on the nodes of one pool: their sum by node, and the containers that have none."""

    limits: dict[str, int] = field(default_factory=dict)
    unlimited: dict[str, int] = field(default_factory=dict)

    def add(self, node: str, template: _Limits) -> None:
        """Count a pod of ``template``."""
        self.limits[node] = self.limits.get(node, 0) + template.limit
        if template.unlimited:
            self.unlimited[template.title] = self.unlimited.get(template.title, 0) + template.unlimited


@dataclass(frozen=True, slots=True)
class _Limits:
    """``limit`` is that of a pod in bytes, ``unlimited`` are its containers without one."""

    title: str
    limit: int
    unlimited: int


class TemplateLimits:
    """Finds the memory limits of pods on the nodes of pools, for each template once."""

    def __init__(self, is_exempt: Callable[[str], bool]) -> None:
        self._is_exempt = is_exempt
        self._found: dict[_Key, _Limits] = {}

    def of(self, pod: Pod) -> _Limits | None:
        """Return those of a pod that has its template; None where it does not count."""
        if pod.is_finished:
            return None
        name = pod.name if pod.is_static else pod.controller or pod.name
        key = (pod.namespace, pod.controller_kind, name, pod.labels.get(_REVISION, ""))
        found = self._found.get(key)
        if found is None and pod.template is not None and len(self._found) < MOST_TEMPLATES:
            limits = pod.template.memory_limits() or MemoryLimits()
            unlimited = 0 if self._is_exempt(pod.namespace) else limits.unlimited
            title = title_of(pod) if unlimited else ""
            found = self._found[key] = _Limits(title, limits.limit, unlimited)
        return found
