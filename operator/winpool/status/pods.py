"""What lists of pods found: pods on the wrong machine, what taints meet, which pods they delete.

What looks at pods found: pods that cannot run where they are, and what taints meet.

A look counts for a node only where it saw that very machine: another that has its name by now has other pods.

What the taints of a spec meet on the pods that run: told before they are written, and in the plan.

Two things people have been hurt by: pods that are deleted by a NoExecute taint, and node agents that run on
until their node is restarted and then do not come back, since their DaemonSet does not tolerate the taint.

Pods that a taint of the pool has Kubernetes delete (``onIntolerantPods: Delete``): told before and after.

Before, once for each taint and node, ahead of the first write of that node. Who has been told is kept by the
process that told it: after a restart people are warned once more of what is still to be written. After, by
how many such pods the looks had seen on the nodes that have got the taint: what a crash cuts off is not told,
and nothing is told that did not happen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from winpool.api.events import EventReason
from winpool.api.fields import NO_EXECUTE
from winpool.api.issues import IssueReason
from winpool.api.text import later
from winpool.api.v1alpha1 import Issue, PoolTaint, Preflight, WindowsNodePoolSpec, WindowsNodePoolStatus
from winpool.features.contract.taints import taints_of
from winpool.features.feature import Finding
from winpool.model.evidence import Evidence
from winpool.model.node import Node, NodePatch, Taint
from winpool.model.snapshot import Snapshot
from winpool.model.survey import DAEMON_SETS_KEPT, EXAMPLES_KEPT, IntolerantPods, Misplaced, daemon_set_place
from winpool.ownership.members import Claim
from winpool.status.assessment import (
    NAMES_SHOWN,
    Assessed,
    Assessment,
    count_nodes,
    count_pods,
    counted_nodes,
)
from winpool.status.events import Announcement
from winpool.status.pool_findings import blind

PREFLIGHT_ISSUES = (IssueReason.INTOLERANT_PODS, IssueReason.INTOLERANT_NODE_AGENTS)
"""What has to stand in the status before the first taint is written."""


def is_untold(reported: WindowsNodePoolStatus, standing: WindowsNodePoolStatus) -> bool:
    """Whether ``reported`` says anything of that which does not stand in the status yet."""
    told = {_told(each, each.node_count) for each in standing.issues}
    return any(
        # Under a CRD of an earlier version what is written of the nodes does not stand there afterwards.
        told.isdisjoint((_told(each, each.node_count), _told(each, 0)))
        for each in reported.issues
        if each.reason in PREFLIGHT_ISSUES
    )


def _told(issue: Issue, node_count: int) -> tuple[object, ...]:
    """Return what people know by an issue, where it counts so many nodes; 0: it names none either.

    The nodes of pods that a taint meets are those that it is to be put on: further ones are news. Node agents
    run whether or not their nodes get the taint now.
    """
    names = issue.nodes if node_count else ()
    if issue.reason == IssueReason.INTOLERANT_PODS:
        return (issue.reason, issue.message, node_count, names)
    return (issue.reason, issue.message, names[:1])


def written(taint: Taint) -> str:
    """Write a taint as kubectl does: ``os=windows:NoSchedule``."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def preflight(
    snapshot: Snapshot, spec: WindowsNodePoolSpec, assessed: Iterable[Assessment]
) -> tuple[Preflight, ...]:
    """Return what each taint that is to be added or changed somewhere would meet there, for the plan."""
    return tuple(
        Preflight(
            taint=written(met.taint),
            nodes=len(met.nodes),
            intolerant_pods=met.pods,
            pods=met.examples,
            daemon_sets=met.daemon_sets,
        )
        for met in _met(spec, Evidence(snapshot), assessed)
    )


def preflight_findings(
    snapshot: Snapshot,
    spec: WindowsNodePoolSpec,
    assessed: Sequence[Assessment],
    *,
    ours: Mapping[str, Node],
) -> Iterator[Finding]:
    """Yield what people have to know of the pods before a taint is written; ``ours`` are the pool's nodes.

    One for all taints that have the same consequence on the same nodes. Where that would be many, one for
    each consequence, so that the status has room for every taint.
    """
    evidence = Evidence(snapshot)
    yield from map(_meeting, _alike(tuple(_met(spec, evidence, assessed))))
    yield from _agents(spec, evidence, ours)


_MOST: Final = 4
"""Findings about taints beyond which there is one for each consequence, of which there are three."""


def _alike(found: Iterable[_Met]) -> list[list[_Met]]:
    """Put together the taints that are told together."""
    on_nodes: dict[tuple[str, ...], list[_Met]] = {}
    anywhere: dict[str, list[_Met]] = {}
    for met in found:
        consequence = _consequence(met.asked)
        on_nodes.setdefault((consequence, *met.nodes), []).append(met)
        anywhere.setdefault(consequence, []).append(met)
    return list(on_nodes.values()) if len(on_nodes) <= _MOST else list(anywhere.values())


