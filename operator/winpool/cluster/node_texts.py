"""Which of the texts that a kubelet may write into its node are kept, and how much of each.

A kubelet may write a megabyte, a different one each time, again and again. So texts that are kept once for
all nodes are short, only known annotations are kept, and a text longer than anything that can be read is cut.
A node then needs memory only for what it has now, whatever its kubelet has written before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.moments import read_moment
from winpool.api.node_keys import CONDITIONS
from winpool.api.quantity import bytes_of, milli_of
from winpool.cluster import wire
from winpool.objects.node import (
    MESSAGE_LENGTH,
    REASON_LENGTH,
    Allocatable,
    KubeletEndpoint,
    NodeCondition,
    NodeMemory,
    NodeVersions,
)
from winpool.ownership.record import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

_READY: Final = "Ready"

_MEMORY_PRESSURE: Final = "MemoryPressure"
"""The kubelet's own condition. Ours has another type."""

_INTERNAL_IP: Final = "InternalIP"

_NOTHING_ALLOCATABLE: Final = Allocatable()

_NO_ENDPOINT: Final = KubeletEndpoint()
"""Kept once for all nodes that report none."""

_CONDITIONS: Final = frozenset(CONDITIONS)

_STATUSES: Final = {"True": "True", "False": "False"}
"""The statuses of a condition. Any other text, which the API server permits a kubelet to write, is
unknown."""

_ANNOTATIONS: Final = tuple([each.encode_name for each in msgspec.structs.fields(wire.NodeAnnotations)])
"""The keys of those that are read, in the order of the record."""

TOO_LONG: Final = "?" * (MAX_BYTES + 1)
"""Replaces an annotation that is longer than anything we write. It is too long itself, so that it is read as
one that is too long; and all nodes share it."""

VERSION_LENGTH: Final = 400
"""Characters of a version that are kept. A longer one cannot be read (``support.versions``), and neither can
the part that is kept, which is long enough to show people what is wrong."""

_SHORT: Final = 64
"""Characters of a text that is kept once for all nodes: a version of a vendor's build has some 40. A longer
text is neither a time, nor an amount, nor an IP address."""

_HELD_ONCE: Final = 1024
"""Combinations that are kept: more than any cluster runs at once, of about 100 bytes each."""

_held_once: Final = lru_cache(maxsize=_HELD_ONCE)(NodeVersions)


def annotations_of(found: wire.NodeAnnotations | None) -> dict[str, str]:
    """Return the annotations that are kept, by key."""
    if found is None:
        return {}
    return {
        key: text if len(text) <= MAX_BYTES else TOO_LONG
        for key, text in zip(_ANNOTATIONS, msgspec.structs.astuple(found), strict=True)
        if text is not None
    }


def ready_of(status: wire.NodeStatus | str | None) -> tuple[str, datetime | None]:
    """Return the status of the Ready condition and when it began, as far as the node has them."""
    if isinstance(status, wire.NodeStatus):
        for condition in status.conditions or ():
            if condition.type == _READY:
                return _STATUSES.get(condition.status, wire.UNKNOWN), time_of(condition.last_transition_time)
    return wire.UNKNOWN, None


def pressure_of(status: wire.NodeStatus | str | None) -> str:
    """Return the status of the kubelet's condition MemoryPressure, "Unknown" where the node has none."""
    if isinstance(status, wire.NodeStatus):
        for condition in status.conditions or ():
            if condition.type == _MEMORY_PRESSURE:
                return _STATUSES.get(condition.status, wire.UNKNOWN)
    return wire.UNKNOWN


def kubelet_of(status: wire.NodeStatus | str | None) -> KubeletEndpoint:
    """Return where the node says that its kubelet listens: the first InternalIP counts, and no other one.

    An address that is too long to be one is cut, so that it is still none. Port 0 is what a kubelet writes
    that has no port.
    """
    if not isinstance(status, wire.NodeStatus):
        return _NO_ENDPOINT
    first = next((each.address for each in status.addresses or () if each.type == _INTERNAL_IP), "")
    endpoints = status.daemon_endpoints
    endpoint = None if endpoints is None else endpoints.kubelet_endpoint
    port = None if endpoint is None else endpoint.port or None
    return KubeletEndpoint(_cut(first, _SHORT), port) if first or port else _NO_ENDPOINT


