"""What a pool needs to know of all pods, as a question that a list of them answers (``pods.survey``)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from winpool.api.keys import POOL_LABEL
from winpool.api.memory_pressure import MemoryMode
from winpool.api.node_keys import MISMATCH_TAINT, PRESSURE_TAINT
from winpool.api.v1alpha1 import NodeValidation, OnMismatch
from winpool.contract.validate import ripens, startup_taints_on
from winpool.objects.node import Taint
from winpool.ownership.membership import is_asked_for, selects
from winpool.ownership.reading import record_of
from winpool.ownership.record import Record
from winpool.pods.survey import PoolQuestion, RequiredPods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from winpool.api.v1alpha1 import PodSelector, WindowsNodePoolSpec
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool


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
        joining=frozenset(
            node.name
            for node in ours
            if _is_carrying_startup_taints(node, pool, spec)
            and (ripe := ripens(node, rules)) is not None
            and ripe <= now
        ),
        node_agents=rules.agents,
        required_pods=tuple(
            RequiredPods(
                namespace=each.namespace,
                matches=partial(selects, each.pod_selector),
                description=f"{each.namespace}/{_written(each.pod_selector)}",
            )
            for each in rules.required_pods
        ),
        workloads=spec.upgrade is not None,
    )


def taints_of(spec: WindowsNodePoolSpec) -> tuple[Taint, ...]:
    """Return all taints that the spec may add to a node: the status reports their effect on pods."""
    return tuple(_taints(spec))


def _taints(spec: WindowsNodePoolSpec) -> Iterator[Taint]:
    for each in (*spec.taints, *spec.startup_taints):
        yield Taint(each.key, each.effect, each.value)
    if spec.reserved_memory and spec.reserved_memory.on_mismatch is OnMismatch.TAINT:
        yield Taint(*MISMATCH_TAINT)
    if spec.memory_pressure and spec.memory_pressure.mode is not MemoryMode.OBSERVE:
        yield Taint(*PRESSURE_TAINT)


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
