"""What a node is to have: as each room wants it, and merged.

A room names keys. A key with a value is to be on the node with it (SET). A key with None is not to be there
(ABSENT), as every key of ours that no room names; for a borrowed key this means that what we did is undone by
the record. A key with LEAVE stays as it is: the room cannot decide now, since something is not known, or has
to wait.

Each key has one room that names it. Two rooms that name the same key are a bug.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from winpool.api.keys import PREFIX
from winpool.api.node_keys import (
    BORROWED_ANNOTATIONS,
    CONDITIONS,
    OWN_ANNOTATIONS,
    OWN_LABELS,
    OWN_TAINTS,
    RECORDED_ANNOTATIONS,
    REQUEST_ANNOTATIONS,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from winpool.objects.node import NodeCondition
    from winpool.ownership.record import TaintIdentity

K = TypeVar("K", bound="Hashable")

NONE: Final[Mapping[Any, Any]] = MappingProxyType({})


class Leave(Enum):
    """The wish to leave a key as it is."""

    LEAVE = "leave"


LEAVE: Final = Leave.LEAVE
Wish = str | None | Leave


class RoomsDisagreeError(Exception):
    """Two rooms name one key of a node, or one names a key that it may not: always a bug of a room."""


@dataclass(frozen=True, slots=True, eq=False)
class Goals:
    """What one room wants on one node. Nodes that are alike share one object.

    ``annotations`` are of the table of our keys; a request of others can only be ABSENT, once it is served,
    or where the operator may make it too, be made: the record then names it as ours.
    ``unschedulable`` is True for a cordon, False for no cordon of ours, LEAVE, or None where the room does
    not decide it. ``withheld`` are taints that the room leaves now and wants later, with their values: they
    are not part of the patch, but of the purpose (``Target.goal``). ``timed`` are taints that get the time at
    which we add them. With ``leaves_rest`` all that no room names stays as it is: the room cannot decide yet.
    """

    labels: Mapping[str, Wish] = field(default_factory=lambda: NONE)
    annotations: Mapping[str, Wish] = field(default_factory=lambda: NONE)
    taints: Mapping[TaintIdentity, Wish] = field(default_factory=lambda: NONE)
    unschedulable: bool | Leave | None = None
    conditions: tuple[NodeCondition, ...] = ()
    withheld: Mapping[TaintIdentity, str] = field(default_factory=lambda: NONE)
    timed: frozenset[TaintIdentity] = frozenset()
    leaves_rest: bool = False


NO_GOALS: Final = Goals()
"""What a room wants on a node that does not concern it: nothing of its own."""

LEAVE_ALL: Final = Goals(leaves_rest=True)


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a node is to have in the end.

    It distinguishes the repetition of a write that someone undid from a write with another purpose.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: Mapping[TaintIdentity, str]
    unschedulable: bool
    cleared: frozenset[str]


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """What all rooms together want on a node. Nodes that are alike share one object.

    Labels, annotations and taints under our prefix (``own_…``) are separate: they need no record.
    ``left_…`` are those that stay as they are, and ``absent`` those that a room wants to be absent, whatever
    else is left. ``cleared`` are requests of others that were served, ``timed`` the taints that get the time
    at which we add them. ``is_plain`` says that the quick check (``brief``) can compare it, ``wants_nothing``
    that no room names anything on the node.
    """

    labels: Mapping[str, str]
    own_labels: Mapping[str, str]
    annotations: Mapping[str, str]
    own_annotations: Mapping[str, str]
    taints: Mapping[TaintIdentity, str]
    own_taints: Mapping[TaintIdentity, str]
    left_labels: frozenset[str]
    left_annotations: frozenset[str]
    left_taints: frozenset[TaintIdentity]
    absent: frozenset[object]
    unschedulable: bool | Leave | None
    cleared: frozenset[str]
    timed: frozenset[TaintIdentity]
    conditions: tuple[NodeCondition, ...]
    leaves_rest: bool
    goal: Purpose
    is_plain: bool
    wants_nothing: bool


def merged(wishes: Sequence[Goals]) -> Target:
    """Merge what the rooms want on one node; raises RoomsDisagreeError."""
    labels = _merged((each.labels for each in wishes), known=OWN_LABELS, what="label")
    annotations = _merged((each.annotations for each in wishes), known=_ANNOTATIONS, what="annotation")
    taints = _merged((each.taints for each in wishes), known=OWN_TAINTS, what="taint")
    cordons = [each.unschedulable for each in wishes if each.unschedulable is not None]
    if len(cordons) > 1:
        raise RoomsDisagreeError("two rooms have a say in spec.unschedulable")
    conditions = tuple(sorted((each for goals in wishes for each in goals.conditions), key=_type_of))
    if len({each.type for each in conditions}) < len(conditions) or any(
        each.type not in CONDITIONS for each in conditions
    ):
        raise RoomsDisagreeError(
            f"two rooms set one condition, or one that is not in the table: {conditions}"
        )
    if wrong := [key for key, wish in annotations.items() if _is_for_others(key) and wish is not None]:
        raise RoomsDisagreeError(f"{wrong} is a request of others, which is taken off once served, or left")
    withheld = {key: value for goals in wishes for key, value in goals.withheld.items()}
    set_labels, set_annotations, set_taints = _set(labels), _set(annotations), _set(taints)
    unschedulable = cordons[0] if cordons else None
    cleared = frozenset(
        key for key, wish in annotations.items() if key in REQUEST_ANNOTATIONS and wish is None
    )
    left_labels, left_annotations, left_taints = _left(labels), _left(annotations), _left(taints)
    leaves_rest = any(each.leaves_rest for each in wishes)
    return Target(
        labels=_part(set_labels, OWN_LABELS, are_among=False),
        own_labels=_part(set_labels, OWN_LABELS, are_among=True),
        annotations=_part(set_annotations, OWN_ANNOTATIONS, are_among=False),
        own_annotations=_part(set_annotations, OWN_ANNOTATIONS, are_among=True),
        taints=_part(set_taints, OWN_TAINTS, are_among=False),
        own_taints=_part(set_taints, OWN_TAINTS, are_among=True),
        left_labels=left_labels,
        left_annotations=left_annotations,
        left_taints=left_taints,
        unschedulable=unschedulable,
        cleared=cleared,
        timed=frozenset().union(*(each.timed for each in wishes)),
        conditions=conditions,
        leaves_rest=leaves_rest,
        absent=_absent(labels) | _absent(annotations) | _absent(taints),
        goal=Purpose(set_labels, set_annotations, {**set_taints, **withheld}, unschedulable is True, cleared),
        is_plain=not (
            leaves_rest
            or unschedulable is True
            or unschedulable is LEAVE
            or conditions
            or cleared
            or left_labels
            or left_annotations
            or left_taints.difference(OWN_TAINTS)
        ),
        wants_nothing=leaves_rest
        and not (labels or annotations or taints or conditions or unschedulable is not None),
    )


_ANNOTATIONS: Final = (*OWN_ANNOTATIONS, *BORROWED_ANNOTATIONS, *REQUEST_ANNOTATIONS)


def _is_for_others(key: str) -> bool:
    """Whether only others make the request that ``key`` names; some of them the operator makes, too."""
    return key in REQUEST_ANNOTATIONS and key not in RECORDED_ANNOTATIONS


def _type_of(condition: NodeCondition) -> str:
    return condition.type


def _merged(wishes: Iterable[Mapping[K, Wish]], *, known: Sequence[K], what: str) -> dict[K, Wish]:
    found: dict[K, Wish] = {}
    for each in wishes:
        if twice := found.keys() & each.keys():
            raise RoomsDisagreeError(f"two rooms have a say in the {what} {sorted(map(str, twice))}")
        found.update(each)
    for key in found:
        name = key[0] if isinstance(key, tuple) else str(key)
        if key not in known and (name.startswith(PREFIX) or what == "annotation"):
            raise RoomsDisagreeError(f"the {what} {key} is not in the table of our keys (api/node_keys.py)")
    return found


def _set(wishes: Mapping[K, Wish]) -> dict[K, str]:
    return {key: wish for key, wish in wishes.items() if isinstance(wish, str)}


def _left(wishes: Mapping[K, Wish]) -> frozenset[K]:
    return frozenset(key for key, wish in wishes.items() if wish is LEAVE)


def _absent(wishes: Mapping[K, Wish]) -> frozenset[object]:
    return frozenset(key for key, wish in wishes.items() if wish is None)


def _part(values: Mapping[K, str], keys: Sequence[K], *, are_among: bool) -> dict[K, str]:
    return {key: value for key, value in values.items() if (key in keys) is are_among}
