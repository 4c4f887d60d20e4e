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
from winpool.contract.assess import assess
from winpool.contract.judge import contradictory_rows
from winpool.contract.questions import taints_of
from winpool.ownership.record import MAX_BYTES, fits
from winpool.ownership.rights import asked_keys, keys_to_remember, remembered_keys
from winpool.pods.evidence import OWN_LOOKS, current_survey, is_too_slow
from winpool.report.announce import Announcement, about_node, of_issues, on_transition
from winpool.report.figures import Figures, figures_of
from winpool.report.pods import overdue_at
from winpool.report.preflight import is_untold
from winpool.report.reserved_memory import too_large
from winpool.report.status import status
from winpool.report.view import ACCEPTABLE, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.contract.assess import Assessment
    from winpool.objects.acts import NodePatch
    from winpool.objects.keys import Keys
    from winpool.objects.node import Node
    from winpool.objects.pool import Pool
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Decision:
    """What one pass is to do, in this order.

    ``finalizers`` is the list to put on the pool before any node is written, or, where there is no
    ``patches``, to take our finalizer off; None leaves it. With ``reports_first``, ``status`` is written
    before any node: it says what the taints will meet. ``patches`` are at most one per node.
    ``node_events`` are said, by node, once the patch of that node was written, and ``repaired`` names what
    somebody had undone there. ``status`` is what the pool is to report, ``pool_events`` are said once it was
    written; with ``keeps_status`` what stands there is left until more is known. ``needs_pods`` asks for a
    look at all pods, soon, ``looks`` for one at the pods of each of these nodes alone. At ``look_again`` time
    alone may lead to another decision. ``figures`` are for the metrics.
    """

    finalizers: tuple[str, ...] | None
    reports_first: bool
    patches: tuple[NodePatch, ...]
    node_events: Mapping[str, Announcement]
    repaired: Mapping[str, tuple[str, ...]]
    status: WindowsNodePoolStatus
    pool_events: tuple[Announcement, ...]
    keeps_status: bool
    needs_pods: bool
    looks: tuple[Node, ...]
    look_again: datetime | None
    figures: Figures

    @property
    def releases_pool(self) -> bool:
        """Whether the pool is let go: nothing of it is on any node, and the finalizer comes off."""
        return self.finalizers is not None and RELEASE_FINALIZER not in self.finalizers


def decide(snapshot: Snapshot) -> Decision:
    """Decide one pass of one pool."""
    pool = snapshot.pool
    assessed = assess(snapshot)
    refusal = _refusal(snapshot) or too_large(pool, assessed)
    pods_permission = _pods_permission(snapshot)
    is_active = pool.spec is not None and pool.spec.mode is Mode.ACTIVE
    may_write = pool.deleting or (is_active and not refusal and not pods_permission)
    due = tuple(each for each in assessed if each.patch is not None) if may_write else ()
    asking = _asking(snapshot, assessed) if may_write else ()
    are_few = len(asking) <= OWN_LOOKS
    patches = tuple(
        each.patch
        for each in due
        if each.patch
        and each.may_be_written
        and not (each.held.wants_own_look and are_few)
        and each.node.uid not in snapshot.held_back
    )
    finalizers = _finalizers(pool, due=bool(due))
    set_keys = _set_keys(pool, assessed, may_write=may_write)
    reported = status(
        snapshot,
        assessed,
        refusal=refusal,
        missing_permission=snapshot.missing_permission or pods_permission,
        set_keys=set_keys,
    )
    reports_first = bool(patches) and _is_status_due(pool, reported)
    return Decision(
        finalizers=finalizers,
        reports_first=reports_first,
        patches=patches,
        node_events=_node_events(assessed, pool) if patches else {},
        repaired={
            each.node.name: (*each.drifted, *each.undone)
            for each in assessed
            if patches and (each.drifted or each.undone)
        },
        status=reported,
        pool_events=_pool_events(snapshot, reported, assessed, finalizers=finalizers),
        keeps_status=_keeps_status(snapshot, assessed) and (bool(pool.status_problem) or not reports_first),
        needs_pods=_needs_pods(snapshot, asking),
        looks=_looks(snapshot, asking),
        look_again=_look_again(assessed, reported, now=snapshot.now),
        figures=Figures() if pool.deleting else figures_of(assessed),
    )


def _refusal(snapshot: Snapshot) -> Refusal:
    """Say why the spec cannot be acted on, with the fix."""
    pool = snapshot.pool
    if pool.spec is None:
        return Refusal(pool.refusal)
    taints = {each.identity: each.value for each in (*pool.spec.taints, *pool.spec.startup_taints)}
    if not fits(labels=pool.spec.labels, taints=taints):
        return Refusal(
            "spec.labels, spec.taints and spec.startupTaints: their ownership record could exceed "
            f"{MAX_BYTES} bytes on a node; use fewer or shorter keys"
        )
    if wrong := contradictory_rows(pool.spec, matrix=snapshot.matrix, cluster_rows=snapshot.cluster_rows):
        return Refusal("; ".join(wrong))
    return ACCEPTABLE


