"""Answers the questions of all pools from the pods of the cluster, one pod after the other.

No pod is kept: the memory is limited by nodes, taints, and required pods, for any number of pods. This
matters with 150,000 pods. Most of them are on nodes of no pool, and cost only a few lookups in dicts. What
their templates leave open is counted in ``pod_templates``.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache, partial
from operator import attrgetter
from typing import Final, NamedTuple

import msgspec

from winpool.api.keys import HARD_EFFECTS
from winpool.api.selector import NodeAgents
from winpool.model.budgets import BudgetIndex
from winpool.model.node import Taint
from winpool.model.pod_templates import LimitTally, OpenTemplates, TemplateLimits, counted
from winpool.model.pods import (
    BLOCKS_KEPT,
    NOTHING_REQUESTED,
    SHAPES_KEPT,
    Block,
    DaemonSet,
    DeclaredBuild,
    Pod,
    PodShape,
    PodWork,
    Requests,
    RuntimeClasses,
    Toleration,
    Workload,
    keep_first,
    misplaced_because,
    replacement_of,
    tolerates,
)
from winpool.model.survey import (
    DAEMON_SETS_KEPT,
    EXAMPLES_KEPT,
    IntolerantPods,
    Misplaced,
    OnNode,
    PoolQuestion,
    Readiness,
    Survey,
    TaintKey,
    daemon_set_place,
    taint_key,
)


class TaintTally(msgspec.Struct):
    """The pods that do not tolerate one taint."""

    taint: Taint
    nodes: dict[str, OnNode] = msgspec.field(default_factory=dict)
    examples: list[str] = msgspec.field(default_factory=list)
    daemon_sets: set[str] = msgspec.field(default_factory=set)
    daemon_set_nodes: set[str] = msgspec.field(default_factory=set)
    kept_away: set[str] = msgspec.field(default_factory=set)
    kept_away_from: set[str] = msgspec.field(default_factory=set)

    def add(self, pod: Pod, *, node: str) -> None:
        """Count a pod on ``node`` that does not tolerate the taint."""
        there = self.nodes.get(node)
        self.nodes[node] = OnNode(there.pods + 1, there.example) if there else OnNode(1, pod.full_name)
        keep_first(self.examples, pod.full_name, limit=EXAMPLES_KEPT)
        if pod.is_of_daemon_set:
            self.daemon_sets.add(f"{pod.namespace}/{pod.controller}")
            self.daemon_set_nodes.add(node)

    def keep_away(self, daemon_set: DaemonSet, *, nodes: Collection[str]) -> None:
        """Count a DaemonSet that does not tolerate the taint, and is made for ``nodes``."""
        if nodes:
            self.kept_away.add(daemon_set.name)
            self.kept_away_from.update(nodes)

    def result(self) -> IntolerantPods:
        """Return what was seen of the taint."""
        return IntolerantPods(
            nodes=frozenset(self.nodes),
            examples=tuple(self.examples),
            daemon_sets=tuple(sorted(self.daemon_sets, key=daemon_set_place)[:DAEMON_SETS_KEPT]),
            daemon_set_count=len(self.daemon_sets),
            daemon_set_nodes=frozenset(self.daemon_set_nodes),
            kept_away=frozenset(self.kept_away),
            kept_away_from=frozenset(self.kept_away_from),
            on_nodes=self.nodes,
        )


class ReadinessTally:
    """What has to be Ready on one joining node."""

    __slots__ = ("_missing", "_question", "_unready", "_unready_agents")

    def __init__(self, question: PoolQuestion) -> None:
        self._question = question
        self._missing = set(range(len(question.required_pods)))
        self._unready = 0
        self._unready_agents: list[str] = []

    def add(self, pod: Pod) -> None:
        """Count a pod of the node."""
        # A pod that is being deleted does not count as Ready: its replacement has not been seen yet.
        is_serving = pod.is_ready and not pod.is_finished and not pod.is_terminating
        if not is_serving and self._is_asked_for(pod):
            self._unready += 1
            # Pods have different names on each node; the DaemonSet is the same on many.
            agent = f"{pod.namespace}/{pod.controller}" if pod.controller else pod.full_name
            keep_first(self._unready_agents, agent, limit=EXAMPLES_KEPT)
        if is_serving and self._missing:
            self._missing = {number for number in self._missing if not self._fills(pod, number)}

    def _is_asked_for(self, pod: Pod) -> bool:
        agents = self._question.node_agents
        is_named = agents == NodeAgents.ALL or (agents == NodeAgents.CRITICAL and pod.is_critical)
        return pod.is_of_daemon_set and is_named

    def _fills(self, pod: Pod, number: int) -> bool:
        required = self._question.required_pods[number]
        return pod.namespace == required.namespace and required.matches(pod.labels)

    def result(self) -> Readiness:
        """Return what was seen of the node."""
        required = self._question.required_pods
        return Readiness(
            unready=self._unready,
            unready_agents=tuple(self._unready_agents),
            missing_required=tuple(required[number].description for number in sorted(self._missing)),
        )


MOST_SHAPES: Final = 10_000
"""Shapes of all nodes together that are kept, of up to 2 kB of text each: the workloads of the largest
clusters. A node with a pod of another shape is incomplete."""

BUILDS_KEPT: Final = 16
"""Builds that the pods of one node declare: there are six releases of Windows Server. A node with more is
incomplete."""


_Kind = tuple[PodShape, str, bool, str]
"""What of its work makes the pods of a node different: shape, build, ``is_bound``, and RuntimeClass."""


class WorkloadTally:
    """Counts the pods of ``nodes``. ``budgets`` is None where they are not known."""

    def __init__(self, nodes: Iterable[str], budgets: BudgetIndex | None) -> None:
        self._budgets = budgets
        self._nodes = {name: _NodeTally() for name in nodes}
        self._kinds: dict[_Kind, int] = {}

    def add(self, pod: Pod, *, node: str) -> None:
        """Count ``pod``, which is on ``node``."""
        tally = self._nodes.get(node)
        if tally is None or pod.is_finished:
            return
        if pod.work is None:
            tally.is_complete = False
            return
        tally.used += pod.work.shape.requests
        if pod.is_evicted_by_drain:
            block = None if self._budgets is None else self._budgets.block_of(pod)
            tally.move(pod, pod.work, kind=self._number(pod.work), block=block)

    def _number(self, work: PodWork) -> int | None:
        """Return the number of pods with ``work``; None where it is one too many."""
        kind = (work.shape, work.build, work.is_bound, work.runtime_class)
        number = self._kinds.get(kind)
        if number is None and len(self._kinds) < MOST_SHAPES:
            number = self._kinds[kind] = len(self._kinds)
        return number

    def result(
        self, *, runtime_classes: RuntimeClasses | None, unreadable: Collection[str]
    ) -> Mapping[str, Workload]:
        """Return the workloads by the names of the nodes. ``unreadable`` have a pod that was not counted.

        ``runtime_classes`` are those from after the last pod was listed: a pod cannot be created before its
        class, and so none of these has been created since.
        """
        replacements = [_replacement(each, runtime_classes) for each in self._kinds]
        shapes = sorted({each.work.shape for each in replacements}, key=_place)
        places = {shape: place for place, shape in enumerate(shapes)}
        places_of = [places[each.work.shape] for each in replacements]
        pairs: dict[tuple[int, int], tuple[PodShape, int]] = {}

        def moving(kinds: Mapping[int, int]) -> tuple[tuple[PodShape, int], ...]:
            found = Counter[int]()
            for kind, count in kinds.items():
                found[places_of[kind]] += count
            return tuple(
                [pairs.setdefault(each, (shapes[each[0]], each[1])) for each in sorted(found.items())]
            )

        return {
            name: tally.result(
                moving(tally.kinds),
                [(replacements[kind], count) for kind, count in tally.kinds.items()],
                budgets_known=self._budgets is not None,
                is_readable=name not in unreadable,
            )
            for name, tally in self._nodes.items()
        }


class _Replacement(NamedTuple):
    """What pods have that replace others, and the RuntimeClass that ``is_missing`` or is not known."""

    work: PodWork
    is_missing: bool = False
    is_known: bool = True


def _replacement(kind: _Kind, runtime_classes: RuntimeClasses | None) -> _Replacement:
    """Return what replaces pods; where that is not known, what they have."""
    shape, build, is_bound, name = kind
    work = PodWork(shape, build, is_bound, runtime_class=name)
    if not name:
        return _Replacement(work)
    if runtime_classes is not None and name not in runtime_classes:
        return _Replacement(work, is_missing=True)
    added = None if runtime_classes is None else runtime_classes[name]
    return _Replacement(work, is_known=False) if added is None else _Replacement(replacement_of(work, added))


class _NodeTally(msgspec.Struct):
    """What was counted so far on one node. ``kinds`` are the pods that a drain moves."""

    used: Requests = NOTHING_REQUESTED
    kinds: Counter[int] = msgspec.field(default_factory=Counter)
    blocks: list[Block] = msgspec.field(default_factory=list)
    blocked: int = 0
    unmanaged: int = 0
    local: int = 0
    longest_grace: int = 0
    is_complete: bool = True

    def move(self, pod: Pod, work: PodWork, *, kind: int | None, block: Block | None) -> None:
        """Count a pod that a drain moves."""
        if kind is None or (kind not in self.kinds and len(self.kinds) >= SHAPES_KEPT):
            self.is_complete = False
        else:
            self.kinds[kind] += 1
        if block is not None:
            self.blocked += 1
            if len(self.blocks) < BLOCKS_KEPT or block.pod < self.blocks[-1].pod:
                insort(self.blocks, block, key=attrgetter("pod"))
                del self.blocks[BLOCKS_KEPT:]
        self.unmanaged += not pod.controller_kind
        self.local += work.is_local
        self.longest_grace = max(self.longest_grace, work.grace_seconds)

    def result(
        self,
        moving: tuple[tuple[PodShape, int], ...],
        replacements: Sequence[tuple[_Replacement, int]],
        *,
        budgets_known: bool,
        is_readable: bool,
    ) -> Workload:
        """Return the workload of the node, with the shapes of its moving pods in order."""
        builds = {(each.work.build, each.work.is_bound) for each, _ in replacements if each.work.build}
        missing = {each.work.runtime_class for each, _ in replacements if each.is_missing}
        return Workload(
            used=self.used,
            moving=moving,
            declared=tuple(DeclaredBuild(*each) for each in sorted(builds)[:BUILDS_KEPT]),
            undeclared=sum([count for each, count in replacements if not each.work.build]),
            blocks=tuple(self.blocks),
            blocked=self.blocked,
            budgets_known=budgets_known,
            unmanaged=self.unmanaged,
            local=self.local,
            longest_grace=self.longest_grace,
            is_complete=self.is_complete and is_readable and len(builds) <= BUILDS_KEPT,
            runtime_classes_known=all(each.is_known for each, _ in replacements),
            missing_runtime_classes=tuple(sorted(missing)[:EXAMPLES_KEPT]),
        )


def _place(shape: PodShape) -> tuple[object, ...]:
    """Return what orders shapes: the largest first, and the same order whatever came first."""
    asked = shape.requests
    tolerations = tuple(
        (each.key, each.operator, each.value, each.effect, each.seconds is not None, each.seconds or 0)
        for each in shape.tolerations
    )
    return (-asked.memory, -asked.cpu_milli, shape.selector, shape.unclear, tolerations)


MOST_COMPARED: Final = 500_000
"""DaemonSets times nodes that are compared in a pass over all pods, a quarter of a second in all: ten of them
for each node of ten pools of the largest clusters. They only warn."""

_SETS_KEPT: Final = 256
"""Sets of tolerations that are judged once: the pods of one workload have the same."""

_LONGEST_SET_KEPT: Final = 32
"""A longer set is judged every time and not kept, so that no pod can make the operator keep megabytes."""


class Surveyor:
    """Gets every pod once, returns one survey for each question.

    ``budgets`` are all PodDisruptionBudgets of the cluster, None where they are not known: they matter to
    questions that ask for workloads. ``is_exempt`` says of a namespace that nothing is said of the templates
    there.
    """

    def __init__(
        self,
        questions: Iterable[PoolQuestion],
        *,
        budgets: BudgetIndex | None = None,
        is_exempt: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._tallies = [_PoolTally(question) for question in questions]
        # The names are those of the questions, not of the pods: one string for all pods of a node.
        self._by_node: dict[str, tuple[str, tuple[_PoolTally, ...]]] = {}
        for tally in self._tallies:
            for node in tally.question.nodes:
                _, others = self._by_node.get(node, (node, ()))
                self._by_node[node] = (node, (*others, tally))
        worked = work_nodes(tally.question for tally in self._tallies)
        self._workloads = WorkloadTally(worked, budgets) if worked else None
        self._taints: frozenset[TaintKey] = frozenset().union(*(tally.intolerant for tally in self._tallies))
        self._judge = partial(_not_tolerated, self._taints)
        self._judge_once = lru_cache(maxsize=_SETS_KEPT)(self._judge)
        self._open_templates = OpenTemplates([each.question for each in self._tallies], is_exempt)
        self._limits = TemplateLimits(is_exempt)

    def add_daemon_sets(self, daemon_sets: Iterable[DaemonSet]) -> Iterator[None]:
        """Count those of ``daemon_sets``, which are made for Windows nodes, that do not tolerate a taint.

        Between the nodes of two pools others may have their turn. After MOST_COMPARED none is counted.
        """
        left = MOST_COMPARED
        for each in daemon_sets:
            refused = self._judge(each.tolerations)
            for tally in self._tallies:
                if left > 0 and tally.add_daemon_set(each, refused=refused):
                    left -= len(tally.question.labels)
                    yield

    def see(self, pod: Pod) -> None:
        """Count ``pod``."""
        if pod.template is not None:
            self._open_templates.add(pod)
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
        limits = None if pod.template is None else self._limits.of(pod)
        for tally in tallies:
            tally.add(pod, node=node, refused=refused, why=why)
            if limits is not None:
                tally.limits.add(node, limits)

    def finish(
        self,
        *,
        started: datetime,
        finished: datetime,
        began: float = 0.0,
        runtime_classes: RuntimeClasses | None = None,
        unreadable: Collection[str] = (),
    ) -> dict[str, Survey]:
        """Return the surveys by the UIDs of the pools.

        Call it only after every pod of a complete list was seen. ``unreadable`` are the nodes with
        a pod that could not be read: they are not covered. ``began`` is when the list was started, in
        monotonic seconds. ``runtime_classes`` are all RuntimeClasses, listed after the pods; None where they
        are not known. They matter to questions that ask for workloads.
        """
        workloads: Mapping[str, Workload] = {}
        if self._workloads is not None:
            workloads = self._workloads.result(runtime_classes=runtime_classes, unreadable=unreadable)
        surveys: dict[str, Survey] = {}
        for tally in self._tallies:
            question = tally.question
            surveys[question.pool_uid] = Survey(
                pool_uid=question.pool_uid,
                generation=question.generation,
                started=started,
                finished=finished,
                began=began,
                nodes=question.nodes,
                intolerant={key: each.result() for key, each in tally.intolerant.items()},
                misplaced_examples=tuple(tally.misplaced_examples),
                misplaced_on=tally.misplaced_on,
                unreadable=frozenset(question.nodes.keys() & set(unreadable)),
                busy=frozenset(tally.busy),
                readiness={
                    node: each.result() for node, each in tally.readiness.items() if node not in unreadable
                },
                workloads={node: workloads[node] for node in question.nodes} if question.workloads else None,
                unselected=self._open_templates.result(question),
                unlimited=counted(tally.limits.unlimited, is_complete=tally.limits.is_complete),
                memory_limits=tally.limits.limits,
            )
        return surveys


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

    def __init__(self, question: PoolQuestion) -> None:
        self.question = question
        self.intolerant: Mapping[TaintKey, TaintTally] = {
            taint_key(taint): TaintTally(taint) for taint in question.taints
        }
        self.misplaced_examples: list[Misplaced] = []
        self.misplaced_on: dict[str, int] = {}
        self.busy: set[str] = set()
        self.readiness = {node: ReadinessTally(question) for node in question.joining & question.nodes.keys()}
        self.limits = LimitTally()

    def add_daemon_set(self, daemon_set: DaemonSet, *, refused: Collection[TaintKey]) -> bool:
        """Count a DaemonSet; return whether it was compared with the nodes."""
        hard = [
            each
            for key in refused
            if (each := self.intolerant.get(key)) and each.taint.effect in HARD_EFFECTS
        ]
        nodes = [name for name, labels in self.question.labels.items() if hard and daemon_set.selects(labels)]
        for each in hard:
            each.keep_away(daemon_set, nodes=nodes)
        return bool(hard)

    def add(self, pod: Pod, *, node: str, refused: Collection[TaintKey], why: str) -> None:
        for key in refused:
            if tally := self.intolerant.get(key):
                tally.add(pod, node=node)
        if why:
            self.misplaced_on[node] = self.misplaced_on.get(node, 0) + 1
            if len(self.misplaced_examples) < EXAMPLES_KEPT:
                self.misplaced_examples.append(Misplaced(pod.full_name, node, why))
        if not (pod.is_finished or pod.is_mirror or pod.is_of_daemon_set):
            self.busy.add(node)
        if readiness := self.readiness.get(node):
            readiness.add(pod)
