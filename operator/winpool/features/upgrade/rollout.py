"""Says which nodes are upgraded next where the operator acts, and follows those whose upgrade is under way.

A node gets a slot in the status before anything of it is written (P6). Nodes come in the order of the plan:
canaries first, then zone by zone; those of the next group wait until all of the one before are done. What a
node goes through: ``states``.
"""

from __future__ import annotations

from collections.abc import Iterator

from winpool.api.keys import UPGRADE_ANNOTATION
from winpool.api.status import MAX_SLOTS, Slot, SlotState
from winpool.api.text import later
from winpool.api.upgrade import UpgradeState
from winpool.features.upgrade.claims import (
    BEFORE_HAND_OVER,
    ENDED_BADLY,
    IN_WORK,
    Claim,
    Unreadable,
    claim_of,
    desired_of,
    read,
)
from winpool.features.upgrade.plan import PlannedNode
from winpool.features.upgrade.records import CAPPED, MOST_UNHEALTHY, NodeStep, RolloutResult
from winpool.features.upgrade.slots import heirs_of, slot_of, slot_of_gone, slot_of_left
from winpool.features.upgrade.states import (
    LATE_SECONDS,
    RESERVED_SECONDS,
    RolloutView,
    States,
    is_handed_over,
)
from winpool.model.node import Node, is_available
from winpool.ownership.desired import Desired


def rollout(view: RolloutView) -> RolloutResult:
    """Return what to do about the nodes whose upgrade is under way, and which get a slot."""
    return _Pass(view).result()


