"""How many nodes of a pool may be in trouble before evictions stop, and how many may evict at once.

Where many nodes are under pressure, evicted pods only move it to the next node. A node of which nothing is
known may be one of them, so it counts.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def max_evicting_nodes(*, nodes: int, max_nodes: Share) -> int:
    """Return how many nodes may have an eviction that is not finished: at least one."""
    return max(1, max_nodes.rounded_down(nodes))
