"""Answers the questions of all pools from the pods of the cluster, one after the other.

No pod is kept: the memory is limited by nodes, taints, and required pods, for any number of pods. This
matters with 150,000 pods. Most of them are on nodes of no pool, and cost only one lookup in a dict.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from winpool.pods.pod import misplaced_because, tolerates
from winpool.pods.survey import (
    ALL,
    CRITICAL,
    DAEMON_SETS_KEPT,
    EXAMPLES_KEPT,
    IntolerantPods,
    Misplaced,
    OnNode,
    Readiness,
    Survey,
    daemon_set_place,
    taint_key,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from winpool.objects.node import Taint
    from winpool.pods.pod import Pod, Toleration
    from winpool.pods.survey import PoolQuestion, TaintKey

_SETS_KEPT: Final = 256
"""Sets of tolerations that are judged once: the pods of one workload have the same."""

_LONGEST_SET_KEPT: Final = 32
"""A longer set is judged every time and not kept, so that no pod can make the operator keep megabytes."""


class Surveyor:
    """Gets every pod once, returns one survey for each question."""

    def __init__(self, questions: Iterable[PoolQuestion]) -> None:
        self._tallies = [_PoolTally(question) for question in questions]
        # The names are those of the questions, not of the pods: one string for all pods of a node.
        self._by_node: dict[str, tuple[str, tuple[_PoolTally, ...]]] = {}
        for tally in self._tallies:
            for node in tally.question.nodes:
                _, others = self._by_node.get(node, (node, ()))
                self._by_node[node] = (node, (*others, tally))
        self._taints: frozenset[TaintKey] = frozenset().union(*(tally.intolerant for tally in self._tallies))
        self._judge = partial(_not_tolerated, self._taints)
        self._judge_once = lru_cache(maxsize=_SETS_KEPT)(self._judge)

    def see(self, pod: Pod) -> None:
        """Count ``pod``."""
        place = self._by_node.get(pod.node)
        if place is None:
            return
        node, tallies = place
        refused: Collection[TaintKey] = ()
        if self._taints and pod.heeds_taints:
            is_kept = len(pod.tolerations) <= _LONGEST_SET_KEPT
            refused = self._judge_once(pod.tolerations) if is_kept else self._judge(pod.tolerations)
        why = misplaced_because(pod)
        for tally in tallies:
            tally.add(pod, node=node, refused=refused, why=why)

    def finish(
        self,
        *,
        started: datetime,
        finished: datetime,
        began: float = 0.0,
        unreadable: Collection[str] = (),
    ) -> dict[str, Survey]:
        """Return the surveys by the UIDs of the pools.

        Call it only after every pod of a complete list was seen. ``unreadable`` are the nodes with
        a pod that could not be read: they are not covered. ``began`` is when the list was started, in
        monotonic seconds.
        """
        return {
            tally.question.pool_uid: tally.survey(
                started=started, finished=finished, began=began, unreadable=unreadable
            )
            for tally in self._tallies
        }


def _not_tolerated(taints: frozenset[TaintKey], tolerations: tuple[Toleration, ...]) -> frozenset[TaintKey]:
    """Return those of ``taints`` that a pod with ``tolerations`` does not tolerate."""
    return frozenset(
        (key, effect, value)
        for key, effect, value in taints
        if not tolerates(tolerations, key=key, value=value, effect=effect)
    )


class _PoolTally:
    """What was seen so far of one pool's question."""

    __slots__ = (
        "_busy",
        "_misplaced",
        "_misplaced_examples",
        "_misplaced_on",
        "_readiness",
        "intolerant",
        "question",
    )

    def __init__(self, question: PoolQuestion) -> None:
        self.question = question
        self.intolerant: Mapping[TaintKey, _TaintTally] = {
            taint_key(taint): _TaintTally(taint) for taint in question.taints
        }
        self._misplaced = 0
        self._misplaced_examples: list[Misplaced] = []
        self._misplaced_on: dict[str, int] = {}
        self._busy: set[str] = set()
        joining = question.joining & question.nodes.keys()
        self._readiness = {node: _ReadinessTally(question) for node in joining}

    def add(self, pod: Pod, *, node: str, refused: Collection[TaintKey], why: str) -> None:
        for key in refused:
            if tally := self.intolerant.get(key):
                tally.add(pod, node=node)
        if why:
            self._misplaced += 1
            self._misplaced_on[node] = self._misplaced_on.get(node, 0) + 1
            if len(self._misplaced_examples) < EXAMPLES_KEPT:
                self._misplaced_examples.append(Misplaced(pod.full_name, node, why))
        if not (pod.is_finished or pod.is_mirror or pod.is_of_daemon_set):
            self._busy.add(node)
        if readiness := self._readiness.get(node):
            readiness.add(pod)

    def survey(
        self, *, started: datetime, finished: datetime, began: float, unreadable: Collection[str]
    ) -> Survey:
        question = self.question
        return Survey(
            pool_uid=question.pool_uid,
            generation=question.generation,
            taints=question.taints,
            started=started,
            finished=finished,
            began=began,
            nodes=question.nodes,
            intolerant={key: tally.result() for key, tally in self.intolerant.items()},
            misplaced=self._misplaced,
            misplaced_examples=tuple(self._misplaced_examples),
            misplaced_on=self._misplaced_on,
            unreadable=frozenset(question.nodes.keys() & set(unreadable)),
            busy=frozenset(self._busy),
            readiness={
                node: tally.result() for node, tally in self._readiness.items() if node not in unreadable
            },
        )


