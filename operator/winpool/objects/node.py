"""Nodes, and the patch of one.

A node is kept as the few fields that a rule needs. So a heartbeat, which changes none of them, compares equal
and wakes no pool.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from winpool.api.moments import read_moment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

REASON_LENGTH: Final = 128
"""Characters of a condition's reason that are kept: it is one word in CamelCase."""

MESSAGE_LENGTH: Final = 1024
"""Characters of a condition's message that are kept: a few sentences. The API server limits neither."""


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint as it is on a node, with all its fields: the list is sent back whole (it is atomic).

    ``time_added`` is the RFC 3339 text of the API server. Of the taints that we add, only those that are
    removed after a time have one.
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
        """When it was added, by the clock of the client that added it; None where it has no time."""
        return read_moment(self.time_added)


@dataclass(frozen=True, slots=True)
class NodeVersions:
    """The versions that a node reports, in its own words (``status.nodeInfo``); empty where it reports none.

    ``kernel`` is ``10.0.20348.4052`` on Windows, ``runtime`` is like ``containerd://2.1.4``.
    """

    kernel: str = ""
    kubelet: str = ""
    runtime: str = ""


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """The memory that a node reports, in bytes; None where it reports none, or it cannot be read.

    What its kubelet reserves is the difference.
    """

    capacity: int | None = None
    allocatable: int | None = None


@dataclass(frozen=True, slots=True)
class Allocatable:
    """What a node has for pods beside memory: CPU in thousandths of a core, and how many pods.

    None where it reports none, or it cannot be read. Its memory is in ``NodeMemory``.
    """

    cpu_milli: int | None = None
    pods: int | None = None


@dataclass(frozen=True, slots=True)
class KubeletEndpoint:
    """Where a node says that its kubelet listens, in its own words: nothing of it is to be believed.

    ``address`` is the first InternalIP, empty where it reports none. ``port`` is that of
    ``status.daemonEndpoints``, None where it reports none.
    """

    address: str = ""
    port: int | None = None


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of a node: one that we write, or one that it has.

    ``status`` is "True", "False" or "Unknown". ``since`` is when that status began, None where it is not
    known; it is not compared, and a condition that we want needs none. A reason above REASON_LENGTH or a
    message above MESSAGE_LENGTH is cut when it is read, so we never write one.
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
    ``conditions`` have only those of the table of our keys (``api.node_keys``), conditions in the order of
    their types. ``kubelet_pressure`` is the status of the kubelet's own condition MemoryPressure, "Unknown"
    where it is absent. ``boot_id`` is that of ``nodeInfo``, empty where it reports none: another
    one means that the machine was started again. ``resource_version`` is the server's own text.
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
    kubelet: KubeletEndpoint = KubeletEndpoint()
    kubelet_pressure: str = "Unknown"
    boot_id: str = ""
    allocatable: Allocatable = Allocatable()
