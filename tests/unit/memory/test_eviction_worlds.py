"""Evictions of one or two operators that are killed at any moment, lag behind, and get refusals.

The model has nodes with an annotation and pods. It knows what has been evicted, and no operator can read
that. Nothing here is about Kubernetes: what the API server does with an eviction is tested on one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs
from msgspec.structs import replace

from harness.builders import NOON
from harness.evicting import a_hot_node, a_pod, a_view, using
from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import EvictionLimits
from winpool.features.memory.eviction import Pass, Step, steps_of
from winpool.features.memory.intents import Intents, Unreadable, read
from winpool.features.memory.overview import Breaker
from winpool.model.node import Eviction, Node
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods, PodListRequest
from winpool.model.pods import Pod
from winpool.model.pressure import Hold, KnownMemory, UsageSinceCalm
from winpool.ownership.desired import KEEP

NODES = ("w1", "w2", "w3", "w4")
PER_NODE, PERIOD, MAX_NODES = 2, 1200, 1
LAG = 5.0
"""Seconds by which a watch is behind at most: less than there are between two evictions that begin."""


@dataclass
class Machine:
    """A node as it is, and its pods."""

    node: Node
    version: int = 0
    pods: dict[str, Pod] = field(default_factory=dict)
    ends: dict[str, float] = field(default_factory=dict)
    pressured: bool = True

    @property
    def intents(self) -> Intents:
        told = read(self.node.annotations.get(MEMORY_ANNOTATION))
        assert not isinstance(told, Unreadable)
        return told


@dataclass
class Operator:
    """One process: the nodes as it last read them, and what it remembers."""

    ahead: float = 0.0
    seen: dict[str, tuple[float, int, Node]] = field(default_factory=dict)
    pods: dict[str, NodePods] = field(default_factory=dict)
    answers: dict[str, Answered] = field(default_factory=dict)


class Evictions(RuleBasedStateMachine):
    """One operator, or two that both take themselves for the leader."""

    operators_at_once = 1

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.machines = {f"uid-of-{name}": Machine(a_hot_node(name)) for name in NODES}
        self.operators = [Operator(ahead=2.0 * place) for place in range(self.operators_at_once)]
        self.evicted: list[tuple[str, float, str]] = []
        self.refuses: set[str] = set()
        self.made = 0

    @initialize()
    def begin(self) -> None:
        for uid in self.machines:
            for _ in range(3):
                self._add_pod(uid)
            self._add_pod(uid, controller_kind="DaemonSet")

    def _add_pod(self, uid: str, **more: str) -> None:
        self.made += 1
        name = f"p{self.made}"
        self.machines[uid].pods[f"uid-{name}"] = a_pod(name, grace_seconds=20 * (self.made % 4), **more)

    # Time, and what others do.

    @rule(seconds=st.sampled_from([0.5, 3.0, 10.0, 40.0, 70.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        self.now += seconds
        for machine in self.machines.values():
            for uid, end in tuple(machine.ends.items()):
                if end <= self.now:
                    del machine.pods[uid], machine.ends[uid]

    @rule(uid=st.sampled_from([f"uid-of-{name}" for name in NODES]), is_pressured=st.booleans())
    def press(self, uid: str, is_pressured: bool) -> None:
        self.machines[uid].pressured = is_pressured
        if len(self.machines[uid].pods) < 6:
            self._add_pod(uid)

    @precondition(lambda self: self.operators_at_once == 1)
    @rule(number=st.integers(1, 40))
    def toggle_budget(self, number: int) -> None:
        self.refuses ^= {f"uid-p{number}"}

    @rule(data=st.data())
    def kill(self, data: st.DataObject) -> None:
        """End a process: another one begins with nothing but what is on the nodes."""
        place = data.draw(st.integers(0, len(self.operators) - 1))
        self.operators[place] = Operator(ahead=self.operators[place].ahead)

    # The operators.

    @rule(data=st.data(), course=st.sampled_from(["evict"] * 6 + ["stand", "withdraw"]))
    def run_pass(self, data: st.DataObject, course: str) -> None:
        place = data.draw(st.integers(0, len(self.operators) - 1))
        operator = self.operators[place]
        self._watch(operator, data)
        found = self._decide(operator, course)
        for step in found.values():
            if data.draw(st.sampled_from([False] * 9 + [True])):
                self.operators[place] = Operator(ahead=operator.ahead)
                return  # killed before this write
            self._perform(operator, step, is_answered=data.draw(st.booleans() | st.just(True)))

    @rule(data=st.data(), pauses=st.lists(st.sampled_from([0.5, 5.0, 20.0, 61.0]), min_size=10, max_size=30))
    def run_for_a_while(self, data: st.DataObject, pauses: list[float]) -> None:
        """Many passes, as a pool is woken again and again."""
        for pause in pauses:
            for operator in self.operators:
                self._watch(operator, None)
                for step in self._decide(operator).values():
                    self._perform(operator, step, is_answered=True)
            self.wait(pause)
            if pause == 0.5 and data.draw(st.booleans()):
                self.kill(data)

    def _watch(self, operator: Operator, data: st.DataObject | None) -> None:
        for uid, machine in self.machines.items():
            at, _, _ = operator.seen.get(uid, (-1e9, 0, machine.node))
            if self.now - at > LAG or data is None or data.draw(st.booleans()):
                operator.seen[uid] = (self.now, machine.version, machine.node)

    def _decide(self, operator: Operator, course: str = "evict") -> dict[str, Step]:
        nodes = [node for _, _, node in operator.seen.values()]
        calm, ready = a_view(commit=Hold.NO_PRESSURE), a_view(sampled_at=self.now)
        return steps_of(
            nodes,
            Pass(
                memory=KnownMemory(
                    views={uid: ready if each.pressured else calm for uid, each in self.machines.items()},
                    pods={
                        uid: UsageSinceCalm(dict.fromkeys(each.pods, using()))
                        for uid, each in self.machines.items()
                    },
                    read_at=self.now,
                ),
                known=KnownEvictions(
                    pods=dict(operator.pods), answers=dict(operator.answers), read_at=self.now
                ),
                limits=EvictionLimits(max_pods_per_node=PER_NODE, period_seconds=PERIOD, max_nodes=MAX_NODES),
                evicts=course == "evict",
                breaker=Breaker(nodes, {}, "100%"),
                now=NOON + timedelta(seconds=self.now + operator.ahead),
            ),
            held={node.uid for node in nodes if course == "stand"},
        )

    def _perform(self, operator: Operator, step: Step, *, is_answered: bool) -> None:
        uid = step.node.uid
        machine = self.machines[uid]
        _, version, seen = operator.seen[uid]
        wanted = seen.annotations.get(MEMORY_ANNOTATION) if step.annotation is KEEP else step.annotation
        assert wanted is None or isinstance(wanted, str)
        if wanted != seen.annotations.get(MEMORY_ANNOTATION) and version == machine.version:
            annotations = {} if wanted is None else {MEMORY_ANNOTATION: wanted}
            machine.node = replace(machine.node, annotations=annotations)
            machine.version += 1
            operator.seen[uid] = (self.now, machine.version, machine.node)
        if step.eviction is not None:
            self._evict(operator, machine, step.eviction, is_answered=is_answered)
        if step.look is not None:
            self._look(operator, machine, step.look)

    def _evict(self, operator: Operator, machine: Machine, asked: Eviction, *, is_answered: bool) -> None:
        pod = machine.pods.get(asked.uid)
        answer = Answer.ACCEPTED
        if pod is None:
            answer = Answer.GONE
        elif asked.uid in self.refuses:
            answer = Answer.REFUSED
        elif not pod.is_terminating:
            assert pod.controller_kind == "ReplicaSet"
            if self.operators_at_once == 1:
                assert asked.uid in {each.uid for each in machine.intents}
            assert not any(each.is_terminating for each in machine.pods.values())
            self.evicted.append((machine.node.uid, self.now, asked.uid))
            machine.pods[asked.uid] = structs.replace(pod, is_terminating=True)
            machine.ends[asked.uid] = self.now + (pod.eviction.grace_seconds if pod.eviction else 0)
        operator.answers[asked.uid] = Answered(answer if is_answered else Answer.ASKED, self.now)

    def _look(self, operator: Operator, machine: Machine, look: PodListRequest) -> None:
        """List the pods. Budgets do not show what they will refuse: the worst case."""
        began, wall = self.now, NOON + timedelta(seconds=self.now + operator.ahead)
        pods = tuple(machine.pods.values())
        operator.pods[machine.node.uid] = NodePods(
            wall, began, pods, frozenset() if look.with_budgets else None
        )
        for uid in look.watched - machine.pods.keys():
            known = operator.answers.get(uid)
            if known is None or known.answer is not Answer.GONE:
                operator.answers[uid] = Answered(Answer.GONE, began)

    # What always holds.

    @invariant()
    def no_more_pods_of_a_node_are_evicted_in_a_period_than_permitted(self) -> None:
        for node in self.machines:
            times = [at for uid, at, _ in self.evicted if uid == node]
            for last in times:
                assert sum(0 <= last - at < PERIOD for at in times) <= PER_NODE

    @invariant()
    def no_pod_is_evicted_twice(self) -> None:
        assert all(count == 1 for count in Counter(pod for _, _, pod in self.evicted).values())

    @invariant()
    def not_more_nodes_evict_at_once_than_permitted_and_one_for_each_other_operator(self) -> None:
        busy = sum(bool(machine.ends) for machine in self.machines.values())
        assert busy <= MAX_NODES + self.operators_at_once - 1

    def teardown(self) -> None:
        """Without pressure, nothing of all that stays on the nodes, and nothing is left to do."""
        for uid in self.machines:
            self.machines[uid].pressured = False
        self.refuses.clear()
        operator = self.operators[0]
        for _ in range(40):
            self.wait(60.0)
            self._watch(operator, None)
            found = self._decide(operator)
            for step in found.values():
                self._perform(operator, step, is_answered=True)
        assert [machine.node.annotations for machine in self.machines.values()] == [{}] * len(NODES)
        self._watch(operator, None)
        assert self._decide(operator) == {}


class EvictionsOfTwo(Evictions):
    operators_at_once = 2


TestOneOperator = Evictions.TestCase
TestTwoOperators = pytest.mark.slow(EvictionsOfTwo.TestCase)
