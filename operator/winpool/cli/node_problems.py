"""Finds what is not as it should be with one node, the worst first, by the rules of the operator.

The plugin decides a pass of the operator for this node alone, from what the API server has now. What only the
running operator knows, such as samples of memory, is taken from the conditions of the node and the issues of
its pool, and the sentence says so.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import msgspec

from winpool.api.issues import NORMAL, IssueReason
from winpool.api.keys import (
    HOLD_ANNOTATION,
    MEMORY_ANNOTATION,
    MEMORY_PRESSURE_TAINT,
    PRESSURE_CONDITION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.memory_pressure import MemoryMode
from winpool.api.spec import Mode
from winpool.api.text import later, printable, written_moment
from winpool.api.upgrade import UpgradeState
from winpool.cli.console import Ink
from winpool.cli.counts import listed
from winpool.cli.gates import clipped
from winpool.cli.node_upgrade import STATES, Standing, Why, next_of, to_do
from winpool.cli.upgrades import snapshot_of
from winpool.decide import allowed_actions, decide
from winpool.features.contract.feature import NodeContract, contract
from winpool.features.contract.validation import A_LOOK, NO_STARTUP
from winpool.features.memory.intents import read as read_intents
from winpool.model.node import Node, hold_end, is_held
from winpool.ownership.members import divide
from winpool.ownership.record import Record, record_of
from winpool.status.assessment import cloud_taints
from winpool.status.events import NODE, of_one_node
from winpool.status.findings import TAINT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from winpool.api.status import Issue
    from winpool.model.snapshot import Snapshot


class NodeProblem(StrEnum):
    """Kinds of problems that no issue of a pool has."""

    NOT_READY = "NotReady"
    """At once, as ``kubectl get nodes`` has it; the issue NodesNotReady says the same of several nodes."""
    DELETING = "Deleting"
    VALIDATING = "Validating"
    NO_POOL = "NoPool"
    UPGRADE = "Upgrade"
    OUT_OF_DATE = "OutOfDate"
    """The node lacks what its pool asks for, and nothing else says why."""
    CORDONED = "Cordoned"


class Severity(StrEnum):
    """As those of events: Normal is what someone has asked for, or what waits as it should."""

    WARNING = "Warning"
    NORMAL = "Normal"


class Problem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One thing that is not as it should be with a node.

    ``kind`` is the reason of an issue or a ``NodeProblem``. ``said`` is what is so, ``since`` when it began,
    None where that is not known. ``next`` is what happens without a person, ``to_do`` what a person can do.
    """

    kind: str
    severity: Severity
    said: str
    since: datetime | None = None
    next: tuple[str, ...] = ()
    to_do: tuple[str, ...] = ()

    @property
    def content(self) -> Mapping[str, Any]:
        """The same for programs."""
        since = None if self.since is None else written_moment(self.since)
        lists = {"next": list(self.next), "toDo": list(self.to_do)}
        return {**msgspec.to_builtins(self), "since": since, **lists}


_WORST_FIRST: Final = (
    NodeProblem.NOT_READY,
    NodeProblem.DELETING,
    IssueReason.VALIDATION_TIMED_OUT,
    NodeProblem.VALIDATING,
    IssueReason.WRITE_REFUSED,
    IssueReason.INTOLERANT_PODS,
    IssueReason.STARTUP_TAINT_STAYS,
    IssueReason.CLOUD_TAINT_STAYS,
    IssueReason.MEMORY_PRESSURE,
    IssueReason.UNATTRIBUTED_MEMORY,
    IssueReason.SYSTEMIC_PRESSURE,
    IssueReason.EVICTION_STUCK,
    IssueReason.EVICTION_BLOCKED,
    IssueReason.EVICTION_RECORD_UNREADABLE,
    IssueReason.MEMORY_UNKNOWN,
    IssueReason.DRAIN_BLOCKED,
    IssueReason.SETTLE_TIMED_OUT,
    NodeProblem.NO_POOL,
    NodeProblem.UPGRADE,
    NodeProblem.OUT_OF_DATE,
    IssueReason.NODES_HELD,
    NodeProblem.CORDONED,
)
"""What keeps pods from the node, or harms those on it, comes before what waits. All others follow in the
order of issues, the worst first."""

