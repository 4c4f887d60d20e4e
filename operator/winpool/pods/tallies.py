"""What was seen so far of the pods that one question is about: of one taint, and of one joining node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.pods.first_kept import keep_first
from winpool.pods.survey import (
    ALL,
    CRITICAL,
    DAEMON_SETS_KEPT,
    EXAMPLES_KEPT,
    IntolerantPods,
    OnNode,
    Readiness,
    daemon_set_place,
)

if TYPE_CHECKING:
    from winpool.objects.node import Taint
    from winpool.pods.pod import Pod
    from winpool.pods.survey import PoolQuestion


class TaintTally:
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
        """Count a pod on ``node`` that does not tolerate the taint."""
        self._pods += 1
        there = self._nodes.get(node)
        self._nodes[node] = OnNode(there.pods + 1, there.example) if there else OnNode(1, pod.full_name)
        keep_first(self._examples, pod.full_name, limit=EXAMPLES_KEPT)
        if pod.is_of_daemon_set:
            self._daemon_sets.add(f"{pod.namespace}/{pod.controller}")
            self._daemon_set_nodes.add(node)

    def result(self) -> IntolerantPods:
        """Return what was seen of the taint."""
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
        return pod.is_of_daemon_set and (agents == ALL or (agents == CRITICAL and pod.is_critical))

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
