"""Says how far the upgrade of a node is that the operator makes itself: for ``why`` and ``rollout status``.

The state and its times are on the node. What the node waits for, the operator publishes in short. So the
plugin reads what it depends on with the rights of the person, and judges it by the functions of the operator.
What admission webhooks answer only the operator knows: the issues of the pool have it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from winpool.api.keys import HOLD_ANNOTATION, UPGRADE_DONE_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION
from winpool.api.status import Slot, SlotState
from winpool.api.text import grouped, written_moment
from winpool.api.upgrade import OnTimeout, Strategy, Trigger, Upgrade, UpgradeState
from winpool.cli.counts import counted, listed
from winpool.cli.kubectl import Kubectl, NotAskedError, decoded, known
from winpool.cli.upgrades import Cluster, Evidence, Judged, read_budgets
from winpool.features.upgrade.claims import BEFORE_HAND_OVER, ENDED_BADLY, Claim, claim_of, veto_of
from winpool.features.upgrade.drain import (
    NEVER_FORCED,
    STUCK,
    Blocker,
    DrainProgress,
    DrainView,
    drain,
    preflight,
)
from winpool.features.upgrade.records import VOLUMES, NodeStep
from winpool.kube.listers import ATTACHMENTS, LISTINGS
from winpool.kube.pods import decode_pod_page, node_request
from winpool.model.node import Node, is_held
from winpool.model.node_pods import NodePods
from winpool.model.pods import BlockedBy
from winpool.model.rollout import FORCE_WAITS_SECONDS, Attachments, KnownRollout, Workloads, mark_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from winpool.features.upgrade.drain import Blocker
    from winpool.model.budgets import BudgetIndex


_CORDONED: Final = BEFORE_HAND_OVER - {UpgradeState.CLAIMED}
_OF_PODS: Final = BEFORE_HAND_OVER | {UpgradeState.VALIDATING}
"""States that the pods of the node decide on."""


def rollout_claim(node: Node) -> Claim | None:
    """Return how far the upgrade of ``node`` is; None where the operator has not begun or ended it.

    One that has failed and that someone asks to try again waits like others that are due.
    """
    found = claim_of(node)
    return found if isinstance(found, Claim) and not found.is_retried else None


# What is read


def with_evidence(kubectl: Kubectl, cluster: Cluster, nodes: Sequence[Node]) -> Cluster:
    """Return ``cluster`` with what the upgrades of these nodes depend on now, or why it is not known.

    Of a node without a claim, and of one that is drained or validated, these are its pods with their budgets;
    of one that is drained the volumes; of one that soaks the controllers of pods.
    """
    claims = {node.name: rollout_claim(node) for node in nodes}
    of_pods = [node for node in nodes if (each := claims[node.name]) is None or each.state in _OF_PODS]
    states = {each.state for each in claims.values() if each is not None}
    volumes = UpgradeState.DRAINED in states or any(
        each and each.reason == VOLUMES for each in claims.values()
    )
    soaks = UpgradeState.SOAKING in states
    pods, no_pods = known(partial(_pods, kubectl, of_pods)) if of_pods else ({}, "")
    attachments, no_volumes = known(partial(_attachments, kubectl)) if volumes else (None, "")
    workloads, no_workloads = known(partial(_workloads, kubectl)) if soaks else (None, "")
    problems = dict.fromkeys(filter(None, (no_pods, no_volumes, no_workloads)))
    found = Evidence(pods or {}, KnownRollout(workloads, attachments), tuple(problems))
    return dataclasses.replace(cluster, evidence=found, now=datetime.now(UTC))


def _pods(kubectl: Kubectl, nodes: Sequence[Node]) -> Mapping[str, NodePods]:
    """Return the pods of each node, with what their budgets allow. Raises NotAskedError."""
    started = datetime.now(UTC)
    calls = {node.uid: kubectl.begin(partial(kubectl.get, node_request(node.name).path)) for node in nodes}
    answers = {uid: call.result() for uid, call in calls.items()}
    budgets, problem = read_budgets(kubectl)
    if budgets is None:
        raise NotAskedError(problem)
    return {uid: _node_pods(answer, budgets, started) for uid, answer in answers.items()}


def _node_pods(answer: bytes, budgets: BudgetIndex, started: datetime) -> NodePods:
    page = decoded(partial(decode_pod_page, for_eviction=True), answer)
    if page.unreadable:
        raise NotAskedError(f"a pod cannot be read: {page.unreadable[0]}")
    rooms = {pod.uid: found for pod in page.pods if (found := budgets.rooms_of(pod))}
    blocks = {pod.uid: block for pod in page.pods if (block := budgets.block_of(pod)) is not None}
    unread = frozenset(uid for uid, each in blocks.items() if each.why is BlockedBy.UNREADABLE)
    return NodePods(started, 0.0, page.pods, frozenset(blocks), unread, 0.0, rooms, 0.0)


def _attachments(kubectl: Kubectl) -> Attachments:
    started = datetime.now(UTC)
    listed_now = kubectl.objects(ATTACHMENTS.collection, ATTACHMENTS.decode)
    found = grouped((each.node, each.volume) for each in listed_now)
    return Attachments(started, 0.0, {node: tuple(sorted(each)) for node, each in found.items()})


def _workloads(kubectl: Kubectl) -> Workloads:
    started = datetime.now(UTC)
    calls = [kubectl.begin(partial(kubectl.objects, each.collection, each.decode)) for each in LISTINGS]
    found = {mark_of(each.uid): each for call in calls for each in call.result()}
    return Workloads(started, 0.0, found, {each.title: mark for mark, each in found.items()})


# What it says


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the upgrade of a node is.

    ``waits_for`` is a sentence; empty where nothing more than its state is known. ``blockers`` keep pods on
    the node. ``step`` is what the operator does next, None where it is not known. ``stands``: a hold, the
    veto of a vendor or the mode of the pool keeps the operator from doing anything.
    """

    claim: Claim
    waits_for: str = ""
    blockers: tuple[Blocker, ...] = ()
    step: NodeStep | None = None
    stands: bool = False


