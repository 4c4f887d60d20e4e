"""Pools that watch memory, and what is known of their nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from harness.builders import a_node, a_pool, a_record, a_snapshot, by_name, deleted, unreadable, with_status
from harness.views import CALM, HARD, told
from harness.writes import settled
from winpool.api.keys import RELEASE_FINALIZER
from winpool.decide import decide
from winpool.model.pressure import NOTHING_KNOWN, KnownMemory, NodePressure
from winpool.model.snapshot import Snapshot

OBSERVED: Final[Mapping[str, Any]] = {"memoryPressure": {"mode": "Observe"}}
NAMES: Final = tuple(f"w{number}" for number in range(6))
"""Two of them may be under pressure: 20 % rounds up."""


def watching(
    views: Mapping[str, NodePressure] | None = None, *, problems: Mapping[str, str] | None = None
) -> Snapshot:
    """Return a settled pool of six calm nodes that observes memory, but for these ``views``."""
    return knowing(told({**dict.fromkeys(NAMES, CALM), **(views or {})}, problems=problems))


def knowing(memory: KnownMemory) -> Snapshot:
    """Return such a pool of which this is known."""
    pool, nodes = settled(a_pool(more=OBSERVED), by_name(*map(a_node, NAMES)))
    return replace(a_snapshot(pool, nodes), memory=memory)


def reported_before(snapshot: Snapshot) -> Snapshot:
    """Return ``snapshot`` with what its pool is to report as the status."""
    return replace(snapshot, pool=with_status(snapshot.pool, decide(snapshot).status))


def without_spec() -> Snapshot:
    """Return a pool whose spec cannot be read any more."""
    before = reported_before(watching())
    return replace(before, pool=unreadable(before.pool))


def deleted_pool() -> Snapshot:
    """Return a pool that is being deleted."""
    pool, nodes = settled(
        a_pool(more=OBSERVED, finalizers=(RELEASE_FINALIZER,)), by_name(*map(a_node, NAMES))
    )
    return replace(a_snapshot(deleted(pool), nodes), memory=watching({"w1": HARD}).memory)


def of_other_pools() -> Snapshot:
    """Return a pool that owns none of the nodes that it selects."""
    rival = a_pool("rival")
    nodes = [a_node(name, annotations=a_record(rival.uid)) for name in NAMES]
    return a_snapshot(a_pool(more=OBSERVED), nodes, rivals=[rival])


def of_nobody() -> Snapshot:
    """Return a pool that selects nodes with the record of an unknown pool."""
    nodes = [a_node(name, annotations=a_record("stranger")) for name in NAMES]
    return a_snapshot(a_pool(more=OBSERVED), nodes)


TIMEOUT: Final = "The kubelet did not answer in time. Check the load of the node."

MEMORY_WORLDS: Final[Mapping[str, Callable[[], Snapshot]]] = {
    "memory healthy": watching,
    "memory not known yet": lambda: knowing(NOTHING_KNOWN),
    "memory silent": lambda: knowing(told({}, problems=dict.fromkeys(NAMES, TIMEOUT))),
    "memory pressure": lambda: watching({"w1": HARD}),
    "systemic pressure": lambda: watching(dict.fromkeys(("w1", "w2", "w3"), HARD)),
    "memory of no nodes": lambda: a_snapshot(a_pool(more=OBSERVED)),
    "memory of other pools' nodes": of_other_pools,
    "memory of nobody's nodes": of_nobody,
    "memory of a rejected spec": without_spec,
    "memory of a deleted pool": deleted_pool,
}