class _Pass(States):
    """Decides about all nodes of one pool, once."""

    def __init__(self, view: RolloutView) -> None:
        super().__init__(view)
        self.passed_over = {each.node: each for each in view.standing if self._is_remembered(each)}
        self._gone: list[Slot] = []

    def result(self) -> RolloutResult:
        """Follow the slots, then nodes that have a claim and no slot, and give slots away."""
        for slot in self._view.standing:
            if slot.is_held and slot.node not in self.slots:
                self._follow(slot)
        self._bequeath()
        for name, node in self._view.nodes.items():
            if name not in self.slots and name not in self.steps:
                self._follow_without_slot(node)
        said = self._give()
        slots = (*self.slots.values(), *self.passed_over.values())
        moments = [
            *(each.again_at for each in self.steps.values()),
            *(each.deadline for each in slots),
            *(later(each.since, LATE_SECONDS) for each in slots),
        ]
        return RolloutResult(
            steps=self.steps,
            slots=slots[:MAX_SLOTS],
            looks=(*self.looks, *(each.look for each in self.steps.values() if each.look is not None)),
            said=said,
            again_at=min((each for each in moments if each and each > self._now), default=None),
        )

    def _is_remembered(self, slot: Slot) -> bool:
        """Whether a node that had its turn is passed over, or has not come back until now."""
        node = self._view.nodes.get(slot.node)
        if slot.is_held or slot.deadline is None or slot.deadline <= self._now:
            return False
        # Another operator may still see the node that had the slot.
        is_same = node is not None and (node.uid == slot.uid or self._is_recent(slot))
        return node is None if slot.state == SlotState.LOST else is_same

    # What has a slot.

    def _follow(self, slot: Slot) -> None:
        """Say what becomes of a slot, and of its node."""
        node, copy = self._view.nodes.get(slot.node), read(slot.claim)
        if node is None:
            self._follow_missing(slot, copy)
            return
        found = claim_of(node)
        if isinstance(found, Unreadable) and self._view.block is None:
            found = None  # no one tries again: what was handed over ends by the copy in its slot
        if isinstance(found, Unreadable):
            self.quarantine(node, slot, found)
        elif isinstance(found, Claim) and found.state in IN_WORK:
            self.advance(node, found, slot)
        elif found is None and isinstance(copy, Claim) and is_handed_over(node, copy):
            self._inherit(node, copy, slot)
        elif slot.state in BEFORE_HAND_OVER and self._is_recent(slot):
            self._follow_without_slot(node)
            self.slots.setdefault(slot.node, slot)
        elif found is None and slot.state in BEFORE_HAND_OVER:
            self.pass_over(slot)
        elif slot.state == SlotState.RESERVED and self._is_same(slot, node):
            self._claim(node, found if isinstance(found, Claim) else None, slot)

    def _claim(self, node: Node, failed: Claim | None, slot: Slot) -> None:
        """Claim a node by its slot; one that has failed stays as it is until then."""
        if failed is not None:
            self.stay(node, failed)
        if node.name not in self.slots:
            attempts = failed.attempts if failed else 0
            self.reserved(node, slot, self.new_claim(node, slot.since, attempts=attempts))

    def _follow_missing(self, slot: Slot, copy: object) -> None:
        """Say what becomes of the slot of a node that is gone, or that is no node of the pool any more."""
        node, block = self._view.others.get(slot.uid), self._view.block
        claim = copy if isinstance(copy, Claim) else None
        holder = self._holder(claim) if claim else None
        if claim and holder and holder.uid != claim.before.uid:
            return  # another machine has the claim, and a slot by it
        if node is not None:
            kept = slot_of_left(slot, node, now=self._now)
        else:
            kept = slot_of_gone(slot, is_ours=block is not None and block.is_ours, now=self._now)
        if kept is None:
            return
        if kept.is_held:
            self.slots[slot.node] = kept
        else:
            self.passed_over[slot.node] = kept
        if node is None and holder is None:
            self._gone.append(kept)

    def _holder(self, copy: Claim) -> Node | None:
        """Return the node that has the claim of a copy: another machine rather than the first one.

        It may have left the pool meanwhile.
        """
        nodes = (*self._view.nodes.values(), *self._view.others.values())
        found = ((node, claim_of(node)) for node in nodes if UPGRADE_ANNOTATION in node.annotations)
        holders = [node for node, each in found if isinstance(each, Claim) and each.claim == copy.claim]
        return min(holders, key=lambda node: node.uid == copy.before.uid, default=None)

    def _bequeath(self) -> None:
        """Move the slots of nodes that are gone to the machines that take their place.

        The status has it before a machine is touched: of two operators only one says which it is (P6).
        """
        heirs = heirs_of(self._gone, self._view.nodes, taken=self.slots)
        for name, heir in heirs.items():
            moved = {"node": heir.name, "uid": heir.uid, "since": self._now}
            self.slots[heir.name] = self.slots.pop(name).model_copy(update=moved)
            self.passed_over.pop(heir.name, None)

    def _inherit(self, node: Node, copy: Claim, slot: Slot) -> None:
        """Continue the claim of a slot on a node that does not have it.

        Another operator may have found the machine back under its own name, with late news of the slot. Then
        that one has the claim, and a slot by it. With late news of nodes the first machine is still there.
        """
        holder = self._holder(copy)
        if holder is None:
            self.inherit(node, copy, slot)
        elif holder.uid == copy.before.uid and self._is_recent(slot):
            self.slots[node.name] = slot

    def _is_recent(self, slot: Slot) -> bool:
        """Whether news of nodes may be older than a slot."""
        return self._now < later(slot.since, LATE_SECONDS)

    def _is_same(self, slot: Slot, node: Node) -> bool:
        return slot.uid == node.uid and slot.deadline is not None and slot.deadline > self._now

    def _follow_without_slot(self, node: Node) -> None:
        """Say what becomes of a node without a slot: its claim has ended, or the status was lost."""
        found = claim_of(node)
        if isinstance(found, Unreadable):
            said = f"The annotation {UPGRADE_ANNOTATION} is not one of the operator, which removes it."
            self.steps[node.name] = NodeStep(node, None, Desired(), said=said)
        elif isinstance(found, Claim) and found.state in ENDED_BADLY:
            block = self._view.block
            if block is not None and block.is_ours:
                self.stay(node, found)
            else:
                self.let_go(node, found)
        elif (
            isinstance(found, Claim)
            and found.state is UpgradeState.CLAIMED
            and not self.has_room(node, self.slots)  # only here: it counts all slots
        ):
            self.let_go(node, found, "The slots of other nodes are all that there are.")
        elif isinstance(found, Claim) and (self._has_heir(node, found) or self._has_left(node)):
            said = "Its slot has ended, or another machine takes its place."
            self.steps[node.name] = NodeStep(node, found, desired_of(found), found.state, said)
        elif isinstance(found, Claim):
            slot = self._slot_of(node, found)
            self.advance(node, found, slot.model_copy(update={"uid": found.before.uid}))

    def _has_left(self, node: Node) -> bool:
        """Whether another operator has ended the slot of a node: it is gone, and news of that are late."""
        slot = self.passed_over.get(node.name)
        return slot is not None and slot.uid == node.uid and self._is_recent(slot)

    def _has_heir(self, node: Node, claim: Claim) -> bool:
        """Whether another operator has moved the slot of a node: it is gone, and news of that are late."""
        others = (each for each in self._view.standing if each.node != node.name and self._is_recent(each))
        copies = (read(each.claim) for each in others)
        is_moved = any(isinstance(each, Claim) and each.claim == claim.claim for each in copies)
        return node.uid == claim.before.uid and is_moved

    def _give(self) -> str:
        """Give slots to nodes in the order of the plan; return why no more get one, empty where all have."""
        view = self._view
        sick = RolloutResult(self.steps).unhealthy
        if len(sick) >= MOST_UNHEALTHY:
            return f"Nodes are not Ready after their upgrade: {', '.join(sick)}."
        said = ""
        for each in view.waiting:
            if each.node in self.slots or not self._may_be_next(each):
                continue
            if not self.has_room(view.nodes[each.node], self.slots) or len(self.slots) >= MAX_SLOTS:
                # One that has failed is cordoned itself, so that its turn may come before others'.
                said = said or "spec.upgrade.maxUnavailable permits no more at a time."
                continue
            if any(group != (each.turn, each.zone) for group in self._groups()):
                return "Nodes that come before it, by canary and zone, are not done."
            if len(self.slots) >= view.snapshot.most_slots:
                return CAPPED
            self.slots[each.node] = slot_of(
                view.nodes[each.node], SlotState.RESERVED, self._now, deadline=self._in(RESERVED_SECONDS)
            )
        return said

    def _may_be_next(self, each: PlannedNode) -> bool:
        """Whether a node may be claimed: it is available, or its upgrade has failed and its time has come."""
        node = self._view.nodes[each.node]
        found = claim_of(node)
        if each.node in self.passed_over:
            return False
        if not isinstance(found, Claim):
            return is_available(node)
        return found.may_be_retried(self._now)

    def _groups(self) -> Iterator[tuple[int, str]]:
        """Yield the turn and zone of each node that has a slot."""
        waiting = {each.node: (int(each.turn), each.zone) for each in self._view.waiting}
        for name in self.slots:
            step = self.steps.get(name)
            if step is not None and step.claim is not None:
                yield step.claim.turn, step.claim.zone
            elif name in waiting:
                yield waiting[name]
