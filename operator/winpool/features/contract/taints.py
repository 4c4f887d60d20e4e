"""Decides which taints of a spec may be added to a node now, and asks the lists of pods what it has to know.

- Before a taint is added or its value is changed, the pods that it may affect are listed once for this
  generation of the spec, so that the status reports them beforehand (``status.pods``): all pods, or those of
  the node alone. ``question_of`` is what a pool asks such a list.
- A NoExecute taint deletes pods that do not tolerate it, and ignores every PodDisruptionBudget. With ``Hold``
  it is added only to a node without such a pod, as shown by a list of its pods (a look) that is recent and
  started after the taint was gone (``model.snapshot``). The same holds for repairs: pods may have come while
  the taint was missing. What is not known does not permit it (P4).
- With ``Delete`` the admin has chosen that those pods are deleted.

Between the look and the write a pod can still be bound: the API server has no precondition for that. So the
look is made right before the write, and for few nodes at each node alone. A NoSchedule taint with the same
key, added earlier, keeps such pods away.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import (
    HARD_EFFECTS,
    MISMATCH_TAINT,
    NO_EXECUTE,
    NO_SCHEDULE,
    POOL_LABEL,
    PREFIX,
    PRESSURE_TAINT,
)
from winpool.api.memory_pressure import MemoryMode
from winpool.api.selector import NodeValidation, PodSelector, selects
from winpool.api.spec import Mode, OnMismatch, WindowsNodePoolSpec
from winpool.features.contract.validation import ripens, startup_taints_on
from winpool.model.node import Node, Taint
from winpool.model.pool import Pool
from winpool.model.snapshot import Evidence, Snapshot, current_survey
from winpool.model.survey import PoolQuestion, RequiredPods, Survey, TaintKey, taint_key
from winpool.ownership.members import is_asked_for
from winpool.ownership.record import Record, TaintIdentity, record_of

_PASSING_PREFIXES: Final = (PREFIX, "node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""https://kubernetes.io/docs/reference/labels-annotations-taints/ (node.kubernetes.io/not-ready)"""


def question_of(pool: Pool, nodes: Iterable[Node], *, now: datetime) -> PoolQuestion | None:
    """Return the question of ``pool``; None where its spec cannot be read or it is being deleted.

    It is about all nodes that the pool selects or has, also where another pool may have the better claim:
    that may change before the answer comes.
    """
    spec = pool.spec
    if spec is None or pool.deleting:
        return None
    rules = spec.validation or NodeValidation()
    ours = [node for node in nodes if is_asked_for(node, by=pool)]
    return PoolQuestion(
        pool_uid=pool.uid,
        generation=pool.generation,
        nodes={node.name: node.uid for node in ours},
        taints=taints_of(spec),
        labels={node.name: node.labels for node in ours},
        joining=frozenset(
            node.name
            for node in ours
            if _is_carrying_startup_taints(node, pool, spec)
            and (ripe := ripens(node, rules)) is not None
            and ripe <= now
        ),
        node_agents=rules.node_agents,
        required_pods=tuple(
            RequiredPods(
                namespace=each.namespace,
                matches=partial(selects, each.pod_selector),
                description=f"{each.namespace}/{_written(each.pod_selector)}",
            )
            for each in rules.required_pods
        ),
        workloads=spec.upgrade is not None,
        bars=_bars(ours, spec),
    )


def _bars(nodes: Iterable[Node], spec: WindowsNodePoolSpec) -> Mapping[str, frozenset[TaintKey]]:
    """Return the taints, by node, that keep pods off for good: those that it has, and those that it gets.

    Not those that come and go: startup taints, those of Kubernetes for the state of a node, and our own.
    """
    passing = {each.identity for each in spec.startup_taints}
    is_active = spec.mode is Mode.ACTIVE
    coming = frozenset(
        (each.key, each.effect, each.value)
        for each in spec.taints
        if is_active and each.effect == NO_SCHEDULE
    )
    made: dict[frozenset[TaintKey], frozenset[TaintKey]] = {}
    found: dict[str, frozenset[TaintKey]] = {}
    for node in nodes:
        standing = (
            taint_key(each)
            for each in node.taints
            if each.effect in HARD_EFFECTS
            and each.identity not in passing
            and not each.key.startswith(_PASSING_PREFIXES)
        )
        bars = coming.union(standing)
        found[node.name] = made.setdefault(bars, bars)
    return found


def taints_of(spec: WindowsNodePoolSpec) -> tuple[Taint, ...]:
    """Return all taints that the spec may add to a node: the status reports their effect on pods."""
    found = [Taint(each.key, each.effect, each.value) for each in (*spec.taints, *spec.startup_taints)]
    if spec.reserved_memory and spec.reserved_memory.on_mismatch is OnMismatch.TAINT:
        found.append(Taint(*MISMATCH_TAINT))
    if spec.memory_pressure and spec.memory_pressure.mode is not MemoryMode.OBSERVE:
        found.append(Taint(*PRESSURE_TAINT))
    return tuple(found)


