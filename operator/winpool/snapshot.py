"""The frozen picture that a pass decides on: nodes, a pool, the time.

Records only: no I/O, no clock, no rules. ``cluster/`` makes them from what the API
server says, the pure rooms read them, ``control/`` carries them from one to the other.
A node is kept as the few fields that a rule asks for, so that a heartbeat, which changes
none of them, compares equal and wakes nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint as it stands on a node, all of it: the list is sent back whole (it is atomic).

    ``time_added`` is the RFC 3339 text of the API server; a taint that we add has none.
    """

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """Key and effect: what the API server requires to be unique within a node."""
        return (self.key, self.effect)


@dataclass(frozen=True, slots=True)
class Node:
    """A Windows node as the API server last reported it.

    ``ready`` is the status of its Ready condition ("True", "False", "Unknown"), or
    "Unknown" where the condition is absent. ``annotations`` holds only those under
    ``winpool.dev/``. ``created`` and ``resource_version`` are the server's own texts.
    """

    name: str
    uid: str
    resource_version: str = field(compare=False)
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    ready: str
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class NodePatch:
    """The one merge patch that a pass sends to a node.

    It carries the resourceVersion of ``node``, so that it fails with 409 rather than
    overwrite what somebody wrote meanwhile. None as a label or annotation value removes
    the key; ``taints`` is the whole list to stand on the node, None leaves it alone.
    """

    node: Node
    labels: Mapping[str, str | None]
    annotations: Mapping[str, str | None]
    taints: tuple[Taint, ...] | None
