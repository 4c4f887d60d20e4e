"""Whether the operator can act on a spec, by what each room says of it that CEL cannot check."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.contract import acceptance as of_contract
from winpool.contract.acceptance import ACCEPTABLE, Refusal
from winpool.judging.judge import layers_of
from winpool.upgrade.acceptance import refused

if TYPE_CHECKING:
    from winpool.ownership.members import Members
    from winpool.snapshot import Snapshot


def refusal_of(snapshot: Snapshot, members: Members) -> Refusal:
    """Say why the spec cannot be acted on, with the fix: the first reason that there is."""
    return of_contract.refusal_of(snapshot, members) or _of_upgrades(snapshot)


def _of_upgrades(snapshot: Snapshot) -> Refusal:
    """Say why no node could ever be upgraded; a pool that is being deleted upgrades none."""
    spec = snapshot.pool.spec
    if spec is None or spec.upgrade is None or snapshot.pool.deleting:
        return ACCEPTABLE
    said = refused(spec.upgrade, spec.os, layers=layers_of(snapshot, spec), now=snapshot.now)
    return Refusal(said) if said else ACCEPTABLE
