"""What has to stand on a pool before anything is done for it: its finalizer, and what its status tells.

Each is written first, so that a crash anywhere leaves no obligation that nobody knows of (P8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.keys import POOL_LABEL, RELEASE_FINALIZER
from winpool.api.v1alpha1 import Mode
from winpool.ownership.record import Record
from winpool.ownership.rights import asked_keys, keys_to_remember, remembered_keys
from winpool.report.deletions import deletes_pods
from winpool.report.lost_keys import are_untold
from winpool.report.preflight import is_untold
from winpool.rooms import Mandate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.acts import Acts
    from winpool.objects.keys import Keys
    from winpool.objects.pool import Pool
    from winpool.ownership.members import Members
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Promise:
    """What has to stand on the pool before anything is done for it.

    ``finalizers`` is the list to put there before any node is written, or, where nothing is left to do, to
    take our finalizer off; None leaves it. ``puts_back`` says that it was there and somebody has removed it.
    With ``status_first`` the status is written before any node: it says what the taints will meet, and for
    which keys records count.
    """

    finalizers: tuple[str, ...] | None
    status_first: bool
    puts_back: bool = False


def promise_of(
    pool: Pool,
    members: Members,
    reported: WindowsNodePoolStatus,
    acts: Acts,
    *,
    mandate: Mandate,
    is_due: bool,
) -> Promise:
    """Return what has to stand on the pool first.

    Our finalizer goes on before the first node is written, and off when nothing is left to undo. Where
    somebody has removed it in between it goes on again, in every mode.
    """
    is_lost = RELEASE_FINALIZER not in pool.finalizers and not pool.deleting and _is_on_nodes(pool, members)
    return Promise(
        finalizers=_finalizers(pool, is_due=is_due or is_lost or bool(acts.patches)),
        status_first=bool(acts.patches) and _is_status_due(pool, reported, mandate),
        puts_back=is_lost,
    )


def _finalizers(pool: Pool, *, is_due: bool) -> tuple[str, ...] | None:
    held = RELEASE_FINALIZER in pool.finalizers
    if is_due and not held and not pool.deleting:
        return (*pool.finalizers, RELEASE_FINALIZER)
    if pool.deleting and held and not is_due:
        return tuple(name for name in pool.finalizers if name != RELEASE_FINALIZER)
    return None


def _is_on_nodes(pool: Pool, members: Members) -> bool:
    """Whether the record of a node names the pool; where none can be read, whether the pool label does."""
    return any(
        member.record.pool_uid == pool.uid
        if isinstance(member.record, Record)
        else member.node.labels.get(POOL_LABEL) == pool.name
        for member in members.all
    )


def _is_status_due(pool: Pool, reported: WindowsNodePoolStatus, mandate: Mandate) -> bool:
    """Whether the status has to be written before any node.

    The next pass goes by what stands there. It says what the taints will meet, and for which keys records
    count that no guard vouches for: with the node first, a crash in between could leave a key there for ever
    (P8). Of a deleted pool it says what stays behind: once the nodes are released nobody can tell.
    """
    if pool.status_problem:
        return True
    if mandate is Mandate.RELEASE:
        return are_untold(reported, pool.status)
    if mandate is not Mandate.ACT:  # only then keys of the spec may be new
        return False
    return (
        bool(asked_keys(pool) - remembered_keys(pool))
        or is_untold(reported, pool.status)
        or (deletes_pods(reported) and not deletes_pods(pool.status))
    )


def set_keys_of(pool: Pool, members: Members, *, may_write: bool) -> Keys:
    """Return the keys that the status is to remember: those of the spec once nodes may be written for it."""
    if pool.deleting or not may_write:
        return remembered_keys(pool)
    return keys_to_remember(pool, nodes=(each.node for each in members.all))


def keeps_status(snapshot: Snapshot, nodes: Sequence[Assessment]) -> bool:
    """Whether the first look at all pods is about to tell more, and the status can wait for it.

    One that tells of this very spec: each start of the operator would take back, for a moment, what is known
    of pods that are in the way. And that of a dry run: its plan would leave out what waits for the look.
    One that cannot be read is not rebuilt without it either: what it said of pods was not nothing.
    """
    pool = snapshot.pool
    is_coming = snapshot.pods.survey is None and not snapshot.pods.problem
    if pool.status_problem:
        return is_coming and pool.spec is not None and not pool.deleting
    is_dry_run = pool.spec is not None and pool.spec.mode is Mode.DRY_RUN
    is_known = is_dry_run or pool.status.observed_generation == pool.generation
    return is_known and is_coming and not pool.deleting and any(each.needs_pods for each in nodes)
