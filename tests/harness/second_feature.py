"""A second feature, to show that the operator takes one: it wants on a node what the node's request says.

The request is the annotation ``winpool.dev/upgrade-requested``, which others write and the operator
reads. Its text is a JSON object, see ``Asked``. Without it nothing is wanted on the node. Where it cannot be
read the feature leaves what stands there.

``python -m harness.second_feature`` is the operator with this feature, its settings from the environment.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from winpool import app, logs
from winpool.api.conditions import Reason
from winpool.api.issues import IssueReason
from winpool.api.keys import (
    MEMORY_PRESSURE_TAINT,
    NO_SCHEDULE,
    UPGRADE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.features.contract.feature import contract
from winpool.features.feature import (
    AllowedActions,
    Feature,
    FeatureResult,
    Finding,
    Progress,
    Stage,
)
from winpool.model.node import Eviction, NodeCondition
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP, Desired
from winpool.ownership.members import Members
from winpool.settings import Settings

FIRST: Final[tuple[Feature, ...]] = (contract,)
"""The features beside it: not that of memory, which sets the same taint and condition."""
BORROWED: Final = "karpenter.sh/do-not-disrupt"
TAINT: Final = (MEMORY_PRESSURE_TAINT, NO_SCHEDULE)
CONDITION: Final = "WindowsMemoryPressure"
WHY: Final = "the second feature asks for it"

_REASONS: Final = {
    Stage.WAITING: Reason.ROLLOUT_IN_PROGRESS,
    Stage.VALIDATING: Reason.VALIDATING_NODES,
    Stage.HELD: Reason.TAINTS_HELD,
    Stage.TIMED_OUT: Reason.VALIDATION_TIMED_OUT,
    Stage.DUE: Reason.WAITING_FOR_ACTOR,
    Stage.UNKNOWN: Reason.BUILD_UNKNOWN,
}


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a request asks for on its node.

    ``state`` is the label, ``annotate`` the annotation of ours, which repeats the state, and the borrowed
    one, ``condition`` the status of the node condition; each empty or False for none. ``evict`` are pods,
    each as "namespace/name/uid". ``stage`` is the name of the one that the node is at, ``finding`` what is
    wrong with it, ``look`` asks for a look at its pods and ``again`` names when time alone changes something.
    """

    state: str = ""
    annotate: bool = False
    taint: bool = False
    cordon: bool = False
    condition: str = ""
    evict: tuple[str, ...] = ()
    stage: str = ""
    finding: str = ""
    look: bool = False
    again: datetime | None = None


NOTHING: Final = Asked()

_LEFT: Final = Desired(
    labels={UPGRADE_STATE_LABEL: KEEP},
    annotations={UPGRADE_ANNOTATION: KEEP, BORROWED: KEEP},
    taints={TAINT: KEEP},
    unschedulable=KEEP,
)


def request(asked: Asked) -> str:
    """Return the text that asks for this."""
    return msgspec.json.encode(asked).decode()


def second(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> FeatureResult:
    """Say what the requests on the nodes of the pool ask for."""
    if allowed is AllowedActions.RELEASE:
        return FeatureResult()
    wishes: dict[str, tuple[Asked, Desired]] = {}
    desired: dict[str, Desired] = {}
    found: list[tuple[str, Asked]] = []
    for member in members.ours:
        node = member.node
        text = node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)
        if text is None:
            continue
        if text not in wishes:
            wishes[text] = _read(text)
        asked, desired[node.uid] = wishes[text]
        found.append((node.name, asked))
    asked_of = dict(found)
    return FeatureResult(
        desired=desired,
        evictions=tuple(_eviction(each, node) for node, asked in found for each in asked.evict),
        findings=tuple(
            Finding(IssueReason.BUILD_WARNED, (node,), asked.finding, "take the request off")
            for node, asked in found
            if asked.finding
        ),
        progress=_progress(asked_of),
        node_lists=tuple(m.node for m in members.ours if asked_of.get(m.node.name, NOTHING).look),
        requeue_at=min((asked.again for _, asked in found if asked.again), default=None),
    )


def _read(text: str) -> tuple[Asked, Desired]:
    try:
        asked = msgspec.json.decode(text, type=Asked)
    except msgspec.DecodeError:
        return NOTHING, _LEFT
    return asked, Desired(
        labels={UPGRADE_STATE_LABEL: asked.state or None},
        annotations={
            UPGRADE_ANNOTATION: f'{{"state":"{asked.state}"}}' if asked.annotate else None,
            BORROWED: "true" if asked.annotate else None,
        },
        taints={TAINT: "" if asked.taint else None},
        unschedulable=asked.cordon,
        conditions=(NodeCondition(CONDITION, asked.condition, "Asked", WHY),) if asked.condition else (),
    )


def _eviction(pod: str, node: str) -> Eviction:
    namespace, name, uid = pod.split("/")
    return Eviction(namespace, name, uid, node, WHY)


def _progress(asked_of: Mapping[str, Asked]) -> tuple[Progress, ...]:
    at: dict[str, list[str]] = {}
    for node, asked in asked_of.items():
        if asked.stage:
            at.setdefault(asked.stage, []).append(node)
    return tuple(
        Progress(Stage[stage], nodes, _REASONS[Stage[stage]], "The second feature is at work on {nodes}.")
        for stage, nodes in at.items()
    )


def main() -> int:
    """Run the operator with this feature; return the exit code."""
    settings = Settings()
    logs.configure(settings)
    return asyncio.run(app.run(settings, features=(*FIRST, second)))


if __name__ == "__main__":
    sys.exit(main())
