"""Judges the OS upgrades of a pool: which nodes are due, what keeps them from it, and the label that says so.

Under the strategy Manual the label ``winpool.dev/upgrade-state`` of a node is all that it wants. ``Required``
is a permission: it is given only where it is known that the node is due, every gate permits, nothing stops
it, and the status has a slot for it (``slots``). It is withdrawn, as ``Gated``, wherever that is not so.
Where the operator may not write (Paused, DryRun, a hold, the veto of a vendor, a spec that is not accepted),
only a permission is withdrawn. Without ``spec.upgrade`` there is no label. Under the other strategies the
operator takes the nodes through their upgrade itself (``rollout``), and ends what it has begun under any.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import UPGRADE_ANNOTATION, UPGRADE_REQUESTED_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.spec import OperatingSystem, WindowsNodePoolSpec
from winpool.api.status import MAX_SLOTS, Slot, SlotState
from winpool.api.text import later
from winpool.api.upgrade import Gate, NodesInWork, Strategy, Trigger, Upgrade, UpgradeState
from winpool.features.feature import AllowedActions
from winpool.features.judge import unknown_release
from winpool.features.upgrade.capacity import CapacityJudge
from winpool.features.upgrade.claims import (
    CONDITIONS,
    ENDED_BADLY,
    IN_WORK,
    Claim,
    Done,
    Target,
    claim_of,
    has_claim,
    is_with_actor,
    veto_of,
)
from winpool.features.upgrade.due import DueJudge, Found
from winpool.features.upgrade.findings import rollout_findings, surprise_findings, upgrade_findings
from winpool.features.upgrade.gates.pool import (
    ASKS_AFTER_SECONDS,
    MAX_AGE_SECONDS,
    OPERATOR_NODE,
    World,
    node_stops,
    pool_stops,
    to_remember,
    young_survey,
)
from winpool.features.upgrade.gates.table import NODE_GATES, POOL_GATES
from winpool.features.upgrade.plan import Begun, PlannedNode, in_line
from winpool.features.upgrade.records import (
    NO_UPGRADES,
    NOTHING_ROLLED,
    GateFinding,
    NodeUpgrade,
    RolloutResult,
    UpgradeOverview,
    UpgradeResult,
)
from winpool.features.upgrade.rollout import rollout
from winpool.features.upgrade.slots import (
    NONE_GIVEN,
    Given,
    Line,
    held_slots,
    is_labelled,
    is_unused,
    slots_of,
)
from winpool.features.upgrade.states import RolloutView
from winpool.features.upgrade.windows import UnusableWindowError, opening, overrides_of, read_window
from winpool.model.node import Node, hold_end, is_available, is_held
from winpool.model.pods import Workload
from winpool.model.pool import SURPRISE_SECONDS
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP, NOTHING_DESIRED, Desired
from winpool.ownership.members import Members
from winpool.ownership.trust import conditions_left
from winpool.support.rows import Layered

_IN_STATE: Final[Mapping[str, Desired]] = {
    each.value: Desired(labels={UPGRADE_STATE_LABEL: each.value}) for each in UpgradeState
}
_LEFT: Final = Desired(labels={UPGRADE_STATE_LABEL: KEEP})
_REMEMBERED: Final[Mapping[Desired, Desired]] = {
    each: replace(each, annotations={UPGRADE_ANNOTATION: KEEP})
    for each in (*_IN_STATE.values(), _LEFT, NOTHING_DESIRED)
}


CAPPED_SECONDS: Final = 30.0
"""How often it is checked whether other pools have left a slot: a node is in work for many minutes."""


def with_history(node: Node, desired: Desired) -> Desired:
    """Return ``desired``, and that the node keeps what it remembers of its last upgrade."""
    is_done = UPGRADE_ANNOTATION in node.annotations and isinstance(claim_of(node), Done)
    return _REMEMBERED[desired] if is_done else desired


def state_without_due(node: Node, *, is_unknown: bool) -> UpgradeState | None:
    """Return what the label of a node that is not known to be due is to say; None where it is to stay.

    A permission does not outlast what is known.
    """
    if not is_unknown:
        return UpgradeState.UP_TO_DATE
    return UpgradeState.GATED if node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED else None


def only_withdrawn(node: Node, state: UpgradeState | None) -> Desired:
    """Return what is wanted of the label where nothing may be written but that a permission is withdrawn."""
    standing = node.labels.get(UPGRADE_STATE_LABEL)
    if standing == UpgradeState.REQUIRED and state is not UpgradeState.REQUIRED:
        return _IN_STATE[UpgradeState.GATED]
    return as_it_is(standing)


def as_it_is(standing: str | None) -> Desired:
    """Return that the label stays as it is: ``standing``, None where there is none.

    A value of ours is wanted by name, and no label by not naming it: unlike KEEP, both pass the quick check
    of thousands of nodes (``ownership.diff.Comparer``).
    """
    return NOTHING_DESIRED if standing is None else _IN_STATE.get(standing, _LEFT)


def unusable(upgrade: Upgrade, os: OperatingSystem, *, layers: Layered, now: datetime) -> Iterator[str]:
    """Yield why no node could ever be upgraded: sentences that begin with the field, and say the fix.

    ``layers`` is the support matrix with the rows of the cluster and the pool.
    """
    if unknown := unknown_release(os, layers=layers):
        yield unknown.text
    windows = []
    for place, each in enumerate(upgrade.maintenance_windows):
        try:
            windows.append(read_window(each))
        except UnusableWindowError as error:
            yield from (f"spec.upgrade.maintenanceWindows[{place}].{fault}" for fault in error.args)
    if len(windows) < len(upgrade.maintenance_windows):
        return
    found = opening(windows, upgrade.maintenance_exclusions, now=now)
    if not found.is_open and found.changes_at is None:
        yield (
            "spec.upgrade.maintenanceExclusions: they cover every maintenance window of the next 50 years, "
            "so no upgrade could begin. Remove or shorten an exclusion, or add a window outside of them. "
            "To permit no upgrades, add an entry to spec.upgrade.pauseRequests."
        )


def upgrade(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> UpgradeResult:
    """Return which nodes of the pool are due, what keeps them from being upgraded, and their labels."""
    if allowed is AllowedActions.RELEASE:
        return UpgradeResult(requeue_at=_ends_with_actor(members, now=snapshot.now))
    spec = snapshot.pool.spec
    block = spec.upgrade if spec else None
    if spec is None or block is None:
        return _without_block(snapshot, members, allowed)
    return _Pass(snapshot, members, spec, block, allowed).result()


def _ends_with_actor(members: Members, *, now: datetime) -> datetime | None:
    """Return when the first node that is handed over may be released, whatever the actor does."""
    claims = [claim_of(each.node) for each in members.all if is_with_actor(each.node, now=now)]
    return min((each.deadline for each in claims if isinstance(each, Claim) and each.deadline), default=None)


def lacking_permission(snapshot: Snapshot) -> str:
    """Return the sentence with the rule that a rollout needs and lacks; empty where none is known to."""
    spec = snapshot.pool.spec
    if spec is None or spec.upgrade is None or not spec.upgrade.is_ours:
        return ""
    found = (*snapshot.rollout.forbidden, snapshot.evictions.forbidden)
    return next(filter(None, found), snapshot.force.forbidden if spec.upgrade.forces else "")


def _without_block(snapshot: Snapshot, members: Members, allowed: AllowedActions) -> UpgradeResult:
    """End what was begun: nodes that are handed over are taken back, all others given up.

    Permissions are withdrawn where the label itself cannot be removed, since nothing else may be written.
    """
    is_free, now = allowed is AllowedActions.ACT, snapshot.now
    desired = {
        member.node.uid: only_withdrawn(member.node, None)
        for member in members.ours
        if member.node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED
        and not (is_free and not is_held(member.node, now=now))
    }
    spec, nodes = snapshot.pool.spec, {each.node.name: each.node for each in members.ours}
    claimed = {name for name, node in nodes.items() if isinstance(claim_of(node), Claim)}
    # No node is claimed any more, also not one that has failed and had its turn.
    standing = [
        each
        for each in snapshot.pool.status.slots
        if each.claim or (each.node in claimed and each.state != SlotState.RESERVED)
    ]
    if spec is None or not (claimed or standing):
        return UpgradeResult(desired=desired) if desired else NO_UPGRADES
    rolled = rollout(
        RolloutView(
            snapshot=snapshot,
            spec=spec,
            nodes=nodes,
            others={node.uid: node for node in snapshot.nodes if node.name not in nodes},
            standing=standing,
            gives_up="The spec has no upgrade any more.",
            stands=allowed is AllowedActions.NOTHING,
            runs=DueJudge(snapshot, spec).runs,
            marked=_marked(snapshot, members),
        )
    )
    return UpgradeResult(
        desired=desired | {each.node.uid: each.desired for each in rolled.steps.values()},
        pod_list_requests=rolled.looks,
        requeue_at=rolled.again_at,
        finishes=True,
        reads_workloads=rolled.wants_workloads,
        slots=rolled.slots,
    )


def _marked(snapshot: Snapshot, members: Members) -> frozenset[str]:
    """Return the names of the nodes that have conditions of ours which say how far their upgrade is."""
    written, rights = snapshot.written_conditions, members.rights
    return frozenset(
        each.node.name
        for each in members.ours
        if each.node.conditions
        and CONDITIONS.keys() & conditions_left(each.node, each.record, rights, written.get(each.node.uid))
    )


@dataclass(eq=False)
class _Pass:
    """What is found of one pool in one pass."""

    snapshot: Snapshot
    members: Members
    spec: WindowsNodePoolSpec
    block: Upgrade
    allowed: AllowedActions

    def __post_init__(self) -> None:
        """Read what the whole pass needs."""
        self._now = self.snapshot.now
        self._nodes = tuple([member.node for member in self.members.ours])
        self._by_name = {node.name: node for node in self._nodes}
        self._judge = DueJudge(self.snapshot, self.spec)
        self._survey = young_survey(self.snapshot)
        self._overrides = overrides_of(self.block, now=self._now)
        self._target = Target.of(self.spec.os)
        # After a start, until the first list of all pods, labels stay unless something known closes a gate.
        pods = self.snapshot.pods
        self._awaits_pods = pods.survey is None and not pods.problem and not pods.forbidden

    def result(self) -> UpgradeResult:
        """Return what is wanted and found."""
        found = [(node, self._judge.judge(node)) for node in self._nodes]
        due = [(node, each) for node, each in found if each.due]
        manual = [each for each in self._standing if not self._is_of_rollout(each)]
        held = self._held_slots(manual)
        world = World(
            self.snapshot,
            self.spec,
            self.block,
            layers=self._judge.layers,
            nodes=self._nodes,
            in_slots={*(each.node for each in held), *self._in_rollout, *self._to_retry},
        )
        gates = tuple(self._overrides.on(each.judge(world)) for each in POOL_GATES)
        stops = tuple(pool_stops(self.snapshot, self.spec, self.block, self.allowed))
        self._begun = {each.node for each in held if each.state == SlotState.BEGUN}
        self._is_one_due = len(due) == 1
        judged = [self._judged(node, each, world) for node, each in due]
        unknown = tuple(node.name for node, each in found if each.is_unknown)
        up_to_date = len(found) - len(due) - len(unknown)
        is_open = not stops and all(each.permits for each in gates)
        opens = {each.node.name: self._opens(each) for each in judged}
        waiting = in_line(
            [each for each in judged if is_open and opens[each.node.name] is not False],
            self.block,
            Begun(
                up_to_date=up_to_date,
                slots=self._in_rollout,
                by_age=self._has_begun,
                operator_node=self.snapshot.operator_node,
            ),
        )
        given = NONE_GIVEN
        if not self.block.is_ours:
            line = Line(
                nodes=self._by_name,
                due={*unknown, *(node.name for node, _ in due)},
                waiting={each.node: each.upgrade.node for each in waiting},
                unclear={name for name, is_clear in opens.items() if is_clear is None},
                allowed=max((world.allowed or 0) - len(self._in_rollout), 0),
                now=self._now,
                most_slots=self.snapshot.most_slots - len(self._in_rollout),
                is_new_spec=self.snapshot.pool.status.observed_generation != self.snapshot.pool.generation,
            )
            given = slots_of(manual, held, line)
        may_continue = not stops and all(map(partial(_lets_continue, world), gates))
        begun = {each.node for each in given.slots if each.state == SlotState.BEGUN}
        rolled = self._rolled(
            found, waiting, {name for name, is_clear in opens.items() if is_clear}, gates, world
        )
        upgrades = {
            each.node.uid: msgspec.structs.replace(
                each,
                state=(step.state if (step := rolled.steps.get(each.node.name)) else None)
                or _state_by_slot(
                    each.node,
                    given,
                    opens=opens[each.node.name],
                    is_clear=may_continue if each.node.name in begun else is_open,
                ),
            )
            for each in judged
        }
        slots = (*given.slots, *rolled.slots)[:MAX_SLOTS]
        overview = UpgradeOverview(
            target=str(self._target),
            gates=gates,
            stops=stops,
            due=tuple(upgrades.values()),
            unknown=unknown,
            up_to_date=up_to_date,
            slots=slots,
            in_force=self._overrides.in_force,
            expired=self._overrides.expired,
            control_plane=to_remember(self.snapshot),
            disruptions_left=self._left(slots, allowed=world.allowed or 0),
            rollout=rolled if self.block.is_ours or rolled.steps else None,
            has_begun=self._has_begun,
            is_capped=self._is_capped(slots, waiting),
        )
        return self._reported(overview, found, upgrades, given)

    def _reported(
        self,
        overview: UpgradeOverview,
        found: Sequence[tuple[Node, Found]],
        upgrades: Mapping[str, NodeUpgrade],
        given: Given,
    ) -> UpgradeResult:
        """Return the result: what is wanted on the nodes, and what is found."""
        rolled = overview.rollout or NOTHING_ROLLED
        desired = {
            node.uid: self._desired(node, each, upgrades.get(node.uid), rolled) for node, each in found
        }
        unused = [
            each.node
            for each in given.slots
            if each.node in given.permitted and is_unused(each, now=self._now)
        ]
        is_due = any(each.due for _, each in found)
        is_lacking = self.block.is_ours and bool(self.snapshot.rollout.forbidden)
        return UpgradeResult(
            desired=desired,
            evictions=rolled.evictions,
            findings=(
                *surprise_findings(self.snapshot.upgrades.surprises, self._nodes),
                *upgrade_findings(overview, _requests(self._nodes), unused=unused),
                *rollout_findings(rolled, now=self._now),
            ),
            pod_list_requests=self.snapshot.evictions.oldest_first(rolled.looks),
            awaits_pods=any(each.state is None for each in overview.due),
            needs_all_pods=is_due and self._needs_list(node for node, each in found if each.due),
            requeue_at=self._requeue_at(overview),
            finishes=bool(rolled.steps),
            # What was forbidden is asked for again and again, so that it is reported until it is granted.
            reads_attachments=rolled.wants_volumes or is_lacking,
            reads_workloads=rolled.wants_workloads or is_lacking,
            drains=rolled.drains or is_lacking,
            overview=overview,
        )

    def _left(self, slots: Iterable[Slot], *, allowed: int) -> int:
        """Return how many nodes may become unavailable beside those that are, or have a slot (P6)."""
        taken = {each.node for each in slots if each.is_held}
        taken.update(node.name for node in self._nodes if not is_available(node))
        return max(allowed - len(taken), 0)

    def _is_capped(self, slots: Iterable[Slot], waiting: Iterable[PlannedNode]) -> bool:
        """Whether nodes wait for a slot, and the operator's settings permit no more over all pools."""
        most = self.snapshot.most_slots
        held = {each.node for each in slots if each.is_held}
        return most < MAX_SLOTS and len(held) >= most and any(each.node not in held for each in waiting)

    @cached_property
    def _standing(self) -> Sequence[Slot]:
        return self.snapshot.pool.status.slots

    def _is_of_rollout(self, slot: Slot) -> bool:
        """Whether the operator follows a slot itself: under Manual, one whose node it has claimed."""
        node = self._by_name.get(slot.node)
        return self.block.is_ours or bool(slot.claim) or (node is not None and has_claim(node))

    @cached_property
    def _in_rollout(self) -> frozenset[str]:
        """The names of the nodes that the operator takes through their upgrade, or has a slot for."""
        slots = {each.node for each in self._standing if each.is_held and self._is_of_rollout(each)}
        return frozenset(slots | {node.name for node in self._nodes if has_claim(node)})

    @cached_property
    def _has_begun(self) -> bool:
        """Whether the operator has claimed a node for the target: from then on the order is to stay."""
        found = (claim_of(node) for node in self._nodes if UPGRADE_ANNOTATION in node.annotations)
        return self.block.is_ours and any(
            isinstance(each, Claim | Done) and each.target == self._target for each in found
        )

    @property
    def _to_retry(self) -> Iterator[str]:
        """Yield the names of nodes that have failed and may be tried again: they use up no budget then."""
        for node in self._nodes:
            found = claim_of(node) if UPGRADE_ANNOTATION in node.annotations else None
            if isinstance(found, Claim) and found.may_be_retried(self._now):
                yield node.name

    def _rolled(
        self,
        found: Sequence[tuple[Node, Found]],
        waiting: Sequence[PlannedNode],
        open_nodes: Collection[str],
        gates: Iterable[GateFinding],
        world: World,
    ) -> RolloutResult:
        """Take the nodes on that the operator upgrades itself."""
        block = self.block
        if not (block.is_ours or self._in_rollout):
            return NOTHING_ROLLED
        asks = block.strategy is Strategy.ON_REQUEST
        is_guarded = bool(self.snapshot.guard.identity)
        return rollout(
            RolloutView(
                snapshot=self.snapshot,
                spec=self.spec,
                nodes=self._by_name,
                others=self._others,
                standing=[each for each in self._standing if each.node in self._in_rollout or block.is_ours],
                waiting=[
                    each
                    for each in waiting
                    if block.is_ours
                    and is_guarded
                    and each.node in open_nodes
                    and (not asks or any(due.trigger is Trigger.REQUEST for due in each.upgrade.due))
                ],
                due={node.name: tuple(due.trigger for due in each.due) for node, each in found},
                unknown={node.name for node, each in found if each.is_unknown},
                open_nodes={each.node for each in waiting}.intersection(open_nodes) if is_guarded else (),
                allowed=world.allowed or 0,
                gives_up=self._gives_up(),
                stands=self.allowed is AllowedActions.NOTHING,
                is_window_open=all(each.permits for each in gates if each.gate is Gate.MAINTENANCE_WINDOW),
                runs=self._judge.runs,
                marked=_marked(self.snapshot, self.members),
            )
        )

    @cached_property
    def _others(self) -> Mapping[str, Node]:
        """The nodes that are not the pool's, by UID."""
        ours = {node.uid for node in self._nodes}
        return {node.uid: node for node in self.snapshot.nodes if node.uid not in ours}

    def _gives_up(self) -> str:
        """Return why claims end that were not handed over; empty where they continue."""
        if not self.block.is_ours:
            return "spec.upgrade.strategy is Manual."
        if self.allowed is AllowedActions.FINISH:
            return "The spec is not accepted."
        if lacking_permission(self.snapshot):
            return "The operator lacks a permission that a rollout needs."
        restores = any(each.nodes_in_work is NodesInWork.RESTORE for each in self.block.pause_requests)
        return "A request in spec.upgrade.pauseRequests gives up the nodes in work." if restores else ""

    def _needs_list(self, due: Iterable[Node]) -> bool:
        """Whether the last list of all pods lacks one of these nodes, or will soon be too old."""
        survey = self._survey
        is_old = survey is not None and later(survey.started, ASKS_AFTER_SECONDS) <= self._now
        return is_old or not all(survey is not None and survey.saw(node) for node in due)

    def _workload(self, node: Node) -> Workload | None:
        """Return what runs on this very node; None where it is not known."""
        survey = self._survey
        return (survey.workloads or {}).get(node.name) if survey and survey.saw(node) else None

    @cached_property
    def _fits(self) -> CapacityJudge:
        """Say whether pods fit on other nodes; only made where a node is due and its pods are known."""
        known = {node.name: each for node in self._nodes if (each := self._workload(node))}
        return CapacityJudge(
            nodes=self._nodes,
            workloads=known,
            build_of=self._judge.build_of,
            others=tuple(self._others.values()),
        )

    def _held_slots(self, standing: Sequence[Slot]) -> tuple[Slot, ...]:
        """Return the slots that nodes have under Manual, whatever keeps others from getting one."""
        if self.block.is_ours:
            return ()
        return held_slots(
            standing,
            {name: node for name, node in self._by_name.items() if name not in self._in_rollout},
            others=self._others,
            rejoin_seconds=self.block.rejoin_timeout_seconds,
            now=self._now,
        )

    def _judged(self, node: Node, found: Found, world: World) -> NodeUpgrade:
        """Return what is known of a node that is due, but for its state."""
        workload = self._workload(node)
        fit = self._fits.judge(node) if workload else None
        candidate = NodeUpgrade(
            node, found.due, found.judged.judgement.os_version, workload=workload, fit=fit
        )
        gates = tuple([self._overrides.on(each.judge(world, candidate)) for each in NODE_GATES])
        stops = [*node_stops(node, now=self._now, has_begun=node.name in self._begun)]
        if node.name == self.snapshot.operator_node and not self._is_one_due:
            stops.append(OPERATOR_NODE)
        return msgspec.structs.replace(candidate, gates=gates, stops=tuple(stops))

    def _opens(self, each: NodeUpgrade) -> bool | None:
        """Whether nothing of the node itself keeps it; None where only the first list of pods will say."""
        if self._awaits_pods and each.workload is None and not each.stops:
            return None if all(map(_permits_or_awaits, each.gates)) else False
        return each.is_open

    def _desired(self, node: Node, found: Found, due: NodeUpgrade | None, rolled: RolloutResult) -> Desired:
        """Return what is wanted of the label of a node. To take a permission back never waits."""
        step = rolled.steps.get(node.name)
        if step is not None and step.state is not None:
            return step.desired
        state = due.state if due else state_without_due(node, is_unknown=found.is_unknown)
        # Without a claim no label says that there is one: what is none is removed from a vetoed node, too.
        is_claimed = node.labels.get(UPGRADE_STATE_LABEL) in IN_WORK | ENDED_BADLY
        is_kept = is_held(node, now=self._now) or (bool(veto_of(node)) and not is_claimed)
        if is_kept or self.allowed is not AllowedActions.ACT:
            return only_withdrawn(node, state)
        desired = as_it_is(node.labels.get(UPGRADE_STATE_LABEL)) if state is None else _IN_STATE[state]
        return with_history(node, desired)

    def _requeue_at(self, overview: UpgradeOverview) -> datetime | None:
        """Return the next moment at which time alone may change what is wanted or found."""
        moments = [
            *(hold_end(node) for node in self._nodes if is_held(node, now=self._now)),
            self._overrides.ends_at,
            *(later(each.at, SURPRISE_SECONDS) for each in self.snapshot.upgrades.surprises),
            *(each.changes_at for each in overview.gates),
            *(each.deadline for each in overview.slots),
            overview.rollout.again_at if overview.rollout else None,
            later(self._now, CAPPED_SECONDS) if overview.is_capped else None,
        ]
        if overview.due:
            moments.extend(gate.changes_at for each in overview.due for gate in each.gates)
        if overview.due and self._survey is not None:
            started = self._survey.started
            moments.extend((later(started, ASKS_AFTER_SECONDS), later(started, MAX_AGE_SECONDS)))
        return min((each for each in moments if each is not None and each > self._now), default=None)


