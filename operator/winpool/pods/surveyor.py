"""Answers the questions of all pools from the pods of the cluster, one after the other.

No pod is kept: the memory is limited by nodes, taints, and required pods, for any number of pods. This
matters with 150,000 pods. Most of them are on nodes of no pool, and cost only one lookup in a dict.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from winpool.pods.budget_book import BudgetBook
from winpool.pods.pod import misplaced_because, tolerates
from winpool.pods.survey import EXAMPLES_KEPT, Misplaced, Survey, taint_key
from winpool.pods.tallies import ReadinessTally, TaintTally
from winpool.pods.workload_tally import WorkloadTally

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    from winpool.pods.budgets import Budget
    from winpool.pods.pod import Pod, Toleration
    from winpool.pods.survey import PoolQuestion, TaintKey
    from winpool.pods.workloads import Workload

_SETS_KEPT: Final = 256
"""Sets of tolerations that are judged once: the pods of one workload have the same."""

_LONGEST_SET_KEPT: Final = 32
"""A longer set is judged every time and not kept, so that no pod can make the operator keep megabytes."""


class Surveyor:
    """Gets every pod once, returns one survey for each question.

    ``budgets`` are all PodDisruptionBudgets of the cluster, None where they are not known: they matter to
    questions that ask for workloads.
    """

    def __init__(self, questions: Iterable[PoolQuestion], *, budgets: Iterable[Budget] | None = None) -> None:
        self._tallies = [_PoolTally(question) for question in questions]
        # The names are those of the questions, not of the pods: one string for all pods of a node.
        self._by_node: dict[str, tuple[str, tuple[_PoolTally, ...]]] = {}
        for tally in self._tallies:
            for node in tally.question.nodes:
                _, others = self._by_node.get(node, (node, ()))
                self._by_node[node] = (node, (*others, tally))
        worked = work_nodes(tally.question for tally in self._tallies)
        book = None if budgets is None else BudgetBook(budgets)
        self._workloads = WorkloadTally(worked, book) if worked else None
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
        if self._workloads is not None:
            self._workloads.add(pod, node=node)
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
        workloads = {} if self._workloads is None else self._workloads.result(unreadable=unreadable)
        return {
            tally.question.pool_uid: tally.survey(
                started=started, finished=finished, began=began, unreadable=unreadable, workloads=workloads
            )
            for tally in self._tallies
        }


def work_nodes(questions: Iterable[PoolQuestion]) -> frozenset[str]:
    """Return the names of the nodes whose workloads are asked for."""
    return frozenset(node for question in questions if question.workloads for node in question.nodes)


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
        self.intolerant: Mapping[TaintKey, TaintTally] = {
            taint_key(taint): TaintTally(taint) for taint in question.taints
        }
        self._misplaced = 0
        self._misplaced_examples: list[Misplaced] = []
        self._misplaced_on: dict[str, int] = {}
        self._busy: set[str] = set()
        joining = question.joining & question.nodes.keys()
        self._readiness = {node: ReadinessTally(question) for node in joining}

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
        self,
        *,
        started: datetime,
        finished: datetime,
        began: float,
        unreadable: Collection[str],
        workloads: Mapping[str, Workload],
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
            workloads={node: workloads[node] for node in question.nodes} if question.workloads else None,
        )
