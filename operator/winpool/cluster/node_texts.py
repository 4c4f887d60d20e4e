"""What is kept of the texts that whoever is a kubelet may write into its node, and how much of each.

A kubelet may write a megabyte, another one each time, and again and again. So what is held once for all nodes
is short, annotations are those that we know, and what is longer than anything that we can read is cut. A node
then takes what it takes now, whatever it has told before.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import Final

import msgspec

from winpool.api.node_keys import CONDITIONS
from winpool.api.quantity import bytes_of
from winpool.cluster import wire
from winpool.objects.node import MESSAGE_LENGTH, REASON_LENGTH, NodeCondition, NodeMemory, NodeVersions
from winpool.ownership.record import MAX_BYTES

_READY: Final = "Ready"

_CONDITIONS: Final = frozenset(CONDITIONS)

_STATUSES: Final = {"True": "True", "False": "False"}
"""What a condition says. Anything else, which the API server lets a kubelet write, is not known."""

_ANNOTATIONS: Final = tuple([each.encode_name for each in msgspec.structs.fields(wire.NodeAnnotations)])
"""The keys of those that are read, in the order of the record."""

TOO_LONG: Final = "?" * (MAX_BYTES + 1)
"""Stands for an annotation that is longer than anything we write. It is too long itself, so that it reads as
such; and it is one for all nodes."""

VERSION_LENGTH: Final = 400
"""Characters of a version that are kept. Longer ones cannot be read (``support.versions``), nor can what is
left of them, which is long enough to tell people what is wrong."""

_SHORT: Final = 64
"""Characters of a text that is held once for all nodes: a version of a vendor's build has some 40. A longer
time or amount is none."""

_HELD_ONCE: Final = 1024
"""More combinations than any cluster runs at once; each has about 100 bytes."""

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
    """Return the status of the Ready condition and when it began, as far as they are said."""
    if isinstance(status, wire.NodeStatus):
        for condition in status.conditions or ():
            if condition.type == _READY:
                return _STATUSES.get(condition.status, wire.UNKNOWN), time_of(condition.last_transition_time)
    return wire.UNKNOWN, None


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
    """Read a metav1.Time; one that cannot be read is not known, and keeps no node from being read."""
    if text is None or len(text) > _SHORT:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def memory_of(status: wire.NodeStatus | str | None) -> NodeMemory:
    """Read the memory that the node has and offers to pods."""
    if not isinstance(status, wire.NodeStatus):
        return NodeMemory()
    capacity, allocatable = status.capacity, status.allocatable
    return _memory_once(_amount(capacity), _amount(allocatable))


def _amount(resources: wire.Resources | None) -> str | None:
    """Return what is written of memory; None also for a text that is too long to be an amount."""
    memory = None if resources is None else resources.memory
    return None if memory is None or len(memory) > _SHORT else memory


@lru_cache(maxsize=_HELD_ONCE)
def _memory_once(capacity: str | None, allocatable: str | None) -> NodeMemory:
    """Read both. Machines of a kind report the same, so each pair is read and held once."""
    return NodeMemory(capacity=_bytes(capacity), allocatable=_bytes(allocatable))


def _bytes(quantity: str | None) -> int | None:
    try:
        return None if quantity is None else bytes_of(quantity)
    except ValueError:
        return None


def versions_of(status: wire.NodeStatus | str | None) -> NodeVersions:
    """Read what runs on the node. Few combinations are in use, so each is held once for all nodes."""
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
