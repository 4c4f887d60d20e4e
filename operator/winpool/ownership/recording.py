"""What the record of a node is to say, beside the keys that are ours: what is doubted, and conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from winpool.objects.keys import NO_KEYS
from winpool.ownership import record as records
from winpool.ownership.record import Record
from winpool.ownership.rights import names

if TYPE_CHECKING:
    from winpool.objects.node import Node
    from winpool.ownership.goals import Target
    from winpool.ownership.record import Unreadable


def conditions_to_name(node: Node, found: Record | Unreadable | None, target: Target) -> frozenset[str]:
    """Return which conditions the record is to name: those that are wanted, and those that are not gone yet.

    To take one off that is not ours does nothing (server-side apply), so that a forged record does no harm.
    """
    standing = {each.type for each in node.conditions}
    recorded = found.conditions if isinstance(found, Record) else frozenset()
    return frozenset(each.type for each in target.conditions) | (recorded & standing)


def text_of(record: Record, *, doubted: Record, goes_on: bool) -> str:
    """Return the text of ``record``, which goes on to claim what is ``doubted``, or names it as left alone.

    The first while there is no guard: it may turn out to count. Where there is no room for both, what is ours
    comes before what is doubted: a record that is too long gives no rights at all.
    """
    claimed = replace(
        record,
        labels={**doubted.labels, **record.labels},
        annotations={**doubted.annotations, **record.annotations},
        taints={**doubted.taints, **record.taints},
        unschedulable=doubted.unschedulable or record.unschedulable,
    )
    told = replace(record, left=record.left | (names(doubted) - names(record)))
    choices = (claimed, told, replace(record, left=NO_KEYS))
    return records.render_first_fitting(*choices[0 if goes_on else 1 :])
