"""Plans what a pass writes to the cluster: what is due, which of it may be sent now, and what comes first.

A permission to upgrade that no longer holds is withdrawn before all else, in a pass of its own: that waits
for no status, and needs no finalizer, since a pool that has given one has it. The other writes of a pass have
an order, so that a crash at any point leaves no unknown obligation (P8):

1. the finalizer is on the pool before its first node is written;
2. the status has what people and the next pass must be able to read before a node is changed;
3. each node gets one patch;
4. node conditions are written once the record on the node names them;
5. pods are evicted, beside the pass.

The plan is made from the members, the results of the features and the differences of the nodes. It does not
know what the status reports of them: where that has to be written first, ``decide`` says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import RELEASE_FINALIZER, UPGRADE_STATE_LABEL
from winpool.api.upgrade import UpgradeState
from winpool.features.contract.feature import ContractResult
from winpool.features.feature import AllowedActions, FeatureResult
from winpool.features.upgrade.claims import is_with_actor
from winpool.model.node import ConditionsPatch, Eviction, Node, NodePatch
from winpool.model.pool import Pool
from winpool.model.snapshot import MOST_NODE_LISTS, Snapshot
from winpool.ownership.desired import KEEP_ALL
from winpool.ownership.diff import NodeDiff, diffs_of
from winpool.ownership.members import Claim, Members, is_marked_for
from winpool.ownership.record import Record
from winpool.ownership.trust import asked_keys, remembered_keys


class Writes(msgspec.Struct, frozen=True):
    """What a pass writes, in this order: finalizers, status, patches of nodes, conditions, evictions.

    ``finalizers`` is the list that the pool gets before any node is written, or, where nothing is left to do,
    the list without our finalizer; None does not change it. ``restores_finalizer`` says that our finalizer
    was there and someone has removed it. With ``status_first`` the status is written before any node, and the
    next pass writes the nodes. There is at most one patch, and one set of conditions, for each node.
    ``withdrawn`` are the names of the nodes whose patch withdraws the permission to upgrade and does not even
    change the record.
    ``awaiting_pods`` are the nodes that wait for a list of their pods.
    """

    finalizers: tuple[str, ...] | None = None
    restores_finalizer: bool = False
    status_first: bool = False
    patches: tuple[NodePatch, ...] = ()
    conditions: tuple[ConditionsPatch, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    withdrawn: frozenset[str] = frozenset()
    awaiting_pods: tuple[Node, ...] = ()

    def __bool__(self) -> bool:
        """Whether anything is written to nodes or pods."""
        return bool(self.patches or self.conditions or self.evictions)

    @property
    def takes_permissions(self) -> bool:
        """Whether all patches only take back the permission to upgrade."""
        return bool(self.patches) and all(each.only_takes_permission for each in self.patches)

    @property
    def releases_pool(self) -> bool:
        """Whether the pool is released: nothing of it is on any node, and the finalizer is removed."""
        return self.finalizers is not None and RELEASE_FINALIZER not in self.finalizers

    def once_reported(self, unreported: Collection[str]) -> Writes:
        """Return these writes in the order that ``unreported`` nodes need, by their names.

        They wait until the status names them: once they are released no one can tell what stays behind there.
        The others wait for no status. So the status comes first only where no others are left.
        """
        patches = tuple([each for each in self.patches if each.node.name not in unreported])
        conditions = tuple([each for each in self.conditions if each.node.name not in unreported])
        if patches or conditions:
            return replace(self, patches=patches, conditions=conditions)
        return replace(self, status_first=bool(self.patches))


def plan_writes(
    snapshot: Snapshot,
    members: Members,
    results: Sequence[FeatureResult],
    diffs: Mapping[str, NodeDiff],
    *,
    allowed: AllowedActions,
    held: Collection[str],
) -> Writes:
    """Return what is due, does not have to wait, was not tried too recently, and is on no node that is held.

    ``diffs`` are by the UIDs of the nodes, ``held`` are the names of the nodes that people hold.
    """
    pool, is_released = snapshot.pool, allowed is AllowedActions.RELEASE
    may_write = is_released or allowed is AllowedActions.ACT
    free = _free(_due(snapshot, members, results, diffs, allowed=allowed), held=held)
    found = contract_result(results)
    awaiting = _awaiting_pods(snapshot, found, diffs, held=held) if may_write else ()
    stopped = _stopped_by_brake(found, are_listed_alone=len(awaiting) <= MOST_NODE_LISTS) if may_write else ()
    with_actor = _released_with_actor(snapshot, members, is_released=is_released)
    patches = _patches(snapshot, free, stopped={*stopped, *with_actor})
    alone = tuple([each for each in patches if each.only_takes_permission])
    beside = _beside_withdrawals(snapshot, free, patches if is_released else alone)
    withdrawals = _withdrawals(snapshot, members, results, beside=beside, is_released=is_released)
    is_lost = (
        RELEASE_FINALIZER not in pool.finalizers
        and not pool.deleting
        and any(is_marked_for(pool, each.node, each.record) for each in members.all)
    )
    is_due = is_lost or (may_write and any(each.patch for each in free)) or bool(patches or withdrawals)
    finalizers = _finalizers(pool, is_due=is_due)
    evictions = _evictions(results, held=held) if allowed is AllowedActions.ACT else ()
    if (alone or withdrawals) and (finalizers is None or is_lost):
        return Writes(
            patches=(*alone, *withdrawals),
            evictions=evictions,
            withdrawn=frozenset(each.node.name for each in withdrawals),
            awaiting_pods=awaiting,
        )
    conditions = [each.conditions for each in free if each.conditions is not None]
    return Writes(
        finalizers=finalizers,
        restores_finalizer=is_lost,
        status_first=bool(patches) and _must_be_remembered_first(pool, allowed),
        patches=patches,
        conditions=tuple([each for each in conditions if each.node.uid not in with_actor]),
        evictions=evictions,
        awaiting_pods=awaiting,
    )


def _due(
    snapshot: Snapshot,
    members: Members,
    results: Sequence[FeatureResult],
    diffs: Mapping[str, NodeDiff],
    *,
    allowed: AllowedActions,
) -> Mapping[str, NodeDiff]:
    """Return the differences that may be written: all, those that features finish, or none."""
    match allowed:
        case AllowedActions.ACT | AllowedActions.RELEASE:
            return diffs
        case AllowedActions.FINISH:
            return _finishing(snapshot, members, results)
        case AllowedActions.NOTHING:
            return {}


def _free(due: Mapping[str, NodeDiff], *, held: Collection[str]) -> list[NodeDiff]:
    """Return those that write anything, on nodes that no one holds."""
    return [
        each
        for each in due.values()
        if (what := each.patch or each.conditions) is not None and what.node.name not in held
    ]


def _patches(
    snapshot: Snapshot, free: Iterable[NodeDiff], *, stopped: Collection[str]
) -> tuple[NodePatch, ...]:
    """Return the patches that may be sent now; ``stopped`` are the UIDs of nodes that get none."""
    return tuple(
        [
            each.patch
            for each in free
            if each.patch is not None
            and each.patch.node.uid not in stopped
            and not each.awaits_guard
            and not each.awaits_conditions
            and not snapshot.attempts.holds_back(each.patch)
        ]
    )


def _beside_withdrawals(
    snapshot: Snapshot, free: Iterable[NodeDiff], sent: Iterable[NodePatch]
) -> frozenset[str]:
    """Return the names of nodes whose permission needs no patch of its own, since one of these withdraws it.

    In a release the patch removes the label. Where someone has given back a permission that this very patch
    took, the node waits as long as for every repair.
    """
    undone = (
        each.patch
        for each in free
        if each.patch is not None
        and each.patch.only_takes_permission
        and snapshot.attempts.has_written(each.patch.node.uid, each.patch.goal)
    )
    return frozenset(each.node.name for each in (*sent, *undone))


def contract_result(results: Iterable[FeatureResult]) -> ContractResult:
    """Return the result of the node contract."""
    return next((each for each in results if isinstance(each, ContractResult)), _NO_CONTRACT)


_NO_CONTRACT: Final = ContractResult()


def _finishing(
    snapshot: Snapshot, members: Members, results: Sequence[FeatureResult]
) -> Mapping[str, NodeDiff]:
    """Return what features continue although the spec cannot be acted on; all else stays as it is.

    Only on nodes whose record names the pool: the pool claims no other node.
    """
    desired = [result.desired for result in results if result.finishes]
    if not desired:
        return {}
    rest = {member.node.uid: KEEP_ALL for member in members.ours}
    diffs = diffs_of(snapshot, members, [*desired, rest], is_finishing=True)
    ours = {
        member.node.uid
        for member in members.ours
        if isinstance(member.record, Record) and member.record.pool_uid == snapshot.pool.uid
    }
    return {uid: diff for uid, diff in diffs.items() if uid in ours}


def _awaiting_pods(
    snapshot: Snapshot, contract: ContractResult, diffs: Mapping[str, NodeDiff], *, held: Collection[str]
) -> tuple[Node, ...]:
    """Return the nodes whose pods have to be listed before they are written, and that may be written then."""
    attempts = snapshot.attempts

    def is_paused(node: Node) -> bool:
        patch = diffs[node.uid].patch if node.uid in diffs else None
        return attempts.holds_back(patch) if patch else attempts.holds_back_some(node.uid)

    return tuple([each for each in contract.node_lists if each.name not in held and not is_paused(each)])


def _stopped_by_brake(contract: ContractResult, *, are_listed_alone: bool) -> frozenset[str]:
    """Return the UIDs of the nodes that get no patch: a NoExecute taint needs a list of pods that is recent.

    With ``are_listed_alone`` the nodes wait that need a list of their own pods: it comes soon.
    """
    brakes = ((node.uid, contract.nodes[node.uid].held) for node in contract.node_lists)
    return frozenset(
        uid for uid, brake in brakes if brake.is_stale or (brake.wants_own_look and are_listed_alone)
    )


def _released_with_actor(snapshot: Snapshot, members: Members, *, is_released: bool) -> frozenset[str]:
    """Return the UIDs of nodes that the pool gives back while someone may be at work on the machine.

    They keep the cordon until the machine is back, or its time is over.
    """
    return frozenset(
        each.node.uid
        for each in members.all
        if (each.claim is Claim.LEFT or is_released) and is_with_actor(each.node, now=snapshot.now)
    )


def _evictions(results: Iterable[FeatureResult], *, held: Collection[str]) -> tuple[Eviction, ...]:
    """Return the evictions that features ask for, each pod once."""
    found = {each.uid: each for result in results for each in result.evictions}
    return tuple([each for each in found.values() if each.node not in held])


def _withdrawals(
    snapshot: Snapshot,
    members: Members,
    results: Iterable[FeatureResult],
    *,
    beside: Collection[str],
    is_released: bool,
) -> tuple[NodePatch, ...]:
    """Return the patches that withdraw the permission to upgrade a node, and change nothing else.

    A permission that no longer holds must not stay, also where people have stopped the operator, and where
    the patch of the node cannot be sent yet. Beside the removals of memory pressure it is the one write that
    Paused, DryRun, a hold and a spec that is not accepted allow. ``beside`` are the names of nodes that get
    none. A node that the pool no longer selects loses its permission too, where it cannot be released now,
    and so does every node of a pool that ``is_released``. A label on a node that is not the pool's gives no
    permission of the pool.
    """
    required = [
        member
        for member in members.all
        if member.node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
    ]
    if not required:
        return ()
    gated = {
        uid
        for result in results
        for uid, desired in result.desired.items()
        if desired.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.GATED
    }
    found = (
        NodePatch(
            node=member.node,
            labels={UPGRADE_STATE_LABEL: UpgradeState.GATED},
            annotations={},
            taints=None,
            goal=_WITHDRAWN,
        )
        for member in required
        if (
            member.claim is Claim.LEFT
            or (member.claim is Claim.OURS and (is_released or member.node.uid in gated))
        )
        and member.node.name not in beside
    )
    return tuple([each for each in found if not snapshot.attempts.holds_back(each)])


_WITHDRAWN: Final = (UPGRADE_STATE_LABEL, UpgradeState.GATED)
"""The goal of such a patch: no other patch has it."""


def _finalizers(pool: Pool, *, is_due: bool) -> tuple[str, ...] | None:
    """Add our finalizer before the first node is written, and remove it when nothing is left to undo.

    Where someone has removed it in between, it is restored, in every mode.
    """
    is_there = RELEASE_FINALIZER in pool.finalizers
    if is_due and not is_there and not pool.deleting:
        return (*pool.finalizers, RELEASE_FINALIZER)
    if pool.deleting and is_there and not is_due:
        return tuple(name for name in pool.finalizers if name != RELEASE_FINALIZER)
    return None


def _must_be_remembered_first(pool: Pool, allowed: AllowedActions) -> bool:
    """Whether the status lacks what the next pass reads there: for which keys records count.

    Records that were not written under the guard count for the keys that the status remembers. If the node
    was written first, a crash in between could leave a key there for ever.
    """
    has_new_keys = allowed is AllowedActions.ACT and bool(asked_keys(pool) - remembered_keys(pool))
    return bool(pool.status_problem) or has_new_keys