_RANK: Final = {str(kind): place for place, kind in enumerate(dict.fromkeys((*_WORST_FIRST, *IssueReason)))}


def problems_of(why: Why) -> tuple[Problem, ...]:
    """Return what is not as it should be with the node, the worst first.

    What the node shows goes before what is decided here, and that before what the operator has reported.
    """
    snapshot: Snapshot | None = None
    issues: tuple[Issue, ...] = ()
    if why.judged is not None:
        # A pass of the operator would decide on this for the node alone.
        alone = replace(why.cluster, nodes=(why.node,))
        snapshot = snapshot_of(alone, why.judged.pool, rows=why.rows)
        issues = tuple([each for each in why.judged.pool.status.issues if why.node.name in each.nodes])
    reported = {each.reason: each for each in reversed(issues)}
    own = [
        *_kubelet(why),
        *_deleting(why),
        *_validation(why, snapshot, reported),
        *_cloud_taints(why),
        *_memory(why, reported),
        *_upgrade(why),
        *_hold(why),
        *_cordon(why),
    ]
    judged = [] if snapshot is None else [_of_issue(each, why) for each in _decided(snapshot, why)]
    told = [_of_issue(each, why, by="The operator reports: ") for each in issues]
    known = {each.kind for each in own} | _said_by_the_upgrade(why) | {IssueReason.NODES_NOT_READY}
    judged = [each for each in judged if each.kind not in known]
    known |= {each.kind for each in judged}
    found = [*own, *judged, *(each for each in told if each.kind not in known)]
    if not {each.kind for each in found} & _KEEPS_FROM_WRITING:
        found += _drift(why)
    return tuple(sorted(found, key=lambda each: _place(each, why)))


def _place(problem: Problem, why: Why) -> float:
    # The machine of a node that is handed over restarts: that it is not Ready follows from its upgrade.
    if problem.kind == NodeProblem.NOT_READY and _is_restarting(why):
        return _RANK[NodeProblem.UPGRADE] + 0.5
    return _RANK.get(problem.kind, len(_RANK))


def _is_restarting(why: Why) -> bool:
    progress = why.progress
    return progress is not None and progress.claim.state in (UpgradeState.UPGRADING, UpgradeState.REJOINING)


# What the node shows


def _kubelet(why: Why) -> Iterator[Problem]:
    node = why.node
    if node.ready == "True":
        return
    if node.unready:
        who = "Its kubelet reports" if node.ready == "False" else "The control plane reports"
        said = f"{who} {_clean(node.unready)}"
    else:
        said = f"Its condition Ready is {_clean(node.ready, 16)}, without a reason."
    is_expected = _is_restarting(why)
    yield Problem(
        kind=NodeProblem.NOT_READY,
        severity=Severity.NORMAL if is_expected else Severity.WARNING,
        said=said,
        since=node.ready_since,
        next=("That is expected while its machine is upgraded." if is_expected else _NOT_READY,),
        to_do=() if is_expected else (_REPAIR,),
    )


_NOT_READY: Final = (
    "Kubernetes schedules no pods to it, and evicts most on it after five minutes by default. The operator "
    "repairs no machine."
)
_REPAIR: Final = "Repair what the message names: network, runtime, kubelet or machine. Or replace it."


def _deleting(why: Why) -> Iterator[Problem]:
    if why.node.deleting:
        yield Problem(
            kind=NodeProblem.DELETING,
            severity=Severity.NORMAL,
            said="It is being deleted.",
            next=("It is gone once its finalizers are removed.",),
            to_do=(f"If it stays, see who has to: kubectl get node {why.node.name} -o yaml",),
        )