def _is_carrying_startup_taints(node: Node, pool: Pool, spec: WindowsNodePoolSpec) -> bool:
    if not spec.startup_taints or node.labels.get(POOL_LABEL) != pool.name:
        return False
    found = record_of(node)
    if not isinstance(found, Record) or found.pool_uid != pool.uid:
        return False
    return bool(startup_taints_on(node, found, {each.identity: each.value for each in spec.startup_taints}))


def _written(selector: PodSelector) -> str:
    """Write a selector in the form of kubectl's ``-l``, as far as that can express it."""
    labels = [f"{key}={value}" for key, value in selector.match_labels.items()]
    more = [
        f"{each.key} {each.operator}" + (f" ({', '.join(each.values)})" if each.values else "")
        for each in selector.match_expressions
    ]
    return ",".join((*labels, *more))


class Held(msgspec.Struct, frozen=True):
    """The taints that must not be added to a node now.

    ``waiting`` need a look at pods first; ``intolerant`` would delete pods of the node. With
    ``holds_all`` the rest waits with them, so that a node is written once: the look comes in a moment. With
    ``is_stale`` nothing is held, but the look is too old for a write: its age decides when to write, not what
    is reported. ``wants_own_look`` says the same of a recent look at all pods: it is used only where many
    nodes wait, or where the own look of the node keeps failing.
    """

    waiting: frozenset[TaintIdentity] = frozenset()
    intolerant: frozenset[TaintIdentity] = frozenset()
    holds_all: bool = False
    is_stale: bool = False
    wants_own_look: bool = False
    asks: bool = False
    """Whether a new look may change that."""

    @property
    def all(self) -> frozenset[TaintIdentity]:
        """All of them."""
        return self.waiting | self.intolerant


NOTHING_HELD: Final = Held()


class Brake:
    """Answers for the nodes of one pool, for one pass."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec, evidence: Evidence) -> None:
        self._taints = tuple(Taint(each.key, each.effect, each.value) for each in spec.taints)
        self._holding = frozenset(
            each.identity for each in spec.taints if each.effect == NO_EXECUTE and not each.deletes_pods
        )
        self._evidence = evidence
        self._is_told = current_survey(snapshot) is not None
        self._is_failing = bool(snapshot.pods.problem)
        self._look_problems = snapshot.pods.pod_list_problems
        # Thousands of nodes wait for the same: each answer is kept once.
        self._alike: dict[Held, Held] = {}

    def hold(self, node: Node, record: Record | None) -> Held:
        """Return which of the spec's taints must not be added to ``node`` now, which lacks one of them.

        Its ``record`` is ours.
        """
        standing = {taint.identity: taint.value for taint in node.taints}
        missing = [each for each in self._taints if standing.get(each.identity) != each.value]
        look = self._evidence.of(node)
        covering = look if look is not None and look.covers(node) else None
        waiting: set[TaintIdentity] = set()
        intolerant: set[TaintIdentity] = set()
        holds_all = is_stale = wants_own_look = False
        problem = self._look_problems.get(node.uid)
        for taint in missing:
            own = record.taints.get(taint.identity) if record else None
            is_repair = own is not None and own.set == taint.value
            if taint.effect != NO_EXECUTE and (is_repair or self._is_told):
                continue
            if covering is None:
                waiting.add(taint.identity)
                holds_all = holds_all or (self._is_coming and not is_repair)
            elif taint.identity not in self._holding:
                continue
            elif _meets(taint, node, covering):
                intolerant.add(taint.identity)  # until another look shows otherwise, at any age of this one
            elif not self._evidence.permits(covering, node):
                is_stale = True
            elif not (self._evidence.is_own(covering, node) or (problem and problem.lasts)):
                wants_own_look = True
        if (self._is_failing or problem) and (is_stale or wants_own_look):
            # The look may never come: the rest must not wait for it.
            waiting |= {each.identity for each in missing if each.identity in self._holding} - intolerant
            is_stale = wants_own_look = False
        # A node with a pod that cannot be read stays unknown after any number of looks.
        asks = is_stale or (bool(waiting) and (look is None or covering is not None))
        held = Held(
            frozenset(waiting),
            frozenset(intolerant),
            holds_all=holds_all,
            is_stale=is_stale,
            wants_own_look=wants_own_look,
            asks=asks,
        )
        return self._alike.setdefault(held, held)

    def hold_mismatch(self, held: Held, node: Node) -> Held:
        """Return ``held`` with the mismatch taint, which waits for the first look like any other."""
        if self._is_told or self._evidence.of(node) is not None:
            return held
        return replace(
            held,
            waiting=held.waiting | {MISMATCH_TAINT},
            holds_all=held.holds_all or self._is_coming,
            asks=True,
        )

    @property
    def _is_coming(self) -> bool:
        """Whether the first look at all pods for this spec comes in a moment."""
        return not self._is_told and not self._is_failing


def _meets(taint: Taint, node: Node, look: Survey) -> bool:
    found = look.intolerant_of(taint)
    return found is not None and node.name in found.nodes
