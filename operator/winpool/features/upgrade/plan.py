"""Makes the plan of the upgrades of a pool: which node when, with which others, and what is in the way.

It is of what is known now, and is made for closed gates too. Canaries come first, then zone by zone, in a
zone the easiest first; a node whose last upgrade failed comes after the others, and the node that the
operator runs on last. Where the operator upgrades nodes itself, how easy a node is counts only until the
first is claimed, and then its age alone: pods that move would change the order. Names decide between equals,
so that equal inputs give equal plans. The steps of a node are: drain it, patch or replace the machine, wait
until it is Ready and validated, then until it has soaked, and what was evicted is Ready elsewhere. The nodes
of a batch are upgraded side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import IntEnum, StrEnum
from operator import attrgetter
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.selector import selects
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.text import LAST
from winpool.api.upgrade import Canary, Method, Upgrade
from winpool.features.upgrade.claims import ENDED_BADLY, Claim, claim_of
from winpool.features.upgrade.gates.pool import max_unavailable
from winpool.features.upgrade.records import NodeUpgrade, UpgradeOverview
from winpool.model.node import Node, is_available
from winpool.model.pods import Workload


class Turn(IntEnum):
    """When the turn of a node is, whatever its zone."""

    CANARY = 0
    ZONE = 1
    FAILED = 2
    OPERATOR = 3


class PlannedAction(StrEnum):
    """What may be done with a node."""

    UPGRADE = "Upgrade"
    """Nothing keeps it from being upgraded, once its batch is next."""
    WAIT = "Wait"
    """A gate is closed, or something stops it: of the pool or of the node itself."""


class PlannedNode(msgspec.Struct, frozen=True):
    """What would happen to a node that is due.

    ``zone`` is the value of ``topologyKey``, empty where the node has none or zones are off. ``why`` says in
    sentences why it has its place. ``place`` is from 1. ``batch`` is the number of its batch, None where the
    budget permits none.
    """

    upgrade: NodeUpgrade
    zone: str
    turn: Turn
    why: str = ""
    place: int = 0
    batch: int | None = None
    action: PlannedAction = PlannedAction.WAIT

    @property
    def node(self) -> str:
        """The name of the node."""
        return self.upgrade.node.name

    @property
    def is_blocked(self) -> bool:
        """Whether something of the node itself keeps it from being upgraded now."""
        upgrade = self.upgrade
        return not upgrade.is_open or bool(upgrade.workload and upgrade.workload.blocked)

    @property
    def ease(self) -> tuple[object, ...]:
        """What orders the nodes of a zone: those that nothing keeps first, then by how many pods move."""
        node, workload = self.upgrade.node, self.upgrade.workload
        moving = workload.moving_pods if workload else 0
        return (self.is_blocked, workload is None, moving, node.created or LAST, node.name)

    @property
    def age(self) -> tuple[object, ...]:
        """What orders them once the first node is claimed: those that nothing keeps first, then by age."""
        return (self.is_blocked, self.upgrade.node.created or LAST, self.node)


class Begun(msgspec.Struct, frozen=True):
    """What the order of the nodes depends on beside the nodes that are due.

    ``up_to_date`` is how many nodes of the pool are up to date already: of ``canary.nodes`` so many are
    served, since they run the target. ``slots`` are the names of nodes with a slot of a rollout, and
    ``by_age`` says that the operator has claimed the first node. ``operator_node`` is the name of the node
    that the operator runs on, empty where it is not known.
    """

    up_to_date: int = 0
    slots: Collection[str] = ()
    by_age: bool = False
    operator_node: str = ""


NOT_BEGUN: Final = Begun()


def in_order(due: Iterable[NodeUpgrade], block: Upgrade, begun: Begun = NOT_BEGUN) -> list[PlannedNode]:
    """Return the nodes that are due in the order in which they are upgraded."""
    return [
        replace(each, why=" ".join(_why(each, block, by_age=begun.by_age)))
        for each in in_line(due, block, begun)
    ]


def in_line(due: Iterable[NodeUpgrade], block: Upgrade, begun: Begun = NOT_BEGUN) -> list[PlannedNode]:
    """Return the nodes in the same order, without saying why: so it is cheap enough for every pass."""
    key, ease = block.topology_key, attrgetter("age" if begun.by_age else "ease")
    found = [
        PlannedNode(each, each.node.labels.get(key, "") if key else "", _turn(each, begun.operator_node))
        for each in due
    ]
    canaries = _canaries(found, block.canary, begun)
    turned = [replace(each, turn=Turn.CANARY) if each.node in canaries else each for each in found]
    turned.sort(key=lambda each: (each.turn, not each.zone, each.zone, ease(each)))
    return turned


def _turn(upgrade: NodeUpgrade, operator_node: str) -> Turn:
    if operator_node and upgrade.node.name == operator_node:
        return Turn.OPERATOR
    return Turn.FAILED if upgrade.node.labels.get(UPGRADE_STATE_LABEL) in ENDED_BADLY else Turn.ZONE


def _canaries(found: Iterable[PlannedNode], canary: Canary | None, begun: Begun) -> Collection[str]:
    """Return the names of the nodes that precede all others. Those that were claimed as such stay so."""
    early = [each for each in found if each.turn is Turn.ZONE] if canary else []
    if canary and canary.node_selector is not None:
        early = [each for each in early if selects(canary.node_selector, each.upgrade.node.labels)]
    elif canary:
        claims = {each.node: claim_of(each.upgrade.node) for each in early}
        turns = {name: each.turn for name, each in claims.items() if isinstance(each, Claim)}
        wanted = max((canary.nodes or 0) - begun.up_to_date, 0)
        early = sorted(
            (each for each in early if turns.get(each.node, Turn.CANARY) == Turn.CANARY),
            key=lambda each: (each.node not in begun.slots, each.age if begun.by_age else each.ease),
        )[:wanted]
    return {each.node for each in early}


def _why(each: PlannedNode, block: Upgrade, *, by_age: bool) -> Iterator[str]:
    """Yield sentences: what decides first is the first."""
    if each.turn is Turn.OPERATOR:
        yield "The operator runs on it, so it is the last."
    elif each.turn is Turn.FAILED:
        yield "Its last upgrade failed, so it follows all nodes whose upgrade has not."
    elif each.turn is Turn.CANARY:
        by = "nodeSelector selects it" if block.canary and block.canary.node_selector else "nodes chooses it"
        yield f"spec.upgrade.canary.{by}, so it precedes all others."
    if block.topology_key:
        yield (
            f"It is in the zone {each.zone}; zones follow each other by name."
            if each.zone
            else f"It has no label {block.topology_key}, so it follows the zones."
        )
    if each.is_blocked:
        yield "Something keeps it from being upgraded now, so it follows the nodes that nothing keeps."
    workload = each.upgrade.workload
    if by_age:
        yield "Once the first nodes are claimed, the older node comes first."
    elif workload is None:
        yield "Its pods are not known."
    else:
        pods = workload.moving_pods
        yield f"{pods} pod{'' if pods == 1 else 's'} would move; fewer come first, then the older node."


DEFAULT_GRACE_SECONDS: Final = 30
"""The grace of pods that are not known: what Kubernetes gives a pod that names none.
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination"""

EVICTION_SECONDS: Final = 60
"""Likely: what a drain takes beside the grace. Evictions that a PodDisruptionBudget refuses are tried again
every 5 to 20 s, and pods of Windows take some seconds to end."""

MACHINE_SECONDS: Final = {Method.IN_PLACE: 1200, Method.REPLACE: 900}
"""Likely: from the drained node to a Ready one. An estimate, not measured: a cumulative update of Windows
Server with its restart takes 15 to 25 minutes, a new machine with its first start 10 to 20."""

SETTLE_SECONDS: Final = 900
"""Likely: until what was evicted is Ready elsewhere. Nodes pull Windows images for 10 to 20 minutes
(https://github.com/Azure/AKS/issues/4047)."""


def duration_of(
    workloads: Iterable[Workload | None], spec: WindowsNodePoolSpec, block: Upgrade, *, is_canary: bool
) -> tuple[int, int]:
    """Return how many seconds a batch of nodes with such pods takes: likely, and at worst.

    None is a node whose pods are not known.
    """
    grace, moves = 0, False
    for each in workloads:
        grace = max(grace, DEFAULT_GRACE_SECONDS if each is None else each.longest_grace)
        moves = moves or each is None or bool(each.moving)
    soak = max(block.soak_seconds, block.canary.soak_seconds if is_canary and block.canary else 0)
    validation = spec.validation
    ready = validation.ready_seconds if validation else 0
    validated = validation.timeout_seconds if validation else 0
    drain = block.drain
    machine = min(MACHINE_SECONDS[block.method], block.rejoin_timeout_seconds)
    settle = min(SETTLE_SECONDS, block.settle_timeout_seconds) if moves else 0
    likely = min(grace + EVICTION_SECONDS, drain.timeout_seconds) * moves
    likely += max(machine + ready + soak, settle)
    worst_case = (drain.timeout_seconds + drain.volume_detach_timeout_seconds) * moves
    worst_case += block.rejoin_timeout_seconds + validated + max(soak, block.settle_timeout_seconds * moves)
    return likely, worst_case


class Batch(msgspec.Struct, frozen=True):
    """Nodes that can be upgraded at the same time; the next batch follows when all of them are done.

    ``number`` is from 1. All ``nodes`` are of one ``zone``. Seconds are from the first drain until the next
    batch may begin.
    """

    number: int
    zone: str
    is_canary: bool
    nodes: tuple[str, ...]
    likely_seconds: int
    worst_case_seconds: int


class UpgradePlan(msgspec.Struct, frozen=True):
    """How the nodes of a pool that are due would be upgraded, one batch after the other.

    ``max_unavailable`` is how many nodes of the pool may be
    unavailable, None where that cannot be read; ``unavailable`` how many are now, and ``batch_size`` how many
    nodes a batch has at most, 0 where there are no batches. Seconds are those of all batches, without the
    time for which gates are closed; None without batches.
    """

    max_unavailable: int | None
    unavailable: int
    batch_size: int
    nodes: tuple[PlannedNode, ...] = ()
    batches: tuple[Batch, ...] = ()
    likely_seconds: int | None = None
    worst_case_seconds: int | None = None


LEAST_BATCH: Final = 1
"""Nodes of a batch where as many nodes are unavailable as may be: the Budget gate opens with one."""


def upgrade_plan(
    overview: UpgradeOverview,
    *,
    spec: WindowsNodePoolSpec,
    nodes_of_pool: Sequence[Node],
    operator_node: str = "",
) -> UpgradePlan:
    """Return how the nodes of a pool that are due would be upgraded. Raises ValueError without spec.upgrade.

    ``nodes_of_pool`` are all nodes of the pool, due or not. ``operator_node`` is the name of the node that
    the operator runs on, empty where it is not known.
    """
    block = spec.upgrade
    if block is None:
        raise ValueError("the spec has no upgrade, so there is nothing to plan")
    allowed = max_unavailable(block.max_unavailable, nodes=len(nodes_of_pool))
    unavailable = sum(not is_available(node) for node in nodes_of_pool)
    size = max(allowed - unavailable, LEAST_BATCH) if allowed else 0
    begun = Begun(
        up_to_date=overview.up_to_date,
        slots={each.node for each in overview.slots if each.is_held},
        by_age=overview.has_begun,
        operator_node=operator_node,
    )
    placed = _placed(overview.due, block, begun, size=size or LEAST_BATCH)
    together = list(_together(placed, size)) if size else []
    batches = tuple(_batches(together, spec, block))
    of_batch = {each.node: number for number, batch in enumerate(together, start=1) for each in batch}
    may_begin = {each.node.name for each in overview.open_nodes}
    return UpgradePlan(
        max_unavailable=allowed,
        unavailable=unavailable,
        batch_size=size,
        nodes=tuple(
            [
                replace(
                    each,
                    place=place,
                    batch=of_batch.get(each.node),
                    action=PlannedAction.UPGRADE if each.node in may_begin else PlannedAction.WAIT,
                )
                for place, each in enumerate(placed, start=1)
            ]
        ),
        batches=batches,
        likely_seconds=sum(each.likely_seconds for each in batches) if batches else None,
        worst_case_seconds=sum(each.worst_case_seconds for each in batches) if batches else None,
    )


def _placed(due: Iterable[NodeUpgrade], block: Upgrade, begun: Begun, *, size: int) -> Sequence[PlannedNode]:
    """Return the nodes in the order in which they come: the first ``size`` by their ease, others by age."""
    placed = in_order(due, block, begun)
    if begun.by_age or not block.is_ours:
        return placed
    first = next(_together(placed, size), [])
    canaries = sum(each.turn is Turn.CANARY for each in first)
    later = replace(begun, up_to_date=begun.up_to_date + canaries, by_age=True)
    return [*first, *in_order((each.upgrade for each in placed[len(first) :]), block, later)]


def _together(placed: Sequence[PlannedNode], size: int) -> Iterator[list[PlannedNode]]:
    """Yield the nodes of each batch: ``size`` at most, of one turn and one zone."""
    batch: list[PlannedNode] = []
    for each in placed:
        if batch and (len(batch) == size or (batch[0].turn, batch[0].zone) != (each.turn, each.zone)):
            yield batch
            batch = []
        batch.append(each)
    if batch:
        yield batch


def _batches(
    together: Iterable[list[PlannedNode]], spec: WindowsNodePoolSpec, block: Upgrade
) -> Iterator[Batch]:
    for number, nodes in enumerate(together, start=1):
        is_canary = nodes[0].turn is Turn.CANARY
        likely, worst_case = duration_of(
            (each.upgrade.workload for each in nodes), spec, block, is_canary=is_canary
        )
        yield Batch(
            number=number,
            zone=nodes[0].zone,
            is_canary=is_canary,
            nodes=tuple([each.node for each in nodes]),
            likely_seconds=likely,
            worst_case_seconds=worst_case,
        )