class _TaintTally:
    """The pods that do not tolerate one taint."""

    __slots__ = ("_daemon_set_nodes", "_daemon_sets", "_examples", "_nodes", "_pods", "_taint")

    def __init__(self, taint: Taint) -> None:
        self._taint = taint
        self._pods = 0
        self._nodes: dict[str, OnNode] = {}
        self._examples: list[str] = []
        self._daemon_sets: set[str] = set()
        self._daemon_set_nodes: set[str] = set()

    def add(self, pod: Pod, *, node: str) -> None:
        self._pods += 1
        there = self._nodes.get(node)
        self._nodes[node] = OnNode(there.pods + 1, there.example) if there else OnNode(1, pod.full_name)
        _keep_first(self._examples, pod.full_name, limit=EXAMPLES_KEPT)
        if pod.is_of_daemon_set:
            self._daemon_sets.add(f"{pod.namespace}/{pod.controller}")
            self._daemon_set_nodes.add(node)

    def result(self) -> IntolerantPods:
        return IntolerantPods(
            taint=self._taint,
            pods=self._pods,
            nodes=frozenset(self._nodes),
            examples=tuple(self._examples),
            daemon_sets=tuple(sorted(self._daemon_sets, key=daemon_set_place)[:DAEMON_SETS_KEPT]),
            daemon_set_count=len(self._daemon_sets),
            daemon_set_nodes=frozenset(self._daemon_set_nodes),
            on_nodes=self._nodes,
        )


class _ReadinessTally:
    """What has to be Ready on one joining node."""

    __slots__ = ("_missing", "_question", "_unready", "_unready_agents")

    def __init__(self, question: PoolQuestion) -> None:
        self._question = question
        self._missing = set(range(len(question.required_pods)))
        self._unready = 0
        self._unready_agents: list[str] = []

    def add(self, pod: Pod) -> None:
        # A pod that is being deleted does not count as Ready: its replacement has not been seen yet.
        is_serving = pod.is_ready and not pod.is_finished and not pod.is_terminating
        if not is_serving and self._is_asked_for(pod):
            self._unready += 1
            # Pods have different names on each node; the DaemonSet is the same on many.
            agent = f"{pod.namespace}/{pod.controller}" if pod.controller else pod.full_name
            _keep_first(self._unready_agents, agent, limit=EXAMPLES_KEPT)
        if is_serving and self._missing:
            self._missing = {number for number in self._missing if not self._fills(pod, number)}

    def _is_asked_for(self, pod: Pod) -> bool:
        agents = self._question.node_agents
        return pod.is_of_daemon_set and (agents == ALL or (agents == CRITICAL and pod.is_critical))

    def _fills(self, pod: Pod, number: int) -> bool:
        required = self._question.required_pods[number]
        return pod.namespace == required.namespace and required.matches(pod.labels)

    def result(self) -> Readiness:
        required = self._question.required_pods
        return Readiness(
            unready=self._unready,
            unready_agents=tuple(self._unready_agents),
            missing_required=tuple(required[number].description for number in sorted(self._missing)),
        )


def _keep_first(names: list[str], name: str, *, limit: int) -> None:
    """Insert ``name`` in order into ``names``, each once, and keep the first ``limit``."""
    if len(names) == limit and name > names[-1]:
        return
    place = bisect_left(names, name)
    if place == len(names) or names[place] != name:
        names.insert(place, name)
        del names[limit:]
