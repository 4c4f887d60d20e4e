"""Nodes, and the patch of one.

A node is kept as the few fields that a rule asks for, so that a heartbeat, which changes none of them,
compares equal and wakes nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REASON_LENGTH: Final = 128
"""Characters of a condition's reason that are kept: it is one word in CamelCase."""

MESSAGE_LENGTH: Final = 1024
"""Characters of a condition's message that are kept: a few sentences. The API server bounds neither."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint as it stands on a node, all of it: the list is sent back whole (it is atomic).

    ``time_added`` is the RFC 3339 text of the API server. Of the taints that we add, only those have one that
    are to come off after a time.
    """

    key: str
    effect: str
    value: str = ""
    time_added: str | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """Key and effect: what the API server requires to be unique within a node."""
        return (self.key, self.effect)

    @property
    def added(self) -> datetime | None:
        """When it was added, by the clock of whoever added it; None where that is not said."""
        try:
            moment = datetime.fromisoformat(self.time_added or "")
        except ValueError:
            return None
        return moment if moment.tzinfo else None


def written_time(moment: datetime) -> str:
    """Write a time as the API server does (metav1.Time)."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """What a node says it runs, in its own words (``status.nodeInfo``); empty where it does not say.

    ``kernel`` is ``10.0.20348.4052`` on Windows, ``runtime`` is like ``containerd://2.1.4``.
    """

    kernel: str = ""
    kubelet: str = ""
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """What a node says of its memory, in bytes; None where it does not say, or cannot be read.

    What its kubelet holds back from pods is the difference.
    """

    capacity: int | None = None
    allocatable: int | None = None


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of a node: what we say there, or what stands there.

    ``status`` is "True", "False" or "Unknown". ``since`` is when that status began, None where it is not
    known; it is not compared, and what we want to stand there needs none. A reason above REASON_LENGTH or a
    message above MESSAGE_LENGTH is cut where it is read, so that we never write one.
    """

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Node:
    """A Windows node as the API server last reported it.

    ``ready`` is the status of its Ready condition ("True", "False", "Unknown"), or "Unknown" where the
    condition is absent, ``ready_since`` when that status began by the kubelet's clock. ``created`` is the
    API server's time of creation. Times that cannot be read are None. ``annotations`` and
    ``conditions`` hold only those of the table of our keys (``api.node_keys``), conditions in the order of
    their types. ``resource_version`` is the server's own text.
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
    versions: NodeVersions = NodeVersions()
    created: datetime | None = None
    ready_since: datetime | None = None
    memory: NodeMemory = NodeMemory()
    conditions: tuple[NodeCondition, ...] = ()