def progress_of(cluster: Cluster, judged: Judged, node: Node) -> Progress | None:
    """Return how far the upgrade of ``node`` is; None where the operator has not begun it."""
    claim = rollout_claim(node)
    if claim is None:
        return None
    overview = judged.overview
    step = overview.rollout.steps.get(node.name) if overview is not None and overview.rollout else None
    if claim.state in ENDED_BADLY:
        return Progress(claim=claim, waits_for=f"A person: {claim.reason}.", step=step)
    said = step.said if step is not None else ""
    is_given_up = step is not None and step.claim is None and claim.state in BEFORE_HAND_OVER
    stops = {each.name for each in overview.stops} if overview is not None else set()
    is_vetoed = claim.state in BEFORE_HAND_OVER and bool(veto_of(node))
    is_paused = not stops.isdisjoint({"PausedBySpec", "DryRun"})
    stands = is_held(node, now=cluster.now) or is_vetoed or is_paused
    if is_given_up or stands:
        return Progress(claim=claim, waits_for=said, step=step, stands=stands)
    if claim.state is UpgradeState.CLAIMED:
        return Progress(claim=claim, waits_for="The operator, which is about to cordon it.", step=step)
    if claim.state in _CORDONED and claim.reason != VOLUMES:
        drained = drain_of(cluster, judged, node)
        if drained is not None and (drained.leaving or claim.state is not UpgradeState.DRAINED):
            said = _leaving(drained)
            return Progress(claim=claim, waits_for=said, blockers=drained.blockers, step=step)
    is_known = claim.state in _KNOWN_BY_THE_NODE or _has_evidence(cluster, node, claim)
    return Progress(claim=claim, waits_for=said if is_known else "", step=step)


def _has_evidence(cluster: Cluster, node: Node, claim: Claim) -> bool:
    """Whether all was read that the state depends on."""
    facts = cluster.evidence.facts
    if claim.state is UpgradeState.SOAKING:
        return facts.workloads is not None
    if node.uid not in cluster.evidence.pods:
        return False
    return facts.attachments is not None or claim.state not in _CORDONED


_KNOWN_BY_THE_NODE: Final = frozenset({UpgradeState.UPGRADING, UpgradeState.REJOINING})


def drain_of(cluster: Cluster, judged: Judged, node: Node) -> DrainProgress | None:
    """Return how far the drain of ``node`` is, by its pods as they are now; None where they are not known.

    Of a node without a claim it has what would keep it from being drained.
    """
    pods, spec = cluster.evidence.pods.get(node.uid), judged.pool.spec
    if pods is None or spec is None or spec.upgrade is None:
        return None
    claim = rollout_claim(node)
    cordoned = claim.cordoned_at if claim is not None else None
    view = DrainView(node, cordoned or cluster.now, pods, {}, cluster.now, 0.0)
    found = drain(view, spec.upgrade.drain)
    return found if cordoned else replace(found, blockers=preflight(view, spec.upgrade.drain))


