"""Shows what is due on one node, what keeps it, and what opens that: ``kubectl winpool why``."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from winpool.api.keys import (
    HOLD_ANNOTATION,
    KIND,
    MEMORY_PRESSURE_TAINT,
    NAMESPACE,
    OS_LABEL,
    OS_WINDOWS,
    SHORT_NAME,
    UPGRADE_STATE_LABEL,
)
from winpool.api.maintenance import NEVER_OVERRIDDEN
from winpool.api.status import HELD_STATES, SlotState
from winpool.api.text import written_moment
from winpool.api.upgrade import Trigger, UpgradeState
from winpool.cli import gates
from winpool.cli.console import Ink, Look, Paper, write
from winpool.cli.counts import age, listed
from winpool.cli.kubectl import Kubectl
from winpool.cli.parsing import EndError, Exit, add_output, add_settings, node_name
from winpool.cli.rollouts import (
    Progress,
    blocker_content,
    claimed_nodes,
    drain_of,
    next_of_claim,
    progress_content,
    progress_of,
    rollout_claim,
    to_do_for_claim,
    to_do_for_turn,
    waits_for_turn,
    with_evidence,
)
from winpool.cli.upgrades import Cluster, Judged, judged, read_cluster, rows_of_settings, snapshot_of
from winpool.features.upgrade.claims import BEFORE_HAND_OVER, ENDED_BADLY
from winpool.features.upgrade.records import CAPPED
from winpool.model.node import Node, hold_end, is_held
from winpool.ownership.members import Claim, divide

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from winpool.features.upgrade.blockers import Blocker
    from winpool.features.upgrade.capacity import Fit
    from winpool.features.upgrade.records import GateFinding, NodeUpgrade, Stop
    from winpool.model.pods import Workload
    from winpool.model.pool import Pool
    from winpool.support.rows import Row

BLOCKERS_SHOWN: Final = 10
"""Pods that are named. More of them rarely have another cause."""

SUMMARY: Final = "Show what is due on a node, and what keeps it from being upgraded."

DESCRIPTION: Final = """\
Show which pool a node belongs to, which upgrade is due on it and why, which
gates are closed and what opens each, what happens next, and what you can do.
Of a node that the operator upgrades itself, show its state, since when, until
when, what it waits for, and what blocks its pods.

It judges all that itself, from what the API server has now, by the rules of
the operator, and says yes only if the operator leads and says so too. It needs
the rights to list windowsnodepools and nodes, to get the Lease
winpool-system/winpool, and, if the pool has spec.upgrade, to list pods and
poddisruptionbudgets. Of a node that was drained it also lists
volumeattachments, and of one that is back the controllers of pods."""

EXITS: Final = {
    Exit.YES: "nothing is due, or an upgrade is due and the operator permits it or has handed the node over",
    Exit.UNKNOWN: "there is no certain answer: no such node, no pool or no spec.upgrade that judges it, no "
    "operator that says so, it is not known what is due, or the API server cannot be asked",
    Exit.USAGE: "the command line is wrong, or the file of --support-matrix-file cannot be used",
    Exit.NO: "an upgrade is due or not done, and the node must not be upgraded now",
}

EXAMPLES: Final = (
    ("kubectl winpool why akswin000003", "all about one node"),
    (
        "kubectl winpool why node/akswin000003 || exit",
        "in a script: stop unless nothing is due or it is permitted",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what the verb takes on its command line."""
    parser.add_argument("node", type=node_name, metavar="NODE", help="Show this node: NAME or node/NAME.")
    add_output(parser)
    add_settings(parser)


def run(given: argparse.Namespace) -> int:
    """Show it; return the exit code."""
    rows, name = rows_of_settings(given), given.node
    with Kubectl(given.flags) as kubectl:
        cluster = read_cluster(kubectl, lambda seen: pools_of(seen, name), node=name)
        node = cluster.node(name)
        if node is not None and _is_of_rollout(cluster, node):
            cluster = with_evidence(kubectl, cluster, [node])
    why = why_of(cluster, name, rows=rows)
    write(given.output, lambda: as_content(why), lambda look: as_text(why, look=look))
    return why.standing.exit