def _cloud_taints(why: Why) -> Iterator[Problem]:
    node, now = why.node, why.cluster.now
    found = cloud_taints(node)
    if not found or node.ready != "True":
        return
    # A node that is Ready for less may still wait for its turn: no leftover yet.
    is_young = node.ready_since is not None and now < later(node.ready_since, TAINT_SECONDS)
    names = " and ".join(f"{each.key}:{each.effect}" for each in found)
    yield Problem(
        kind=IssueReason.CLOUD_TAINT_STAYS,
        severity=Severity.NORMAL if is_young else Severity.WARNING,
        said=f"The node is Ready and still has {_clean(names)}, which keeps pods away.",
        next=("Only the cloud controller manager removes it; the operator leaves it.",),
        to_do=(
            "Check that the cloud controller manager runs and finds the machine of the node. If the cluster "
            f"has none: {' && '.join(f'kubectl taint nodes {node.name} {each.key}-' for each in found)}",
        ),
    )


_KEEPS_FROM_WRITING: Final = {IssueReason.WRITE_REFUSED, IssueReason.INTOLERANT_PODS, IssueReason.NODES_HELD}
"""These say already why the node is not as the pool asks."""


def _drift(why: Why) -> Iterator[Problem]:
    spec, node = why.spec, why.node
    if spec is None or why.judged is None or why.judged.pool.deleting:
        return
    standing = {each.identity: each.value or "" for each in node.taints}
    lacking = [key for key, value in spec.labels.items() if node.labels.get(key) != value]
    missing = [each for each in spec.taints if standing.get(each.identity) != (each.value or "")]
    lacking += [f"{each.key}:{each.effect}" for each in missing]
    if lacking:
        yield Problem(
            kind=NodeProblem.OUT_OF_DATE,
            severity=Severity.NORMAL,
            said=f"It lacks what its pool asks for: {_clean(listed(lacking))}.",
            next=_by_the_operator(why, "The operator writes it within a second, if it runs."),
        )


def _hold(why: Why) -> Iterator[Problem]:
    node = why.node
    if not is_held(node, now=why.cluster.now):
        return
    end = hold_end(node)
    until = f" until {written_moment(end)}" if end else ""
    yield Problem(
        kind=IssueReason.NODES_HELD,
        severity=Severity.NORMAL,
        said=f"Someone holds it ({HOLD_ANNOTATION}){until}.",
        next=(f"The operator writes nothing to it{until or ' until the annotation is removed'}.",),
        to_do=(f"To end the hold: kubectl annotate node {node.name} {HOLD_ANNOTATION}-",),
    )


def _cordon(why: Why) -> Iterator[Problem]:
    node, record = why.node, record_of(why.node)
    is_upgraded = why.progress is not None or node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
    if not node.unschedulable or is_upgraded or (isinstance(record, Record) and record.unschedulable):
        return
    yield Problem(
        kind=NodeProblem.CORDONED,
        severity=Severity.NORMAL,
        said="It is cordoned.",
        next=("It stays so: the operator uncordons only what it has cordoned itself.",),
        to_do=(f"Once it may have pods again: kubectl uncordon {node.name}",),
    )


# What the operator does


def _by_the_operator(why: Why, doing: str) -> tuple[str, ...]:
    """Return what the operator does, or why it does nothing to the node."""
    spec = why.spec
    if is_held(why.node, now=why.cluster.now):
        return ("The operator does nothing while someone holds the node.",)
    if why.judged is not None and why.judged.refusal:
        return ("The operator does nothing until it can act on the spec of the pool.",)
    if spec is not None and spec.mode is not Mode.ACTIVE:
        return (f"The operator does nothing: the pool has mode {spec.mode}.",)
    return (doing,)