def _leaving(found: DrainProgress) -> str:
    if not found.leaving:
        return "No pod is left that has to leave."
    names = listed([pod.full_name for pod in found.leaving])
    blocked = {each.pod for each in found.blockers}
    some = "" if len(blocked) == len(found.leaving) else f"{len(blocked)} of them "
    said = f", {some}blocked" if blocked else ""
    return f"{counted(len(found.leaving), 'pod')} to leave{said}: {names}."


def next_of_claim(progress: Progress, judged: Judged) -> Iterator[str]:
    """Yield what the operator does without anything that a person does."""
    claim, step = progress.claim, progress.step
    if progress.stands:
        yield "Nothing until someone ends that. Its deadline does not wait."
        return
    if step is not None and step.claim is None and claim.state in BEFORE_HAND_OVER:
        yield f"The operator gives the node up, and makes it schedulable again: {step.said}"
        return
    if step is not None and step.claim is not None and step.claim.state is not claim.state:
        yield f"The operator makes it {step.claim.state}: {step.said}"
    spec = judged.pool.spec
    block = spec.upgrade if spec is not None else None
    if claim.state is UpgradeState.DRAINING and block is not None:
        yield _ON_TIMEOUT[block.drain.on_timeout].format(at=_at(claim.deadline))
        yield from _not_forced(progress, block)
    elif claim.state is UpgradeState.DRAIN_BLOCKED and claim.reason != VOLUMES and block and block.forces:
        yield _FORCES
        yield from _not_forced(progress, block)
    elif claim.state in ENDED_BADLY:
        again = f"The operator tries again by itself at {_at(claim.retry_at)}."
        never = "The operator does nothing until someone asks it to try again."
        yield never if claim.retry_at is None else again
    else:
        yield _NEXT[claim.state].format(at=_at(claim.deadline))


_ON_TIMEOUT: Final = {
    OnTimeout.WAIT: "At {at} it counts as blocked; the operator continues to evict (onTimeout: Wait).",
    OnTimeout.RESTORE: "At {at} it is uncordoned, and others are upgraded first (onTimeout: Restore).",
    OnTimeout.QUARANTINE: "At {at} its upgrade fails, and it stays cordoned (onTimeout: Quarantine).",
    OnTimeout.FORCE: "At {at} the pods that are left are deleted (onTimeout: Force).",
}

_FORCES: Final = (
    "The operator deletes the pods that are left, each with its own grace period (onTimeout: Force). After a "
    f"start of its own, a pause or a hold it waits {FORCE_WAITS_SECONDS // 60} minutes."
)


def _not_forced(progress: Progress, block: Upgrade) -> Iterator[str]:
    """Yield which pods stay although others are deleted by force."""
    kept = [each for each in progress.blockers if each.why in NEVER_FORCED | STUCK]
    if block.forces and kept:
        names = listed([f"{each.pod} ({each.why})" for each in kept])
        yield f"It does not delete what that would not end: {names}."


_NEXT: Final = {
    UpgradeState.CLAIMED: (
        "The operator lists the pods of the node, and cordons it if every gate is still open. At {at} it "
        "gives the node up."
    ),
    UpgradeState.DRAIN_BLOCKED: "The operator continues to evict. No further time ends that.",
    UpgradeState.DRAINED: (
        "The operator hands the node over once its volumes are detached. At {at} it counts as blocked."
    ),
    UpgradeState.UPGRADING: (
        "The operator waits for a restart of the machine, another machine, or the annotation "
        f"{UPGRADE_DONE_ANNOTATION}. At {{at}} the upgrade has failed."
    ),
    UpgradeState.REJOINING: (
        "The operator waits until the node is Ready at its target. At {at} the upgrade has failed."
    ),
    UpgradeState.VALIDATING: (
        "The operator uncordons the node once it has passed validation. At {at} the upgrade has failed."
    ),
    UpgradeState.SOAKING: (
        "The next node follows once this one was healthy until {at}, and what was evicted is Ready again."
    ),
}


def _at(moment: datetime | None) -> str:
    return "no set time" if moment is None else written_moment(moment)