def _meeting(found: Sequence[_Met]) -> Finding:
    """Say what these taints meet, which they are first, since a long message is cut."""
    asked, taints = found[0].asked, [written(met.taint) for met in found]
    listed = ", ".join(taints)
    pods = sorted({example for met in found for example in met.examples})[:NAMES_SHOWN]
    which = "taint" if len(taints) == 1 else "taints"
    return Finding(
        IssueReason.INTOLERANT_PODS,
        sorted({name for met in found for name in met.nodes}),
        f"Pods on these nodes do not tolerate the {which} {listed}, such as {', '.join(pods)}: "
        f"{_consequence(asked)}.",
        _remedy(asked, listed if len(taints) <= NAMES_SHOWN else "these taints"),
        cause=f"{listed}: {_consequence(asked)}",
    )


def _agents(spec: WindowsNodePoolSpec, evidence: Evidence, ours: Mapping[str, Node]) -> Iterator[Finding]:
    """Yield a finding for the taints that the same DaemonSets do not tolerate, or one for all of them."""
    found = [each for taint in taints_of(spec) if (each := _agents_of(taint, evidence, ours))]
    alike: dict[tuple[str, ...], list[_Agents]] = {}
    for each in found:
        alike.setdefault(each.daemon_sets, []).append(each)
    for together in alike.values() if len(alike) <= _MOST else (found,):
        yield _without_agents(together)


@dataclass(frozen=True, slots=True)
class _Agents:
    """DaemonSets that do not tolerate a taint: the first, how many there are, and the nodes of their pods."""

    taint: str
    daemon_sets: tuple[str, ...]
    count: int
    nodes: frozenset[str]


def _agents_of(taint: Taint, evidence: Evidence, ours: Mapping[str, Node]) -> _Agents | None:
    there: set[str] = set()
    found: set[str] = set()
    count = 0
    for look in evidence.current():
        agents = look.intolerant_of(taint)
        names = agents.daemon_set_nodes & ours.keys() if agents else ()
        if agents and (seen := {name for name in names if evidence.of(ours[name]) is look}):
            there |= seen
            found.update(agents.daemon_sets)
            count = max(count, agents.daemon_set_count)
    if not there:
        return None
    shown = tuple(sorted(found, key=daemon_set_place)[:DAEMON_SETS_KEPT])
    return _Agents(written(taint), shown, max(count, len(found)), frozenset(there))


def _without_agents(found: Sequence[_Agents]) -> Finding:
    """Say which DaemonSets do not tolerate these taints, as many as a message has room for."""
    names = sorted({name for each in found for name in each.daemon_sets}, key=daemon_set_place)
    shown, count = names[:DAEMON_SETS_KEPT], max(len(names), *(each.count for each in found))
    listed = ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")
    taints = [each.taint for each in found]
    named = f"{'taint' if len(taints) == 1 else 'taints'} {', '.join(taints)}"
    return Finding(
        IssueReason.INTOLERANT_NODE_AGENTS,
        sorted({name for each in found for name in each.nodes}),
        f"Pods of the DaemonSets {listed} do not tolerate the {named}, and do not come "
        f"back once they end on a node with {'it' if len(taints) == 1 else 'them'}.",
        f"Add a toleration for {f'the {named}' if len(taints) <= NAMES_SHOWN else 'these taints'} to the pod "
        "template of these DaemonSets.",
        cause=", ".join(shown),
    )


@dataclass(frozen=True, slots=True)
class _Met:
    """A taint that lacks on ``nodes``, in order, and the pods there that do not tolerate it."""

    asked: PoolTaint
    taint: Taint
    nodes: Sequence[str]
    pods: int
    examples: tuple[str, ...]
    daemon_sets: tuple[str, ...]


def _met(spec: WindowsNodePoolSpec, evidence: Evidence, assessed: Iterable[Assessment]) -> Iterator[_Met]:
    lacking = [
        (each.node, look)
        for each in assessed
        if each.lacks_taints and (look := evidence.of(each.node)) and look.covers(each.node)
    ]
    for asked in spec.taints:
        taint = Taint(asked.key, asked.effect, asked.value)
        met = [
            (node.name, found)
            for node, look in lacking
            if (found := look.intolerant_of(taint))
            and node.name in found.on_nodes
            and not _carries(node, taint)
        ]
        if met:
            yield _of_taint(asked, taint, met)


def _of_taint(asked: PoolTaint, taint: Taint, met: Sequence[tuple[str, IntolerantPods]]) -> _Met:
    """Put together what ``taint`` meets on each of these nodes, by the look that saw it."""
    there = [found.on_nodes[name] for name, found in met]
    looks = list({id(found): found for _, found in met}.values())
    are_all = len(looks) == 1 and len(met) == len(looks[0].on_nodes)
    return _Met(
        asked,
        taint,
        nodes=[name for name, _ in met],
        pods=sum(each.pods for each in there),
        examples=looks[0].examples if are_all else tuple(each.example for each in there[:NAMES_SHOWN]),
        daemon_sets=tuple(
            sorted({name for look in looks for name in look.daemon_sets}, key=daemon_set_place)[
                :DAEMON_SETS_KEPT
            ]
        ),
    )