def _is_of_rollout(cluster: Cluster, node: Node) -> bool:
    """Whether the operator upgrades ``node`` itself, or has begun to."""
    pool = place_of(cluster, node).pool
    block = pool.spec.upgrade if pool is not None and pool.spec is not None else None
    return block is not None and (block.is_ours or rollout_claim(node) is not None)


@dataclass(frozen=True, slots=True)
class Place:
    """The pool that a node belongs to, or None and the reason, with what to do about it."""

    pool: Pool | None = None
    reason: str = ""
    fix: str = ""


def place_of(cluster: Cluster, node: Node) -> Place:
    """Say which pool has ``node``."""
    if node.labels.get(OS_LABEL) != OS_WINDOWS:
        return Place(
            reason=f"The label {OS_LABEL} of the node is not {OS_WINDOWS}: winpool manages no other nodes."
        )
    alone = replace(cluster, nodes=(node,))
    by_claim = {
        member.claim: pool
        for pool in reversed(cluster.pools)  # of two with the same claim the first counts
        for member in divide(snapshot_of(alone, pool)).all
    }
    ours = by_claim.get(Claim.OURS)
    return Place(pool=ours) if ours is not None else _why_none(cluster, node, by_claim)


def _why_none(cluster: Cluster, node: Node, by_claim: Mapping[Claim, Pool]) -> Place:
    if not cluster.pools:
        return Place(
            reason=f"There is no {KIND} in this cluster.", fix=f"Create a {KIND} that selects the node."
        )
    if left := by_claim.get(Claim.LEFT):
        why = "is being deleted" if left.deleting else "does not select it any more"
        return Place(
            reason=f"It still has labels or taints of the pool {left.name}, which {why}. The operator "
            "removes them.",
            fix="Wait until the operator has released the node, and check that it runs: kubectl -n "
            "winpool-system get pods",
        )
    if unknown := by_claim.get(Claim.UNKNOWN):
        return Place(
            reason=f"The pool {unknown.name} selects it, but its ownership record names a pool that does not "
            "exist.",
            fix=f"See the issue OwnerUnknown: kubectl winpool status {unknown.name}",
        )
    return Place(
        reason=f"No {KIND} selects it: its labels do not match spec.nodeSelector of any pool.",
        fix=f"Compare kubectl get node {node.name} --show-labels with spec.nodeSelector in kubectl get "
        f"{SHORT_NAME} -o yaml",
    )


class Standing(Enum):
    """What ``why`` answers. The values are those of its JSON."""

    NO_POOL = "NoPool"
    NOTHING_DUE = "NothingDue"
    NOT_GATED = "NotGated"
    OPEN = "Open"
    IN_WORK = "InWork"
    """Its upgrade has begun."""
    WAITING = "Waiting"
    """Nothing keeps it, and others have the slots."""
    DRAINING = "Draining"
    """The operator is about to drain it, drains it, or has drained it and not handed it over."""
    HANDED_OVER = "HandedOver"
    """It is cordoned, drained, and with whoever upgrades the machine."""
    RETURNING = "Returning"
    """Its machine was upgraded, and it has to show that it is healthy."""
    FAILED = "Failed"
    """The operator has given up to upgrade it, for now."""
    UNCONFIRMED = "Unconfirmed"
    """By what is seen here it would be Open or InWork, and the operator does not say so, or may be down."""
    BLOCKED = "Blocked"
    UNKNOWN = "Unknown"

    @property
    def exit(self) -> Exit:
        """The exit code: YES only where the node may be upgraded, or where surely nothing is due."""
        if self in _MUST_NOT_BE_UPGRADED:
            return Exit.NO
        unanswered = (Standing.NO_POOL, Standing.NOT_GATED, Standing.UNCONFIRMED, Standing.UNKNOWN)
        return Exit.UNKNOWN if self in unanswered else Exit.YES


