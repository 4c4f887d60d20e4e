"""Finds the issues of the upgrades of a pool: one for each cause."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from winpool.api.issues import IssueReason
from winpool.api.keys import UPGRADE_REQUESTED_ANNOTATION, UPGRADE_RETRY_ANNOTATION
from winpool.api.text import grouped
from winpool.api.upgrade import Gate, Override, UpgradeState
from winpool.features.feature import Finding
from winpool.features.upgrade.claims import ENDED_BADLY
from winpool.features.upgrade.records import (
    VOLUMES,
    GateFinding,
    NodeStep,
    NodeUpgrade,
    RolloutResult,
    Stop,
    UpgradeOverview,
    at,
    because,
    is_late,
)
from winpool.features.upgrade.slots import lost_nodes
from winpool.model.node import Node
from winpool.model.pool import Surprise, SurpriseKind

CAUSES_KEPT: Final = 5
"""Causes of one gate, or texts of requests, that have an issue of their own: nodes and pods can have any
number, and people act on the gate."""

_WHY: Final = "Run `kubectl winpool why NODE` for each of these nodes."

_SURPRISES: Final = {
    SurpriseKind.REBOOT: (
        IssueReason.SURPRISE_REBOOT,
        "Find out why the machines restarted: a crash, a patch tool, or the cloud. Let a tool that restarts "
        "them wait for the label winpool.dev/upgrade-state=Required, or cordon the nodes first.",
    ),
    SurpriseKind.OS_CHANGE: (
        IssueReason.SURPRISE_OS_CHANGE,
        "Find out what replaced or upgraded the machines. Let it wait for the label "
        "winpool.dev/upgrade-state=Required, or cordon the nodes first.",
    ),
}


def upgrade_findings(
    overview: UpgradeOverview, requested: Mapping[str, str], *, unused: Sequence[str]
) -> Iterator[Finding]:
    """Yield what is to be reported of a pool; ``requested`` are the texts of requests, by node.

    ``unused`` are the names of nodes that keep a permission which no one uses.
    """
    yield from _overrides(overview.in_force, overview.expired)
    if overview.due:
        yield from (_closed(each) for each in overview.closed)
        yield from _gated(overview.due)
    yield from (_paused(each) for each in overview.stops if each.name == "PauseRequested")
    if unused:
        yield _unused(unused)
    yield from _requested(requested)


MOST_PODS: Final = 3
"""As many names of pods as a sentence bears."""

_NUMBER: Final = re.compile(r"(?<![\w./-])\d+(?![\w./-])")

_OF_ROLLOUT: Final = {
    IssueReason.UPGRADE_FAILED: (
        "These nodes stay cordoned, since their upgrade failed.",
        "Repair or replace the machines. To try again: kubectl annotate node NODE "
        f"{UPGRADE_RETRY_ANNOTATION}=.",
    ),
    IssueReason.DRAIN_BLOCKED: (
        "These nodes were not drained in time.",
        "Remove what blocks them: the operator keeps trying. To give them up, add an entry with "
        "nodesInWork: Restore to spec.upgrade.pauseRequests.",
    ),
    IssueReason.SETTLE_TIMED_OUT: (
        "These nodes are upgraded, and within spec.upgrade.settleTimeoutSeconds not all is back.",
        "Make the nodes and these pods Ready, or scale their controllers down.",
    ),
}
"""How the message begins, and the fix."""

_LOST: Final = (
    "These nodes were handed over and deleted, and no machine has taken their place in time. For an hour "
    "they count for spec.upgrade.maxFailedNodes."
)
_BRING: Final = (
    "Find out what became of the machines, and add as many nodes as are missing. If new ones come later than "
    "that, raise spec.upgrade.actuator.external.timeoutSeconds."
)

_DIFFERS: Final = "The rest differs from node to node."


class _Cause(msgspec.Struct):
    """What several nodes may have in common: ``texts`` that differ in numbers, ``nodes`` and ``pods``."""

    texts: set[str] = msgspec.field(default_factory=set)
    nodes: set[str] = msgspec.field(default_factory=set)
    pods: set[str] = msgspec.field(default_factory=set)

    @property
    def said(self) -> str:
        """The first of the texts, with the first of the pods."""
        if not self.pods:
            return min(self.texts)
        more = f" and {len(self.pods) - MOST_PODS} more" if len(self.pods) > MOST_PODS else ""
        return f"{', '.join(sorted(self.pods)[:MOST_PODS])}{more}: {min(self.texts)}"


def rollout_findings(rolled: RolloutResult, *, now: datetime) -> Iterator[Finding]:
    """Yield what people have to do about nodes that the operator upgrades itself.

    Neither pods nor numbers are a cause: a budget that counts one more healthy pod is the same one.
    """
    found: dict[IssueReason, dict[str, _Cause]] = {each: {} for each in _OF_ROLLOUT}
    for name, step in rolled.steps.items():
        for reason, said, pod in _of_step(step, now=now):
            cause = found[reason].setdefault(_NUMBER.sub("N", said), _Cause())
            cause.texts.add(said)
            cause.nodes.add(name)
            cause.pods.update([pod] if pod else ())
    for reason, (begin, fix) in _OF_ROLLOUT.items():
        causes = found[reason]
        nodes = {each: cause.nodes for each, cause in causes.items()}
        for each, names in _bounded(nodes, rest=_DIFFERS):
            said = causes[each].said if each in causes else each
            yield Finding(reason, names, f"{begin} {said}", fix, cause=each)
    if lost := lost_nodes(rolled.slots, now=now):
        yield Finding(IssueReason.UPGRADE_FAILED, lost, _LOST, _BRING, cause=_LOST)


def _sentences(text: str) -> str:
    """Return what keeps a pod, and what to do about it, each as a sentence."""
    return ". ".join(each[:1].upper() + each[1:] for each in text.split("; "))


def _of_step(step: NodeStep, *, now: datetime) -> Iterator[tuple[IssueReason, str, str]]:
    """Yield what a person has to do something about, why, and the pod that keeps the node from it."""
    claim = step.claim
    if claim is not None and step.state == UpgradeState.DRAIN_BLOCKED:
        for each in step.drain.blockers:
            yield IssueReason.DRAIN_BLOCKED, _sentences(each.message), each.pod
        if not step.drain.blockers:
            said = VOLUMES if claim.reason == VOLUMES else "Pods have not left, and no reason is known."
            yield IssueReason.DRAIN_BLOCKED, said, ""
    elif claim is not None and step.state in ENDED_BADLY:
        said = claim.reason.rstrip(".") or "no reason is known"
        yield IssueReason.UPGRADE_FAILED, f"{_sentences(said)}.", ""
    elif is_late(step, now=now):
        yield IssueReason.SETTLE_TIMED_OUT, step.said, ""


def surprise_findings(surprises: Collection[Surprise], nodes: Iterable[Node]) -> Iterator[Finding]:
    """Yield the surprises about ``nodes``, by what has happened."""
    names = {node.uid: node.name for node in nodes}
    for kind, (reason, fix) in _SURPRISES.items():
        ours = (each for each in surprises if each.kind is kind and each.node_uid in names)
        found = grouped((each.said, names[each.node_uid]) for each in ours)
        for said, there in _bounded(found, rest="What changed differs from node to node."):
            yield Finding(reason, there, f"{said} No one had announced it.", fix, cause=said)


def _overrides(in_force: Iterable[Override], expired: Iterable[Override]) -> Iterator[Finding]:
    for each in (*in_force, *expired):
        fix = f"Remove the entry {each.gate} of spec.upgrade.overrides"
        if each in in_force:
            reason, fix = IssueReason.OVERRIDE_IN_FORCE, f"{fix} once it is not needed."
            said = f"An override opens the gate {each.gate} until {at(each.until)}, whatever it finds"
        else:
            reason, fix = IssueReason.OVERRIDE_EXPIRED, f"{fix}, or set a later time in its until."
            said = f"The override of the gate {each.gate} ended at {at(each.until)} and has no effect"
        yield Finding(reason, (), f"{said}{because(each.reason)}", fix, cause=each.gate)


def _closed(gate: GateFinding) -> Finding:
    return Finding(
        IssueReason.GATE_CLOSED,
        (),
        f"Nodes are due for an upgrade, and the gate {gate.gate} is closed. {gate.message}",
        gate.opens,
        cause=gate.gate,
    )


def _gated(due: Iterable[NodeUpgrade]) -> Iterator[Finding]:
    """Yield for each gate that is closed for nodes the causes, and the nodes of each."""
    # All that a node without a state lacks is the first list of pods, which comes.
    closed = [(gate, each.node.name) for each in due if each.state is not None for gate in each.closed]
    causes = grouped((gate.gate, (gate.message, name)) for gate, name in closed)
    fixes = {gate.message: gate.opens for gate, _ in closed}
    for each in (gate for gate in Gate if gate in causes):
        for message, names in _bounded(grouped(causes[each]), rest="Why differs from node to node."):
            yield Finding(
                IssueReason.NODES_GATED,
                names,
                f"The nodes are due for an upgrade, and the gate {each} is closed for them. {message}",
                fixes.get(message, _WHY),
                cause=f"{each}: {message}",
            )


def _paused(stop: Stop) -> Finding:
    return Finding(IssueReason.PAUSE_REQUESTED, (), stop.message, stop.opens)


def _unused(nodes: Sequence[str]) -> Finding:
    return Finding(
        IssueReason.PERMISSION_UNUSED,
        nodes,
        "The nodes may be upgraded, and no one has begun for 30 minutes. All others that may be upgraded had "
        "their turn.",
        "Upgrade the nodes, or start the tool that waits for the label winpool.dev/upgrade-state=Required. "
        "To give the turn to other nodes, hold these: kubectl annotate node NODE winpool.dev/hold=.",
    )


def _requested(requested: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the texts of requests, each with its nodes."""
    texts = grouped((because(text), name) for name, text in requested.items())
    for text, names in _bounded(texts, rest=". The texts differ from node to node."):
        yield Finding(
            IssueReason.UPGRADE_REQUESTED,
            names,
            f"The annotation {UPGRADE_REQUESTED_ANNOTATION} of the nodes requests an upgrade{text}",
            "Upgrade the nodes once their label winpool.dev/upgrade-state is Required. Then remove the "
            f"annotation: kubectl annotate node NODE {UPGRADE_REQUESTED_ANNOTATION}-.",
        )


def _bounded(causes: Mapping[str, Iterable[str]], *, rest: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield the first causes, in the order of their texts, with names in order; the others as ``rest``."""
    ordered = sorted(causes)
    for each in ordered[:CAUSES_KEPT]:
        yield each, sorted(set(causes[each]))
    if others := ordered[CAUSES_KEPT:]:
        yield rest, sorted(set().union(*(causes[each] for each in others)))
