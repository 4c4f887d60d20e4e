"""A pool whose nodes run out of memory: what the passes of its operator see, and what they decide."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import NOON, a_node
from winpool.api.keys import MEMORY_ANNOTATION
from winpool.api.memory_pressure import EvictionLimits
from winpool.features.memory.eviction import Pass, Step, steps_of
from winpool.features.memory.intents import Intent, deadline, written
from winpool.features.memory.overview import Breaker
from winpool.model.node import Node
from winpool.model.node_pods import Answer, Answered, KnownEvictions, NodePods
from winpool.model.pods import EvictionFacts, Pod
from winpool.model.pressure import (
    Axis,
    AxisPressure,
    Hold,
    KnownMemory,
    Level,
    NodePressure,
    PodUsage,
    Reading,
    UsageSinceCalm,
)

GIB: Final = 2**30

READ_AT: Final = 1000.0
"""The moment of the snapshot on the clock of samples."""
SAMPLED_AT: Final = READ_AT - 4.0
FACTS: Final = frozenset(EvictionFacts.__struct_fields__)
LISTED_AT: Final = READ_AT - 2.0


def an_axis(axis: Axis, *, hold: Hold | None, level: Level | None = Level.HARD, **more: Any) -> AxisPressure:
    defaults: dict[str, Any] = {
        "axis": axis,
        "level": level,
        "held": Level.NORMAL if level is None else level,
        "since": SAMPLED_AT,
        "ready_since": SAMPLED_AT,
        "sampled_at": SAMPLED_AT,
        "looked_at": more.get("sampled_at", SAMPLED_AT),
        "source": "Kubelet",
        "reading": Reading(axis, left=GIB / 2, whole=24 * GIB),
        "seconds_left": None,
        "missing": 2.0 * GIB,
        "hold": hold,
    }
    return AxisPressure(**(defaults | more))


def a_view(
    *, commit: Hold | None = None, physical: Hold | None = Hold.NO_PRESSURE, **more: Any
) -> NodePressure:
    """Return what is known of a node that may be evicted from, for COMMIT unless said otherwise."""
    return NodePressure(
        axes={
            Axis.COMMIT: an_axis(Axis.COMMIT, hold=commit, **more),
            Axis.PHYSICAL: an_axis(
                Axis.PHYSICAL, hold=physical, level=Level.NORMAL if physical else Level.HARD
            ),
        },
        guard=None,
        is_signalled=True,
        outside_pods=None,
    )


def a_pod(name: str = "hog", **more: Any) -> Pod:
    """Return a pod that may be evicted; ``more`` may name parts of its ``EvictionFacts`` too."""
    facts = {each: more.pop(each) for each in FACTS & more.keys()}
    defaults: dict[str, Any] = {
        "namespace": "shop",
        "node": "w1",
        "uid": f"uid-{name}",
        "controller_kind": "ReplicaSet",
        "eviction": EvictionFacts(**{"created": NOON - timedelta(hours=1), **facts}),
    }
    return Pod(name=name, **(defaults | more))


def listed(
    *pods: Pod,
    at: float = LISTED_AT,
    blocked: Iterable[str] | None = (),
    seconds: float = 0.5,
) -> NodePods:
    """Return a list of pods that began at that moment of the clock of samples, with NOON as READ_AT.

    ``blocked`` are the UIDs of those that budgets protect; None where no budgets were listed.
    """
    started = NOON + timedelta(seconds=at - READ_AT)
    return NodePods(started, at, pods, None if blocked is None else frozenset(blocked), seconds=seconds)


def an_intent(pod: str = "hog", *, ago: float = 1.0, grace: float = 30.0) -> Intent:
    at = (NOON - timedelta(seconds=ago)).replace(microsecond=0)
    return Intent(f"shop/{pod}", f"uid-{pod}", at, deadline(now=at, grace_seconds=grace), "Commit, Hard")


def a_hot_node(name: str = "w1", *intents: Intent, text: str | None = None, **more: Any) -> Node:
    """Return a node with these intents."""
    told = text if text is not None else written(intents)
    annotations = {} if told is None else {MEMORY_ANNOTATION: told}
    return replace(a_node(name, annotations=annotations), **more)


def using(gib: float = 4.0, *, grown: float = 1.0) -> PodUsage:
    """Return what a pod uses, and by how much it has grown since its node was calm; half of it in RAM."""
    return PodUsage(gib * GIB, gib * GIB / 2, grown * GIB, grown * GIB / 2)


def answered(answer: Answer, *, ago: float = 0.5) -> Answered:
    return Answered(answer, READ_AT - ago)


def steps(
    *nodes: Node,
    pods: Mapping[str, NodePods] | NodePods | None = None,
    views: Mapping[str, NodePressure] | NodePressure | None = None,
    usage: Mapping[str, PodUsage] | None = None,
    grown: float | None = None,
    answers: Mapping[str, Answered] | None = None,
    evicts: bool = True,
    held: Iterable[str] = (),
    now: datetime = NOON,
    read_at: float = READ_AT,
    protected: frozenset[str] = frozenset(),
    **limits: Any,
) -> dict[str, Step]:
    """Return what is decided, by the names of the nodes. A single list or view is that of every node.

    Each node has committed ``grown`` GiB more than when it was calm, None where that is not known. All
    nodes may be under pressure, unless ``limits`` say otherwise.
    """
    every = {each.uid: each for each in nodes}
    looks = pods if isinstance(pods, Mapping) else dict.fromkeys(every, pods) if pods else {}
    seen = views if isinstance(views, Mapping) else dict.fromkeys(every, views or a_view())
    uses = usage
    if uses is None:
        uses = {pod.uid: using() for look in looks.values() for pod in look.pods}
    since_calm = UsageSinceCalm(uses, grown=None if grown is None else grown * GIB)
    limited = EvictionLimits.model_validate({"maxPressuredNodes": "100%", **limits})
    found = steps_of(
        nodes,
        Pass(
            memory=KnownMemory(views=seen, pods=dict.fromkeys(every, since_calm), read_at=read_at),
            known=KnownEvictions(pods=looks, answers=answers or {}, protected=protected, read_at=read_at),
            limits=limited,
            evicts=evicts,
            breaker=Breaker(nodes, seen, limited.max_pressured_nodes),
            now=now,
        ),
        held=set(held),
    )
    return {every[uid].name: step for uid, step in found.items()}


def step(node: Node, **more: Any) -> Step:
    """Return what is decided about a pool of one node."""
    return steps(node, **more)[node.name]