_MUST_NOT_BE_UPGRADED: Final = frozenset(
    {Standing.BLOCKED, Standing.WAITING, Standing.DRAINING, Standing.RETURNING, Standing.FAILED}
)


def _standing_of(state: UpgradeState) -> Standing:
    """Return what the answer is for a node whose upgrade the operator has begun."""
    if state in ENDED_BADLY:
        return Standing.FAILED
    if state is UpgradeState.UPGRADING:
        return Standing.HANDED_OVER
    return Standing.DRAINING if state in BEFORE_HAND_OVER else Standing.RETURNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """All that is known of one node. ``judged`` is about its pool; None where it has none."""

    node: Node
    place: Place
    cluster: Cluster
    judged: Judged | None = None

    @property
    def due(self) -> NodeUpgrade | None:
        """What is due on the node; None where nothing is, or where it is not known."""
        return self.judged.due(self.node) if self.judged is not None else None

    @property
    def standing(self) -> Standing:
        """What the answer is."""
        judged = self.judged
        if judged is None:
            return Standing.NO_POOL
        overview, due = judged.overview, self.due
        if overview is not None and (claim := rollout_claim(self.node)) is not None:
            return _standing_of(claim.state)
        if overview is None or (due is None and self.node.name in overview.unknown):
            return Standing.UNKNOWN
        if due is None:
            return Standing.NOTHING_DUE
        if not judged.is_gated:
            return Standing.NOT_GATED
        if judged.is_ours:
            return Standing.WAITING if overview.is_open and due.is_open else Standing.BLOCKED
        is_certain = not self.cluster.leader_problem and not any(self.doubts())
        if self.node.name in overview.permitted:
            return Standing.OPEN if is_certain else Standing.UNCONFIRMED
        if due.state is UpgradeState.REQUIRED:
            return Standing.IN_WORK if is_certain else Standing.UNCONFIRMED
        return Standing.WAITING if overview.is_open and due.is_open else Standing.BLOCKED

    @property
    def progress(self) -> Progress | None:
        """How far the upgrade is that the operator makes; None where it has not begun."""
        return progress_of(self.cluster, self.judged, self.node) if self.judged is not None else None

    @property
    def foreseen(self) -> tuple[Blocker, ...]:
        """What would keep the node from being drained, where the operator upgrades it and has not begun."""
        if self.judged is None or self.due is None or rollout_claim(self.node) is not None:
            return ()
        found = drain_of(self.cluster, self.judged, self.node)
        return found.blockers if found is not None else ()

    def doubts(self) -> Iterator[str]:
        """Yield what the operator does not say of an upgrade that nothing here keeps from being permitted."""
        if self.node.labels.get(UPGRADE_STATE_LABEL) != UpgradeState.REQUIRED:
            yield "The node does not have the label: the operator sets it at once, if it runs."
        if self.judged is None or self.judged.overview is None:
            return  # no gate is judged
        if self.judged.allowed is None:
            yield "The condition is not there, or not about the newest spec."
        elif self.node.name in self.judged.overview.permitted and self.judged.allowed != "True":
            yield "The condition is not True."


def why_of(cluster: Cluster, name: str, *, rows: tuple[Row, ...] = ()) -> Why:
    """Return all that is known of the node. Raises EndError where nothing is."""
    node = cluster.node(name) or cluster.stranger
    if node is None:
        unread = next((each for each in cluster.unread if each.startswith(f"node {name}: ")), None)
        said = f'there is no node "{name}" in this cluster: list the nodes with kubectl get nodes'
        raise EndError(said if unread is None else f"the API server has a node that cannot be read: {unread}")
    place = place_of(cluster, node)
    return Why(
        node=node,
        place=place,
        cluster=cluster,
        judged=None if place.pool is None else judged(cluster, place.pool, rows=rows),
    )