def contract_of(snapshot: Snapshot, node: Node) -> NodeContract | None:
    """Return what the contract finds of ``node``; None where the pool is being deleted, or has no spec."""
    allowed = allowed_actions(snapshot.pool, is_accepted=True)
    return contract(snapshot, divide(snapshot), allowed).nodes.get(node.uid)


def _validation(why: Why, snapshot: Snapshot | None, reported: Mapping[str, Issue]) -> Iterator[Problem]:
    found = None if snapshot is None else contract_of(snapshot, why.node)
    startup = found.startup if found is not None else NO_STARTUP
    if startup is NO_STARTUP or (startup.waits_for == A_LOOK and _TIMED_OUT in reported):
        return  # of a list of pods that is not known here, the operator knows more
    waits = startup.waits_for
    if waits == A_LOOK and why.cluster.pods_problem:
        waits = f"what is not known here: {_clean(why.cluster.pods_problem, 300)}"
    said = f"It is being validated, and waits for {waits}."
    if startup.passed:
        said = "It has passed validation."
    elif startup.timed_out:
        said = f"It did not pass validation in time, because it waits for {waits}."
    yield Problem(
        kind=_TIMED_OUT if startup.timed_out else NodeProblem.VALIDATING,
        severity=Severity.WARNING if startup.timed_out else Severity.NORMAL,
        said=f"{said} Startup taints keep pods away: {_startup_taints(why)}.",
        next=_by_the_operator(why, "The operator removes the startup taints once it has passed."),
        to_do=() if startup.passed else (_UNREADY.format(name=why.node.name),),
    )


_TIMED_OUT: Final = IssueReason.VALIDATION_TIMED_OUT
_UNREADY: Final = (
    "Make the kubelet or the named pods Ready: kubectl get pods -A --field-selector spec.nodeName={name}"
)


def _startup_taints(why: Why) -> str:
    standing = {each.identity for each in why.node.taints}
    asked = () if why.spec is None else why.spec.startup_taints
    found = [f"{each.key}:{each.effect}" for each in asked if each.identity in standing]
    return listed(found) or "not there yet"


def _memory(why: Why, reported: Mapping[str, Issue]) -> Iterator[Problem]:
    node = why.node
    shown = next((each for each in node.conditions if each.type == PRESSURE_CONDITION), None)
    is_tainted = any(each.key == MEMORY_PRESSURE_TAINT for each in node.taints)
    issue = reported.get(IssueReason.MEMORY_PRESSURE)
    if shown is not None and shown.status != "False":
        said = f"Its condition {PRESSURE_CONDITION}, which the operator sets, is {shown.status}: "
        said += f"{_clean(shown.reason, 128)}. {_clean(shown.message)}"
    elif is_tainted:
        said = f"The operator has added the taint {MEMORY_PRESSURE_TAINT}, which keeps new pods away."
    elif issue is not None:
        said = f"The operator reports: {_clean(of_one_node(issue.message))}"
    else:
        return
    yield Problem(
        kind=IssueReason.MEMORY_PRESSURE,
        severity=Severity.WARNING,
        said=said,
        since=shown.since if shown is not None else issue.since if issue is not None else None,
        next=_by_the_operator(why, _about_pressure(why)),
        to_do=(f"Lower the memory of its largest pods, or move them: kubectl winpool memory {node.name}",),
    )


def _about_pressure(why: Why) -> str:
    watched = None if why.spec is None else why.spec.memory_pressure
    if watched is None:
        return "No pool watches its memory any more: the operator removes what it has set."
    if watched.mode is not MemoryMode.EVICT:
        return _BY_MODE[watched.mode]
    intents = read_intents(why.node.annotations.get(MEMORY_ANNOTATION))
    pods = [each.pod or each.uid for each in intents] if isinstance(intents, tuple) else []
    lately = f" Begun lately: {listed([_clean(each, 317) for each in pods])}." if pods else ""
    return f"The operator evicts pods that have grown, one after the other, until the pressure ends.{lately}"


