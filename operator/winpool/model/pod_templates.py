"""Counts the pods of a cluster by their controllers: what their templates leave open that Windows needs.

Two things: nothing says for which OS the pods are, so that the scheduler may place them on nodes of a pool;
and containers on the nodes of a pool have no memory limit. Pods that a controller makes from one template are
alike, so the first pod is judged, and the others are counted: with 150,000 pods that costs a look-up for
each, and none where taints keep them off all pools. No pod is kept. So someone who may create pods in a
namespace can make those of a controller there count as other ones, but none of another namespace: what is
kept and compared is bounded for each namespace too. Where that leaves pods out, the result is not complete.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from heapq import nsmallest
from typing import Final

import msgspec

from winpool.api.text import printable
from winpool.model.pods import JOB, MemoryLimits, Pod, Toleration, tolerates
from winpool.model.survey import CountedPods, PoolQuestion, TaintKey

MOST_TEMPLATES: Final = 20_000
"""Controllers that are distinguished, of some 300 bytes each: those of the largest clusters. Pods of others
are left out."""

MOST_OF_NAMESPACE: Final = 2_000
"""Controllers of one namespace that are distinguished where they select no OS, so that none takes all
places."""

TITLES_KEPT: Final = 64
"""Controllers of which a survey says how many pods they have. An issue names five."""

TITLE_LENGTH: Final = 120
"""Characters of a title that are kept. Anyone who may create pods writes kind and name of their owner."""

MOST_COMPARED: Final = 500_000
"""Taints times tolerations that are compared for one namespace in a pass over all pods, and selected labels
for one pool: a quarter of a second each. Real pods have a handful of different ones. What is beyond it is
left out."""

_SETS_KEPT: Final = 256
_LONGEST_SET_KEPT: Final = 32
"""Sets of tolerations that are judged once, and how long they are: clusters have a dozen."""

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
    # As one word each: titles are listed with commas. As a status shows them, so that they compare equal.
    words = f"{kind} {pod.namespace}/{name}".replace(",", " ").split()
    return printable(" ".join(words)[:TITLE_LENGTH])[:TITLE_LENGTH]


class _Count:
    """How many pods the templates of a controller have."""

    __slots__ = ("pods",)

    def __init__(self) -> None:
        self.pods = 0


_NEW: Final = _Count()


class OpenTemplates:
    """Counts the pods of templates without any evidence of their OS that a node of a pool may take.

    ``is_exempt`` says of a namespace that its pods do not count.
    """

    def __init__(self, questions: Iterable[PoolQuestion], is_exempt: Callable[[str], bool]) -> None:
        # Sets of taints and of nodes are bits of a number: comparing them costs the same for many.
        taints = dict.fromkeys(bars for each in questions for bars in each.bars.values())
        self._bars = {bars: 1 << number for number, bars in enumerate(taints)}
        self._is_exempt = is_exempt
        self._passed: dict[int, tuple[int, tuple[Toleration, ...]]] = {}
        self._counts: dict[_Key, _Count | None] = {}
        self._groups: dict[tuple[int, Selector], dict[str, _Count]] = {}
        self._titles: set[str] = set()
        self._kept = 0
        self._kept_of: Counter[str] = Counter()
        self._compared: Counter[str] = Counter()
        self._is_complete = True

    def add(self, pod: Pod) -> None:
        """Count a pod that has its template."""
        # Equal tolerations are the same object, as a rule, and comparing them takes longer than all else.
        known = self._passed.get(id(pod.tolerations))
        passed = known[0] if known else self._passed_by(pod.tolerations, pod.namespace)
        if not passed or not pod.heeds_taints:
            return
        key = (pod.namespace, pod.controller_kind, pod.controller or pod.name, pod.labels.get(_REVISION, ""))
        count = self._counts.get(key, _NEW)
        if count is _NEW:
            if len(self._counts) >= MOST_TEMPLATES:
                self._counts.clear()
            count = self._counts[key] = self._count_of(pod, passed)
        if count is not None:
            count.pods += 1

    def _passed_by(self, tolerations: tuple[Toleration, ...], namespace: str) -> int:
        """Return which taints of nodes keep no pod with ``tolerations`` off."""
        compared = self._compared[namespace] + len(self._bars) * (len(tolerations) + 1)
        if compared > MOST_COMPARED:
            self._is_complete = False
            return 0
        self._compared[namespace] = compared
        passed = sum(bit for bars, bit in self._bars.items() if _passes(bars, tolerations))
        if len(tolerations) <= _LONGEST_SET_KEPT:
            if len(self._passed) >= _SETS_KEPT:
                self._passed.clear()
            self._passed[id(tolerations)] = (passed, tolerations)
        return passed

    def _count_of(self, pod: Pod, passed: int) -> _Count | None:
        if pod.template is None or pod.is_static or self._is_exempt(pod.namespace):
            return None
        kept = self._kept_of[pod.namespace]
        is_full = self._kept >= MOST_TEMPLATES or kept >= MOST_OF_NAMESPACE
        if is_full and not (kept and title_of(pod) in self._titles):
            # It would be left out whatever its template says, and reading that takes longest.
            self._is_complete = False
            return None
        selector = pod.template.labels_without_os()
        if selector is None:
            return None
        title = title_of(pod)
        count = self._groups.get((passed, selector), {}).get(title)
        if count is None:
            if is_full:
                self._is_complete = False
                return None
            self._titles.add(title)
            self._kept += 1
            self._kept_of[pod.namespace] += 1
            count = self._groups.setdefault((passed, selector), {})[title] = _Count()
        return count

    def result(self, question: PoolQuestion) -> CountedPods:
        """Return those that a node of the pool may take."""
        by_bars: dict[int, int] = {}
        for number, bars in enumerate(question.bars.values()):
            by_bars[self._bars[bars]] = by_bars.get(self._bars[bars], 0) | 1 << number
        groups = self._groups_within_limit(len(by_bars))
        labels = {pair for _, selector in groups for pair in selector}
        having: dict[tuple[str, str], int] = {}
        for number, name in enumerate(question.bars):
            for pair in labels.intersection(question.labels.get(name, {}).items()):
                having[pair] = having.get(pair, 0) | 1 << number

        counts: dict[str, int] = {}
        open_to: dict[int, int] = {}
        for passed, selector in groups:
            if passed not in open_to:
                open_to[passed] = sum(nodes for bit, nodes in by_bars.items() if passed & bit)
            nodes = open_to[passed]
            for pair in selector:
                nodes &= having.get(pair, 0)
            if nodes:
                for title, count in self._groups[passed, selector].items():
                    counts[title] = counts.get(title, 0) + count.pods
        return counted(counts, is_complete=self._is_complete)

    def _groups_within_limit(self, bars: int) -> list[tuple[int, Selector]]:
        """Return the groups to compare with nodes that have so many sets of taints, those that cost least."""
        found: list[tuple[int, Selector]] = []
        seen: set[int] = set()
        left = MOST_COMPARED
        for passed, selector in sorted(self._groups, key=lambda each: len(each[1])):
            left -= len(selector) + (0 if passed in seen else bars)
            if left < 0:
                self._is_complete = False
                break
            seen.add(passed)
            found.append((passed, selector))
        return found


def _passes(bars: Collection[TaintKey], tolerations: Iterable[Toleration]) -> bool:
    return all(tolerates(tolerations, key=key, value=value, effect=effect) for key, effect, value in bars)


def counted(counts: Mapping[str, int], *, is_complete: bool = True) -> CountedPods:
    """Return the titles with the largest counts, the largest first, and the sum of all."""
    found = [(title, count) for title, count in counts.items() if count]
    worst = nsmallest(TITLES_KEPT, found, key=lambda each: (-each[1], each[0]))
    return CountedPods(tuple(worst), sum(count for _, count in found), is_complete)


class LimitTally(msgspec.Struct):
    """The memory limits on the nodes of one pool: their sum by node, and the containers that have none."""

    limits: dict[str, int] = msgspec.field(default_factory=dict)
    unlimited: dict[str, int] = msgspec.field(default_factory=dict)
    is_complete: bool = True

    def add(self, node: str, template: _Limits) -> None:
        """Count a pod of ``template``."""
        self.limits[node] = self.limits.get(node, 0) + template.limit
        if not template.unlimited:
            return
        if template.title not in self.unlimited and len(self.unlimited) >= MOST_TEMPLATES:
            self.is_complete = False
        else:
            self.unlimited[template.title] = self.unlimited.get(template.title, 0) + template.unlimited


class _Limits(msgspec.Struct, frozen=True):
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
        if found is None and pod.template is not None:
            if len(self._found) >= MOST_TEMPLATES:
                self._found.clear()
            limits = pod.template.memory_limits() or MemoryLimits()
            unlimited = 0 if self._is_exempt(pod.namespace) else limits.unlimited
            title = title_of(pod) if unlimited else ""
            found = self._found[key] = _Limits(title, limits.limit, unlimited)
        return found
