"""Who is asked for what a decision has to know before the next one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from winpool.decide import Decision
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What can be asked for.

    ``nodes`` asks for a new list of all nodes, where the watch has missed a change; ``pods`` for a list of
    all pods, ``looks`` for those of exactly these nodes, ``samples`` for the memory of exactly these nodes,
    again and again; None where no source of samples is set.
    """

    nodes: Callable[[], None]
    pods: Callable[[], None]
    looks: Callable[[Pool, Sequence[Node]], None]
    samples: Callable[[Pool, Sequence[Node]], None] | None = None

    def follow(self, pool: Pool, decision: Decision) -> None:
        """Ask for what ``decision`` needs, and no longer for what it does not."""
        if decision.needs_pods:
            self.pods()
        self.looks(pool, decision.looks)
        if self.samples is not None:
            self.samples(pool, decision.sampled)
