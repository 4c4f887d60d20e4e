"""Every key that we put on a node, ours and borrowed: one table, and whatever depends on the keys reads it.

The patch of a node, the short way past nodes that are as they should be, release, strays, orphans, drift, the
reading of nodes and the guard's policy go by this table. A new key is one line here, and the feature that
sets it.

- A key *of ours* stands under ``winpool.dev/``. Nobody else writes it, so it needs no record: where no room
  asks for it, it comes off.
- A key that is *borrowed* has a meaning to others, who may set it as well. What of it is ours, and what stood
  there before, stands in the ownership record.
- A *request* is written by others, who ask us for something. Only a feature that has served it takes it off.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from winpool.api.fields import NO_SCHEDULE
from winpool.api.keys import (
    APPLIED_ANNOTATION,
    HOLD_ANNOTATION,
    MEMORY_ANNOTATION,
    MEMORY_PRESSURE_TAINT,
    OS_REVISION_LABEL,
    OS_VERSION_LABEL,
    POOL_LABEL,
    PRESSURE_CONDITION,
    RESERVED_MEMORY_TAINT,
    UPGRADE_ANNOTATION,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_RETRY_ANNOTATION,
    UPGRADE_STATE_LABEL,
)


class KeyKind(StrEnum):
    """What of a node a key names."""

    LABEL = "label"
    ANNOTATION = "annotation"
    TAINT = "taint"
    CONDITION = "condition"


class SetBy(StrEnum):
    """Who sets a key."""

    OWNERSHIP = "ownership"
    """No feature: it says whose the node is, and goes on first and comes off last."""
    CONTRACT = "contract"
    MEMORY = "memory"
    UPGRADE = "upgrade"
    OTHERS = "others"


@dataclass(frozen=True, slots=True)
class NodeKey:
    """One key. ``effect`` is that of a taint; ``is_borrowed`` says that it means something to others too."""

    name: str
    kind: KeyKind
    set_by: SetBy
    effect: str = ""
    is_borrowed: bool = False


_LABEL, _ANNOTATION, _TAINT, _CONDITION = KeyKind

NODE_KEYS: Final = (
    NodeKey(POOL_LABEL, _LABEL, SetBy.OWNERSHIP),
    NodeKey(OS_VERSION_LABEL, _LABEL, SetBy.CONTRACT),
    NodeKey(OS_REVISION_LABEL, _LABEL, SetBy.CONTRACT),
    NodeKey(UPGRADE_STATE_LABEL, _LABEL, SetBy.UPGRADE),
    NodeKey(APPLIED_ANNOTATION, _ANNOTATION, SetBy.OWNERSHIP),
    NodeKey(UPGRADE_ANNOTATION, _ANNOTATION, SetBy.UPGRADE),
    NodeKey(MEMORY_ANNOTATION, _ANNOTATION, SetBy.MEMORY),
    NodeKey(HOLD_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    NodeKey(UPGRADE_REQUESTED_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    NodeKey(UPGRADE_DONE_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    NodeKey(UPGRADE_RETRY_ANNOTATION, _ANNOTATION, SetBy.OTHERS),
    # https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
    NodeKey(
        "cluster-autoscaler.kubernetes.io/scale-down-disabled", _ANNOTATION, SetBy.UPGRADE, is_borrowed=True
    ),
    # https://karpenter.sh/docs/concepts/disruption/#node-level-controls
    NodeKey("karpenter.sh/do-not-disrupt", _ANNOTATION, SetBy.UPGRADE, is_borrowed=True),
    NodeKey(RESERVED_MEMORY_TAINT, _TAINT, SetBy.CONTRACT, effect=NO_SCHEDULE),
    NodeKey(MEMORY_PRESSURE_TAINT, _TAINT, SetBy.MEMORY, effect=NO_SCHEDULE),
    NodeKey(PRESSURE_CONDITION, _CONDITION, SetBy.MEMORY),
    # Names of KEP-5683, which others may write too.
    NodeKey("DrainInProgress", _CONDITION, SetBy.UPGRADE, is_borrowed=True),
    NodeKey("Drained", _CONDITION, SetBy.UPGRADE, is_borrowed=True),
    NodeKey("MaintenanceInProgress", _CONDITION, SetBy.UPGRADE, is_borrowed=True),
)


def _names(kind: KeyKind, *, borrowed: bool = False, by_others: bool = False) -> tuple[str, ...]:
    return tuple(
        each.name
        for each in NODE_KEYS
        if each.kind is kind and each.is_borrowed is borrowed and (each.set_by is SetBy.OTHERS) is by_others
    )


OWN_LABELS: Final = _names(KeyKind.LABEL)
"""Every node label that only the operator and people may write."""
OWN_ANNOTATIONS: Final = _names(KeyKind.ANNOTATION)
"""Every node annotation that only the operator and people may write."""
FEATURE_LABELS: Final = tuple(key for key in OWN_LABELS if key != POOL_LABEL)
FEATURE_ANNOTATIONS: Final = tuple(key for key in OWN_ANNOTATIONS if key != APPLIED_ANNOTATION)
"""Those of them that features set."""
REQUEST_ANNOTATIONS: Final = _names(KeyKind.ANNOTATION, by_others=True)
"""Every node annotation by which others ask the operator for something."""
BORROWED_ANNOTATIONS: Final = _names(KeyKind.ANNOTATION, borrowed=True)
"""Every annotation of others that we may set for a time."""
RECORDED_ANNOTATIONS: Final = (*BORROWED_ANNOTATIONS, UPGRADE_REQUESTED_ANNOTATION)
"""Those that the ownership record names where we have set them. The operator requests upgrades, too: only the
record says which requests are its own."""
OWN_TAINTS: Final = tuple((each.name, each.effect) for each in NODE_KEYS if each.kind is KeyKind.TAINT)
"""Every taint of ours, by key and effect."""
CONDITIONS: Final = tuple(each.name for each in NODE_KEYS if each.kind is KeyKind.CONDITION)
"""Every type of a node condition that we may write. It is ours where the record on the node says so."""

MISMATCH_TAINT: Final = (RESERVED_MEMORY_TAINT, NO_SCHEDULE)
"""The taint on a node that does not reserve the memory that the pool declares, without a value."""

PRESSURE_TAINT: Final = (MEMORY_PRESSURE_TAINT, NO_SCHEDULE)
"""The taint on a node that runs out of memory, without a value."""

TOLD_BY_THE_NODE: Final = (OS_VERSION_LABEL, OS_REVISION_LABEL)
"""The labels that tell a node's Windows, as they are read from what the node reports. Where they change it is
mostly the machine that has changed, so that nobody hears of drift."""
