"""Gives out the slots of a pool: which nodes may be upgraded at the same time (P6).

A slot is an entry of ``status.slots``. The status is written with the resourceVersion that was read, so of
two operators that act at the same time only one gives a slot away. A node is permitted once the status that
was read has its slot, and never before. Slots are by the names of nodes, since a new machine takes over the
slot of the one of that name which it replaces.

``held_slots`` says what became of the slots, and ``slots_of`` takes some back and gives others. What no one
uses passes on in the order of the plan. Once every node had its turn, nothing changes any more: nodes that
did not use their slot are remembered in the status, as entries that reserve nothing.

Where the operator upgrades nodes itself (``rollout``), the slot of a node that is gone ends before the
hand-over with its pods. After it, it stays to the deadline of the claim: someone is at work on the machine,
and brings it back. A new Node of the same name inherits slot and claim. With the method Replace it may have
another name, too: the oldest node that was created since the old one was drained and that no slot or claim
has. One that comes first, while the old Node still exists, is a node like others until the old one is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

import msgspec

from winpool.api.keys import UPGRADE_ANNOTATION, UPGRADE_STATE_LABEL
from winpool.api.status import MAX_SLOTS, Slot, SlotState
from winpool.api.text import later
from winpool.api.upgrade import UpgradeState
from winpool.features.upgrade.claims import Claim, is_with_actor, read
from winpool.model.node import Node, is_available

USE_SECONDS: Final = 1800.0
"""How long a node may leave its slot unused while others wait. An actor that asks once a minute, or runs on
one node after the other, has begun by then."""

REST_SECONDS: Final = 60.0
"""How long after a permission was withdrawn no other node gets its slot. An actor that has asked right before
has cordoned its node by then. So a gate that opens and closes all the time gives at most one permission for
each slot in this time, too."""


class Line(msgspec.Struct, frozen=True):
    """The nodes of a pool that want a slot, and how many there are to have.

    ``nodes`` are those of the pool by name. ``due`` are the names of those that are due, or of which that is
    not known. ``waiting`` are those that may be upgraded but for their slot, in the order of the plan,
    ``unclear`` those of them of which that is not known until the first list of pods. ``allowed`` is how many
    nodes may be unavailable. ``is_new_spec``: the status is not about the spec as it is.
    """

    nodes: Mapping[str, Node]
    due: Collection[str]
    waiting: Mapping[str, Node]
    unclear: Collection[str]
    allowed: int
    now: datetime
    most_slots: int = MAX_SLOTS
    is_new_spec: bool = False


def whole(moment: datetime) -> datetime:
    """Return the first whole second that is not before ``moment``."""
    return later(moment.replace(microsecond=0), 1) if moment.microsecond else moment


def secured(standing: Iterable[Slot]) -> frozenset[str]:
    """Return the names of the nodes that may be permitted by the slots in a status that was written."""
    return frozenset(each.node for each in standing if each.is_held and each.state != SlotState.WITHDRAWN)


def is_labelled(node: Node | None) -> bool:
    """Whether ``node`` has the permission."""
    return node is not None and node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED


def held_slots(
    standing: Iterable[Slot],
    nodes: Mapping[str, Node],
    *,
    others: Collection[str],
    rejoin_seconds: float,
    now: datetime,
) -> tuple[Slot, ...]:
    """Return the slots that nodes have, also those that are gone, or that became unavailable.

    ``others`` are the UIDs of nodes that exist and are not in the pool: these have none. A node that is
    permitted and unavailable has one, even where the status does not have it: someone removed it there.
    """
    found: dict[str, Slot] = {}
    for slot in standing:
        if not slot.is_held or slot.node in found:
            continue
        node = nodes.get(slot.node)
        if node is not None:
            found[slot.node] = slot if is_available(node) else _begun(slot, node, now)
        elif slot.uid not in others and (gone := _gone(slot, rejoin_seconds, now)):
            found[slot.node] = gone
    begun = [name for name, node in nodes.items() if is_labelled(node) and not is_available(node)]
    for name in sorted(begun):
        if name not in found and len(found) < MAX_SLOTS:
            found[name] = slot_of(nodes[name], SlotState.BEGUN, now)
    return tuple(found.values())


def _begun(slot: Slot, node: Node, now: datetime) -> Slot:
    is_known = slot.state == SlotState.BEGUN and slot.uid == node.uid
    return slot if is_known else slot_of(node, SlotState.BEGUN, now, boot_id=slot.boot_id)


def _gone(slot: Slot, rejoin_seconds: float, now: datetime) -> Slot | None:
    """Return the slot of a node that does not exist; None where no new node of that name came in time."""
    if slot.state != SlotState.GONE:
        return _changed(slot, SlotState.GONE, now, later(whole(now), rejoin_seconds))
    end = _end(slot, rejoin_seconds, now)
    return _changed(slot, SlotState.GONE, slot.since, end) if end > now else None


def _end(slot: Slot, seconds: float, now: datetime) -> datetime:
    """Return the deadline of a slot: never later than of one whose time begins now."""
    latest = later(whole(now), seconds)
    return latest if slot.deadline is None else min(slot.deadline, latest)


def slot_of(
    node: Node,
    state: str,
    since: datetime,
    *,
    deadline: datetime | None = None,
    boot_id: str | None = None,
    claim: str = "",
) -> Slot:
    """Return a slot of ``node``, by default with the boot ID that the node reports now."""
    return Slot(
        node=node.name,
        uid=node.uid,
        state=state,
        since=since,
        deadline=deadline,
        boot_id=node.boot_id if boot_id is None else boot_id,
        claim=claim,
    )


def _changed(slot: Slot, state: SlotState, since: datetime, deadline: datetime | None) -> Slot:
    return slot.model_copy(
        update={"state": state, "since": since.replace(microsecond=0), "deadline": deadline}
    )


def _reserved(node: Node, now: datetime) -> Slot:
    return slot_of(node, SlotState.RESERVED, now, deadline=later(whole(now), USE_SECONDS))


class Given(msgspec.Struct, frozen=True):
    """What ``status.slots`` is to say, and the names of the nodes that are permitted by their slots.

    A slot that was not written permits no node. But a node that is permitted already keeps that meanwhile.
    """

    slots: tuple[Slot, ...]
    permitted: frozenset[str]


NONE_GIVEN: Final = Given((), frozenset())


def slots_of(standing: Iterable[Slot], held: Iterable[Slot], line: Line) -> Given:
    """Take slots back and give others; ``held`` are those of the ``standing`` that nodes still have."""
    return _Pass(line, list(held), list(standing)).result()


class _Pass:
    """Takes slots back and gives others, once."""

    def __init__(self, line: Line, held: list[Slot], standing: list[Slot]) -> None:
        self._line = line
        self._now = line.now
        self._unavailable = {name for name, node in line.nodes.items() if not is_available(node)}
        self._secured = secured(standing)
        self._held = {each.node: each for each in held}
        self._unused = {} if line.is_new_spec else {each.node: each for each in self._remembered(standing)}
        self._labelled: dict[str, Slot] = {}  # as they stand, of nodes whose label is withdrawn first

    def result(self) -> Given:
        """Return the slots, and after them the memory of those that were not used."""
        for slot in list(self._held.values()):
            self._follow(slot)
        self._withdraw_beyond_budget()
        self._give()
        self._pass_on()
        slots = (*({**self._held, **self._labelled}.values()), *self._unused.values())
        return Given(slots=slots[:MAX_SLOTS], permitted=frozenset(filter(self._permits, self._held)))

    def _permits(self, name: str) -> bool:
        has_slot = self._held[name].state in (SlotState.RESERVED, SlotState.BEGUN)
        return has_slot and (name in self._secured or is_labelled(self._line.nodes[name]))

    def _remembered(self, standing: Iterable[Slot]) -> Iterator[Slot]:
        for each in standing:
            node = self._line.nodes.get(each.node)
            is_same = node is not None and node.uid == each.uid
            if each.state == SlotState.UNUSED and is_same and each.node in self._line.waiting:
                yield each

    def _follow(self, slot: Slot) -> None:
        """Say what became of the slot of a node that is there and available; others stay as they are."""
        node = self._line.nodes.get(slot.node)
        if node is None or not is_available(node):
            return
        new = _reserved(node, self._now)
        is_unused = slot.state in (SlotState.RESERVED, SlotState.WITHDRAWN) and slot.uid == node.uid
        has_restarted = bool(slot.boot_id and new.boot_id) and slot.boot_id != new.boot_id
        if not is_unused or has_restarted:  # it had begun
            if slot.node not in self._line.due:
                if not is_labelled(node):
                    del self._held[slot.node]
                return
            slot = self._held[slot.node] = new
        if slot.state == SlotState.WITHDRAWN:
            self._rest(slot, node)
            return
        if slot.node not in self._line.waiting:
            self._withdraw(slot)
        elif (end := _end(slot, USE_SECONDS, self._now)) != slot.deadline:
            self._held[slot.node] = _changed(slot, SlotState.RESERVED, slot.since, end)

    def _rest(self, slot: Slot, node: Node) -> None:
        """End a slot whose permission was withdrawn for REST_SECONDS, and remember it if it was not used."""
        end = _end(slot, REST_SECONDS, self._now)
        if end > self._now or is_labelled(node):
            self._held[slot.node] = _changed(slot, SlotState.WITHDRAWN, slot.since, end)
            return
        del self._held[slot.node]
        had_its_time = (end - slot.since).total_seconds() >= USE_SECONDS + REST_SECONDS
        if had_its_time and slot.node in self._line.waiting:
            self._unused[slot.node] = _changed(slot, SlotState.UNUSED, self._now, None)

    def _withdraw(self, slot: Slot) -> None:
        """Withdraw the permission of a node. Its slot ends REST_SECONDS after the label is gone."""
        if is_labelled(self._line.nodes[slot.node]):
            self._labelled[slot.node] = slot
        end = later(whole(self._now), REST_SECONDS)
        self._held[slot.node] = _changed(slot, SlotState.WITHDRAWN, slot.since, end)

    def _withdraw_beyond_budget(self) -> None:
        """Withdraw the last of the unused slots for each node that became unavailable without one."""
        active = {name for name, each in self._held.items() if each.state != SlotState.WITHDRAWN}
        beyond = len(active | self._unavailable) - self._line.allowed
        for slot in self._of(SlotState.RESERVED)[::-1][: max(beyond, 0)]:
            self._withdraw(slot)

    def _give(self) -> None:
        """Give slots while there are some to have: first to the nodes that are permitted already.

        One whose permission is about to be withdrawn counts as long as it has the label, also without a slot.
        Where only nodes are left that did not use theirs, something has changed: all have their turn again.
        """
        labelled = {name for name, node in self._line.nodes.items() if is_labelled(node)}
        taken = self._held.keys() | self._unavailable | (labelled - self._line.waiting.keys())
        for name in self._candidates():
            if len(taken) >= self._line.allowed or len(self._held) >= self._line.most_slots:
                return
            if name in self._unused:
                self._unused = {}
            self._held[name] = _reserved(self._line.nodes[name], self._now)
            taken.add(name)

    def _candidates(self) -> list[str]:
        free = {name: node for name, node in self._line.waiting.items() if name not in self._held}
        labelled = [name for name, node in free.items() if is_labelled(node)]
        others = [
            name for name, node in free.items() if not is_labelled(node) and name not in self._line.unclear
        ]
        return [*labelled, *sorted(others, key=lambda name: name in self._unused)]

    def _pass_on(self) -> None:
        """Withdraw slots whose time is over, as many as there are nodes that had none yet."""
        waiting = sum(each not in self._unused for each in self._candidates())
        resting = len(self._of(SlotState.WITHDRAWN))
        room = MAX_SLOTS - len(self._held) - len(self._unused)
        over = [each for each in self._held.values() if is_unused(each, now=self._now)]
        for slot in over[: max(min(waiting, room) - resting, 0)]:
            self._withdraw(slot)

    def _of(self, state: SlotState) -> list[Slot]:
        return [each for each in self._held.values() if each.state == state]


def is_unused(slot: Slot, *, now: datetime) -> bool:
    """Whether no one has used ``slot`` for the time that it takes at most."""
    return slot.state == SlotState.RESERVED and slot.deadline is not None and slot.deadline <= now


GONE_SECONDS: Final = 60.0
"""How long the pods of a node that was deleted may take to end: 40 s of quarantine, and the collector's turn
of 20 s. https://github.com/kubernetes/kubernetes/blob/v1.37.1/pkg/controller/podgc/gc_controller.go"""

