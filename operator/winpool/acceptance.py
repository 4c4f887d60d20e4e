"""Says whether the operator can act on the spec of a pool, and what it may therefore write for that pool."""

from __future__ import annotations

from winpool.api.conditions import Reason
from winpool.api.keys import APPLY_GUARD
from winpool.api.spec import Mode
from winpool.features.contract.feature import ACCEPTABLE, Refusal, contract_refusal_of
from winpool.features.feature import AllowedActions
from winpool.features.judge import layers_of
from winpool.features.upgrade.feature import unusable
from winpool.model.pool import Pool
from winpool.model.snapshot import Snapshot
from winpool.ownership.members import Members


def refusal_of(snapshot: Snapshot, members: Members) -> Refusal:
    """Say why the spec cannot be acted on, with the fix: the first reason that there is.

    Each feature says it of what CEL cannot check. A pool that is being deleted upgrades no node.
    """
    if refusal := contract_refusal_of(snapshot, members):
        return refusal
    spec = snapshot.pool.spec
    if spec is None or spec.upgrade is None or snapshot.pool.deleting:
        return ACCEPTABLE
    if spec.upgrade.is_ours and not snapshot.guard.identity and not snapshot.guard.is_unknown:
        return Refusal(
            f"spec.upgrade.strategy is {spec.upgrade.strategy}, and the guard is not in force, so kubelets "
            f"could make the operator drain nodes. {APPLY_GUARD}, or set the strategy to Manual.",
            Reason.GUARD_MISSING,
        )
    if spec.upgrade.forces and not snapshot.force.is_allowed:
        return Refusal(
            "spec.upgrade.drain.onTimeout is Force, and the operator was started without --allow-force, so "
            "it deletes no pods. Start it with that flag, or set onTimeout to Wait, Restore or Quarantine."
        )
    wrong = unusable(spec.upgrade, spec.os, layers=layers_of(snapshot, spec), now=snapshot.now)
    said = next(wrong, "")
    return Refusal(said) if said else ACCEPTABLE


def allowed_actions(pool: Pool, *, is_accepted: bool) -> AllowedActions:
    """Return what may be written for ``pool``; ``is_accepted`` says whether its spec can be acted on.

    A deletion releases the nodes in every mode. A mode in which nothing is written has precedence over all
    else.
    """
    if pool.deleting:
        return AllowedActions.RELEASE
    if pool.spec is not None and pool.spec.mode is not Mode.ACTIVE:
        return AllowedActions.NOTHING
    return AllowedActions.ACT if is_accepted else AllowedActions.FINISH
