"""What the record of a node says beside the keys that are ours.

It says what is doubted, which conditions there are, and what was lost: the keys of the pool that were on the
node when its record could not be read. It is unknown who had set these, so they count as someone else's (P3),
and stay when the pool is deleted. The next record names them, as long as the node has them, so that the
status continues to report them. If a person removes one, the question is settled: the pool sets it again, and
then it is the pool's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from winpool.api.keys import POOL_LABEL
from winpool.objects.keys import NO_KEYS, Keys
from winpool.ownership import record as records
from winpool.ownership.record import Record
from winpool.ownership.rights import names, standing

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from winpool.objects.node import Node
    from winpool.ownership.goals import Target
    from winpool.ownership.record import Owned, Unreadable

K = TypeVar("K")


def why_unreadable(node: Node, found: Record | Unreadable | None, *, pool_name: str) -> str:
    """Say why the record on ``node`` gives no rights; empty where it does, or there never was one."""
    if found is None:
        is_labelled = node.labels.get(POOL_LABEL) == pool_name
        return "it is missing, though the pool label is there" if is_labelled else ""
    return "" if isinstance(found, Record) else found.why


def lost_on(node: Node, found: Record | Unreadable | None, *, pool_uid: str, known: Keys, why: str) -> Keys:
    """Return which keys of the pool are on ``node`` that a damaged record has lost.

    ``known`` are the keys that the pool asks for or has set: a forged record can name no others. ``why`` says
    why the record cannot be read, empty where it can.
    """
    if isinstance(found, Record):
        lost = found.lost if found.pool_uid == pool_uid else NO_KEYS
    else:
        lost = known if why else NO_KEYS
    return standing(lost & known, node) if lost else NO_KEYS


def stays_behind(lost: Keys, *, labels: Mapping[str, Owned], taints: Mapping[tuple[str, str], Owned]) -> Keys:
    """Return what of ``lost`` stays when the pool is deleted: all that the release does not remove."""
    if not lost:
        return NO_KEYS
    return Keys(
        frozenset(key for key in lost.labels if not _comes_off(key, labels)),
        frozenset(each for each in lost.taints if not _comes_off(each, taints)),
    )


def _comes_off(key: K, owned: Mapping[K, Owned]) -> bool:
    own = owned.get(key)
    return own is not None and own.before is None


def settled(kept: Record, *, node: Node) -> Record:
    """Return ``kept`` without the values from before of keys that were lost, and have been removed since."""
    if not kept.lost or not (removed := kept.lost - standing(kept.lost, node)):
        return kept
    return replace(
        kept,
        labels=_without_before(kept.labels, removed.labels),
        taints=_without_before(kept.taints, removed.taints),
    )


def _without_before(owned: Mapping[K, Owned], keys: Collection[K]) -> dict[K, Owned]:
    return {
        key: replace(own, before=None, before_time=None) if key in keys else own for key, own in owned.items()
    }


def conditions_to_name(node: Node, found: Record | Unreadable | None, target: Target) -> frozenset[str]:
    """Return which conditions the record is to name: those that are wanted, and those that are not gone yet.

    Removing one that is not ours does nothing (server-side apply), so a forged record does no harm.
    """
    standing = {each.type for each in node.conditions}
    recorded = found.conditions if isinstance(found, Record) else frozenset()
    return frozenset(each.type for each in target.conditions) | (recorded & standing)


def text_of(record: Record, *, doubted: Record, goes_on: bool) -> str:
    """Return the text of ``record``, which still claims what is ``doubted``, or names it as left alone.

    It still claims it while there is no guard: the claim may count later. If both do not fit, what is ours
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
    bare = replace(record, left=NO_KEYS)
    choices = (claimed, told, bare, replace(bare, lost=NO_KEYS))
    return records.render_first_fitting(*choices[0 if goes_on else 1 :])