def conditions_of(status: wire.NodeStatus | str | None) -> tuple[NodeCondition, ...]:
    """Return the conditions of the table of our keys, in the order of their types.

    Of several of one type the first counts: a kubelet may send any number of them.
    """
    if not isinstance(status, wire.NodeStatus) or status.conditions is None:
        return ()
    told = [condition for condition in status.conditions if condition.type in _CONDITIONS]
    if not told:
        return ()
    first = {condition.type: condition for condition in reversed(told)}
    return tuple([_condition(first[type_]) for type_ in sorted(first)])


def _condition(told: wire.Condition) -> NodeCondition:
    return NodeCondition(
        type=told.type,
        status=_STATUSES.get(told.status, wire.UNKNOWN),
        reason=_cut(told.reason or "", REASON_LENGTH),
        message=_cut(told.message or "", MESSAGE_LENGTH),
        since=time_of(told.last_transition_time),
    )


def time_of(text: str | None) -> datetime | None:
    """Read a metav1.Time; one that cannot be read is unknown, and the rest of the node is still read."""
    return None if text is None or len(text) > _SHORT else read_moment(text)


def memory_of(status: wire.NodeStatus | str | None) -> NodeMemory:
    """Read the memory that the node has and offers to pods."""
    if not isinstance(status, wire.NodeStatus):
        return NodeMemory()
    capacity, allocatable = status.capacity, status.allocatable
    return _memory_once(
        None if capacity is None else _amount(capacity.memory),
        None if allocatable is None else _amount(allocatable.memory),
    )


def allocatable_of(status: wire.NodeStatus | str | None) -> Allocatable:
    """Read the CPU and the number of pods that the node offers."""
    if not isinstance(status, wire.NodeStatus) or status.allocatable is None:
        return _NOTHING_ALLOCATABLE
    return _allocatable_once(_amount(status.allocatable.cpu), _amount(status.allocatable.pods))


def boot_id_of(status: wire.NodeStatus | str | None) -> str:
    """Return the boot ID; a text that is too long to be one is cut: a UUID on Linux, a number on Windows."""
    if not isinstance(status, wire.NodeStatus) or status.node_info is None:
        return ""
    return _cut(status.node_info.boot_id, _SHORT)


def _amount(text: str | None) -> str | None:
    """Return an amount as written; None also for a text that is too long to be one."""
    return None if text is None or len(text) > _SHORT else text


@lru_cache(maxsize=_HELD_ONCE)
def _memory_once(capacity: str | None, allocatable: str | None) -> NodeMemory:
    """Read both. Machines of a kind report the same, so each pair is read and kept once."""
    return NodeMemory(capacity=_bytes(capacity), allocatable=_bytes(allocatable))


@lru_cache(maxsize=_HELD_ONCE)
def _allocatable_once(cpu: str | None, pods: str | None) -> Allocatable:
    """Read both. Machines of a kind report the same, so each pair is read and kept once."""
    return Allocatable(cpu_milli=_number(cpu, milli_of), pods=_number(pods, bytes_of))


def _bytes(quantity: str | None) -> int | None:
    return _number(quantity, bytes_of)


def _number(quantity: str | None, read: Callable[[str], int]) -> int | None:
    try:
        return None if quantity is None else read(quantity)
    except ValueError:
        return None


def versions_of(status: wire.NodeStatus | str | None) -> NodeVersions:
    """Read what runs on the node. Few combinations are in use, so each is kept once for all nodes."""
    if not isinstance(status, wire.NodeStatus) or status.node_info is None:
        return NodeVersions()
    info = status.node_info
    kernel, kubelet, runtime = info.kernel_version, info.kubelet_version, info.container_runtime_version
    if len(kernel) <= _SHORT and len(kubelet) <= _SHORT and len(runtime) <= _SHORT:
        return _held_once(kernel=kernel, kubelet=kubelet, runtime=runtime)
    return NodeVersions(
        kernel=_cut(kernel, VERSION_LENGTH),
        kubelet=_cut(kubelet, VERSION_LENGTH),
        runtime=_cut(runtime, VERSION_LENGTH),
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"
