"""What the operator may do for a pool now: whether its spec can be acted on, and what its mode permits.

Whether the operator can act on a spec, by what each feature says of it that CEL cannot check.

What may be done for a pool now, and which of the due acts that permits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.spec import Mode
from winpool.api.upgrade import UpgradeState
from winpool.features.contract.feature import ACCEPTABLE, Refusal, contract_refusal_of
from winpool.features.feature import AllowedActions, FeatureResult
from winpool.features.judge import layers_of
from winpool.features.upgrade.feature import refused
from winpool.model.node import NO_ACTS, Acts, Eviction, NodePatch
from winpool.model.pool import Attempts, Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP_ALL
from winpool.ownership.diff import NO_DIFF, diffs_of
from winpool.ownership.members import Claim, Members
from winpool.ownership.record import Record
from winpool.status.assessment import Assessment


def refusal_of(snapshot: Snapshot, members: Members) -> Refusal:
    """Say why the spec cannot be acted on, with the fix: the first reason that there is."""
    return contract_refusal_of(snapshot, members) or _of_upgrades(snapshot)


def _of_upgrades(snapshot: Snapshot) -> Refusal:
    """Say why no node could ever be upgraded; a pool that is being deleted upgrades none."""
    spec = snapshot.pool.spec
    if spec is None or spec.upgrade is None or snapshot.pool.deleting:
        return ACCEPTABLE
    said = refused(spec.upgrade, spec.os, layers=layers_of(snapshot, spec), now=snapshot.now)
    return Refusal(said) if said else ACCEPTABLE


def allowed_actions(pool: Pool, *, is_accepted: bool) -> AllowedActions:
    """Return what may be done for ``pool``; ``is_accepted`` says whether its spec can be acted on.

    A deletion releases the nodes in every mode. A mode in which nothing is written has precedence over all
    else.
    """
    if pool.deleting:
        return AllowedActions.RELEASE
    if pool.spec is not None and pool.spec.mode is not Mode.ACTIVE:
        return AllowedActions.NOTHING
    return AllowedActions.ACT if is_accepted else AllowedActions.FINISH


def acts_of(
    snapshot: Snapshot,
    members: Members,
    results: Sequence[FeatureResult],
    nodes: Sequence[Assessment],
    *,
    allowed: AllowedActions,
    looks_come: bool,
) -> tuple[Acts, frozenset[str]]:
    """Return what may be done now, and the names of the nodes where a permission is withdrawn and no more.

    What may be done is due, does not have to wait, was not tried too recently, and is on no node that people
    hold. With ``looks_come`` the nodes that need a list of their own pods wait for it.
    """
    acts = unheld(
        _due(snapshot, members, results, nodes, allowed=allowed, looks_come=looks_come),
        {each.node.name for each in nodes if each.is_held},
    )
    if allowed is AllowedActions.RELEASE:
        return acts, frozenset()
    others = frozenset(each.node.name for each in acts.patches)
    withdrawn = permitted(
        Acts(patches=withdrawals(members, results, others=others)), snapshot.attempts
    ).patches
    return (
        replace(acts, patches=(*acts.patches, *withdrawn)) if withdrawn else acts,
        frozenset(each.node.name for each in withdrawn),
    )


def _due(
    snapshot: Snapshot,
    members: Members,
    results: Sequence[FeatureResult],
    nodes: Sequence[Assessment],
    *,
    allowed: AllowedActions,
    looks_come: bool,
) -> Acts:
    attempts = snapshot.attempts
    if allowed is AllowedActions.FINISH:
        return permitted(finishing(snapshot, members, results), attempts)
    if allowed is AllowedActions.NOTHING:
        return NO_ACTS
    return permitted(
        Acts(
            patches=tuple(
                [
                    each.patch
                    for each in nodes
                    if each.patch and each.may_be_written and not (each.held.wants_own_look and looks_come)
                ]
            ),
            evictions=evictions_of(results) if allowed is AllowedActions.ACT else (),
            conditions=tuple([each.conditions for each in nodes if each.conditions is not None]),
        ),
        attempts,
    )


def permitted(acts: Acts, attempts: Attempts) -> Acts:
    """Return those of ``acts`` whose patches were not tried too recently."""
    return Acts(
        patches=tuple([each for each in acts.patches if not attempts.holds_back(each)]),
        evictions=acts.evictions,
        conditions=acts.conditions,
    )


def unheld(acts: Acts, held: Collection[str]) -> Acts:
    """Return ``acts`` without those on nodes that people hold, by their names."""
    if not held:
        return acts
    return Acts(
        patches=tuple([each for each in acts.patches if each.node.name not in held]),
        evictions=tuple([each for each in acts.evictions if each.node not in held]),
        conditions=tuple([each for each in acts.conditions if each.node.name not in held]),
    )


def finishing(snapshot: Snapshot, members: Members, results: Sequence[FeatureResult]) -> Acts:
    """Return what features continue although the spec cannot be acted on; all else stays as it is."""
    desired = [result.desired for result in results if result.finishes]
    if not desired:
        return NO_ACTS
    rest = {member.node.uid: KEEP_ALL for member in members.ours}
    diffs = diffs_of(snapshot, members, [*desired, rest], is_finishing=True)
    uid = snapshot.pool.uid
    ours = [
        diffs.get(member.node.uid, NO_DIFF)
        for member in members.ours
        if isinstance(member.record, Record) and member.record.pool_uid == uid  # no new claims
    ]
    return Acts(
        patches=tuple([each.patch for each in ours if each.patch]),
        conditions=tuple([each.conditions for each in ours if each.conditions]),
    )


def withdrawals(
    members: Members, results: Iterable[FeatureResult], *, others: Collection[str] = ()
) -> tuple[NodePatch, ...]:
    """Return the patches that withdraw the permission to upgrade a node, and change nothing else.

    A permission that no longer holds must not stay, also where people have stopped the operator. Beside the
    removals of memory pressure it is the one write that Paused, DryRun, a hold and a spec that is not
    accepted allow.
    ``others`` names nodes that are not among them, such as those with another patch. A node that the pool no
    longer selects loses its permission too, where it cannot be released now. A label on a node that is not
    the pool's gives no permission of the pool.
    """
    required = [
        member
        for member in members.all
        if member.node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
    ]
    if not required:
        return ()
    wishes: dict[str, object] = {
        uid: wish
        for result in results
        for uid, desired in result.desired.items()
        if (wish := desired.labels.get(UPGRADE_STATE_LABEL)) is not None
    }
    return tuple(
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
            or (member.claim is Claim.OURS and wishes.get(member.node.uid) == UpgradeState.GATED)
        )
        and member.node.name not in others
    )


_WITHDRAWN: Final = (UPGRADE_STATE_LABEL, UpgradeState.GATED)
"""The goal of such a patch: no other patch has it."""


def evictions_of(results: Iterable[FeatureResult]) -> tuple[Eviction, ...]:
    """Return the evictions that features ask for, each pod once."""
    return tuple({each.uid: each for result in results for each in result.evictions}.values())
