"""Says why a node is due for an upgrade, and which restarts and changes of Windows no one had announced.

What cannot be read makes a node neither due nor up to date, but unknown (P4). A node that is due for one
reason is due, whatever is unknown of the others. Announced is what was so before: the label Required, the
annotation that requests an upgrade, a cordon by anyone, or the taint by which an autoscaler announces that it
deletes the node. A node is compared with what this process has seen of it before; its build of Windows also
with the label of the operator, which stays on the node after a restart of the operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from winpool.api.issues import IssueReason
from winpool.api.keys import (
    OS_VERSION_LABEL,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_STATE_LABEL,
    WINDOWS_BUILD_LABEL,
)
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.upgrade import Trigger, UpgradeState
from winpool.features.feature import Stage
from winpool.features.judge import AS_ASKED, Judge, Judged, release_of
from winpool.features.reserved_memory import Reserved, ReservedMemoryJudge, ReservedVerdict
from winpool.features.upgrade.claims import DELETED_BY_AUTOSCALER, Target
from winpool.features.upgrade.records import DueReason, because
from winpool.model.node import Node
from winpool.model.pool import Surprise, SurpriseKind
from winpool.model.snapshot import Snapshot
from winpool.support.matrix import built_in
from winpool.support.versions import build_text_of, parse_minor, parse_windows

_IN_ORDER: Final = {trigger: place for place, trigger in enumerate(Trigger)}


class Found(msgspec.Struct, frozen=True):
    """Why a node is due, empty where it is not, and whether that is unknown; with its judgement."""

    judged: Judged
    due: tuple[DueReason, ...] = ()
    is_unknown: bool = False


class DueJudge:
    """Judges the nodes of one pool, for one pass. Nodes that are alike share one answer."""

    def __init__(self, snapshot: Snapshot, spec: WindowsNodePoolSpec) -> None:
        self._judge = Judge(snapshot, spec)
        self.layers = self._judge.layers
        self._reserved = ReservedMemoryJudge(spec.reserved_memory)
        self._os = spec.os
        self._triggers = frozenset(spec.upgrade.triggers if spec.upgrade else ())
        self._control_plane = parse_minor(snapshot.support.control_plane)
        self._takes_requests = Trigger.REQUEST in self._triggers
        # By the identities of what nodes report, which is kept once for all of them (``kube.nodes``).
        self._alike: dict[tuple[int, str | None, int], Found] = {}

    def judge(self, node: Node) -> Found:
        """Return why ``node`` is due."""
        key = (id(node.versions), node.labels.get(WINDOWS_BUILD_LABEL), id(node.memory))
        found = self._alike.get(key)
        if found is None:
            found = self._alike[key] = self._judged(node)
        if self._takes_requests and UPGRADE_REQUESTED_ANNOTATION in node.annotations:
            due = (*found.due, requested(node))
            return Found(found.judged, tuple(sorted(due, key=lambda each: _IN_ORDER[each.trigger])))
        return found

    def runs(self, node: Node, target: Target) -> bool:
        """Whether ``node`` is known to run ``target``, which may be that of an earlier spec."""
        asked = self._os.model_copy(update={"version": target.version, "target_revision": target.revision})
        return release_of(self._judge.judge(node).judgement, asked, layers=self.layers) is AS_ASKED

    def build_of(self, node: Node) -> str:
        """Return the build of Windows that ``node`` reports, such as 10.0.20348; empty where unknown."""
        return self._judge.judge(node).judgement.build

    def _judged(self, node: Node) -> Found:
        judged, triggers = self._judge.judge(node), self._triggers
        found: list[DueReason | None] = [*self._of_windows(judged)]
        if Trigger.RESERVED_MEMORY in triggers and (reserved := self._reserved.judge(node)) is not None:
            found.extend(_of_memory(reserved))
        if Trigger.KUBELET_SKEW in triggers:
            found.extend(self._of_kubelet(node))
        due = tuple(each for each in found if each is not None)
        return Found(judged, due, is_unknown=not due and None in found)

    def _of_windows(self, judged: Judged) -> Iterator[DueReason | None]:
        """Yield why the Windows of a node makes it due; None where that is unknown."""
        release, found = judged.release, judged.judgement.os_version
        compares_revisions = Trigger.OS_REVISION in self._triggers and self._os.target_revision is not None
        if release.stage is Stage.UNKNOWN:
            if compares_revisions or (Trigger.OS_VERSION in self._triggers and not found):
                yield None
        elif release.reason is IssueReason.OS_VERSION_MISMATCH and Trigger.OS_VERSION in self._triggers:
            yield DueReason(Trigger.OS_VERSION, self._other_release(found))
        elif release.reason is IssueReason.OS_REVISION_BEHIND and compares_revisions:
            yield DueReason(
                Trigger.OS_REVISION,
                f"The revision of Windows Server {found} is below {self._os.target_revision}, which "
                "spec.os.targetRevision asks for.",
            )

    def _other_release(self, found: str) -> str:
        wanted = self.layers.matrix.judged_as(self._os.version)
        said = f"Windows Server {found} runs, but spec.os.version asks for {self._os.version}."
        here, there = self.layers.build_of(found), self.layers.build_of(wanted)
        is_downgrade = here is not None and there is not None and here > there
        return f"{said} This is a downgrade: the release that runs is newer." if is_downgrade else said

    def _of_kubelet(self, node: Node) -> Iterator[DueReason | None]:
        """Yield that the kubelet's minor version is below that of the control plane; None where unknown.

        One that is older at all is due, not only one that is older than the version skew policy permits: the
        purpose of the trigger is that kubelets follow before they are too old.
        """
        kubelet, control_plane = parse_minor(node.versions.kubelet), self._control_plane
        if kubelet is None or control_plane is None:
            yield None
        elif kubelet < control_plane:
            yield DueReason(
                Trigger.KUBELET_SKEW,
                f"The kubelet has version {kubelet}, and the control plane {control_plane}.",
            )


def requested(node: Node) -> DueReason:
    """Return that someone requests an upgrade of ``node``, with the text of the annotation."""
    text = node.annotations[UPGRADE_REQUESTED_ANNOTATION]
    return DueReason(
        Trigger.REQUEST, f"The annotation {UPGRADE_REQUESTED_ANNOTATION} requests an upgrade{because(text)}"
    )


def _of_memory(reserved: Reserved) -> Iterator[DueReason | None]:
    if reserved.verdict is ReservedVerdict.UNKNOWN:
        yield None
    elif reserved.verdict is not ReservedVerdict.MATCHES:
        amount = "less" if reserved.verdict is ReservedVerdict.RESERVES_LESS else "more"
        yield DueReason(
            Trigger.RESERVED_MEMORY,
            f"The kubelet reserves {amount} memory than spec.reservedMemory declares.",
        )


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
    old, new = build_text_of(before.versions.kernel), build_text_of(after.versions.kernel)
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


def _surprise(kind: SurpriseKind, said: str, node: Node, *, now: datetime) -> Surprise:
    return Surprise(kind, node.name, node.uid, now, said)
