"""Which nodes a process begins with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from testbed.winsim.machines import node_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testbed.winsim.memory import Memory
    from testbed.winsim.objects import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which nodes to begin with. ``labels`` and ``taints`` go on every node, Windows and Linux.

    The Windows nodes are ``samples`` in turn (``samples.parse_sample``), where there are any; those that
    join later too. So it is with their ``memory`` (``memory.parse_memory``).
    """

    prefix: str
    windows: int
    linux: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    samples: tuple[str, ...] = ()
    memory: tuple[Memory, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return node_names(self.prefix, windows=self.windows, linux=self.linux)
