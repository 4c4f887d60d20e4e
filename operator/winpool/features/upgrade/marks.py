"""Says what a claim wants on its node: label, annotations, cordon, conditions, and no served requests."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from winpool.api.keys import (
    BORROWED_ANNOTATIONS,
    UPGRADE_ANNOTATION,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.upgrade import UpgradeState
from winpool.features.upgrade.claims import IN_WORK, Claim, text_of
from winpool.model.node import Node, NodeCondition
from winpool.ownership.desired import KEEP, Desired, DesiredValue, Keep

CONDITIONS: Final = {
    "DrainInProgress": "The operator evicts the pods of the node to upgrade its machine.",
    "Drained": "No pod is left on the node that has to leave before its machine is upgraded.",
    "MaintenanceInProgress": "The node is handed over to the actor that upgrades its machine.",
}
"""Of KEP-5683, which others may write as well. They are derived from the claim, and never read back.
https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/5683-specialized-lifecycle-management"""

_IN_STATE: Final[Mapping[UpgradeState, tuple[str, ...]]] = {
    UpgradeState.DRAINING: ("DrainInProgress",),
    UpgradeState.DRAIN_BLOCKED: ("DrainInProgress",),
    UpgradeState.DRAINED: ("Drained",),
    UpgradeState.UPGRADING: ("Drained", "MaintenanceInProgress"),
    UpgradeState.REJOINING: ("Drained", "MaintenanceInProgress"),
}

_CORDON: Final[Mapping[UpgradeState, bool | Keep | None]] = {
    UpgradeState.CLAIMED: KEEP,
    UpgradeState.VALIDATING: KEEP,
    UpgradeState.SOAKING: None,
    UpgradeState.FAILED: KEEP,
    UpgradeState.QUARANTINED: KEEP,
}
"""What is wanted of the cordon; True in all other states."""

GIVEN_UP: Final = Desired(
    labels={UPGRADE_STATE_LABEL: UpgradeState.GATED},
    annotations=dict.fromkeys((UPGRADE_ANNOTATION, *BORROWED_ANNOTATIONS)),
    unschedulable=False,
)
"""What a node is to have whose claim ends. Under ``AllowedActions.FINISH`` what is not named here stays."""


def desired_of(claim: Claim) -> Desired:
    """Return what a node with ``claim`` is to have."""
    state = claim.state
    annotations: dict[str, DesiredValue] = {UPGRADE_ANNOTATION: text_of(claim)}
    if state in IN_WORK:
        annotations.update(dict.fromkeys(BORROWED_ANNOTATIONS, "true"))
    return Desired(
        labels={UPGRADE_STATE_LABEL: UpgradeState.GATED if claim.is_retried else state},
        annotations=annotations,
        unschedulable=_CORDON.get(state, True),
        conditions=tuple(
            NodeCondition(each, "True", state, CONDITIONS[each]) for each in _IN_STATE.get(state, ())
        ),
    )


def left_alone(claim: Claim) -> Desired:
    """Return that a node with ``claim`` stays as it is.

    Label and conditions report the state, which is no act; a permission that someone writes there is none.
    """
    desired = desired_of(claim)
    return Desired(labels=desired.labels, unschedulable=KEEP, conditions=desired.conditions, keeps_rest=True)


def served(node: Node, claim: Claim) -> Mapping[str, None]:
    """Return the requests on the node that this claim has served, to be removed."""
    found: dict[str, None] = {}
    if claim.is_done and node.annotations.get(UPGRADE_DONE_ANNOTATION) == claim.claim:
        found[UPGRADE_DONE_ANNOTATION] = None
    is_proven = claim.is_done or claim.restarted_at is not None
    asked = node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)
    if (
        claim.state is UpgradeState.SOAKING
        and is_proven
        and asked is not None
        and digest(asked) == claim.request
    ):
        found[UPGRADE_REQUESTED_ANNOTATION] = None
    return found


def digest(text: str | None) -> str:
    """Return what distinguishes requests; empty where there is none."""
    return "" if text is None else hashlib.sha256(text.encode()).hexdigest()[:12]
