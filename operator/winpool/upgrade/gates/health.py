"""The gates about all nodes of the pool: too many have failed, were restless lately, or are unavailable."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.budget import is_budget
from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.moments import later
from winpool.api.upgrade import Gate
from winpool.upgrade.gates.world import closed, opened, unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from winpool.objects.node import Node
    from winpool.upgrade.gates.world import World
    from winpool.upgrade.records import GateFinding

FAILED: Final = ("Failed", "Quarantined")
"""Values of the label ``winpool.dev/upgrade-state`` of nodes whose upgrade has failed: those of a rollout."""

BLOCKED: Final = ("DrainBlocked",)
"""The same of nodes that cannot be drained."""

STORM_NODES: Final = 3
"""More nodes than this must have changed Ready before it is a storm: a few do in any pool, by restarts."""

STORM_PERCENT: Final = 20
"""The same, in percent of the pool: a large pool always has some restarts."""

STORM: Final = timedelta(minutes=10)
"""Within this time they must have changed. A kubelet that restarts is Ready again in a few minutes, and the
controller manager marks the nodes of a zone that fails within one or two."""

JOINING: Final = timedelta(minutes=15)
"""A node that is younger when it changes Ready is joining the cluster, which is no trouble."""


def pool_health(world: World) -> GateFinding:
    """Judge how many nodes have failed, are blocked, or changed Ready lately."""
    gate, upgrade = Gate.POOL_HEALTH, world.upgrade
    states = Counter(node.labels.get(UPGRADE_STATE_LABEL) for node in world.nodes)
    if sum(states[each] for each in FAILED) > upgrade.max_failed_nodes:
        return closed(
            gate,
            "The upgrade of more nodes has failed than spec.upgrade.maxFailedNodes "
            f"({upgrade.max_failed_nodes}) permits.",
            "Repair the nodes whose label winpool.dev/upgrade-state is Failed or Quarantined, or raise "
            "spec.upgrade.maxFailedNodes.",
        )
    if sum(states[each] for each in BLOCKED) > upgrade.max_blocked_nodes:
        return closed(
            gate,
            "More nodes cannot be drained than spec.upgrade.maxBlockedNodes "
            f"({upgrade.max_blocked_nodes}) permits.",
            "Remove what blocks the nodes whose label winpool.dev/upgrade-state is DrainBlocked, or raise "
            "spec.upgrade.maxBlockedNodes.",
        )
    return _storm(world)


def _storm(world: World) -> GateFinding:
    """Judge how many nodes changed Ready lately; nodes that were joining when they did do not count."""
    gate = Gate.POOL_HEALTH
    allowed = max(STORM_NODES, STORM_PERCENT * len(world.nodes) // 100)
    recent, unclear = _changed(world.nodes, since=world.now - STORM)
    if len(recent) > allowed:
        return closed(
            gate,
            "Many nodes of the pool changed their condition Ready within ten minutes.",
            "Find out what makes the nodes restless. The gate opens ten minutes after most of them changed "
            "Ready.",
            changes_at=_calm_at(recent, allowed),
        )
    if len(recent) + unclear > allowed:
        return unknown(
            gate,
            "Of many nodes of the pool it is not known since when their condition Ready has its status.",
            "Check the kubelets of the nodes, and lastTransitionTime of their condition Ready.",
            changes_at=_calm_at(recent, allowed - unclear),
        )
    return opened(gate, "Few nodes of the pool changed their condition Ready lately.")


def _calm_at(recent: Sequence[datetime], allowed: int) -> datetime | None:
    """Return when at most ``allowed`` of the changes are within ``STORM``; None where that never comes."""
    if allowed < 0:
        return None
    return later(sorted(recent)[len(recent) - allowed - 1], STORM.total_seconds())


def _changed(nodes: Iterable[Node], *, since: datetime) -> tuple[list[datetime], int]:
    """Return when nodes changed Ready after ``since``, and of how many that is not known."""
    recent: list[datetime] = []
    unknown_nodes = 0
    for node in nodes:
        changed = node.ready_since
        if changed is None:
            unknown_nodes += 1
        elif changed > since and not (node.created is not None and changed - node.created < JOINING):
            recent.append(changed)
    return recent, unknown_nodes


def budget(world: World) -> GateFinding:
    """Judge how many nodes of the pool are unavailable: not Ready, cordoned by anyone, or being deleted."""
    gate, asked = Gate.BUDGET, world.upgrade.max_unavailable
    allowed = max_unavailable(asked, nodes=len(world.nodes))
    if allowed is None:
        return unknown(
            gate,
            "spec.upgrade.maxUnavailable cannot be read.",
            'Set spec.upgrade.maxUnavailable to a number, such as 2, or to a percentage, such as "10%".',
        )
    if allowed == 0:
        return closed(
            gate,
            f"spec.upgrade.maxUnavailable is {asked}, which permits no upgrade.",
            "Raise spec.upgrade.maxUnavailable.",
        )
    if sum(1 for node in world.nodes if is_unavailable(node)) >= allowed:
        return closed(
            gate,
            f"As many nodes of the pool are unavailable as spec.upgrade.maxUnavailable ({asked}) permits: "
            "not Ready, cordoned, or being deleted.",
            "Wait until these nodes are Ready and schedulable again, or make them so.",
        )
    return opened(gate, f"Fewer nodes are unavailable than spec.upgrade.maxUnavailable ({asked}) permits.")


def may_continue(world: World) -> frozenset[str]:
    """Return the UIDs of nodes that are unavailable within the budget: each may be the one that is in work.

    A node becomes unavailable by its own upgrade, which closes the gate for all others. It keeps a permission
    that it has, as long as fewer others are unavailable than the budget permits.
    """
    allowed = max_unavailable(world.upgrade.max_unavailable, nodes=len(world.nodes))
    found = frozenset(node.uid for node in world.nodes if is_unavailable(node))
    return found if allowed and len(found) - 1 < allowed else frozenset()


def is_unavailable(node: Node) -> bool:
    """Whether ``node`` counts as unavailable. One whose Ready is Unknown does."""
    return node.ready != "True" or node.unschedulable or node.deleting


def max_unavailable(asked: int | str, *, nodes: int) -> int | None:
    """Return how many of ``nodes`` may be unavailable; None where it cannot be read.

    A percentage rounds down and is at least one node; 0 and 0% permit none.
    """
    if not is_budget(asked):
        return None
    if isinstance(asked, int):
        return asked
    percent = int(asked.removesuffix("%"))
    return max(1, percent * nodes // 100) if percent else 0