LOST_SECONDS: Final = 3600.0
"""How long a machine that did not come back counts as failed: as long as a surprise is known, so that people
who look in find it, and what deletes machines and brings none gets no other one meanwhile."""


def slot_of_gone(slot: Slot, *, is_ours: bool, now: datetime) -> Slot | None:
    """Return what becomes of the slot of a node that does not exist; None where it ends.

    Without ``is_ours`` the operator upgrades no other nodes, and a machine that is lost stops none.
    """
    copy, second = read(slot.claim), now.replace(microsecond=0)
    if isinstance(copy, Claim):
        if not copy.passed(now):
            return slot.model_copy(update={"deadline": copy.deadline})
        lost = _changed(slot, SlotState.LOST, now, later(second, LOST_SECONDS))
        return lost.model_copy(update={"claim": ""}) if is_ours else None
    if slot.state != SlotState.GONE:
        return _changed(slot, SlotState.GONE, now, later(second, GONE_SECONDS))
    return slot if slot.deadline is not None and slot.deadline > now else None


def lost_nodes(slots: Iterable[Slot], *, now: datetime) -> list[str]:
    """Return the names of the nodes that were handed over, and in whose place no machine has come."""
    found = (each for each in slots if each.state == SlotState.LOST)
    return sorted(each.node for each in found if each.deadline is not None and each.deadline > now)