def pools_of(cluster: Cluster, name: str) -> Sequence[Pool]:
    """Return the pool of the node, whose pods have to be read too."""
    node = cluster.node(name)
    pool = place_of(cluster, node).pool if node is not None else None
    return () if pool is None else (pool,)


def next_of(why: Why) -> Iterator[str]:
    """Yield what happens without anything that a person does."""
    standing, progress, judged = why.standing, why.progress, why.judged
    if progress is not None and judged is not None and judged.overview is not None:
        yield from next_of_claim(progress, judged)
    elif standing is Standing.NO_POOL:
        yield "Nothing: the operator only removes what a pool has left on the node."
    elif standing is Standing.NOTHING_DUE:
        yield "Nothing happens until the node, or the spec of its pool, changes."
    elif standing is Standing.NOT_GATED:
        yield "Nothing: the operator reports what is due, and a person has to patch or replace the machine."
    elif standing is Standing.OPEN:
        yield (
            "The operator upgrades no node itself (strategy Manual). Any actor that waits for "
            f"{UPGRADE_STATE_LABEL}={UpgradeState.REQUIRED} may upgrade it."
        )
    elif standing is Standing.UNCONFIRMED:
        yield (
            f"The operator permits upgrades by the label {UPGRADE_STATE_LABEL}={UpgradeState.REQUIRED} "
            "of the node and the condition UpgradeAllowed of the pool."
        )
        yield from why.doubts()
    elif standing is Standing.IN_WORK:
        yield "The node has its slot until it is up to date and available."
    elif standing is Standing.WAITING:
        yield from waits_for(why)
    elif judged is not None and judged.is_ours:
        yield (
            "The operator upgrades the node when every gate is open and its turn has come. It checks the "
            "gates again whenever something changes."
        )
        yield from _at_change(why)
    else:
        yield (
            f"The label {UPGRADE_STATE_LABEL} is not {UpgradeState.REQUIRED} until every gate is open. The "
            "operator checks the gates again whenever something changes."
        )
        yield from _at_change(why)


def _at_change(why: Why) -> Iterator[str]:
    if at := changes_at(why):
        yield f"Time alone may change a gate at {written_moment(at)}."


def waits_for(why: Why) -> Iterator[str]:
    """Yield whose turn it is before that of the node."""
    judged = why.judged
    assert judged is not None
    assert judged.overview is not None
    assert judged.plan is not None
    place = next(each.place for each in judged.plan.nodes if each.node == why.node.name)
    held = [each for each in judged.overview.slots if each.state in HELD_STATES]
    yield (
        f"It is number {place} of {len(judged.plan.nodes)} in the plan. spec.upgrade.maxUnavailable permits "
        f"{judged.plan.max_unavailable} at a time, of which {judged.plan.unavailable} are unavailable now."
    )
    if judged.is_ours:
        yield from waits_for_turn(judged, why.node)
        if names := claimed_nodes(judged.overview.slots):
            yield f"In work: {listed(names, most=len(names))}."
        return
    if judged.overview.is_capped:
        yield CAPPED
    for state, said in _SLOTS.items():
        if names := [each.node for each in held if each.state == state]:
            yield f"{said}: {listed(names)}."


_SLOTS: Final = {
    SlotState.RESERVED: "May be upgraded now",
    SlotState.BEGUN: "In work",
    SlotState.GONE: "Gone, and a new machine of that name is waited for",
    SlotState.WITHDRAWN: "The permission was withdrawn less than a minute ago",
}


def changes_at(why: Why) -> datetime | None:
    """Return when time alone may change a closed gate next; None where it changes none."""
    if why.judged is None or why.judged.overview is None or why.due is None:
        return None
    closed = (*why.judged.overview.closed, *why.due.closed)
    return min((each.changes_at for each in closed if each.changes_at is not None), default=None)


