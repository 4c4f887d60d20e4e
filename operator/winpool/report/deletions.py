"""Pods that a taint of the pool has Kubernetes delete (``onIntolerantPods: Delete``): told before and after.

Before, with the status that has to stand before the first node is written. After, by how many such pods the
looks had seen on the nodes that have got the taint: what a crash cuts off is not told, and nothing is told
that did not happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.conditions import ConditionType
from winpool.api.events import EventReason
from winpool.api.issues import IssueReason
from winpool.api.syntax import NO_EXECUTE
from winpool.objects.node import Taint
from winpool.pods.evidence import Evidence
from winpool.report.announce import Announcement
from winpool.report.preflight import DELETION_REMEDY, preflight, written
from winpool.report.tally import NAMES_SHOWN, count_nodes, count_pods, enumerate_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from winpool.api.v1alpha1 import WindowsNodePoolStatus
    from winpool.objects.acts import NodePatch
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Deletion:
    """Pods of one node that do not tolerate ``taint``, which a patch puts there, and one of them."""

    taint: str
    pods: int
    example: str


@dataclass(frozen=True, slots=True)
class Deletions:
    """Which pods the patches of a decision have deleted, by the names of their nodes."""

    pool_name: str
    pool_uid: str
    on_nodes: Mapping[str, tuple[Deletion, ...]]

    def told(self, done: Iterable[str]) -> Iterator[Announcement]:
        """Yield an event for each taint that has pods deleted on those nodes, which were written."""
        if not self.on_nodes:
            return
        by_taint: dict[str, dict[str, Deletion]] = {}
        for name in done:
            for each in self.on_nodes.get(name, ()):
                by_taint.setdefault(each.taint, {})[name] = each
        for taint, there in by_taint.items():
            yield Announcement(
                EventReason.INTOLERANT_PODS_DELETED, _note(taint, there), self.pool_name, self.pool_uid
            )


def _note(taint: str, there: Mapping[str, Deletion]) -> str:
    pods = sum(each.pods for each in there.values())
    examples = [each.example for each in there.values()][:NAMES_SHOWN]
    return (
        f"taint {taint} was put on {count_nodes(len(there))} ({enumerate_names(there)}): Kubernetes deletes "
        f"{count_pods(pods)} there that did not tolerate it, such as {', '.join(examples)}"
    )


def deletes_pods(status: WindowsNodePoolStatus) -> bool:
    """Whether the status says that a taint which is about to be written has pods deleted."""
    accepted, paused = status.condition(ConditionType.ACCEPTED), status.condition(ConditionType.PAUSED)
    may_write = accepted is not None and accepted.status == "True" and status.plan is None
    is_paused = paused is not None and paused.status == "True"
    return (may_write and not is_paused) and any(
        issue.reason == IssueReason.INTOLERANT_PODS and issue.fix.endswith(DELETION_REMEDY)
        for issue in status.issues
    )


def warnings(
    snapshot: Snapshot, reported: WindowsNodePoolStatus, assessed: Iterable[Assessment]
) -> Iterator[tuple[EventReason, str]]:
    """Yield an event for each taint that is about to have pods deleted, where nobody was told of it yet."""
    spec = snapshot.pool.spec
    if spec is None or not deletes_pods(reported) or deletes_pods(snapshot.pool.status):
        return
    taints = {written(taint) for taint in _deleting(snapshot)}
    for met in preflight(snapshot, spec, assessed):
        if met.taint in taints:
            yield (
                EventReason.DELETING_INTOLERANT_PODS,
                f"taint {met.taint}: Kubernetes is about to delete {count_pods(met.intolerant_pods)} on "
                f"{count_nodes(met.nodes)} that do not tolerate it, such as {', '.join(met.pods)}; "
                "PodDisruptionBudgets are not asked",
            )


def deletions_of(snapshot: Snapshot, patches: Iterable[NodePatch]) -> Deletions:
    """Return which pods the taints of these patches have deleted, by what the newest looks have seen."""
    pool, taints = snapshot.pool, _deleting(snapshot)
    found: dict[str, tuple[Deletion, ...]] = {}
    if taints:
        evidence = Evidence(snapshot)
        for patch in patches:
            if patch.taints and (there := tuple(_on(patch, taints, evidence))):
                found[patch.node.name] = there
    return Deletions(pool.name, pool.uid, found)


def _deleting(snapshot: Snapshot) -> tuple[Taint, ...]:
    """Return the taints of the spec that have pods deleted."""
    spec = snapshot.pool.spec
    if spec is None or snapshot.pool.deleting:
        return ()
    return tuple(
        [
            Taint(each.key, each.effect, each.value)
            for each in spec.taints
            if each.effect == NO_EXECUTE and each.deletes_pods
        ]
    )


def _on(patch: NodePatch, taints: Iterable[Taint], evidence: Evidence) -> Iterator[Deletion]:
    """Yield what the newest look at the node has seen there of pods that do not tolerate a new taint."""
    node, look = patch.node, evidence.of(patch.node)
    if look is None:
        return
    standing = {taint.identity: taint.value for taint in node.taints}
    put = {taint.identity: taint.value for taint in patch.taints or ()}
    for taint in taints:
        identity, value = taint.identity, taint.value
        if put.get(identity) != value or standing.get(identity) == value:
            continue
        found = look.intolerant_of(taint)
        there = found.on_nodes.get(node.name) if found else None
        if there:
            yield Deletion(written(taint), there.pods, there.example)