def slot_of_left(slot: Slot, node: Node, *, now: datetime) -> Slot | None:
    """Return the slot of a node that has left the pool, as long as someone is at work on its machine."""
    return slot if slot.claim and is_with_actor(node, now=now) else None


def heirs_of(gone: Iterable[Slot], nodes: Mapping[str, Node], *, taken: Iterable[str]) -> dict[str, Node]:
    """Return the machines that take the place of nodes that are ``gone``, by the names of these.

    ``nodes`` are those of the pool by name; those that are ``taken`` have a slot. The node that was drained
    first has the first choice, so that all operators come to the same answer.
    """
    claims = [(each.node, copy) for each in gone if isinstance(copy := read(each.claim), Claim)]
    waiting = sorted((copy.drained_at or copy.since, name) for name, copy in claims if copy.replaces)
    names = {*taken}
    free = sorted(
        (node.created, name)
        for name, node in nodes.items()
        if waiting and node.created and name not in names and _is_unclaimed(node)
    )
    found: dict[str, Node] = {}
    for since, name in waiting:
        place = next((place for place, (created, _) in enumerate(free) if created >= since), None)
        if place is not None:
            found[name] = nodes[free.pop(place)[1]]
    return found


def _is_unclaimed(node: Node) -> bool:
    """Whether nothing is known of an upgrade of ``node``, and it is here to stay."""
    return UPGRADE_ANNOTATION not in node.annotations and not node.deleting