def to_do_for_claim(node: str, pool: str, progress: Progress) -> Iterator[str]:
    """Yield what a person can do about a node whose upgrade the operator has begun."""
    claim = progress.claim
    if progress.blockers:
        yield "Remove what blocks its pods, as written above."
    if claim.state in BEFORE_HAND_OVER:
        yield (
            "To give up this and all other nodes that are not handed over, and uncordon them: kubectl "
            f"winpool rollout abort {pool}"
        )
        yield f"To stop here, and leave the node as it is: kubectl annotate node {node} {HOLD_ANNOTATION}="
    elif claim.state is UpgradeState.UPGRADING:
        yield "Patch or replace the machine, and restart it: the operator sees the restart."
        yield (
            "If it needs no restart, restart the kubelet, which reports the revision of its own start, and "
            f"say that it is done: kubectl annotate node {node} {UPGRADE_DONE_ANNOTATION}={claim.claim}"
        )
    elif claim.state is UpgradeState.REJOINING:
        yield "If Windows is patched already, restart the kubelet: it reports the revision of its own start."
    elif claim.state is UpgradeState.VALIDATING:
        yield f"See its pods: kubectl get pods -A --field-selector spec.nodeName={node}"
    elif claim.state is UpgradeState.SOAKING:
        yield "Wait, or repair the workloads that are named above."
    else:
        yield f"Repair or replace the machine. Then: kubectl winpool rollout retry {node}"


def waits_for_turn(judged: Judged, node: Node) -> Iterator[str]:
    """Yield why the operator upgrades other nodes first, where no gate keeps this one."""
    overview = judged.overview
    if lacks_request(judged, node):
        yield (
            "The strategy is OnRequest: the operator upgrades nodes with the annotation "
            f"{UPGRADE_REQUESTED_ANNOTATION} alone."
        )
        return
    slots = overview.slots if overview is not None else ()
    own = next((each for each in slots if each.node == node.name), None)
    if own is not None and own.state == SlotState.RESERVED:
        yield "It is the next: the operator reserves a slot for it, lists its pods, and claims it."
    elif own is not None and own.state == SlotState.UNUSED:
        yield (
            "Its pods could not be drained when its turn came, so that others are upgraded first until "
            f"{_at(own.deadline)}."
        )
    elif overview is not None and overview.rollout is not None and overview.rollout.said:
        yield overview.rollout.said
    claim = claim_of(node)
    if isinstance(claim, Claim) and claim.is_retried:
        yield f"Someone asked to try again, after: {claim.reason}."


def lacks_request(judged: Judged, node: Node) -> bool:
    """Whether the operator upgrades only nodes with a request, and this one has none."""
    spec, due = judged.pool.spec, judged.due(node)
    if spec is None or spec.upgrade is None or spec.upgrade.strategy is not Strategy.ON_REQUEST:
        return False
    return due is not None and all(each.trigger is not Trigger.REQUEST for each in due.due)


def to_do_for_turn(judged: Judged, node: Node, foreseen: Sequence[Blocker]) -> Iterator[str]:
    """Yield what a person can do for a node that only waits for its turn."""
    if lacks_request(judged, node):
        yield f"To request its upgrade: kubectl annotate node {node.name} {UPGRADE_REQUESTED_ANNOTATION}=."
        return
    yield "Wait, or raise spec.upgrade.maxUnavailable."
    if any(each.is_permanent for each in foreseen):
        yield "Remove what would block its pods, as written above."


def claimed_nodes(slots: Sequence[Slot]) -> Sequence[str]:
    """Name the nodes that the operator upgrades now, each with the state of its slot."""
    return [f"{each.node} ({each.state})" for each in slots if each.state not in _NOT_CLAIMED]


_NOT_CLAIMED: Final = frozenset(SlotState) - {SlotState.GONE}


def progress_content(progress: Progress) -> Mapping[str, Any]:
    """Return how far a node is, for programs."""
    claim = progress.claim
    return {
        "claim": claim.claim,
        "target": f"{claim.target.version}" + (f".{claim.target.revision}" if claim.target.revision else ""),
        "state": str(claim.state),
        "since": written_moment(claim.since),
        "deadline": None if claim.deadline is None else written_moment(claim.deadline),
        "retryAt": None if claim.retry_at is None else written_moment(claim.retry_at),
        "waitsFor": progress.waits_for,
        "blockers": list(map(blocker_content, progress.blockers)),
    }


def blocker_content(blocker: Blocker) -> Mapping[str, Any]:
    """Return what keeps a pod on a node, for programs."""
    return {
        "pod": blocker.pod,
        "reason": str(blocker.why),
        "message": blocker.message,
        "permanent": blocker.is_permanent,
    }
