"""How many nodes of a pool may be in trouble before evictions stop, and how many may evict at once.

Where many nodes are under pressure, evicted pods only move it to the next node. A node of which nothing is
known may be one of them, so it counts.

A surge does not show on all nodes at once: each has been sampled at another moment, up to an interval ago. So
for evictions more counts than what is reported (docs/adr/0032-most-of-a-pool.md):

- A node counts as soon as it is over a line, not only once that is signalled.
- A node that was calm counts as unknown, until there is a sample of it that was measured after the eviction
  became right. A look that began before the change it is used for says nothing (P4).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from winpool.model.node import Node
from winpool.model.pressure import Level, NodeView

_HUNDRED = 100


@dataclass(frozen=True, slots=True)
class Share:
    """A number of nodes, or a percentage of the nodes of the pool."""

    amount: int
    is_percent: bool = False

    def rounded_up(self, nodes: int) -> int:
        """Return how many of ``nodes`` that is, rounded up."""
        return -(-self.amount * nodes // _HUNDRED) if self.is_percent else self.amount

    def rounded_down(self, nodes: int) -> int:
        """Return how many of ``nodes`` that is, rounded down."""
        return self.amount * nodes // _HUNDRED if self.is_percent else self.amount

    @classmethod
    def of(cls, value: int | str) -> Share:
        """Read a share as a spec writes it: 3, or "20%"."""
        return cls(value) if isinstance(value, int) else cls(int(value.removesuffix("%")), is_percent=True)


def is_systemic(*, pressured: int, unknown: int, nodes: int, max_pressured_nodes: Share) -> bool:
    """Whether so much of the pool is in trouble that nothing is evicted: SystemicPressure.

    ``pressured`` nodes are signalled ones. The limit rounds up, so that one node of a small pool may be.
    """
    return pressured + unknown > max_pressured_nodes.rounded_up(nodes)


@dataclass(frozen=True)
class Breaker:
    """Whether too much of a pool may be in trouble for an eviction.

    ``views`` are the newest, by the UIDs of ``nodes``. They are counted when it is first asked: usually no
    eviction is near.
    """

    nodes: Sequence[Node]
    views: Mapping[str, NodeView]
    allowed: Share

    @property
    def is_open(self) -> bool:
        """Whether that is so by what is known, however old."""
        return self._is_systemic(unknown=0)

    def is_open_for(self, ready_since: float | None) -> bool:
        """Whether it may be so for an eviction that is right since then: older samples say nothing.

        For None every sample is older.
        """
        calm = self._calm_at
        return self._is_systemic(unknown=len(calm) if ready_since is None else bisect_left(calm, ready_since))

    @cached_property
    def _calm_at(self) -> list[float]:
        """When the last sample of each calm node was measured, the oldest first."""
        seen = (_calm_at(self.views.get(node.uid)) for node in self.nodes)
        return sorted(at for at in seen if at is not None)

    def _is_systemic(self, *, unknown: int) -> bool:
        nodes = len(self.nodes)
        return is_systemic(
            pressured=nodes - len(self._calm_at),
            unknown=unknown,
            nodes=nodes,
            max_pressured_nodes=self.allowed,
        )


def _calm_at(view: NodeView | None) -> float | None:
    """Return at which moment a node was calm; None where it is in trouble, or may be."""
    level = None if view is None else view.level
    if view is None or level is None or level >= Level.PROXY_ONLY:
        return None
    return min(
        (
            each.sampled_at
            for each in view.axes.values()
            if each.level is not None and each.sampled_at is not None
        ),
        default=None,
    )


def max_evicting_nodes(*, nodes: int, max_nodes: Share) -> int:
    """Return how many nodes may have an eviction that is not finished: at least one."""
    return max(1, max_nodes.rounded_down(nodes))
