"""What a pool must have before anything is done for it: its finalizer, and what its status has to say.

Each is written first, so that a crash at any point leaves no unknown obligation (P8).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from winpool.api.conditions import ConditionType
from winpool.api.keys import POOL_LABEL, RELEASE_FINALIZER
from winpool.api.spec import Mode
from winpool.api.status import WindowsNodePoolStatus
from winpool.features.feature import AllowedActions, FeatureResult
from winpool.model.node import Acts, Keys
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Members
from winpool.ownership.record import Record
from winpool.ownership.trust import asked_keys, keys_to_remember, remembered_keys
from winpool.status.assessment import Assessment
from winpool.status.pods import is_unreported


@dataclass(frozen=True, slots=True)
class Promise:
    """What the pool must have before anything is done for it.

    ``finalizers`` is the list to write before any node is written, or, where nothing is left to do, the list
    without our finalizer; None does not change it. ``puts_back`` says that our finalizer was there and
    someone has removed it. With ``status_first`` the status is written before any node: it says which pods
    the taints will affect, and for which keys records count.
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
    allowed: AllowedActions,
    is_due: bool,
    unreported: Collection[str] = (),
    deletes_pods: bool,
) -> Promise:
    """Return what the pool must have first.

    Our finalizer is added before the first node is written, and removed when nothing is left to undo. Where
    someone has removed it in between, it is restored, in every mode. ``unreported`` are nodes that wait for
    the status of a deleted pool. ``deletes_pods`` says that a taint
    has pods deleted.
    """
    is_lost = RELEASE_FINALIZER not in pool.finalizers and not pool.deleting and _is_on_nodes(pool, members)
    return Promise(
        finalizers=_finalizers(pool, is_due=is_due or is_lost or bool(acts.patches)),
        status_first=(
            bool(acts.patches) and _is_status_due(pool, reported, allowed, deletes_pods=deletes_pods)
        )
        or any(each.node.name in unreported for each in acts.patches),
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


def _is_status_due(
    pool: Pool, reported: WindowsNodePoolStatus, allowed: AllowedActions, *, deletes_pods: bool
) -> bool:
    """Whether the status has to be written before any node.

    The next pass uses what the status says. It says which pods the taints will affect, and for which keys
    records count that were not written under the guard: if the node was written first, a crash in between
    could leave a key there for ever (P8). For what stays on nodes of a deleted pool: ``without_unreported``.
    """
    if pool.status_problem:
        return True
    if allowed is not AllowedActions.ACT:  # only then keys of the spec may be new
        return False
    return (
        bool(asked_keys(pool) - remembered_keys(pool))
        or is_unreported(reported, pool.status)
        or (deletes_pods and not _says_that_nodes_are_written(pool.status))
    )


def without_unreported(acts: Acts, unreported: Collection[str]) -> Acts:
    """Return ``acts`` on the other nodes, if there are any: those wait for no status.

    Nodes that are ``unreported`` wait until the status says what stays behind there: once they are released
    no one can tell.
    """
    rest = Acts(
        patches=tuple([each for each in acts.patches if each.node.name not in unreported]),
        evictions=acts.evictions,
        conditions=tuple([each for each in acts.conditions if each.node.name not in unreported]),
    )
    return rest if rest.patches or rest.conditions else acts


def _says_that_nodes_are_written(status: WindowsNodePoolStatus) -> bool:
    """Whether people who read the status know that the operator acts on the spec."""
    accepted, paused = status.condition(ConditionType.ACCEPTED), status.condition(ConditionType.PAUSED)
    is_accepted = accepted is not None and accepted.status == "True"
    return is_accepted and status.plan is None and not (paused is not None and paused.status == "True")


def set_keys_of(pool: Pool, members: Members, *, may_write: bool) -> Keys:
    """Return the keys that the status has to remember: those of the spec once nodes may be written for it."""
    if pool.deleting or not may_write:
        return remembered_keys(pool)
    return keys_to_remember(pool, nodes=(each.node for each in members.all))


def keeps_status(
    snapshot: Snapshot, nodes: Sequence[Assessment], results: Iterable[FeatureResult] = ()
) -> bool:
    """Whether the first list of all pods is about to show more, and the status can wait for it.

    A status for this very spec waits: otherwise each start of the operator would remove, for a moment, what
    it says of pods that block taints, or would close gates that pods keep open. So does that of a dry run:
    its plan would omit what waits for the list. One that cannot be read is not rebuilt without the list
    either: it may have reported pods.
    """
    pool = snapshot.pool
    is_coming = snapshot.pods.survey is None and not snapshot.pods.problem
    if pool.status_problem:
        return is_coming and pool.spec is not None and not pool.deleting
    is_dry_run = pool.spec is not None and pool.spec.mode is Mode.DRY_RUN
    is_known = is_dry_run or pool.status.observed_generation == pool.generation
    if not is_known or not is_coming or pool.deleting:
        return False
    return any(each.needs_pods for each in nodes) or any(each.awaits_pods for each in results)