_TO_DO: Final = {
    Standing.NOTHING_DUE: "Nothing has to be done.",
    Standing.NOT_GATED: (
        "Replace or patch the machine. To have gates judged before, add spec.upgrade to the pool."
    ),
    Standing.IN_WORK: "Finish the upgrade, and uncordon the node.",
    Standing.WAITING: (
        "Wait, upgrade the nodes before it, or raise spec.upgrade.maxUnavailable. A permission that no one "
        "uses for 30 minutes passes on. To pass it on at once, hold the node that has it."
    ),
    Standing.UNCONFIRMED: (
        f"Ask again in a minute, and check that the operator runs: kubectl -n {NAMESPACE} get pods"
    ),
}


def to_do(why: Why) -> Iterator[str]:
    """Yield what a person can do."""
    judged, due, standing, progress = why.judged, why.due, why.standing, why.progress
    name = judged.pool.name if judged is not None else ""
    if progress is not None and judged is not None and judged.overview is not None:
        yield from to_do_for_claim(why.node.name, name, progress)
        return
    if standing is Standing.NO_POOL:
        yield why.place.fix or "Nothing has to be done."
    elif standing is Standing.WAITING and judged is not None and judged.is_ours:
        yield from to_do_for_turn(judged, why.node, why.foreseen)
    elif standing in _TO_DO:
        yield _TO_DO[standing]
    elif standing is Standing.OPEN:
        yield (
            f"Check the condition UpgradeAllowed again just before: kubectl get wnp {name} -o yaml. Then "
            "drain the node, and patch or replace the machine."
        )
    elif standing is Standing.UNKNOWN:
        yield f"See the issues of the pool: kubectl winpool status {name}"
    elif judged is not None and judged.overview is not None and due is not None:
        yield "Do what opens each closed gate, as written above."
        closed = [each.gate for each in (*judged.overview.closed, *due.closed)]
        if closed := [each for each in closed if each not in NEVER_OVERRIDDEN]:
            yield f"In an emergency, open {' and '.join(closed)} until a date by spec.upgrade.overrides."
        yield f"See what the whole pool waits for: kubectl winpool plan {name}"
    if due is not None and any(each.trigger is Trigger.OS_REVISION for each in due.due):
        yield "If Windows is patched already, restart the kubelet: it reports the revision of its own start."


def as_content(why: Why) -> Mapping[str, Any]:
    """Return all about the node, for programs."""
    judged, due = why.judged, why.due
    overview = judged.overview if judged is not None else None
    return {
        "node": why.node.name,
        "pool": judged.pool.name if judged is not None else None,
        **({} if judged is not None else {"noPool": why.place.reason}),
        **({"refusal": judged.refusal} if judged is not None and judged.refusal else {}),
        "kernelVersion": why.node.versions.kernel,
        "target": overview.target if overview is not None else "",
        "upgradeState": why.node.labels.get(UPGRADE_STATE_LABEL),
        "standing": why.standing.value,
        "blocked": why.standing.exit is not Exit.YES,
        "due": list(map(gates.due_content, due.due)) if due is not None else [],
        "stops": [{**asdict(stop), "of": of} for of, stops, _ in _levels(why) for stop in stops],
        "gates": [{**gates.gate_content(gate), "of": of} for of, _, found in _levels(why) for gate in found],
        **({"rollout": progress_content(progress)} if (progress := why.progress) is not None else {}),
        **({"blockers": [blocker_content(each) for each in why.foreseen]} if why.foreseen else {}),
        **({"unknown": list(why.cluster.evidence.problems)} if why.cluster.evidence.problems else {}),
        **({"changesAt": written_moment(at)} if (at := changes_at(why)) is not None else {}),
        "next": list(next_of(why)),
        "toDo": list(to_do(why)),
        **({"operatorProblem": why.cluster.leader_problem} if why.cluster.leader_problem else {}),
        **({"podsProblem": why.cluster.pods_problem} if why.cluster.pods_problem else {}),
    }