_BY_MODE: Final = {
    MemoryMode.OBSERVE: "The operator only reports it (memoryPressure.mode is Observe).",
    MemoryMode.SIGNAL: "The taint keeps new pods away until the pressure has ended. The operator evicts none "
    "(memoryPressure.mode is Signal).",
}


def _upgrade(why: Why) -> Iterator[Problem]:
    standing, progress = why.standing, why.progress
    if standing is Standing.NOTHING_DUE:
        return
    ink, said = STATES[standing]
    yield Problem(
        kind=NodeProblem.UPGRADE if why.judged is not None else NodeProblem.NO_POOL,
        severity=Severity.WARNING if ink is Ink.BAD else Severity.NORMAL,
        said=said if why.judged is not None else why.place.reason,
        since=progress.claim.since if progress is not None else None,
        next=tuple(next_of(why)),
        to_do=tuple(to_do(why)),
    )


_OF_UPGRADES: Final = frozenset(
    {
        *(IssueReason.UPGRADE_FAILED, IssueReason.OS_VERSION_MISMATCH, IssueReason.OS_REVISION_BEHIND),
        *(IssueReason.NODES_GATED, IssueReason.PERMISSION_UNUSED, IssueReason.UPGRADE_REQUESTED),
    }
)


def _said_by_the_upgrade(why: Why) -> frozenset[str]:
    """Return the issues that the upgrade of the node says itself, in more detail."""
    progress = why.progress
    found = _OF_UPGRADES if progress is not None or why.due is not None else frozenset[IssueReason]()
    if progress is not None and progress.blockers:
        found |= {IssueReason.DRAIN_BLOCKED}
    if progress is not None and progress.waits_for:
        found |= {IssueReason.SETTLE_TIMED_OUT}
    return frozenset(map(str, found))


# What stands in issues


def _decided(snapshot: Snapshot, why: Why) -> Iterator[Issue]:
    """Yield the issues of the node by the rules of the contract, from what is known here.

    Memory and upgrades need what only the running operator knows, or all nodes: they are judged elsewhere.
    So which keys nothing asks for is not known here.
    """
    for each in decide(snapshot, (contract,)).issues:
        if why.node.name in each.issue.nodes and each.issue.reason not in _BY_ALL_FEATURES:
            yield each.issue


_BY_ALL_FEATURES: Final = (IssueReason.KEYS_LEFT_ALONE, IssueReason.OWNERSHIP_RECORD_UNREADABLE)


def _of_issue(issue: Issue, why: Why, *, by: str = "") -> Problem:
    name = why.node.name
    fix = re.sub(rf"\b{NODE}\b", lambda _: name, of_one_node(issue.fix))
    doing = _NEXT.get(issue.reason, "")
    return Problem(
        kind=issue.reason,
        severity=Severity.NORMAL if issue.reason in NORMAL else Severity.WARNING,
        said=f"{by}{_clean(of_one_node(issue.message))}",
        # One that no status has yet begins with this judgement, which says nothing of the node.
        since=issue.since if issue.since < why.cluster.now.replace(microsecond=0) else None,
        next=_by_the_operator(why, doing) if doing else (),
        to_do=(_clean(fix),) if fix else (),
    )


_NEXT: Final[Mapping[str, str]] = {
    IssueReason.INTOLERANT_PODS: "The operator adds the taint once no such pod is on the node.",
    IssueReason.STARTUP_TAINT_STAYS: "The operator leaves the taint.",
    IssueReason.WRITE_REFUSED: "The operator tries again after at most five minutes.",
    IssueReason.BUILD_UNSUPPORTED: "The operator only reports it. No pod is moved for it.",
    IssueReason.SUPPORT_ENDED: "The operator only reports it. No pod is moved for it.",
}


def _clean(text: str, most: int = 1024) -> str:
    """Return what others wrote in one line, printable and cut."""
    return clipped(printable(" ".join(text[: 4 * most].split())), most)
