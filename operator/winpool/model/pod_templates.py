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
"""Sets of tolerations that are judged once: pods share theirs."""

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


@dataclass(slots=True)
class _Count:
    """How many pods the templates of a controller have."""

    title: str
    pods: int = 0


_NEW: Final = _Count("")


class OpenTemplates:
    """Counts the pods of templates without any evidence of their OS that a node of a pool may take.

    ``is_exempt`` says of a namespace that its pods do not count.
    """

    def __init__(self, questions: Iterable[PoolQuestion], is_exempt: Callable[[str], bool]) -> None:
        self._bars = frozenset(bars for each in questions for bars in each.bars.values())
        self._is_exempt = is_exempt
        self._judged: dict[int, tuple[tuple[Toleration, ...], bool]] = {}
        self._counts: dict[_Key, _Count | None] = {}
        self._groups: dict[tuple[tuple[Toleration, ...], Selector], dict[str, _Count]] = {}
        self._compared = 0

    def add(self, pod: Pod) -> None:
        """Count a pod that has its template."""
        # By identity: pods share their tolerations, and a set that is kept here is not made anew.
        judged = self._judged.get(id(pod.tolerations))
        if not (self._passes(pod.tolerations) if judged is None else judged[1]):
            return
        labels = pod.labels
        key = (pod.namespace, pod.controller_kind, pod.controller or pod.name, labels.get(_REVISION, ""))
        count = self._counts.get(key, _NEW)
        if count is _NEW:
            count = self._count_of(key, pod)
        if count is not None and pod.heeds_taints:
            count.pods += 1

    def _passes(self, tolerations: tuple[Toleration, ...]) -> bool:
        """Whether pods with ``tolerations`` may be placed on a node of any pool, by its taints."""
        found = any(_passes(bars, tolerations) for bars in self._bars)
        if len(self._judged) < _SETS_KEPT:
            self._judged[id(tolerations)] = (tolerations, found)
        return found

    def _count_of(self, key: _Key, pod: Pod) -> _Count | None:
        if len(self._counts) >= MOST_TEMPLATES:
            return None
        count = self._counts[key] = self._judge(pod)
        return count

    def _judge(self, pod: Pod) -> _Count | None:
        if pod.template is None or pod.is_static or self._is_exempt(pod.namespace):
            return None
        selector = pod.template.labels_without_os()
        if selector is None:
            return None
        group = self._groups.setdefault((pod.tolerations, selector), {})
        title = title_of(pod)
        return group.setdefault(title, _Count(title))

    def result(self, question: PoolQuestion) -> CountedPods:
        """Return those that a node of the pool may take."""
        counts: dict[str, int] = {}
        for (tolerations, selector), group in self._groups.items():
            if self._lands(question, tolerations, selector):
                for each in group.values():
                    counts[each.title] = counts.get(each.title, 0) + each.pods
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