_ABOUT: Final = {"Pool": "the pool", "Node": "this node"}


def _levels(why: Why) -> Iterator[tuple[str, tuple[Stop, ...], tuple[GateFinding, ...]]]:
    """Yield stops and gates of the pool, and those of the node; none where no gate is judged for it."""
    judged, due = why.judged, why.due
    if judged is None or judged.overview is None or not judged.is_gated or due is None:
        return
    yield "Pool", judged.overview.stops, judged.overview.gates
    yield "Node", due.stops, due.gates


_STATES: Final = {
    Standing.NO_POOL: (Ink.BUSY, "No pool has the node, so winpool knows nothing of its upgrades."),
    Standing.NOTHING_DUE: (Ink.GOOD, "Nothing is due."),
    Standing.NOT_GATED: (Ink.BUSY, "An upgrade is due. No gate is judged: the pool has no spec.upgrade."),
    Standing.OPEN: (Ink.GOOD, "An upgrade is due, and all gates are open: the node may be upgraded now."),
    Standing.IN_WORK: (Ink.BUSY, "The upgrade has begun, and the node keeps its permission."),
    Standing.WAITING: (
        Ink.BUSY,
        "An upgrade is due, and the node waits for its turn: it must not be upgraded now.",
    ),
    Standing.DRAINING: (Ink.BUSY, "The operator drains the node: its machine must not be upgraded yet."),
    Standing.HANDED_OVER: (
        Ink.GOOD,
        "The node is cordoned, drained and handed over: its machine may be patched or replaced now.",
    ),
    Standing.RETURNING: (
        Ink.BUSY,
        "The machine was upgraded, and the node has to show that it is healthy. Do not upgrade it again.",
    ),
    Standing.FAILED: (Ink.BAD, "The upgrade of the node has failed, and the node stays cordoned."),
    Standing.UNCONFIRMED: (
        Ink.BAD,
        "An upgrade is due. It is not certain that the operator permits it: do not upgrade the node now.",
    ),
    Standing.BLOCKED: (Ink.BAD, "An upgrade is due, and the node must not be upgraded now."),
    Standing.UNKNOWN: (Ink.BAD, "It is not known whether an upgrade is due: do not upgrade the node now."),
}


def as_text(why: Why, *, look: Look) -> str:
    """Return all about the node for a terminal of that look."""
    paper = Paper(look)
    _write_head(paper, why)
    _write_node(paper, why)
    if why.due is not None:
        paper.heading("Due:")
        for reason in why.due.due:
            paper.marked(f"{reason.trigger}: {gates.clipped(reason.said)}", ink=Ink.BUSY)
    _write_rollout(paper, why)
    if why.progress is None:
        _write_gates(paper, why)
    paper.heading("Next:")
    paper.bullets(next_of(why))
    paper.heading("What you can do:")
    paper.bullets(to_do(why))
    return paper.text


def _write_head(paper: Paper, why: Why) -> None:
    node, judged = why.node, why.judged
    paper.titled("Node", node.name)
    if judged is None:
        paper.titled("Pool", f"none. {why.place.reason}")
    else:
        paper.titled("Pool", judged.pool.name)
        target = f"; the pool asks for {judged.overview.target}" if judged.overview is not None else ""
        paper.titled("Runs", f"Windows {node.versions.kernel or 'unknown'}{target}")
    if why.cluster.leader_problem:
        paper.titled("Leader", why.cluster.leader_problem, ink=Ink.BAD)
    ink, said = _STATES[why.standing]
    paper.titled("State", said, ink=ink)
    if label := node.labels.get(UPGRADE_STATE_LABEL):
        paper.titled("Label", f"{UPGRADE_STATE_LABEL}={gates.clipped(label, 63)}")
    if judged is not None and judged.refusal:
        paper.wrapped(
            f"The operator does not act on the spec of the pool: {gates.clipped(judged.refusal)}",
            first=" " * paper.title_width,
        )


