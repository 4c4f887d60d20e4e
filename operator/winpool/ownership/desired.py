"""Says what a node is to have, merged from all features, and what its ownership record names beside that.

A feature names keys. A key with a value is to be on the node with it. A key with None is not to be there, as
every key of ours that no feature names; for a borrowed key this means that what we did is undone by the
record. A key with KEEP stays as it is: the feature cannot decide now, since something is not known, or has to
wait. Each key has one feature that names it. Two features that name the same key are a bug.

Beside the keys that are ours the record says what is doubted, which conditions there are, and what was lost:
the keys of the pool that were on the node when its record could not be read. It is unknown who had set these,
so they count as someone else's (P3), and stay when the pool is deleted. The next record names them, as long
as the node has them, so that the status continues to report them. If a person removes one, the question is
settled: the pool sets it again, and then it is the pool's.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from winpool.api.keys import (
    BORROWED_ANNOTATIONS,
    CONDITIONS,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    POOL_LABEL,
    PREFIX,
    RECORDED_ANNOTATIONS,
    REQUEST_ANNOTATIONS,
)
from winpool.model.node import NO_KEYS, Keys, Node, NodeCondition
from winpool.ownership.record import Owned, Record, TaintIdentity, Unreadable, render_first_fitting
from winpool.ownership.trust import names, standing

K = TypeVar("K", bound="Hashable")

NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class Keep(Enum):
    """That a key stays as it is."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP
DesiredValue = str | None | Keep


class FeaturesDisagreeError(Exception):
    """Two features name one key of a node, or one names a key that it may not: always a bug of a feature."""


class Desired(msgspec.Struct, frozen=True, eq=False):
    """What a node is to have: as one feature wants it, or as all do together. Nodes that are alike share one.

    ``annotations`` are of the table of our keys; a request of others can only be ABSENT, once it is served,
    or where the operator may make it too, be made: the record then names it as ours.
    ``unschedulable`` is True for a cordon, False for no cordon of ours, KEEP, or None where the feature does
    not decide it. ``withheld`` are taints that the feature leaves now and wants later, with their values:
    they are not part of the patch, but of its goal. ``timed`` are taints that get the time at which we add
    them. With ``keeps_rest`` all that no feature names stays as it is: the feature cannot decide yet.
    """

    labels: Mapping[str, DesiredValue] = msgspec.field(default_factory=lambda: NONE)
    annotations: Mapping[str, DesiredValue] = msgspec.field(default_factory=lambda: NONE)
    taints: Mapping[TaintIdentity, DesiredValue] = msgspec.field(default_factory=lambda: NONE)
    unschedulable: bool | Keep | None = None
    conditions: tuple[NodeCondition, ...] = ()
    withheld: Mapping[TaintIdentity, str] = msgspec.field(default_factory=lambda: NONE)
    timed: frozenset[TaintIdentity] = frozenset()
    keeps_rest: bool = False


NOTHING_DESIRED: Final = Desired()
"""What a feature wants on a node that does not concern it: nothing of its own."""

KEEP_ALL: Final = Desired(keeps_rest=True)


def merged(parts: Sequence[Desired]) -> Desired:
    """Merge what the features want on one node; raises FeaturesDisagreeError."""
    annotations = _merged((each.annotations for each in parts), known=_ANNOTATIONS, what="annotation")
    if wrong := [key for key, value in annotations.items() if _is_for_others(key) and value is not None]:
        raise FeaturesDisagreeError(
            f"{wrong} is a request of others, which is taken off once served, or left"
        )
    cordons = [each.unschedulable for each in parts if each.unschedulable is not None]
    if len(cordons) > 1:
        raise FeaturesDisagreeError("two features have a say in spec.unschedulable")
    conditions = tuple(sorted((each for part in parts for each in part.conditions), key=_type_of))
    if len({each.type for each in conditions}) < len(conditions) or any(
        each.type not in CONDITIONS for each in conditions
    ):
        raise FeaturesDisagreeError(
            f"two features set one condition, or one that is not in the table: {conditions}"
        )
    return Desired(
        labels=_merged((each.labels for each in parts), known=OWN_LABELS, what="label"),
        annotations=annotations,
        taints=_merged((each.taints for each in parts), known=OWN_TAINTS, what="taint"),
        unschedulable=cordons[0] if cordons else None,
        conditions=conditions,
        withheld={key: value for part in parts for key, value in part.withheld.items()},
        timed=frozenset().union(*(each.timed for each in parts)),
        keeps_rest=any(each.keeps_rest for each in parts),
    )


_ANNOTATIONS: Final = (*OWN_ANNOTATIONS, *BORROWED_ANNOTATIONS, *REQUEST_ANNOTATIONS)


def _is_for_others(key: str) -> bool:
    """Whether only others make the request that ``key`` names; some of them the operator makes, too."""
    return key in REQUEST_ANNOTATIONS and key not in RECORDED_ANNOTATIONS


def _type_of(condition: NodeCondition) -> str:
    return condition.type


def _merged(
    wishes: Iterable[Mapping[K, DesiredValue]], *, known: Sequence[K], what: str
) -> dict[K, DesiredValue]:
    found: dict[K, DesiredValue] = {}
    for each in wishes:
        if twice := found.keys() & each.keys():
            raise FeaturesDisagreeError(f"two features have a say in the {what} {sorted(map(str, twice))}")
        found.update(each)
    for key in found:
        name = key[0] if isinstance(key, tuple) else str(key)
        if key not in known and (name.startswith(PREFIX) or what == "annotation"):
            raise FeaturesDisagreeError(f"the {what} {key} is not in the table of our keys (api/keys.py)")
    return found


_K = TypeVar("_K")


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


def _comes_off(key: _K, owned: Mapping[_K, Owned]) -> bool:
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


def _without_before(owned: Mapping[_K, Owned], keys: Collection[_K]) -> dict[_K, Owned]:
    return {
        key: replace(own, before=None, before_time=None) if key in keys else own for key, own in owned.items()
    }


_NO_CONDITIONS: Final[frozenset[str]] = frozenset()
"""Kept once: Python makes a new empty one each time."""


def conditions_to_name(node: Node, found: Record | Unreadable | None, desired: Desired) -> frozenset[str]:
    """Return which conditions the record is to name: those that are wanted, and those that are not gone yet.

    Removing one that is not ours does nothing (server-side apply), so a forged record does no harm.
    """
    standing = {each.type for each in node.conditions}
    recorded = found.conditions if isinstance(found, Record) else frozenset()
    return frozenset(each.type for each in desired.conditions) | (recorded & standing) or _NO_CONDITIONS


def text_of(record: Record, *, doubted: Record, claims_doubted: bool) -> str:
    """Return the text of ``record``, which still claims what is ``doubted``, or names it as left alone.

    It claims it with ``claims_doubted``, where there is no guard: the claim may count later. If both do not
    fit, what is ours comes before what is doubted: a record that is too long gives no rights at all.
    """
    claimed = replace(
        record,
        labels={**doubted.labels, **record.labels},
        annotations={**doubted.annotations, **record.annotations},
        taints={**doubted.taints, **record.taints},
        unschedulable=doubted.unschedulable or record.unschedulable,
    )
    left_alone = replace(record, left=record.left | (names(doubted) - names(record)))
    bare = replace(record, left=NO_KEYS)
    choices = (claimed, left_alone, bare, replace(bare, lost=NO_KEYS))
    return render_first_fitting(*choices[0 if claims_doubted else 1 :])
