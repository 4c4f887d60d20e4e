"""Says what each state of an upgrade asks for: one step of one node, as the operator upgrades nodes itself.

::

    Claimed ─► Draining ─► Drained ─► Upgrading ─► Rejoining ─► Validating ─► Soaking ─► UpToDate
                  └─► DrainBlocked ─┘     └────────────┴─────────────┴─► Failed

Each step is one patch of the node, with the resourceVersion that was read: the annotation
``winpool.dev/upgrade`` (``claims``) and the label change together. So whichever of two operators comes second
starts again from what is there, and one that is killed between two writes leaves a step that was made or was
not. What a node waits for is in a sentence, and the time at which it ends is on the node.

*Giving up* a node ends its claim before the hand-over: first its conditions are removed, then the cordon, the
borrowed annotations and the claim in one patch, then its slot. After the hand-over someone may be at work on
the machine, so that the claim continues to its end, by its own copy of target and times.

The hand-over is two writes: the claim is copied into the slot, and once the status has it, the label says
Upgrading. A Node that is made again under its name has neither annotations nor cordon, and gets both back
from the copy in the first pass that sees it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from winpool.api.keys import (
    UPGRADE_ANNOTATION,
    UPGRADE_DONE_ANNOTATION,
    UPGRADE_REQUESTED_ANNOTATION,
    UPGRADE_RETRY_ANNOTATION,
    UPGRADE_STATE_LABEL,
)
from winpool.api.spec import WindowsNodePoolSpec
from winpool.api.status import Slot, SlotState
from winpool.api.text import later
from winpool.api.upgrade import Method, OnTimeout, Trigger, Upgrade, UpgradeState
from winpool.features.upgrade.claims import (
    BEFORE_HAND_OVER,
    GIVEN_UP,
    HANDED_OVER,
    IN_WORK,
    Claim,
    Done,
    Machine,
    Target,
    Unreadable,
    claim_of,
    desired_of,
    digest,
    left_alone,
    limits_of,
    name_of_claim,
    read,
    served,
    text_of,
    veto_of,
)
from winpool.features.upgrade.drain import (
    FORESEEN,
    NOTHING_TO_DRAIN,
    DrainProgress,
    DrainView,
    drain,
    preflight,
)
from winpool.features.upgrade.plan import PlannedNode, Turn
from winpool.features.upgrade.records import VOLUMES, NodeStep
from winpool.features.upgrade.settle import (
    OLDEST_SECONDS,
    PROOF_SECONDS,
    Baseline,
    Settled,
    baseline_of,
    decode_baseline,
    encode_baseline,
    is_ready_for,
    merge,
    ready_at,
    settled,
    validation_of,
)
from winpool.features.upgrade.slots import slot_of
from winpool.model.node import Node, is_available, is_held
from winpool.model.node_pods import NodePods, PodListRequest
from winpool.model.snapshot import Snapshot
from winpool.ownership.desired import KEEP, Desired

RESERVED_SECONDS: Final = 60.0
"""How long a slot waits for its claim: a few lists of pods, of which one may fail."""

PASSED_OVER_SECONDS: Final = 300.0
"""How long a node is passed over that could not be drained, or was given up: what kept it lasts for minutes,
and others wait for the slot."""

LOOK_SECONDS: Final = 15.0
"""How old the list of a node's pods may be when the node is claimed: what else happens to them meanwhile, the
drain finds out."""

CLAIMED_SECONDS: Final = 300.0
"""How long a node stays claimed without being cordoned: gates that close when its turn has come usually stay
closed for longer, and others may go first."""

LATE_SECONDS: Final = 15
"""How long a slot stays of which the status says that its node is claimed, and the node does not: news of a
node may be late where another operator has claimed it. A watch is late by a second or two."""

UNCORDONS: Final = 1
"""So many times the operator cordons a node again that others uncordon while it drains. Another time is an
answer: they want the node in service."""

FIRST_RETRY_SECONDS: Final = 120.0
LAST_RETRY_SECONDS: Final = 86400.0
"""Between an upgrade that failed and the next: twice as long each time, up to a day."""


class RolloutView(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What a pass has found of the upgrades that the operator makes, beside its ``snapshot``.

    ``nodes`` are those of the pool by name, ``others`` the nodes outside of it by UID. ``waiting`` are
    those that may be claimed now but for a slot, in the order of the plan; ``due`` says why each node is due,
    ``unknown`` names those of which that is not known. ``allowed`` is how many nodes may be unavailable.
    ``open_nodes`` are those whose gates, and the pool's, are open.
    ``gives_up`` says why all claims before the hand-over end; empty where they do not. With ``stands``
    nothing continues. ``is_window_open`` is False where no maintenance window is open. ``target`` is what the
    spec asks for, and ``runs`` says whether a node runs a target. Without ``spec.upgrade`` there is no
    ``block``. ``marked`` are the names of nodes with conditions of ours.
    """

    snapshot: Snapshot
    spec: WindowsNodePoolSpec
    nodes: Mapping[str, Node]
    others: Mapping[str, Node]
    standing: Sequence[Slot]
    gives_up: str
    stands: bool
    runs: Callable[[Node, Target], bool]
    marked: Collection[str]
    waiting: Sequence[PlannedNode] = ()
    due: Mapping[str, tuple[Trigger, ...]] = msgspec.field(default_factory=dict)
    unknown: Collection[str] = ()
    open_nodes: Collection[str] = ()
    allowed: int = 0
    is_window_open: bool = True

    @property
    def block(self) -> Upgrade | None:
        """What the spec asks for; None where it asks for no upgrades any more."""
        return self.spec.upgrade

    @property
    def target(self) -> Target:
        """What the spec asks nodes to run."""
        return Target.of(self.spec.os)