def _carries(node: Node, taint: Taint) -> bool:
    return any(each.identity == taint.identity and each.value == taint.value for each in node.taints)


def _consequence(asked: PoolTaint) -> str:
    if asked.effect != NO_EXECUTE:
        return "they keep running, but once they end they do not come back here"
    if asked.deletes_pods:
        return (
            "Kubernetes deletes them as soon as the operator adds the taint, and does not check "
            "PodDisruptionBudgets"
        )
    return "Kubernetes would delete them, so the operator does not add the taint there"


def _remedy(asked: PoolTaint, taints: str) -> str:
    if asked.effect != NO_EXECUTE:
        return f"Add a toleration for {taints} to the pods that are to stay."
    if asked.deletes_pods:
        return f"Add a toleration for {taints} to the pods that are to stay, or set onIntolerantPods: Hold."
    return (
        f"Add a toleration for {taints} without tolerationSeconds to the pods, or move them to other nodes. "
        "To have them deleted, set onIntolerantPods: Delete."
    )


POD_ISSUES = (
    *PREFLIGHT_ISSUES,
    IssueReason.MISPLACED_PODS,
    IssueReason.PODS_UNREADABLE,
    IssueReason.POD_LIST_FAILING,
)
"""What is known from a look at pods only."""

FAILING_SECONDS: Final = 300.0
"""How long nodes may wait for a look at their pods that fails before a person has to see to it: an API server
that is restarted or too busy lists pods again within minutes."""


def misplaced_pods(snapshot: Snapshot, assessed: Iterable[Assessment]) -> int:
    """Return how many pods cannot run where they are; what was known last, until pods have been looked at."""
    pool = snapshot.pool
    if pool.deleting:
        return 0
    if snapshot.pods.survey is None or snapshot.pods.survey.pool_uid != pool.uid:
        return pool.status.misplaced_pods
    return sum(_misplaced_on(Evidence(snapshot), _ours(assessed)).values())


def pod_findings(snapshot: Snapshot, nodes: Assessed) -> Iterator[Finding]:
    """Yield what is to be said of pods on the nodes of the pool."""
    pool, evidence = snapshot.pool, Evidence(snapshot)
    if pool.deleting or pool.spec is None:
        return
    ours = _ours(nodes.all)
    yield from preflight_findings(snapshot, pool.spec, nodes.notable, ours=ours)
    unseen = blind(snapshot, nodes.notable)
    if unseen and not snapshot.pods.forbidden:
        yield Finding(
            IssueReason.POD_LIST_FAILING,
            unseen.nodes,
            unseen.finding,
            unseen.fix,
            cause="pods are not listed",
        )
    if misplaced := _misplaced_on(evidence, ours):
        shown = _examples(evidence, ours)
        such_as = ", such as " + ", ".join(f"{each.pod} ({each.why})" for each in shown) if shown else ""
        yield Finding(
            IssueReason.MISPLACED_PODS,
            sorted(misplaced),
            f"Some pods on these nodes cannot run on Windows{such_as}.",
            "Add the nodeSelector kubernetes.io/os: linux to their owners, or use an image for Windows. A "
            "taint on the nodes of the pool keeps such pods away.",
            cause="pods cannot run there",
        )
    if unread := _unreadable(evidence, ours):
        yield Finding(
            IssueReason.PODS_UNREADABLE,
            sorted(unread),
            "The operator cannot read some pods on these nodes, so it adds no NoExecute taint there.",
            "Read the operator's log. It names the pods and what is wrong with them.",
        )


def overdue_at(issues: Iterable[Issue]) -> datetime | None:
    """Return when a person has to see to it that pods cannot be listed; None where nothing waits for that.

    Counted from what stands in the status, so that a restart does not begin anew (P8).
    """
    since = (each.since for each in issues if each.reason == IssueReason.POD_LIST_FAILING)
    return min((later(each, FAILING_SECONDS) for each in since), default=None)


def _ours(assessed: Iterable[Assessment]) -> dict[str, Node]:
    return {each.node.name: each.node for each in assessed if each.claim is Claim.OURS}


def _misplaced_on(evidence: Evidence, ours: Mapping[str, Node]) -> dict[str, int]:
    """Return how many misplaced pods there are on each node that has any."""
    return {
        name: look.misplaced_on[name]
        for look in evidence.all()
        for name in look.misplaced_on.keys() & ours.keys()
        if evidence.latest(ours[name]) is look
    }


def _examples(evidence: Evidence, ours: Mapping[str, Node]) -> list[Misplaced]:
    found = [
        each
        for look in evidence.all()
        for each in look.misplaced_examples
        if each.node in ours and evidence.latest(ours[each.node]) is look
    ]
    return found[:EXAMPLES_KEPT]


def _unreadable(evidence: Evidence, ours: Mapping[str, Node]) -> set[str]:
    return {
        name
        for look in evidence.all()
        for name in look.unreadable & ours.keys()
        if evidence.latest(ours[name]) is look
    }


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