def _state_by_slot(node: Node, given: Given, *, opens: bool | None, is_clear: bool) -> UpgradeState | None:
    """Return what the label is to say by the slots that are ``given``; ``opens`` is what ``_opens`` says.

    ``is_clear``: the pool lets the upgrade of the node begin, or continue where it has begun.
    """
    is_permitted = node.name in given.permitted
    if opens is False or not is_clear:
        return UpgradeState.GATED
    if opens is None and (is_permitted or not is_labelled(node)):
        return None
    return UpgradeState.REQUIRED if is_permitted else UpgradeState.GATED


def _lets_continue(world: World, gate: GateFinding) -> bool:
    """Whether ``gate`` withdraws no permission of a node whose upgrade has begun.

    It is one of those that use up the budget. But a budget of none stops all upgrades.
    """
    return gate.permits or (gate.gate is Gate.BUDGET and bool(world.allowed))


def _permits_or_awaits(gate: GateFinding) -> bool:
    """Whether a gate of a node whose pods are not known yet permits, or only waits for the list of them."""
    return gate.permits or gate.gate is Gate.DISRUPTION_BUDGETS


def _requests(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the texts of the requests on ``nodes``, by their names."""
    return {
        node.name: node.annotations[UPGRADE_REQUESTED_ANNOTATION]
        for node in nodes
        if UPGRADE_REQUESTED_ANNOTATION in node.annotations
    }
