"""What the taints of a spec meet on the pods that run: told before they are written, and in the plan.

Two things people have been hurt by: pods that are deleted by a NoExecute taint, and node agents that run on
until their node is restarted and then do not come back, since their DaemonSet does not tolerate the taint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from winpool.api.issues import IssueReason
from winpool.api.syntax import NO_EXECUTE
from winpool.api.v1alpha1 import Preflight
from winpool.contract.questions import taints_of
from winpool.objects.node import Taint
from winpool.pods.evidence import Evidence
from winpool.pods.survey import DAEMON_SETS_KEPT, daemon_set_place
from winpool.report.tally import NAMES_SHOWN
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from winpool.api.v1alpha1 import Issue, PoolTaint, WindowsNodePoolSpec, WindowsNodePoolStatus
    from winpool.objects.node import Node
    from winpool.pods.survey import IntolerantPods
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot

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
