"""Says what becomes of the slot of a node that is gone, or has left its pool, and which machine inherits it.

Before the hand-over the slot ends with the pods of the node. After it, it stays to the deadline of the claim:
someone is at work on the machine, and brings it back. A new Node of the same name inherits slot and claim.
With the method Replace it may have another name, too: the oldest node that was created since the old one was
drained and that no slot or claim has. One that comes first, while the old Node still exists, is a node like
others until the old one is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from winpool.api.keys import UPGRADE_ANNOTATION
from winpool.api.status import Slot, SlotState
from winpool.api.text import later
from winpool.features.upgrade.claims import Claim, is_with_actor, read
from winpool.model.node import Node

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
        end = later(second, LOST_SECONDS)
        changes = {"state": SlotState.LOST, "since": second, "deadline": end, "claim": ""}
        return slot.model_copy(update=changes) if is_ours else None
    if slot.state != SlotState.GONE:
        end = later(second, GONE_SECONDS)
        return slot.model_copy(update={"state": SlotState.GONE, "since": second, "deadline": end})
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
