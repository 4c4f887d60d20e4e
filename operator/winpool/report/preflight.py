"""What the taints of a spec meet on the pods that run: told before they are written, and in the plan.

Two things people have been hurt by: pods that are deleted by a NoExecute taint, and node agents that run on
until their node is restarted and then do not come back, since their DaemonSet does not tolerate the taint.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.api.issues import IssueReason
from winpool.api.syntax import NO_EXECUTE
from winpool.api.v1alpha1 import Preflight
from winpool.contract.questions import taints_of
from winpool.objects.node import Taint
from winpool.pods.evidence import Evidence
from winpool.pods.survey import DAEMON_SETS_KEPT
from winpool.report.tally import NAMES_SHOWN, count_nodes, count_pods, enumerate_names
from winpool.rooms import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from winpool.api.v1alpha1 import PoolTaint, WindowsNodePoolSpec, WindowsNodePoolStatus
    from winpool.objects.node import Node
    from winpool.pods.survey import IntolerantPods
    from winpool.report.assessment import Assessment
    from winpool.snapshot import Snapshot

PREFLIGHT_ISSUES = (IssueReason.INTOLERANT_PODS, IssueReason.INTOLERANT_NODE_AGENTS)
"""What has to stand in the status before the first taint is written."""


def is_untold(reported: WindowsNodePoolStatus, standing: WindowsNodePoolStatus) -> bool:
    """Whether ``reported`` says anything of that which does not stand in the status yet."""
    told = {(each.node, each.reason, each.message) for each in standing.issues}
    return any(
        each.reason in PREFLIGHT_ISSUES and (each.node, each.reason, each.message) not in told
        for each in reported.issues
    )


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

    One for all taints that have the same consequence, so that the status has room for every one of them.
    """
    evidence = Evidence(snapshot)
    alike: dict[str, list[_Met]] = {}
    for met in _met(spec, evidence, assessed):
        alike.setdefault(_consequence(met.asked), []).append(met)
    for consequence, found in alike.items():
        yield Finding(
            IssueReason.INTOLERANT_PODS,
            [found[0].nodes[0]],
            f"{_sentences(found)}: {consequence}",
            _remedy(found[0].asked),
        )
    yield from _agents(spec, evidence, ours)


def _agents(spec: WindowsNodePoolSpec, evidence: Evidence, ours: Mapping[str, Node]) -> Iterator[Finding]:
    taints: dict[tuple[str, ...], list[str]] = {}
    first: dict[tuple[str, ...], str] = {}
    for taint in taints_of(spec):
        there: set[str] = set()
        found: set[str] = set()
        for look in evidence.current():
            agents = look.intolerant_of(taint)
            names = agents.daemon_set_nodes & ours.keys() if agents else ()
            if agents and (seen := {name for name in names if evidence.of(ours[name]) is look}):
                there |= seen
                found.update(agents.daemon_sets)
        if there:
            listed = tuple(sorted(found)[:DAEMON_SETS_KEPT])
            taints.setdefault(listed, []).append(written(taint))
            first.setdefault(listed, min(there))
    for daemon_sets, meant in taints.items():
        yield Finding(
            IssueReason.INTOLERANT_NODE_AGENTS,
            [first[daemon_sets]],
            f"{'taint' if len(meant) == 1 else 'taints'} {', '.join(meant)}: pods of the DaemonSets "
            f"{', '.join(daemon_sets)} do not tolerate this; once they end on a node that carries it, they "
            "do not come back",
            "add a toleration for the taint to the pod template of these DaemonSets",
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
        daemon_sets=tuple(sorted({name for look in looks for name in look.daemon_sets})[:DAEMON_SETS_KEPT]),
    )


def _carries(node: Node, taint: Taint) -> bool:
    return any(each.identity == taint.identity and each.value == taint.value for each in node.taints)


def _sentences(found: Sequence[_Met]) -> str:
    """Say what each meets; of several first which they are, since a long message is cut."""
    if len(found) == 1:
        return f"taint {_sentence(found[0])}"
    return f"taints {', '.join(written(met.taint) for met in found)}: {'; '.join(map(_sentence, found))}"


def _sentence(met: _Met) -> str:
    return (
        f"{written(met.taint)}: {count_pods(met.pods)} on {count_nodes(len(met.nodes))} "
        f"({enumerate_names(met.nodes)}), such as {', '.join(met.examples)}, do not tolerate it"
    )


def _consequence(asked: PoolTaint) -> str:
    if asked.effect != NO_EXECUTE:
        return "they go on running, but once they end they do not come back here"
    if asked.deletes_pods:
        return "Kubernetes deletes them as soon as it stands there, without asking PodDisruptionBudgets"
    return "Kubernetes would delete them, so the taint is held back from these nodes"


def _remedy(asked: PoolTaint) -> str:
    if asked.effect != NO_EXECUTE:
        return "give those that are to stay a toleration for the taint"
    if asked.deletes_pods:
        return "give those that are to stay a toleration, or set onIntolerantPods: Hold"
    return (
        "give them a toleration without tolerationSeconds or move them elsewhere; to have them deleted, set "
        "onIntolerantPods: Delete"
    )