def _write_rollout(paper: Paper, why: Why) -> None:
    """Write how far the operator is with the node, and what blocks its pods, or would."""
    progress, now = why.progress, why.cluster.now
    if progress is not None:
        claim = progress.claim
        paper.heading(f"Upgrade: {claim.state}")
        since = f"since {written_moment(claim.since)} ({age(claim.since, now=now)})"
        until = f", until {written_moment(claim.deadline)}" if claim.deadline is not None else ""
        paper.bullets([f"{since}{until}"])
        if progress.waits_for:
            paper.bullets([f"Waits for: {gates.clipped(progress.waits_for)}"])
    blockers = why.foreseen if progress is None else progress.blockers
    if blockers:
        paper.heading("What blocks its pods:" if progress is not None else "What would block its pods:")
    for each in blockers[:BLOCKERS_SHOWN]:
        lasting = ", until someone changes it" if each.is_permanent else ""
        paper.marked(f"{each.pod}: {each.why}{lasting}", ink=Ink.BAD)
        paper.wrapped(gates.clipped(each.message), first="    ")
    if more := len(blockers) - BLOCKERS_SHOWN:
        paper.bullets([f"and {more} more: -o json has all"] if more > 0 else [])
    paper.bullets(f"Not known: {gates.clipped(each)}" for each in why.cluster.evidence.problems)


def _write_gates(paper: Paper, why: Why) -> None:
    levels = list(_levels(why))
    if why.judged is None or not levels:
        return
    count = sum(len(stops) + sum(not each.permits for each in found) for _, stops, found in levels)
    paper.heading(f"Closed: {count}" if count else "Closed gates: none")
    for of, stops, found in levels:
        gates.write_closed(paper, [each for each in found if not each.permits], stops, of=_ABOUT[of])
    paper.heading("Open:")
    for of, _, found in levels:
        gates.write_open(paper, [each for each in found if each.permits], of=_ABOUT[of])
    paper.bullets(gates.notes(why.cluster, why.judged))


def _write_node(paper: Paper, why: Why) -> None:
    """Write what is special about the node: a hold, a cordon, memory pressure, its issues, its pods."""
    if lines := list(_about_node(why)):
        paper.heading("About the node:")
        paper.bullets(lines)


def _about_node(why: Why) -> Iterator[str]:
    node, due = why.node, why.due
    if is_held(node, now=why.cluster.now):
        end = hold_end(node)
        yield f"Someone holds it ({HOLD_ANNOTATION})" + (f" until {written_moment(end)}." if end else ".")
    if node.deleting:
        yield "It is being deleted."
    if node.ready != "True":
        yield f"It is not Ready: its condition Ready is {gates.clipped(node.ready, 16)}."
    if node.unschedulable:
        yield "It is cordoned."
    if any(each.key == MEMORY_PRESSURE_TAINT for each in node.taints):
        yield f"It is under memory pressure: kubectl winpool memory {node.name}"
    if why.judged is not None:
        for issue in why.judged.pool.status.issues:
            if node.name in issue.nodes:
                yield f"Issue {issue.reason}: {issue.message} {issue.fix}"
    if due is not None and due.workload is not None:
        yield f"Pods: {'; '.join(_pods(due.workload, due.fit))}."


def _pods(workload: Workload, fit: Fit | None) -> Iterator[str]:
    """Yield how many pods move, which of them are lost or fit nowhere, and what blocks them."""
    if not workload.is_complete:
        yield "not all could be read"
    yield f"{workload.moving_pods or 'none'} to move"
    yield from gates.lost(workload)
    if workload.blocked:
        yield f"{workload.blocked} cannot be evicted now: {gates.blocked(workload)}"
    if workload.longest_grace:
        yield f"longest grace {workload.longest_grace} s"
    if fit is not None:
        yield from gates.misfits(fit)
