"""Surprises: a machine restarted, or runs another Windows, and no one had announced it.

Announced is what was so before: the label Required, the annotation that requests an upgrade, a cordon by
anyone, or the taint by which an autoscaler announces that it deletes the node.

The rules compare a node with what this process has seen of it before, so that a new bootID or Node UID is
not reported where it came while no operator ran. The build of Windows is compared with our own label too,
which stays on the node: this is reported also after a start of the operator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import OS_VERSION_LABEL, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.upgrade import UpgradeState
from winpool.objects.upgrades import Surprise, SurpriseKind
from winpool.support.matrix import built_in
from winpool.support.versions import parse_windows

if TYPE_CHECKING:
    from datetime import datetime

    from winpool.objects.node import Node

DELETED_BY_AUTOSCALER: Final = ("ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted")
"""Taints of a node that an autoscaler is about to delete. It need not cordon the node, and many clouds give a
new machine the name of a deleted one.
https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
https://karpenter.sh/docs/concepts/disruption/"""


def surprise_of(before: Node, after: Node, *, now: datetime) -> Surprise | None:
    """Return what has happened between two states of a node that no one had announced; None for nothing.

    ``before`` is an earlier state under the same name, or ``after`` itself where this process has seen none:
    then only our own label can tell of another build. Of several changes the one of Windows counts.
    """
    if before is after:
        return _since_labelled(after, now=now)
    if before.uid == after.uid and before.boot_id == after.boot_id and before.versions is after.versions:
        return None  # nothing of this has changed: so it is for nearly every change of a node
    found = _changed(before, after)
    return None if found is None or is_announced(before) else _surprise(*found, after, now=now)


def is_announced(node: Node) -> bool:
    """Whether someone has announced that the machine of ``node`` restarts, or is patched or replaced."""
    return (
        node.unschedulable
        or node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
        or UPGRADE_REQUESTED_ANNOTATION in node.annotations
        or any(each.key in DELETED_BY_AUTOSCALER for each in node.taints)
    )


def _changed(before: Node, after: Node) -> tuple[SurpriseKind, str] | None:
    old, new = _build(before), _build(after)
    if old and new and old != new:
        return SurpriseKind.OS_CHANGE, f"Windows was build {old} before, and is build {new} now."
    if before.uid != after.uid:
        return (
            SurpriseKind.OS_CHANGE,
            "The Node was deleted and created again under the same name, so another machine, or one that was "
            "installed again, may have it.",
        )
    if before.boot_id and after.boot_id and before.boot_id != after.boot_id:
        # An inequality, not an order: the bootID of Windows can go down.
        return SurpriseKind.REBOOT, "The machine restarted: nodeInfo.bootID is another one."
    return None


def _since_labelled(node: Node, *, now: datetime) -> Surprise | None:
    """Compare the build that a node reports with the release that our own label has.

    Only releases of the built-in data can be compared: which others there are, pools may say differently.
    """
    known = built_in().releases.get(node.labels.get(OS_VERSION_LABEL, ""))
    version = parse_windows(node.versions.kernel)
    if known is None or version is None or known.build == version.build or is_announced(node):
        return None
    said = (
        f"Windows is build {version.build_text}, but was {known.name} before the operator started, by the "
        f"label {OS_VERSION_LABEL}."
    )
    return _surprise(SurpriseKind.OS_CHANGE, said, node, now=now)


def _build(node: Node) -> str:
    version = parse_windows(node.versions.kernel)
    return version.build_text if version else ""


def _surprise(kind: SurpriseKind, said: str, node: Node, *, now: datetime) -> Surprise:
    return Surprise(kind, node.name, node.uid, now, said)
