"""Pods that a taint of the pool has Kubernetes delete (``onIntolerantPods: Delete``): told before and after.

Before, once for each taint and node, ahead of the first write of that node. Who has been told is kept by the
process that told it: after a restart people are warned once more of what is still to be written. After, by
how many such pods the looks had seen on the nodes that have got the taint: what a crash cuts off is not told,
and nothing is told that did not happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.events import EventReason
from winpool.api.syntax import NO_EXECUTE
from winpool.objects.node import Taint
from winpool.pods.evidence import Evidence
from winpool.report.announce import Announcement
from winpool.report.preflight import written
from winpool.report.tally import NAMES_SHOWN, count_nodes, count_pods, counted_nodes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from winpool.objects.acts import NodePatch
    from winpool.objects.node import Node
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Deletion:
    """Pods of one node that do not tolerate ``taint``, which a patch puts there, and one of them."""

    taint: str
    pods: int
    example: str


Warned = tuple[str, str]
"""What people are warned of once: a taint, as kubectl writes it and never cut, and the UID of a node."""


@dataclass(frozen=True, slots=True)
class Deletions:
    """Which pods the patches of a decision have deleted, by the names of their nodes.

    ``coming`` is what the same taints will have deleted, on all nodes that lack them: those that cannot be
    written now too. ``lacking`` are the UIDs of all nodes that lack a taint, and nobody has to be warned
    of any other.
    """

    pool_name: str
    pool_uid: str
    on_nodes: Mapping[str, tuple[Deletion, ...]]
    coming: Mapping[Warned, Deletion]
    lacking: frozenset[str]

    def warnings(self, told: Collection[Warned]) -> Iterator[Announcement]:
        """Yield an event for each taint that is about to have pods deleted, which nobody was ``told``."""
        by_taint: dict[str, list[Deletion]] = {}
        for key, each in self.coming.items():
            if key not in told:
                by_taint.setdefault(each.taint, []).append(each)
        for taint, there in by_taint.items():
            yield Announcement(
                EventReason.DELETING_INTOLERANT_PODS, _warning(taint, there), self.pool_name, self.pool_uid
            )

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


def _warning(taint: str, there: Collection[Deletion]) -> str:
    pods = sum(each.pods for each in there)
    examples = [each.example for each in there][:NAMES_SHOWN]
    return (
        f"taint {taint}: Kubernetes is about to delete {count_pods(pods)} on {count_nodes(len(there))} that "
        f"do not tolerate it, such as {', '.join(examples)}; PodDisruptionBudgets are not asked"
    )


def _note(taint: str, there: Mapping[str, Deletion]) -> str:
    pods = sum(each.pods for each in there.values())
    examples = [each.example for each in there.values()][:NAMES_SHOWN]
    return (
        f"The operator added the taint {taint} to {counted_nodes(tuple(there))}. Kubernetes deletes "
        f"{count_pods(pods)} there that did not tolerate it, such as {', '.join(examples)}."
    )


def deletions_of(
    snapshot: Snapshot, patches: Iterable[NodePatch], assessed: Iterable[Assessment]
) -> Deletions:
    """Return which pods the taints of these patches have deleted, by what the newest looks have seen.

    ``assessed`` are the nodes that somebody acts on; none where nothing may be written.
    """
    pool, taints = snapshot.pool, _deleting(snapshot)
    if not taints:
        return Deletions(pool.name, pool.uid, {}, {}, frozenset())
    evidence = Evidence(snapshot)
    lacking = [each.node for each in assessed if each.lacks_taints]
    found: dict[str, tuple[Deletion, ...]] = {}
    for patch in patches:
        put = {taint.identity: taint.value for taint in patch.taints or ()}
        asked = [taint for taint in taints if put.get(taint.identity, _ABSENT) == taint.value]
        if there := tuple(_on(patch.node, asked, evidence)):
            found[patch.node.name] = there
    return Deletions(
        pool.name,
        pool.uid,
        found,
        # Only with a write ahead: without one nothing is about to happen.
        coming={(each.taint, node.uid): each for node in lacking for each in _on(node, taints, evidence)}
        if found
        else {},
        lacking=frozenset(node.uid for node in lacking),
    )


_ABSENT: Final = object()


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


def _on(node: Node, taints: Iterable[Taint], evidence: Evidence) -> Iterator[Deletion]:
    """Yield what the newest look at the node has seen there of pods that do not tolerate a new taint."""
    look = evidence.of(node)
    if look is None:
        return
    standing = {taint.identity: taint.value for taint in node.taints}
    for taint in taints:
        if standing.get(taint.identity, _ABSENT) == taint.value:
            continue
        found = look.intolerant_of(taint)
        there = found.on_nodes.get(node.name) if found else None
        if there:
            yield Deletion(written(taint), there.pods, there.example)
