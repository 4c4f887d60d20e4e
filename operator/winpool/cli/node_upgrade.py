"""Says which pool has a node, whether the node may be upgraded now, what happens next, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from winpool.api.keys import KIND, NAMESPACE, OS_LABEL, OS_WINDOWS, SHORT_NAME, UPGRADE_STATE_LABEL
from winpool.api.status import HELD_STATES, SlotState
from winpool.api.text import written_moment
from winpool.api.upgrade import NEVER_OVERRIDDEN, Trigger, UpgradeState
from winpool.cli.console import Ink
from winpool.cli.counts import listed
from winpool.cli.parsing import Exit
from winpool.cli.rollouts import (
    Progress,
    claimed_nodes,
    drain_of,
    next_of_claim,
    progress_of,
    rollout_claim,
    to_do_for_claim,
    to_do_for_turn,
    waits_for_turn,
)
from winpool.cli.upgrades import Cluster, Judged, snapshot_of
from winpool.features.upgrade.claims import BEFORE_HAND_OVER, ENDED_BADLY
from winpool.features.upgrade.records import CAPPED, GateFinding, NodeUpgrade, Stop
from winpool.ownership.members import Claim, divide

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    from winpool.api.spec import WindowsNodePoolSpec
    from winpool.features.upgrade.drain import Blocker
    from winpool.model.node import Node
    from winpool.model.pool import Pool
    from winpool.support.rows import Row


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
        return _EXITS.get(self, Exit.YES)


_EXITS: Final = {
    **dict.fromkeys((Standing.BLOCKED, Standing.WAITING, Standing.DRAINING), Exit.NO),
    **dict.fromkeys((Standing.RETURNING, Standing.FAILED), Exit.NO),
    **dict.fromkeys((Standing.NO_POOL, Standing.NOT_GATED), Exit.UNKNOWN),
    **dict.fromkeys((Standing.UNCONFIRMED, Standing.UNKNOWN), Exit.UNKNOWN),
}


def _standing_of(state: UpgradeState) -> Standing:
    """Return what the answer is for a node whose upgrade the operator has begun."""
    if state in ENDED_BADLY:
        return Standing.FAILED
    if state is UpgradeState.UPGRADING:
        return Standing.HANDED_OVER
    return Standing.DRAINING if state in BEFORE_HAND_OVER else Standing.RETURNING


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """All that is known of one node.

    ``judged`` is about its pool; None where it has none. ``rows`` are those of ``--support-matrix-file``.
    """

    node: Node
    place: Place
    cluster: Cluster
    judged: Judged | None = None
    rows: tuple[Row, ...] = ()

    @property
    def spec(self) -> WindowsNodePoolSpec | None:
        """The spec of its pool; None where it has no pool, or the spec cannot be read."""
        return self.judged.pool.spec if self.judged is not None else None

    @property
    def due(self) -> NodeUpgrade | None:
        """What is due on the node; None where nothing is, or where it is not known."""
        return self.judged.due(self.node) if self.judged is not None else None

    @property
    def standing(self) -> Standing:
        """What the answer is."""
        judged, due = self.judged, self.due
        if judged is None:
            return Standing.NO_POOL
        overview = judged.overview
        if overview is not None and (claim := rollout_claim(self.node)) is not None:
            return _standing_of(claim.state)
        if overview is None or (due is None and self.node.name in overview.unknown):
            return Standing.UNKNOWN
        if due is None:
            return Standing.NOTHING_DUE
        if not judged.is_gated:
            return Standing.NOT_GATED
        is_permitted = self.node.name in overview.permitted
        if not judged.is_ours and (is_permitted or due.state is UpgradeState.REQUIRED):
            if self.cluster.leader_problem or any(self.doubts()):
                return Standing.UNCONFIRMED
            return Standing.OPEN if is_permitted else Standing.IN_WORK
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


def next_of(why: Why) -> Iterator[str]:
    """Yield what happens without anything that a person does."""
    standing, progress, judged = why.standing, why.progress, why.judged
    if progress is not None and judged is not None and judged.overview is not None:
        yield from next_of_claim(progress, judged)
    elif standing is Standing.WAITING:
        yield from waits_for(why)
    elif standing in _NEXT:
        yield _NEXT[standing]
        if standing is Standing.UNCONFIRMED:
            yield from why.doubts()
    else:
        is_ours = judged is not None and judged.is_ours
        yield f"{_AT_ITS_TURN if is_ours else _AT_THE_LABEL} gates again whenever something changes."
        if at := changes_at(why):
            yield f"Time alone may change a gate at {written_moment(at)}."


_AT_ITS_TURN: Final = (
    "The operator upgrades the node when every gate is open and its turn has come. It checks the"
)
_AT_THE_LABEL: Final = (
    f"The label {UPGRADE_STATE_LABEL} is not {UpgradeState.REQUIRED} until every gate is open. The operator "
    "checks the"
)
_NEXT: Final = {
    Standing.NO_POOL: "Nothing: the operator only removes what a pool has left on the node.",
    Standing.NOTHING_DUE: "Nothing happens until the node, or the spec of its pool, changes.",
    Standing.NOT_GATED: (
        "Nothing: the operator reports what is due, and a person has to patch or replace the machine."
    ),
    Standing.OPEN: (
        "The operator upgrades no node itself (strategy Manual). Any actor that waits for "
        f"{UPGRADE_STATE_LABEL}={UpgradeState.REQUIRED} may upgrade it."
    ),
    Standing.UNCONFIRMED: (
        f"The operator permits upgrades by the label {UPGRADE_STATE_LABEL}={UpgradeState.REQUIRED} "
        "of the node and the condition UpgradeAllowed of the pool."
    ),
    Standing.IN_WORK: "The node has its slot until it is up to date and available.",
}


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
    Standing.NOTHING_DUE: (
        "Nothing has to be done. If pods do not start there, or have no network: "
        "kubectl winpool diagnose {node}"
    ),
    Standing.NOT_GATED: (
        "Replace or patch the machine. To have gates judged before, add spec.upgrade to the pool."
    ),
    Standing.OPEN: (
        "Check the condition UpgradeAllowed again just before: kubectl get wnp {pool} -o yaml. Then drain "
        "the node, and patch or replace the machine."
    ),
    Standing.UNKNOWN: "See the issues of the pool: kubectl winpool status {pool}",
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
        yield _TO_DO[standing].format(node=why.node.name, pool=name)
    elif judged is not None and judged.overview is not None and due is not None:
        yield "Do what opens each closed gate, as written above."
        closed = [each.gate for each in (*judged.overview.closed, *due.closed)]
        if closed := [each for each in closed if each not in NEVER_OVERRIDDEN]:
            yield f"In an emergency, open {' and '.join(closed)} until a date by spec.upgrade.overrides."
        yield f"See what the whole pool waits for: kubectl winpool plan {name}"
    if due is not None and any(each.trigger is Trigger.OS_REVISION for each in due.due):
        yield "If Windows is patched already, restart the kubelet: it reports the revision of its own start."


ABOUT: Final = {"Pool": "the pool", "Node": "this node"}


def levels(why: Why) -> Iterator[tuple[str, tuple[Stop, ...], tuple[GateFinding, ...]]]:
    """Yield stops and gates of the pool, and those of the node; none where no gate is judged for it."""
    judged, due = why.judged, why.due
    if judged is None or judged.overview is None or not judged.is_gated or due is None:
        return
    yield "Pool", judged.overview.stops, judged.overview.gates
    yield "Node", due.stops, due.gates


STATES: Final = {
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