def _set_keys(pool: Pool, assessed: Sequence[Assessment], *, may_write: bool) -> Keys:
    """Return the keys that the status is to remember: those of the spec once nodes may be written for it."""
    if pool.deleting or not may_write:
        return remembered_keys(pool)
    return keys_to_remember(pool, nodes=(each.node for each in assessed))


def _pods_permission(snapshot: Snapshot) -> str:
    """Say which permission is missing to look at pods, where the spec has taints, which need that."""
    spec = snapshot.pool.spec
    return snapshot.pods_forbidden if spec and taints_of(spec) else ""


def _keeps_status(snapshot: Snapshot, assessed: Sequence[Assessment]) -> bool:
    """Whether the first look at all pods is about to tell more, and the status can wait for it.

    One that tells of this very spec: each start of the operator would take back, for a moment, what is known
    of pods that are in the way. And that of a dry run: its plan would leave out what waits for the look.
    One that cannot be read is not rebuilt without it either: what it said of pods was not nothing.
    """
    pool = snapshot.pool
    is_coming = snapshot.survey is None and not snapshot.pods_problem
    if pool.status_problem:
        return is_coming and pool.spec is not None and not pool.deleting
    is_dry_run = pool.spec is not None and pool.spec.mode is Mode.DRY_RUN
    is_known = is_dry_run or pool.status.observed_generation == pool.generation
    return is_known and is_coming and not pool.deleting and any(each.needs_pods for each in assessed)


def _is_status_due(pool: Pool, reported: WindowsNodePoolStatus) -> bool:
    """Whether the status has to be written before any node.

    The next pass goes by what stands there. It says what the taints will meet, and for which keys records
    count that no guard vouches for: with the node first, a crash in between could leave a key there for ever
    (P8).
    """
    if pool.status_problem or pool.deleting:
        return bool(pool.status_problem)
    return bool(asked_keys(pool) - remembered_keys(pool)) or is_untold(reported, pool.status)


def _asking(snapshot: Snapshot, assessed: Iterable[Assessment]) -> tuple[Assessment, ...]:
    """Return the nodes whose pods are to be looked at before they are written."""
    return tuple(
        each
        for each in assessed
        if (each.needs_pods or each.held.wants_own_look) and each.node.uid not in snapshot.held_back
    )


def _looks(snapshot: Snapshot, asking: Sequence[Assessment]) -> tuple[Node, ...]:
    """Return the nodes to be looked at by themselves: all that ask where they are few.

    Of many the first, where a look at all pods takes too long to be of use.
    """
    if len(asking) > OWN_LOOKS and not is_too_slow(current_survey(snapshot)):
        return ()
    return tuple(each.node for each in asking[:OWN_LOOKS])


def _needs_pods(snapshot: Snapshot, asking: Sequence[Assessment]) -> bool:
    """Whether all pods are to be looked at soon: the spec changed since, or many nodes wait.

    So are they where one waits whose own look goes on failing: a look at all pods has to do instead.
    """
    if snapshot.pool.spec is None or snapshot.pool.deleting:
        return False
    if current_survey(snapshot) is None:
        return True
    waiting = [each.node.uid for each in asking if each.needs_pods]
    problems = (snapshot.look_problems.get(uid) for uid in waiting)
    return (len(asking) > OWN_LOOKS and bool(waiting)) or any(each and each.lasts for each in problems)


def _look_again(
    assessed: Sequence[Assessment], reported: WindowsNodePoolStatus, *, now: datetime
) -> datetime | None:
    """Return the next moment that a rule names. One that has passed has had its say in this decision."""
    moments = (*(each.startup.look_again for each in assessed), overdue_at(reported.issues))
    return min((moment for moment in moments if moment and moment > now), default=None)


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
    snapshot: Snapshot,
    reported: WindowsNodePoolStatus,
    assessed: Sequence[Assessment],
    *,
    finalizers: tuple[str, ...] | None,
) -> tuple[Announcement, ...]:
    pool = snapshot.pool
    if pool.deleting:
        if finalizers is None:
            return ()
        note = "nothing is left on any node that an ownership record names as the pool's"
        return (Announcement(EventReason.NODES_RELEASED, note, pool.name, pool.uid),)
    if pool.status_problem:
        return ()  # nobody knows what has been told
    of_pool = (
        Announcement(reason, note, pool.name, pool.uid)
        for reason, note in on_transition(
            before=pool.status,
            after=reported,
            wrote=snapshot.written_generation == pool.generation,
        )
    )
    return (*of_pool, *of_issues(pool, reported, assessed))
