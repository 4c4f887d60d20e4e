"""The whole pass in one function: from what is seen to what is to be done.

No input but the snapshot, no output but the decision: the same picture always leads to the
same writes, and a picture in which they have been made leads to none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.events import EventReason
from winpool.api.keys import RELEASE_FINALIZER
from winpool.api.v1alpha1 import Mode
from winpool.contract.assess import assess, wanted_by
from winpool.contract.judge import contradictory_rows
from winpool.contract.record import MAX_BYTES, fits
from winpool.report.announce import Announcement, about_node, on_transition
from winpool.report.status import status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.contract.assess import Assessment
    from winpool.snapshot import NodePatch, Pool, Snapshot


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass is to do, in this order.

    ``finalizers`` is the list to put on the pool before any node is written, or, where there is no
    ``patches``, to take our finalizer off; None leaves it. ``patches`` are at most one per node.
    ``node_events`` are said, by node, once the patch of that node was written. ``status`` is what
    the pool is to report, ``pool_events`` are said once it was written.
    """

    finalizers: tuple[str, ...] | None
    patches: tuple[NodePatch, ...]
    node_events: Mapping[str, Announcement]
    status: WindowsNodePoolStatus
    pool_events: tuple[Announcement, ...]

    @property
    def releases_pool(self) -> bool:
        """Whether the pool is let go: nothing of it is on any node, and the finalizer comes off."""
        return self.finalizers is not None and RELEASE_FINALIZER not in self.finalizers


def decide(snapshot: Snapshot) -> Decision:
    """Decide one pass of one pool."""
    pool = snapshot.pool
    refusal = _refusal(snapshot)
    assessed = assess(snapshot)
    may_write = pool.deleting or (not refusal and pool.spec is not None and pool.spec.mode is Mode.ACTIVE)
    due = tuple(each.patch for each in assessed if each.patch is not None) if may_write else ()
    patches = tuple(patch for patch in due if patch.node.uid not in snapshot.held_back)
    finalizers = _finalizers(pool, due=bool(due))
    reported = status(snapshot, assessed, refusal=refusal)
    return Decision(
        finalizers=finalizers,
        patches=patches,
        node_events=_node_events(assessed, pool) if patches else {},
        status=reported,
        pool_events=_pool_events(snapshot, reported, finalizers=finalizers),
    )


def _refusal(snapshot: Snapshot) -> str:
    """Say why the spec cannot be acted on, with the fix; empty where it can."""
    pool = snapshot.pool
    if pool.spec is None:
        return pool.refusal
    wanted = wanted_by(pool)
    if not fits(labels=wanted.labels, taints=wanted.taints):
        return (
            f"spec.labels and spec.taints: their ownership record could exceed {MAX_BYTES} bytes on a node; "
            "use fewer or shorter keys"
        )
    if wrong := contradictory_rows(pool.spec, matrix=snapshot.matrix, cluster_rows=snapshot.cluster_rows):
        return "; ".join(wrong)
    return ""


def _finalizers(pool: Pool, *, due: bool) -> tuple[str, ...] | None:
    """Our finalizer goes on before the first node is written, and off when nothing is left to undo."""
    held = RELEASE_FINALIZER in pool.finalizers
    if due and not held and not pool.deleting:
        return (*pool.finalizers, RELEASE_FINALIZER)
    if pool.deleting and held and not due:
        return tuple(name for name in pool.finalizers if name != RELEASE_FINALIZER)
    return None


def _node_events(assessed: Sequence[Assessment], pool: Pool) -> dict[str, Announcement]:
    events = ((each.node.name, about_node(each, pool=pool.name)) for each in assessed if each.patch)
    return {name: event for name, event in events if event}


def _pool_events(
    snapshot: Snapshot, reported: WindowsNodePoolStatus, *, finalizers: tuple[str, ...] | None
) -> tuple[Announcement, ...]:
    pool = snapshot.pool
    if pool.deleting:
        if finalizers is None:
            return ()
        note = "nothing is left on any node that an ownership record names as the pool's"
        return (Announcement(EventReason.NODES_RELEASED, note, pool.name, pool.uid),)
    return tuple(
        Announcement(reason, note, pool.name, pool.uid)
        for reason, note in on_transition(
            before=pool.status,
            after=reported,
            wrote=snapshot.written_generation == pool.generation,
        )
    )
