"""Asks for each pool what it wants to know about all pods, and keeps the answers.

A ``PoolQuestion`` says what a pool wants to know, a ``Survey`` is the answer to it. ``surveyor`` makes the
survey from the pods. It is about the nodes and taints in its question, and about no others: a node that came
later is not "without pods" but unknown (P4). Usually it is of all pods; there are also surveys of one node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import msgspec

from winpool.api.selector import NodeAgents
from winpool.model.node import Node, Taint
from winpool.model.pods import Workload

TaintKey = tuple[str, str, str]
"""Key, effect and value: what a toleration is compared with."""

EXAMPLES_KEPT: Final = 3
"""Names in a list that people read. More would not be read, and the size of a status is limited."""

DAEMON_SETS_KEPT: Final = 16
"""As many as a status names. A node has about ten agents."""

_SYSTEM: Final = "kube-system/"


def daemon_set_place(name: str) -> tuple[bool, str]:
    """Return what orders DaemonSets, "namespace/name": a node misses those of kube-system most."""
    return (not name.startswith(_SYSTEM), name)


def taint_key(taint: Taint) -> TaintKey:
    """Return the parts of ``taint`` that tolerations are compared with."""
    return (taint.key, taint.effect, taint.value)


class RequiredPods(msgspec.Struct, frozen=True):
    """An entry of ``validation.requiredPods``. ``description`` names it in messages."""

    namespace: str
    matches: Callable[[Mapping[str, str]], bool]
    description: str


@dataclass(frozen=True, slots=True)
class PoolQuestion:
    """What a pool asks about all pods.

    ``nodes`` are its nodes with their UIDs. ``taints`` are those whose effect on the pods there it wants to
    know; ``labels`` are those of the nodes, which say which DaemonSets are made for them. ``joining`` are
    the names of nodes that are being validated or may be joining, for which ``node_agents`` ("Critical",
    "All", "None") and ``required_pods`` say what has to be Ready.
    ``workloads`` asks what runs on each node, and what budgets permit. ``bars`` are the taints, by node, that
    keep pods off which do not tolerate them.
    """

    pool_uid: str
    generation: int
    nodes: Mapping[str, str]
    taints: tuple[Taint, ...] = ()
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    joining: frozenset[str] = frozenset()
    node_agents: str = NodeAgents.CRITICAL
    required_pods: tuple[RequiredPods, ...] = ()
    workloads: bool = False
    bars: Mapping[str, frozenset[TaintKey]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class IntolerantPods:
    """The pods of a pool's nodes that do not tolerate one taint (for NoExecute: not for ever).

    Finished, terminating and mirror pods do not count. ``nodes`` are all that have at least one such pod;
    ``examples`` and ``daemon_sets`` are "namespace/name", in order, the first few of them.
    ``daemon_set_nodes`` are the nodes with such a pod of a DaemonSet, which would not come back. ``on_nodes``
    has the same node by node: which of them matter may have changed since. Of the DaemonSets those of
    kube-system are the first; ``daemon_set_count`` counts all. ``kept_away`` are the DaemonSets whose pods
    the taint keeps away, or would, from the nodes ``kept_away_from``, by a list of DaemonSets: none where
    only the pods of one node were listed.
    """

    nodes: frozenset[str] = frozenset()
    examples: tuple[str, ...] = ()
    daemon_sets: tuple[str, ...] = ()
    daemon_set_nodes: frozenset[str] = frozenset()
    daemon_set_count: int = field(default=0, compare=False)
    kept_away: frozenset[str] = frozenset()
    kept_away_from: frozenset[str] = frozenset()
    on_nodes: Mapping[str, OnNode] = field(default_factory=dict, compare=False)


class OnNode(msgspec.Struct, frozen=True):
    """How many pods of a kind there are on one node, and one of them as "namespace/name"."""

    pods: int
    example: str


class Misplaced(msgspec.Struct, frozen=True):
    """A pod that cannot run where it is, and by what evidence."""

    pod: str
    node: str
    why: str


class Readiness(msgspec.Struct, frozen=True):
    """What has to be Ready on a joining node and is not.

    ``unready`` is how many node agents are not, ``unready_agents`` the first of their DaemonSets
    ("namespace/name"), ``missing_required`` the descriptions of the required pods of which none is Ready
    there.
    """

    unready: int = 0
    unready_agents: tuple[str, ...] = ()
    missing_required: tuple[str, ...] = ()


class CountedPods(msgspec.Struct, frozen=True):
    """Pods or containers by their controllers: the titles with the most, the most first; ``count`` is of all.

    A title is kind, namespace and name: "Deployment shop/web". ``is_complete`` is False where some were left
    out or not judged, since there are more different ones than are distinguished: there may be more.
    """

    worst: tuple[tuple[str, int], ...] = ()
    count: int = 0
    is_complete: bool = True


NOTHING_COUNTED: Final = CountedPods()


@dataclass(frozen=True, slots=True)
class Survey:
    """The answer to a ``PoolQuestion``, from one complete list of the pods of its nodes.

    It was true at some moment between ``started`` and ``finished``, so that its age counts from ``started``.
    ``began`` is the same moment by the monotonic clock, in seconds, to compare it with other moments of
    this process. ``nodes`` are the names and UIDs of the nodes that were asked about.
    ``intolerant`` has an entry for every taint that was asked about, also where all pods tolerate it.
    ``misplaced_on`` counts the misplaced pods node by node; ``unreadable`` are the nodes with a pod that
    could not be read. ``busy`` are the nodes with a pod that is neither of a DaemonSet nor a mirror pod nor
    finished. ``workloads`` has what runs on each node, by name; None where the question did not ask for it.
    ``unselected`` are pods of which nothing says for which OS they are, of the whole cluster, that a node of
    the pool may take; ``unlimited`` are containers on its nodes without a memory limit, and
    ``memory_limits`` the sums of the others, node by node: only of a list of all pods.
    """

    pool_uid: str
    generation: int
    started: datetime
    finished: datetime
    nodes: Mapping[str, str]
    intolerant: Mapping[TaintKey, IntolerantPods]
    misplaced_examples: tuple[Misplaced, ...] = ()
    misplaced_on: Mapping[str, int] = field(default_factory=dict, compare=False)
    unreadable: frozenset[str] = field(default=frozenset(), compare=False)
    busy: frozenset[str] = frozenset()
    readiness: Mapping[str, Readiness] = field(default_factory=dict)
    began: float = 0.0
    workloads: Mapping[str, Workload] | None = field(default=None, compare=False)
    unselected: CountedPods = NOTHING_COUNTED
    unlimited: CountedPods = NOTHING_COUNTED
    memory_limits: Mapping[str, int] = field(default_factory=dict, compare=False)

    def saw(self, node: Node) -> bool:
        """Whether it is about this very node: another of the same name is another machine."""
        return self.nodes.get(node.name) == node.uid

    def covers(self, node: Node) -> bool:
        """Whether it saw this very node, and every pod there could be read."""
        return self.nodes.get(node.name) == node.uid and node.name not in self.unreadable

    def asked_readiness(self, node: Node) -> bool:
        """Whether it was asked what has to be Ready on this very node."""
        is_asked = node.name in self.readiness or node.name in self.unreadable
        return is_asked and self.saw(node)

    def intolerant_of(self, taint: Taint) -> IntolerantPods | None:
        """Return the pods that do not tolerate ``taint``; None where that was not asked."""
        return self.intolerant.get(taint_key(taint))


class PodListProblem(msgspec.Struct, frozen=True):
    """Why the pods of one node could not be listed, for people; ``lasts``: the next list will fail, too."""

    message: str
    lasts: bool = False


class KnownPods(msgspec.Struct, frozen=True):
    """What lists of pods have found, and why there are no newer ones.

    ``survey`` is what the last list of all pods found about this pool, None where there was none yet;
    ``problem`` is why there is none newer, and ``forbidden`` which right is missing to list pods.
    ``budgets_forbidden`` says which right is missing to list PodDisruptionBudgets, empty where none is known
    to be, ``daemon_sets_forbidden`` which one to list DaemonSets, and ``runtime_classes_forbidden`` which one
    to list RuntimeClasses.
    ``node_surveys`` are later ones of single nodes, by the name of the node, and ``pod_list_problems`` says,
    by UID, why the last one of a node failed. ``taint_absent_since`` says, by UID, since when a node lacks
    the NoExecute taints that it lacks, as far as seen, in the monotonic seconds of ``Survey.began``.
    """

    survey: Survey | None = None
    problem: str = ""
    forbidden: str = ""
    node_surveys: Mapping[str, Survey] = msgspec.field(default_factory=dict)
    pod_list_problems: Mapping[str, PodListProblem] = msgspec.field(default_factory=dict)
    taint_absent_since: Mapping[str, float] = msgspec.field(default_factory=dict)
    budgets_forbidden: str = ""
    daemon_sets_forbidden: str = ""
    runtime_classes_forbidden: str = ""