REASON_LENGTH: Final = 512
"""Characters of the reason in a claim: a few sentences."""

WITH_ACTOR: Final = "The actor has to upgrade the machine: the node is cordoned, drained and handed over."


class States:
    """Takes steps with the nodes of a pool, and keeps what comes of each.

    ``steps`` and ``slots`` are by the names of nodes, and so are ``passed_over``: nodes that had their turn.
    ``looks`` are lists of pods that nodes without a claim need.
    """

    def __init__(self, view: RolloutView) -> None:
        self._view = view
        self._now = view.snapshot.now
        self._known = view.snapshot.evictions
        self._read = view.snapshot.rollout
        self._second = self._now.replace(microsecond=0)  # as times are written
        self.slots: dict[str, Slot] = {}
        self.steps: dict[str, NodeStep] = {}
        self.passed_over: dict[str, Slot] = {}
        self.looks: list[PodListRequest] = []
        self._asked = Counter[str]()

    def advance(self, node: Node, claim: Claim, slot: Slot) -> None:
        """Take one step with a node that is claimed."""
        if self._stands(node, claim):
            return
        why = self._gives_up_because(node, claim) if claim.state in BEFORE_HAND_OVER else ""
        if why:
            self._give_up(node, claim, slot, why)
            return
        match claim.state:
            case UpgradeState.CLAIMED:
                self._claimed(node, claim, slot)
            case UpgradeState.DRAINING | UpgradeState.DRAIN_BLOCKED:
                self._draining(node, claim, slot)
            case UpgradeState.DRAINED:
                self._drained(node, claim)
            case UpgradeState.UPGRADING:
                self._upgrading(node, claim)
            case UpgradeState.REJOINING:
                self._rejoining(node, claim)
            case UpgradeState.VALIDATING:
                self._validating(node, claim)
            case _:
                self._soaking(node, claim)

    def inherit(self, node: Node, copy: Claim, slot: Slot) -> None:
        """Take one step with a node that has no claim, by the copy in its slot.

        Another machine is cordoned at once, whatever the state, until it has passed validation.
        """
        self.advance(node, copy, slot)
        step = self.steps[node.name]
        if node.uid != copy.before.uid and step.state is not UpgradeState.SOAKING:
            self.steps[node.name] = replace(step, desired=replace(step.desired, unschedulable=True))

    def quarantine(self, node: Node, slot: Slot, found: Unreadable) -> None:
        """Leave a node as it is whose claim can no longer be read: only a person can say what is right."""
        claim = self.new_claim(node, slot.since, attempts=0)
        said = f"the annotation {UPGRADE_ANNOTATION} could not be read: {found.why}"
        self._put(node, self._ended(claim, UpgradeState.QUARANTINED, said))

    def _stands(self, node: Node, claim: Claim) -> bool:
        """Leave a node as it is if the pool is paused, or someone holds or vetoes it; return whether so."""
        if self._view.stands or is_held(node, now=self._now):
            said = "The pool is paused." if self._view.stands else "Someone holds the node."
            self._put(node, claim, said=said)
            return True
        veto = veto_of(node) if claim.state in BEFORE_HAND_OVER else ""
        if veto:
            self._put(node, claim, said=f"The node has {veto}.")
            self.steps[node.name] = replace(self.steps[node.name], desired=left_alone(claim))
        return bool(veto)

    def _gives_up_because(self, node: Node, claim: Claim) -> str:
        name, view = node.name, self._view
        if view.gives_up:
            return view.gives_up
        if not view.due.get(name) and name not in view.unknown:
            return "The node is not due any more."
        if node.deleting:
            return "The node is being deleted."
        is_uncordoned = claim.state is not UpgradeState.CLAIMED and not node.unschedulable
        if is_uncordoned and claim.uncordons >= UNCORDONS:
            return "Someone uncordoned the node again and again while the operator drained it."
        if claim.state is UpgradeState.CLAIMED and claim.passed(self._now):
            return "A gate closed before the node was cordoned."
        return ""

    def _give_up(self, node: Node, claim: Claim, slot: Slot, why: str) -> None:
        """End a claim before the hand-over: conditions off, then all else in one patch, then the slot.

        The copy of a claim in the slot goes before the patch. Otherwise a crash between the two would hand
        the node over.
        """
        desired = replace(desired_of(claim), unschedulable=KEEP)
        if slot.claim and any(each.node == node.name and each.claim for each in self._view.standing):
            self.slots[node.name] = slot.model_copy(update={"claim": ""})
            self.steps[node.name] = NodeStep(node, claim, desired, claim.state, why)
            return
        # With all of the pool it is no fault of the node, which may be claimed again at once.
        is_of_pool = {"state": SlotState.WITHDRAWN} if self._view.gives_up else {}
        self.slots[node.name] = slot.model_copy(update=is_of_pool)
        if node.name in self._view.marked:
            self.steps[node.name] = NodeStep(node, claim, replace(desired, conditions=()), claim.state, why)
        else:
            self.let_go(node, claim, why)

    def let_go(self, node: Node, claim: Claim, why: str = "The operator upgrades no nodes now.") -> None:
        """End a claim in one patch, with the cordon and all else that the operator has added for it."""
        said = f"{why} The claim {claim.claim} ends."
        self.steps[node.name] = NodeStep(node, None, GIVEN_UP, UpgradeState.GATED, said)

    def reserved(self, node: Node, slot: Slot, claim: Claim) -> None:
        """Claim a node that has a slot, once its own pods say that it can be drained now."""
        if node.name not in self._view.open_nodes:
            return
        self.slots[node.name] = slot
        pods = self._pods(node, LOOK_SECONDS)
        if pods is None or pods.started < slot.since:
            self.looks.append(PodListRequest(node, with_budgets=True))
            return
        assert self._view.block is not None
        found = preflight(self._drain_view(node, pods, slot.since), self._view.block.drain)
        blockers = [each for each in found if each.why not in FORESEEN]
        if blockers or self._shares_a_workload(node, pods):
            del self.slots[node.name]
            is_permanent = any(each.is_permanent for each in blockers)
            self.pass_over(slot, PASSED_OVER_SECONDS if is_permanent else RESERVED_SECONDS)
        else:
            said = "The node is claimed."
            self.steps[node.name] = NodeStep(node, claim, desired_of(claim), claim.state, said)

    def _shares_a_workload(self, node: Node, pods: NodePods) -> bool:
        """Whether nodes in work have pods of a controller that no budget protects, and other nodes are free.

        Where it is not known what controls the pods, it is no reason to wait: the budgets of others hold.
        """
        workloads, view = self._read.workloads, self._view
        free = (each.node for each in view.waiting if each.node != node.name)
        if workloads is None or all(each in self.slots or each in self.passed_over for each in free):
            return False
        bare = baseline_of((each for each in pods.pods if each.uid not in pods.budgets), workloads)
        claims = [claim_of(each) for name, each in view.nodes.items() if name != node.name]
        in_work = (each for each in claims if isinstance(each, Claim) and each.state in IN_WORK)
        return any(
            found.ready.keys() & bare.ready.keys()
            for each in in_work
            if (found := decode_baseline(each.baseline)) is not None
        )

    def pass_over(self, slot: Slot, seconds: float = PASSED_OVER_SECONDS) -> None:
        """Remember that the node had its turn: others go first for a time."""
        changes = {"since": self._second, "deadline": self._in(seconds), "claim": ""}
        self.passed_over[slot.node] = slot.model_copy(update={"state": SlotState.UNUSED, **changes})

    def _claimed(self, node: Node, claim: Claim, slot: Slot) -> None:
        """Cordon a node whose gates are still open, and whose slot is in the status."""
        name = node.name
        # One that drops a slot has not seen the claim. Both write the status, and one of them comes too late.
        is_secured = any(each.node == name and each.state == claim.state for each in self._view.standing)
        held = {each.node for each in self._view.standing if each.is_held}
        if node.unschedulable and not claim.attempts:
            self._give_up(node, claim, slot, "Someone cordoned the node.")
        elif is_secured and name in self._view.open_nodes and self.has_room(node, held):
            self._cordon(node, claim)
        else:
            self._put(node, claim, said="The operator waits until the gates of node and pool are open.")

    def _cordon(self, node: Node, claim: Claim) -> None:
        """Begin the drain, once it is known what was Ready before it."""
        pods, workloads = self._pods(node, PROOF_SECONDS), self._read.workloads
        if workloads is not None and self._now > later(workloads.started, OLDEST_SECONDS):
            workloads = None
        if pods is None or workloads is None:
            said = "The operator lists pods and their controllers."
            self._put(node, claim, said=said, looks=pods is None, wants_workloads=workloads is None)
        else:
            self._move(
                node,
                claim,
                UpgradeState.DRAINING,
                seconds=claim.limits.drain,
                drain_until=self._in(claim.limits.drain),
                said="The operator cordons the node and evicts its pods.",
                cordoned_at=self._second,
                baseline=encode_baseline(baseline_of(pods.pods, workloads)),
            )

    def has_room(self, node: Node, slots: Collection[str]) -> bool:
        """Whether fewer of the other nodes are unavailable, or have one of ``slots``, than may be (P6).

        A node that has failed is cordoned already: it takes no place but a slot. Otherwise two of them would
        wait for each other.
        """
        used = {*slots} if node.unschedulable else {*slots, *self._unavailable}
        return len(used - {node.name}) < self._view.allowed

    @cached_property
    def _unavailable(self) -> frozenset[str]:
        return frozenset(name for name, node in self._view.nodes.items() if not is_available(node))

    def _draining(self, node: Node, claim: Claim, slot: Slot) -> None:
        """Evict what has to go, until a list that began after the cordon has nothing left."""
        if not node.unschedulable:
            count = claim.uncordons + 1
            again = msgspec.structs.replace(claim, uncordons=count, cordoned_at=self._second)
            said = "Someone uncordoned the node, and the operator cordons it again."
            self._put(node, again, slot_of=claim, said=said)
            return
        progress = self._progress(node, claim)
        if progress.is_drained and (claim.reason != VOLUMES or self._are_detached(node, claim)):
            said = "No pod is left that has to leave."
            self._move(
                node,
                claim,
                UpgradeState.DRAINED,
                seconds=claim.limits.volumes,
                said=said,
                reason="",
                drained_at=self._second,
            )
        elif claim.passed(self._now):
            self._time_out(node, claim, slot, progress)
        elif claim.state is UpgradeState.DRAIN_BLOCKED and not self._view.is_window_open:
            self._give_up(node, claim, slot, "The maintenance window closed before the node was drained.")
        else:
            is_for_volumes = claim.reason == VOLUMES
            said = VOLUMES if is_for_volumes and progress.is_drained else _waits_for_pods(progress)
            self._put(node, claim, said=said, progress=progress, wants_volumes=is_for_volumes)

    def _time_out(self, node: Node, claim: Claim, slot: Slot, progress: DrainProgress) -> None:
        block = self._view.block
        on_timeout = block.drain.on_timeout if block else OnTimeout.RESTORE
        said = _waits_for_pods(progress)
        if on_timeout is OnTimeout.QUARANTINE:
            self._put(node, self._ended(claim, UpgradeState.QUARANTINED, said), slot_of=claim)
        elif on_timeout is OnTimeout.RESTORE or not self._view.is_window_open:
            self._give_up(node, claim, slot, f"The node was not drained in time. {said}")
        else:
            moved = claim.moved(UpgradeState.DRAIN_BLOCKED, now=self._now, deadline=None)
            self._put(node, moved, slot_of=claim, said=said, progress=progress)

    def _drained(self, node: Node, claim: Claim) -> None:
        """Hand the node over once its volumes are detached: the claim into the slot, then the label."""
        copy = read(next((each.claim for each in self._view.standing if each.node == node.name), ""))
        progress = self._progress(node, claim)
        if not node.unschedulable or (progress.leaving and self._pods(node, PROOF_SECONDS)):
            # Someone uncordoned it, or a pod came that tolerates the cordon.
            self._move(
                node,
                claim,
                UpgradeState.DRAINING,
                until=claim.drain_until,
                said="A pod is on the node again that has to leave.",
                uncordons=claim.uncordons + (not node.unschedulable),
                cordoned_at=self._second,
            )
            return
        if not self._are_detached(node, claim):
            if claim.passed(self._now):
                self._move(node, claim, UpgradeState.DRAIN_BLOCKED, said=VOLUMES, reason=VOLUMES)
            else:
                self._put(node, claim, said=VOLUMES, wants_volumes=True)
            return
        if not (progress.is_drained and self._pods(node, PROOF_SECONDS)):
            self._put(node, claim, said="The operator lists the pods once more.", looks=True)
        elif isinstance(copy, Claim) and copy.claim == claim.claim and not copy.passed(self._now):
            self._put(node, copy, slot_of=claim, said=WITH_ACTOR)
        else:
            handed = claim.moved(
                UpgradeState.UPGRADING, now=self._now, deadline=self._in(claim.limits.actor), reason=""
            )
            self._put(node, claim, said=WITH_ACTOR)
            self.slots[node.name] = self.slots[node.name].model_copy(update={"claim": text_of(handed)})

    def _upgrading(self, node: Node, claim: Claim) -> None:
        """Wait for a proof that the machine was started again, or for the word of the actor."""
        is_done = node.annotations.get(UPGRADE_DONE_ANNOTATION) == claim.claim
        has_restarted = claim.before.has_restarted(Machine.of(node))
        if has_restarted or is_done:
            self._move(
                node,
                claim,
                UpgradeState.REJOINING,
                seconds=claim.limits.rejoin,
                said="The machine restarted." if has_restarted else "The actor says that it is done.",
                is_done=is_done,
                restarted_at=self._second if has_restarted else None,
            )
        elif claim.passed(self._now):
            self._fail(node, claim, "the machine did not restart in time, and no one said that it is done")
        else:
            self._put(node, claim, said=WITH_ACTOR)

    def _rejoining(self, node: Node, claim: Claim) -> None:
        """Wait until the machine is Ready at the target."""
        is_done = claim.is_done or node.annotations.get(UPGRADE_DONE_ANNOTATION) == claim.claim
        if node.ready == "True" and self._is_at_target(node, claim):
            self._validate(node, claim)
        elif claim.passed(self._now):
            self._fail(node, claim, "the node was not Ready at the target in time")
        elif is_done and claim.restarted_at and is_ready_for(node, claim.limits.ready, now=self._now):
            self._fail(node, claim, "the actor says that it is done, and the node does not run the target")
        else:
            waiting = msgspec.structs.replace(claim, is_done=is_done)
            said = "It has to be Ready at the target. A kubelet reports the revision of its own start."
            again_at = ready_at(node, claim.limits.ready) if is_done else None
            self._put(node, waiting, slot_of=claim, said=said, again_at=again_at)

    def _validating(self, node: Node, claim: Claim) -> None:
        """Wait until the node passes validation and our conditions are gone."""
        lacks = validation_of(node, claim, self._view.spec.validation, self._known, now=self._now)
        missing = lacks.missing
        if not missing and not self._view.runs(node, claim.target):
            missing = "the target"
        if not missing and node.name not in self._view.marked:
            said = "The node has passed validation."
            self._move(node, claim, UpgradeState.SOAKING, seconds=claim.limits.soak, said=said)
        elif missing and claim.passed(self._now):
            self._fail(node, claim, f"the node did not pass validation in time: {missing}")
        else:
            said = f"The node has to show: {missing}." if missing else ""
            self._put(node, claim, said=said, looks=lacks.looks, again_at=lacks.again_at)

    def _soaking(self, node: Node, claim: Claim) -> None:
        """End the claim of a node that stayed healthy, once what it lost is back elsewhere."""
        since = max(claim.since, node.ready_since or claim.since)
        soaked, found = later(since, claim.limits.soak), self._settled(claim)
        if self._has_lost_target(node, claim):
            self._fail(node, claim, "the node does not run the target any more")
            return
        is_back = is_available(node) and self._view.runs(node, claim.target)
        if is_back and self._now >= soaked and found.is_settled:
            done = Done(claim.target, self._second)
            desired = Desired(
                labels={UPGRADE_STATE_LABEL: UpgradeState.UP_TO_DATE},
                annotations={UPGRADE_ANNOTATION: text_of(done), **served(node, claim)},
            )
            self.slots[node.name] = self._slot_of(node, claim)
            self.steps[node.name] = NodeStep(node, None, desired, UpgradeState.UP_TO_DATE)
            return
        said = "The node has to stay healthy."
        if waiting := ", ".join(found.waiting) or found.unknown:
            said = f"What was evicted has to be Ready again: {waiting}."
        lists = not found.is_settled and found.list_at is not None and found.list_at <= self._now
        late_at = max(soaked, later(claim.since, claim.limits.settle))
        moments = (soaked, late_at, found.list_at)
        again = min((each for each in moments if each and each > self._now), default=None)
        self._put(node, claim, said=said, wants_workloads=lists, again_at=again, late_at=late_at)

    def _settled(self, claim: Claim) -> Settled:
        """Say whether the controllers that lost pods have as many Ready ones as before."""
        others = [
            decode_baseline(each.claim.baseline)
            for each in self.steps.values()
            if each.claim is not None and each.claim.drained_at is not None
        ]
        return settled(
            # A claim that someone has damaged had another one before; a person has asked to continue.
            merge(decode_baseline(claim.baseline) if claim.baseline else Baseline(), others),
            self._read.workloads,
            last_eviction=claim.drained_at or claim.since,
            now=self._now,
        )

    def stay(self, node: Node, claim: Claim) -> None:
        """Leave a node cordoned whose upgrade has failed, unless it has reached the target after all.

        It no longer counts as failed once someone asks to try again, or for another target.
        """
        # The spec may be back at what the node runs: then it is not due, and no other claim follows.
        asked = msgspec.structs.replace(claim, target=self._view.target) if claim.is_retried else claim
        is_ready = node.ready == "True"
        if is_ready and claim.may_be_retried(self._now) and self._is_at_target(node, asked):
            self._validate(node, asked)
            return
        is_asked = UPGRADE_RETRY_ANNOTATION in node.annotations
        is_other = claim.state is UpgradeState.FAILED and claim.target != self._view.target
        if (is_asked or is_other) and not claim.is_retried:
            claim = msgspec.structs.replace(claim, is_retried=True)
        desired = desired_of(claim)
        if is_asked:
            annotations = {**desired.annotations, UPGRADE_RETRY_ANNOTATION: None}
            desired = replace(desired, annotations=annotations)
        state = UpgradeState.GATED if claim.is_retried else claim.state
        said = f"The upgrade of the node failed: {claim.reason}."
        self.steps[node.name] = NodeStep(node, claim, desired, state, said, again_at=claim.retry_at)

    def _fail(self, node: Node, claim: Claim, reason: str) -> None:
        self._put(node, self._ended(claim, UpgradeState.FAILED, reason), slot_of=claim)

    def _ended(self, claim: Claim, state: UpgradeState, reason: str) -> Claim:
        """Return the claim as it has failed: the more often, the later it is tried again by itself."""
        pause = min(FIRST_RETRY_SECONDS * 2**claim.attempts, LAST_RETRY_SECONDS)
        retry_at = self._in(pause) if state is UpgradeState.FAILED else None
        attempts, reason = claim.attempts + 1, reason[:REASON_LENGTH]
        return claim.moved(
            state, now=self._now, deadline=None, reason=reason, attempts=attempts, retry_at=retry_at
        )

    def _validate(self, node: Node, claim: Claim) -> None:
        seconds = claim.limits.validation + claim.limits.ready
        said = "It is Ready at the target."
        self._move(node, claim, UpgradeState.VALIDATING, seconds=seconds, said=said, is_retried=False)

    def _move(
        self,
        node: Node,
        claim: Claim,
        state: UpgradeState,
        *,
        said: str,
        seconds: float | None = None,
        until: datetime | None = None,
        **changes: object,
    ) -> None:
        deadline = until if seconds is None else self._in(seconds)
        moved = claim.moved(state, now=self._now, deadline=deadline, **changes)
        self._put(node, moved, slot_of=claim, said=said)

    def _put(
        self,
        node: Node,
        claim: Claim,
        *,
        slot_of: Claim | None = None,
        said: str = "",
        progress: DrainProgress = NOTHING_TO_DRAIN,
        looks: bool = False,
        wants_volumes: bool = False,
        wants_workloads: bool = False,
        again_at: datetime | None = None,
        late_at: datetime | None = None,
    ) -> None:
        """Want ``claim`` on the node; the slot says what it has now, ``slot_of``, by default the same.

        ``looks``: its pods have to be listed.
        """
        name, standing = node.name, slot_of or claim
        self.slots[name] = self._slot_of(node, standing)
        moments = (claim.deadline, again_at, progress.list_at)
        looks = looks or (progress.list_at is not None and progress.list_at <= self._now)
        desired = desired_of(claim)
        watched = frozenset(each.uid for each in progress.leaving)
        self.steps[name] = NodeStep(
            node,
            claim,
            replace(desired, annotations={**desired.annotations, **served(node, claim)}),
            claim.state,
            said,
            progress,
            PodListRequest(node, watched, with_budgets=True) if looks else None,
            wants_volumes,
            wants_workloads,
            min((each for each in moments if each is not None and each > self._now), default=None),
            late_at,
        )

    def _slot_of(self, node: Node, claim: Claim) -> Slot:
        """Return the slot of a node as the node has the claim, with its copy from the hand-over on."""
        standing = next((each.claim for each in self._view.standing if each.node == node.name), "")
        copy = text_of(claim) if claim.state in HANDED_OVER else ""
        if claim.state is UpgradeState.DRAINED:
            copy = standing
        boot_id = claim.before.boot_id
        return slot_of(node, claim.state, claim.since, deadline=claim.deadline, boot_id=boot_id, claim=copy)

    def _pods(self, node: Node, seconds: float) -> NodePods | None:
        """Return the last list of the pods of a node, if it is no older than that."""
        pods = self._known.pods.get(node.uid)
        return pods if pods is not None and pods.is_young(self._known.read_at, seconds) else None

    def _drain_view(self, node: Node, pods: NodePods | None, since: datetime) -> DrainView:
        known = self._known
        return DrainView(node, since, pods, known.answers, self._now, known.read_at)

    def _progress(self, node: Node, claim: Claim) -> DrainProgress:
        assert self._view.block is not None
        since = claim.cordoned_at or claim.since
        view = self._drain_view(node, self._known.pods.get(node.uid), since)
        forces = self._forces(node, claim)
        progress = drain(view, self._view.block.drain, asked=self._asked, forces=forces)
        self._asked.update(budget for each in progress.evictions if (budget := each.budget))
        return progress

    def _forces(self, node: Node, claim: Claim) -> bool:
        """Whether the pods that are left on a node may be deleted now (``onTimeout: Force``).

        A drain that began again, with a pod that came later, keeps the deadline of the first.
        """
        block, until = self._view.block, claim.drain_until
        if block is None or not block.forces:
            return False
        begins = self._view.snapshot.force.begins_on(node.uid)
        is_late = claim.state is UpgradeState.DRAIN_BLOCKED and until is not None and until <= self._now
        return is_late and begins is not None and begins <= self._now

    def _are_detached(self, node: Node, claim: Claim) -> bool:
        """Whether a list that began after the node was drained has none of its volumes (P4)."""
        found = self._read.attachments
        since = claim.since if claim.state is UpgradeState.DRAINED else claim.cordoned_at or claim.since
        return found is not None and found.started >= since and not found.volumes.get(node.name)

    def _is_at_target(self, node: Node, claim: Claim) -> bool:
        """Whether the node runs the target, and is not due any more for what the claim was made for."""
        facts = {Trigger.RESERVED_MEMORY, Trigger.KUBELET_SKEW}
        still = facts.intersection(claim.triggers).intersection(self._view.due.get(node.name, ()))
        return not still and self._view.runs(node, claim.target)

    def _has_lost_target(self, node: Node, claim: Claim) -> bool:
        """Whether the node is known to run another release or revision than the target (P4)."""
        is_known = node.ready == "True" and node.name not in self._view.unknown
        return is_known and not self._view.runs(node, claim.target)

    def new_claim(self, node: Node, began: datetime, *, attempts: int) -> Claim:
        """Return a claim of a node that got its slot at ``began``, after so many that failed."""
        view = self._view
        place = next((each for each in view.waiting if each.node == node.name), None)
        return Claim(
            claim=name_of_claim(node, began),
            target=view.target,
            state=UpgradeState.CLAIMED,
            since=self._second,
            deadline=self._in(CLAIMED_SECONDS),
            before=Machine.of(node),
            limits=limits_of(view.spec, is_canary=place is not None and place.turn is Turn.CANARY),
            triggers=view.due.get(node.name, ()),
            turn=int(place.turn) if place else 1,
            zone=place.zone if place else "",
            attempts=attempts,
            request=digest(node.annotations.get(UPGRADE_REQUESTED_ANNOTATION)),
            replaces=view.block is not None and view.block.method is Method.REPLACE,
        )

    def _in(self, seconds: float) -> datetime:
        return later(self._second, seconds)


def is_handed_over(node: Node, copy: Claim) -> bool:
    """Whether a node without a claim is that of the copy: another machine, or one that lost it."""
    if copy.state not in HANDED_OVER:
        return False
    return node.uid != copy.before.uid or node.labels.get(UPGRADE_STATE_LABEL) in HANDED_OVER


def _waits_for_pods(progress: DrainProgress) -> str:
    """Say what keeps a node from being drained."""
    if progress.blockers:
        return " ".join(each.message for each in progress.blockers[:3])
    pods = len(progress.leaving)
    return f"{pods} pod{'' if pods == 1 else 's'} have to leave." if pods else "The operator lists the pods."
