"""Why a node is due for an upgrade: for each trigger of ``spec.upgrade.triggers`` a rule.

What cannot be read makes a node neither due nor up to date, but unknown (P4). A node that is due for one
reason is due, whatever is unknown of the others.

A node with a higher revision than ``targetRevision`` is not due, since that is the lowest one to have. A node
of a newer release than ``os.version`` is due like one of an older release, and its reason says that this is a
downgrade.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION, WINDOWS_BUILD_LABEL
from winpool.api.upgrade import Trigger
from winpool.judging.judge import Judge, Judged
from winpool.judging.reserved_judge import ReservedMemoryJudge
from winpool.judging.reserved_memory import ReservedVerdict
from winpool.rooms import Stage
from winpool.support.versions import parse_minor
from winpool.upgrade.records import DueReason
from winpool.upgrade.shown import because

if TYPE_CHECKING:
    from collections.abc import Iterator

    from winpool.api.v1alpha1 import WindowsNodePoolSpec
    from winpool.judging.reserved_memory import Reserved
    from winpool.objects.node import Node
    from winpool.snapshot import Snapshot
    from winpool.support.rows import Layered

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
        self._reserved = ReservedMemoryJudge(spec.reserved_memory)
        self._os = spec.os
        self._triggers = frozenset(spec.upgrade.triggers if spec.upgrade else ())
        self._control_plane = parse_minor(snapshot.support.control_plane)
        self._takes_requests = Trigger.REQUEST in self._triggers
        # By the identities of what nodes report, which is kept once for all of them (``cluster.node_texts``).
        self._alike: dict[tuple[int, str | None, int], Found] = {}

    @property
    def layers(self) -> Layered:
        """The support matrix for the pool."""
        return self._judge.layers

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
        Trigger.REQUEST,
        f"The annotation {UPGRADE_REQUESTED_ANNOTATION} requests an upgrade{because(text)}",
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
