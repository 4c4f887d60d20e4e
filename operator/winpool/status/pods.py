"""Says what lists of pods found: what taints meet, pods on the wrong machine, and pods that taints delete.

A list counts for a node only where it saw that very machine: another that has its name by now has other pods.
People are warned, once for each taint and node, before Kubernetes deletes pods for a taint of the pool
(``onIntolerantPods: Delete``), and hear afterwards how many such pods there were. After a restart of the
operator they are warned once more of what is still to be written.

What templates of workloads leave open that Windows needs is a report: no condition and no gate reads it, and
there is no event of it. It names the worst controllers and no numbers, which the metrics have, so that a
status is written for it only when it names other controllers. Who is named keeps the place until another has
twice as many: pods come and go, and two that are about equal must not take turns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from winpool.api.events import EventReason
from winpool.api.issues import IssueReason
from winpool.api.keys import NO_EXECUTE
from winpool.api.spec import PoolTaint, WindowsNodePoolSpec
from winpool.api.status import Issue, Preflight, WindowsNodePoolStatus
from winpool.api.text import NAMES_SHOWN, enumerate_names, grouped, later
from winpool.features.contract.taints import taints_of
from winpool.features.feature import Finding
from winpool.model.node import Node, NodePatch, Taint
from winpool.model.snapshot import Evidence, Snapshot
from winpool.model.survey import (
    DAEMON_SETS_KEPT,
    EXAMPLES_KEPT,
    CountedPods,
    IntolerantPods,
    Survey,
    daemon_set_place,
)
from winpool.ownership.record import Record, record_of
from winpool.status.assessment import Assessed, Assessment, count_nodes, count_pods, counted_nodes
from winpool.status.events import Announcement, nameless, sentence

PREFLIGHT_ISSUES = (IssueReason.INTOLERANT_PODS, IssueReason.INTOLERANT_NODE_AGENTS)
"""What has to stand in the status before the first taint is written."""

POD_ISSUES = (
    *PREFLIGHT_ISSUES,
    IssueReason.MISPLACED_PODS,
    IssueReason.PODS_UNREADABLE,
    IssueReason.POD_LIST_FAILING,
    IssueReason.UNSELECTED_WORKLOADS,
    IssueReason.MEMORY_LIMITS_MISSING,
)
"""What is known from lists of pods only."""


def is_unreported(reported: WindowsNodePoolStatus, standing: WindowsNodePoolStatus) -> bool:
    """Whether ``reported`` has an issue of ``PREFLIGHT_ISSUES`` that is not in the status yet."""
    known = {_identity(each, each.node_count) for each in standing.issues}
    return any(
        # Under a CRD of an earlier version what is written of the nodes does not stand there afterwards.
        known.isdisjoint((_identity(each, each.node_count), _identity(each, 0)))
        for each in reported.issues
        if each.reason in PREFLIGHT_ISSUES
    )


def _identity(issue: Issue, node_count: int) -> tuple[object, ...]:
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
        for met in _met(spec, Evidence(snapshot), assessed, {})
    )


class _Effect(NamedTuple):
    """What a taint does to pods that do not tolerate it, and what people can do about that."""

    consequence: str
    fix: str


_KEEPS: Final = _Effect(
    "they keep running, but once they end they do not come back here",
    "Add a toleration for {taints} to the pods that are to stay.",
)
_DELETES: Final = _Effect(
    "Kubernetes deletes them as soon as the operator adds the taint, and does not check PodDisruptionBudgets",
    "Add a toleration for {taints} to the pods that are to stay, or set onIntolerantPods: Hold.",
)
_HOLDS: Final = _Effect(
    "Kubernetes would delete them, so the operator does not add the taint there",
    "Add a toleration for {taints} without tolerationSeconds to the pods, or move them to other nodes. To "
    "have them deleted, set onIntolerantPods: Delete.",
)


def _effect_of(asked: PoolTaint) -> _Effect:
    if asked.effect != NO_EXECUTE:
        return _KEEPS
    return _DELETES if asked.deletes_pods else _HOLDS


class _Met(msgspec.Struct, frozen=True):
    """A taint that lacks on ``nodes``, or replaced another value, and the pods that do not tolerate it."""

    taint: Taint
    effect: _Effect
    nodes: Sequence[str]
    pods: int
    examples: tuple[str, ...]
    daemon_sets: tuple[str, ...]


def _met(
    spec: WindowsNodePoolSpec,
    evidence: Evidence,
    assessed: Iterable[Assessment],
    ours: Mapping[str, Node],
) -> Iterator[_Met]:
    """Yield what each taint meets where it lacks, and where it replaced another value on nodes of ours."""
    lacking = [
        (each.node, survey)
        for each in assessed
        if each.found.lacks_taints and (survey := evidence.of(each.node)) and survey.covers(each.node)
    ]
    for asked in spec.taints:
        taint = Taint(asked.key, asked.effect, asked.value)
        met = [
            (node.name, found)
            for node, survey in lacking
            if (found := survey.intolerant_of(taint))
            and node.name in found.on_nodes
            and not _is_among(taint, node.taints)
        ]
        if met := [*met, *_replacing(taint, evidence, ours)]:
            yield _of_taint(taint, _effect_of(asked), met)


def _replacing(
    taint: Taint, evidence: Evidence, ours: Mapping[str, Node]
) -> Iterator[tuple[str, IntolerantPods]]:
    """Yield the nodes with pods that do not tolerate ``taint``, which replaced a taint of another value.

    Such pods tolerated the other value, as a rule, and run as before: nothing else shows that they cannot
    come back.
    """
    for survey in evidence.current() if taint.effect != NO_EXECUTE else ():
        found = survey.intolerant_of(taint)
        for name in sorted(found.on_nodes.keys() & ours.keys()) if found else ():
            node = ours[name]
            record = record_of(node)
            own = record.taints.get(taint.identity) if isinstance(record, Record) else None
            was_another = own is not None and own.before not in (None, taint.value)
            if found and was_another and _is_among(taint, node.taints) and evidence.of(node) is survey:
                yield name, found


def _is_among(taint: Taint, taints: Iterable[Taint]) -> bool:
    return any((each.identity, each.value) == (taint.identity, taint.value) for each in taints)


def _of_taint(taint: Taint, effect: _Effect, met: Sequence[tuple[str, IntolerantPods]]) -> _Met:
    """Put together what ``taint`` meets on each of these nodes, by the list that saw it."""
    there = [found.on_nodes[name] for name, found in met]
    lists = list({id(found): found for _, found in met}.values())
    are_all = len(lists) == 1 and len(met) == len(lists[0].on_nodes)
    daemon_sets = sorted({name for each in lists for name in each.daemon_sets}, key=daemon_set_place)
    return _Met(
        taint,
        effect,
        nodes=[name for name, _ in met],
        pods=sum(each.pods for each in there),
        examples=lists[0].examples if are_all else tuple(each.example for each in there[:NAMES_SHOWN]),
        daemon_sets=tuple(daemon_sets[:DAEMON_SETS_KEPT]),
    )


_MOST: Final = 4
"""Findings about taints beyond which there is one for each consequence, of which there are three."""


def _intolerant_pods(found: Iterable[_Met]) -> Iterator[Finding]:
    """Yield one for all taints that have the same consequence on the same nodes.

    Where that would be many, one for each consequence, so that the status has room for every taint. The
    taints come first, since a long message is cut.
    """
    every = list(found)
    on_nodes = grouped(((met.effect, *met.nodes), met) for met in every)
    anywhere = grouped((met.effect, met) for met in every)
    for alike in on_nodes.values() if len(on_nodes) <= _MOST else anywhere.values():
        effect, taints = alike[0].effect, [written(met.taint) for met in alike]
        listed = ", ".join(taints)
        pods = sorted({example for met in alike for example in met.examples})[:NAMES_SHOWN]
        yield Finding(
            IssueReason.INTOLERANT_PODS,
            sorted({name for met in alike for name in met.nodes}),
            f"Pods on these nodes do not tolerate the {'taint' if len(taints) == 1 else 'taints'} {listed}, "
            f"such as {', '.join(pods)}: {effect.consequence}.",
            effect.fix.format(taints=listed if len(taints) <= NAMES_SHOWN else "these taints"),
            cause=f"{listed}: {effect.consequence}",
        )


class _Agents(msgspec.Struct, frozen=True):
    """DaemonSets that do not tolerate a taint: the first, how many there are, and the nodes of their pods."""

    taint: str
    daemon_sets: tuple[str, ...]
    count: int
    nodes: frozenset[str]


def _agents_of(taint: Taint, evidence: Evidence, ours: Mapping[str, Node]) -> _Agents:
    there: set[str] = set()
    found: set[str] = set()
    count = 0
    for survey in evidence.current():
        agents = survey.intolerant_of(taint)
        names = agents.daemon_set_nodes & ours.keys() if agents else ()
        if agents and (seen := {name for name in names if evidence.of(ours[name]) is survey}):
            there |= seen
            found.update(agents.daemon_sets)
            count = max(count, agents.daemon_set_count)
        names = agents.kept_away_from & ours.keys() if agents else ()
        if agents and (seen := {name for name in names if survey.saw(ours[name])}):
            there |= seen
            found |= agents.kept_away
    shown = tuple(sorted(found, key=daemon_set_place)[:DAEMON_SETS_KEPT])
    return _Agents(written(taint), shown, max(count, len(found)), frozenset(there))


def _intolerant_agents(
    spec: WindowsNodePoolSpec, evidence: Evidence, ours: Mapping[str, Node]
) -> Iterator[Finding]:
    """Yield one for the taints that the same DaemonSets do not tolerate, or one for all of them.

    Their pods run on until their node is restarted, and do not come back then. Where the taint was first,
    there never was one.
    """
    found = [each for taint in taints_of(spec) if (each := _agents_of(taint, evidence, ours)).nodes]
    alike = grouped((each.daemon_sets, each) for each in found)
    for together in alike.values() if len(alike) <= _MOST else (found,):
        names = sorted({name for each in together for name in each.daemon_sets}, key=daemon_set_place)
        shown, count = names[:DAEMON_SETS_KEPT], max(len(names), *(each.count for each in together))
        listed = enumerate_names(names, count, most=DAEMON_SETS_KEPT)
        taints = [each.taint for each in together]
        taint, it = ("taint", "it") if len(taints) == 1 else ("taints", "them")
        named = f"the {taint} {', '.join(taints)}"
        yield Finding(
            IssueReason.INTOLERANT_NODE_AGENTS,
            sorted({name for each in together for name in each.nodes}),
            f"The DaemonSets {listed} do not tolerate {named}: on a node with {it} none of their pods starts,"
            " and those that run do not come back once they end.",
            f"Add a toleration for {named if len(taints) <= NAMES_SHOWN else 'these taints'} to the pod "
            "template of these DaemonSets.",
            cause=", ".join(shown),
        )


class Blind(msgspec.Struct, frozen=True):
    """The nodes with which the operator cannot continue, since it cannot list their pods, and why.

    ``of_all`` says that lists of all pods fail. Otherwise those of these nodes do.
    """

    nodes: tuple[str, ...] = ()
    why: str = ""
    of_all: bool = False

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self.nodes)

    @property
    def message(self) -> str:
        """What a condition says: it names the nodes."""
        return (
            f"The operator cannot continue with {counted_nodes(self.nodes)}, because it cannot list "
            f"{self._pods}. See the issue {IssueReason.POD_LIST_FAILING}."
        )

    @property
    def finding(self) -> Finding:
        """What an issue says: it names the cause."""
        if self.of_all:
            check = "Check the API server, and the network between it and the operator."
        else:
            check = (
                "Check whether these nodes have too many pods to be listed, or too large ones, and check the "
                "network between the API server and the operator."
            )
        return Finding(
            IssueReason.POD_LIST_FAILING,
            self.nodes,
            sentence(f"These nodes wait because the operator cannot list {self._pods}: {self.why}"),
            f"{check} The operator tries again after at most 30 seconds.",
            cause="pods are not listed",
        )

    @property
    def _pods(self) -> str:
        return "the pods of the cluster" if self.of_all else "their pods"


def blind(snapshot: Snapshot, assessed: Sequence[Assessment]) -> Blind:
    """Return the nodes that wait for a list of their pods that fails.

    One whose own list fails is not among them while a recent list of all pods covers it.
    """
    asking = [each.node for each in assessed if each.needs_pods]
    if asking and snapshot.pods.problem:
        return Blind(tuple(node.name for node in asking), snapshot.pods.problem, of_all=True)
    problems, evidence = snapshot.pods.pod_list_problems, Evidence(snapshot)
    failing = [node for node in asking if node.uid in problems and not evidence.covered_lately(node)]
    # One of them, the same whichever nodes come and go.
    why = min((nameless(problems[node.uid].message, name=node.name) for node in failing), default="")
    return Blind(tuple(node.name for node in failing), why)


FAILING_SECONDS: Final = 300.0
"""How long nodes may wait for a list of their pods that fails before a person has to see to it: an API server
that is restarted or too busy lists pods again within minutes."""


def overdue_at(issues: Iterable[Issue]) -> datetime | None:
    """Return when a person has to see to it that pods cannot be listed; None where nothing waits for that.

    Counted from what stands in the status, so that a restart does not begin anew (P8).
    """
    since = (each.since for each in issues if each.reason == IssueReason.POD_LIST_FAILING)
    return min((later(each, FAILING_SECONDS) for each in since), default=None)


def misplaced_pods(snapshot: Snapshot, nodes: Assessed) -> int:
    """Return how many pods cannot run where they are; what was known last, until pods have been listed."""
    pool, survey = snapshot.pool, snapshot.pods.survey
    if pool.deleting:
        return 0
    if survey is None or survey.pool_uid != pool.uid:
        return pool.status.misplaced_pods
    seen = _newest(Evidence(snapshot), nodes.own_nodes())
    return sum(
        survey.misplaced_on[name] for survey, names in seen for name in names & survey.misplaced_on.keys()
    )


def pod_findings(snapshot: Snapshot, nodes: Assessed, unlisted: Blind) -> Iterator[Finding]:
    """Yield what is to be said of pods on the nodes of the pool, and of those that cannot be listed."""
    pool, evidence = snapshot.pool, Evidence(snapshot)
    if pool.deleting or pool.spec is None:
        return
    ours = nodes.own_nodes()
    yield from _intolerant_pods(_met(pool.spec, evidence, nodes.notable, ours))
    yield from _intolerant_agents(pool.spec, evidence, ours)
    if snapshot.pods.daemon_sets_forbidden and taints_of(pool.spec):
        yield Finding(
            IssueReason.INTOLERANT_NODE_AGENTS,
            (),
            "It is not known which DaemonSets never got a pod on the nodes because of a taint of the pool.",
            snapshot.pods.daemon_sets_forbidden,
            cause="daemon sets are not listed",
        )
    if unlisted and not snapshot.pods.forbidden:
        yield unlisted.finding
    seen = _newest(evidence, ours)
    if misplaced := {name for survey, names in seen for name in names & survey.misplaced_on.keys()}:
        shown = [each for survey, names in seen for each in survey.misplaced_examples if each.node in names]
        examples = ", ".join(f"{each.pod} ({each.why})" for each in shown[:EXAMPLES_KEPT])
        yield Finding(
            IssueReason.MISPLACED_PODS,
            sorted(misplaced),
            f"Some pods on these nodes cannot run on Windows{examples and f', such as {examples}'}.",
            "Add the nodeSelector kubernetes.io/os: linux to their owners, or use an image for the build of "
            "Windows that the nodes run. A taint on the nodes of the pool keeps such pods away.",
            cause="pods cannot run there",
        )
    if unread := {name for survey, names in seen for name in names & survey.unreadable}:
        yield Finding(
            IssueReason.PODS_UNREADABLE,
            sorted(unread),
            "The operator cannot read some pods on these nodes, so it adds no NoExecute taint there.",
            "Read the operator's log. It names the pods and what is wrong with them.",
        )


def _newest(evidence: Evidence, ours: Mapping[str, Node]) -> list[tuple[Survey, set[str]]]:
    """Return each list with the nodes of the pool of which it is the newest, and reports anything."""
    found = []
    for survey in evidence.all():
        named = {*survey.misplaced_on, *survey.unreadable, *(each.node for each in survey.misplaced_examples)}
        names = {name for name in named & ours.keys() if evidence.latest(ours[name]) is survey}
        found.append((survey, names))
    return found


class Deletion(msgspec.Struct, frozen=True):
    """Pods of one node that do not tolerate ``taint``, which a patch puts there, and one of them."""

    taint: str
    pods: int
    example: str


Warned = tuple[str, str]
"""What people are warned of once: a taint, as kubectl writes it and never cut, and the UID of a node."""


class Deletions(msgspec.Struct, frozen=True):
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
        by_taint = grouped((each.taint, each) for key, each in self.coming.items() if key not in told)
        for taint, there in by_taint.items():
            note = (
                f"taint {taint}: Kubernetes is about to delete {_pods(there)} on {count_nodes(len(there))} "
                f"that do not tolerate it, such as {_examples(there)}; PodDisruptionBudgets are not asked"
            )
            yield Announcement(EventReason.DELETING_INTOLERANT_PODS, note, self.pool_name, self.pool_uid)

    def told(self, done: Iterable[str]) -> Iterator[Announcement]:
        """Yield an event for each taint that has pods deleted on those nodes, which were written."""
        by_taint: dict[str, dict[str, Deletion]] = {}
        for name in done if self.on_nodes else ():
            for each in self.on_nodes.get(name, ()):
                by_taint.setdefault(each.taint, {})[name] = each
        for taint, there in by_taint.items():
            note = (
                f"The operator added the taint {taint} to {counted_nodes(tuple(there))}. Kubernetes deletes "
                f"{_pods(there.values())} there that did not tolerate it, such as "
                f"{_examples(there.values())}."
            )
            yield Announcement(EventReason.INTOLERANT_PODS_DELETED, note, self.pool_name, self.pool_uid)


def _pods(there: Collection[Deletion]) -> str:
    return count_pods(sum(each.pods for each in there))


def _examples(there: Collection[Deletion]) -> str:
    return ", ".join([each.example for each in there][:NAMES_SHOWN])


def deletions_of(
    snapshot: Snapshot, patches: Iterable[NodePatch], assessed: Iterable[Assessment]
) -> Deletions:
    """Return which pods the taints of these patches have deleted, by what the newest lists have seen.

    ``assessed`` are the nodes that somebody acts on; none where nothing may be written.
    """
    pool, taints = snapshot.pool, _deleting(snapshot)
    if not taints:
        return Deletions(pool.name, pool.uid, {}, {}, frozenset())
    evidence = Evidence(snapshot)
    lacking = [each.node for each in assessed if each.found.lacks_taints]
    found: dict[str, tuple[Deletion, ...]] = {}
    for patch in patches:
        put = [taint for taint in taints if _is_among(taint, patch.taints or ())]
        if there := tuple(_on(patch.node, put, evidence)):
            found[patch.node.name] = there
    # Only with a write ahead: without one nothing is about to happen.
    coming = (
        ((each.taint, node.uid), each)
        for node in (lacking if found else ())
        for each in _on(node, taints, evidence)
    )
    return Deletions(pool.name, pool.uid, found, dict(coming), frozenset(node.uid for node in lacking))


def _deleting(snapshot: Snapshot) -> tuple[Taint, ...]:
    """Return the taints of the spec that have pods deleted."""
    spec = snapshot.pool.spec
    if spec is None or snapshot.pool.deleting:
        return ()
    deleting = (each for each in spec.taints if _effect_of(each) is _DELETES)
    return tuple(Taint(each.key, each.effect, each.value) for each in deleting)


def _on(node: Node, taints: Iterable[Taint], evidence: Evidence) -> Iterator[Deletion]:
    """Yield what the newest list has seen on the node of pods that do not tolerate a new taint."""
    survey = evidence.of(node)
    if survey is None:
        return
    for taint in taints:
        found = survey.intolerant_of(taint)
        there = found.on_nodes.get(node.name) if found else None
        if there and not _is_among(taint, node.taints):
            yield Deletion(written(taint), there.pods, there.example)


NAMED: Final = 5
"""Controllers that an issue names: a message has room for five of the longest titles that are kept."""

_STAYS: Final = 2
"""How many times the pods of one that is named count."""

_NOT_ALL: Final = " There may be more: the cluster has more different pods than winpool compares."


class _Report(NamedTuple):
    """An issue: its message is ``before``, and then the titles as the end of the sentence."""

    reason: IssueReason
    before: str
    fix: str


_UNSELECTED: Final = _Report(
    IssueReason.UNSELECTED_WORKLOADS,
    "The scheduler can place pods of some workloads on the nodes of this pool, although nothing says that "
    "they are for Windows: no taint keeps them off, and they select no OS. Those with the most pods: ",
    "Add nodeSelector: {kubernetes.io/os: linux} or {kubernetes.io/os: windows} to the pod templates, or "
    "taint the nodes of the pool (spec.taints).",
)
_UNLIMITED: Final = _Report(
    IssueReason.MEMORY_LIMITS_MISSING,
    "Containers on the nodes of this pool have no memory limit, so they can use the memory that Windows and "
    "the kubelet need. The workloads with the most of them: ",
    "Set limits.memory of the containers, and requests.memory to the same amount or not at all.",
)


def workload_findings(snapshot: Snapshot) -> Iterator[Finding]:
    """Yield what the last list of all pods has found for this pool, in any generation of it."""
    survey, pool = _survey(snapshot), snapshot.pool
    if survey is None or pool.spec is None or pool.deleting:
        return
    for report, counted in ((_UNSELECTED, survey.unselected), (_UNLIMITED, survey.unlimited)):
        if counted.worst:
            titles = named(counted, before=_named_in(report, pool.status.issues))
            more = "" if counted.is_complete else _NOT_ALL
            message = f"{report.before}{', '.join(titles)}.{more}"
            yield Finding(report.reason, (), message, report.fix, cause="workloads")


def _survey(snapshot: Snapshot) -> Survey | None:
    survey = snapshot.pods.survey
    return survey if survey is not None and survey.pool_uid == snapshot.pool.uid else None


def _named_in(report: _Report, issues: Iterable[Issue]) -> list[str]:
    """Return the titles that the status names, as they stand there."""
    for each in issues:
        if each.reason == report.reason and each.message.startswith(report.before):
            titles = each.message[len(report.before) :].removesuffix(_NOT_ALL).removesuffix(".")
            return titles.split(", ")
    return []


def named(counted: CountedPods, *, before: list[str]) -> list[str]:
    """Return the worst titles, the worst first; ``before`` as it is where it has the same ones."""
    weights = {title: count * _STAYS if title in before else count for title, count in counted.worst}
    worst = sorted(weights, key=lambda title: (-weights[title], title not in before, title))[:NAMED]
    if {*worst} == {*before}:
        return before
    counts = dict(counted.worst)
    return sorted(worst, key=lambda title: (-counts[title], title))


class WorkloadFigures(NamedTuple):
    """What metrics say of it: pods, containers and bytes. None is 0 of some, where others were left out."""

    unselected_pods: int | None
    unlimited_containers: int | None
    memory_limit_excess: int


def workload_figures(snapshot: Snapshot, nodes: Assessed) -> WorkloadFigures | None:
    """Return them; None where pods have not been listed yet for this pool.

    A node that does not report its memory has no part in the excess.
    """
    survey = _survey(snapshot)
    if survey is None:
        return None
    excess = 0
    for node in nodes.own_nodes().values():
        if survey.saw(node) and (allocatable := node.memory.allocatable) is not None:
            excess += max(0, survey.memory_limits.get(node.name, 0) - allocatable)
    return WorkloadFigures(_known(survey.unselected), _known(survey.unlimited), excess)


def _known(counted: CountedPods) -> int | None:
    return counted.count if counted.count or counted.is_complete else None
