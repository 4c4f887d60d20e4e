"""The label ``winpool.dev/upgrade-state`` of a node: what it is to say, and when it may change.

``Required`` is a permission. It is given only where it is known that the node is due, every gate permits and
nothing stops it; and it is withdrawn, as ``Gated``, wherever that is not so, also where nothing else may be
written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from winpool.api.keys import UPGRADE_STATE_LABEL
from winpool.api.moments import later
from winpool.api.upgrade import UpgradeState
from winpool.ownership.goals import LEAVE, NO_GOALS, Goals

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from winpool.objects.node import Node

LABEL_SECONDS: Final = 60.0
"""The label of a node changes at most once in this time by gates. A gate that opens and closes all the time
must not make a write for each of thousands of nodes every time."""

_GOALS: Final[Mapping[str, Goals]] = {
    each.value: Goals(labels={UPGRADE_STATE_LABEL: each.value}) for each in UpgradeState
}
_LEFT: Final = Goals(labels={UPGRADE_STATE_LABEL: LEAVE})


def state_of(node: Node, *, is_due: bool, is_unknown: bool, is_permitted: bool) -> UpgradeState | None:
    """Return what the label is to say; None where it is to stay as it is, since it is not known.

    A permission does not outlast what is known.
    """
    if is_due:
        return UpgradeState.REQUIRED if is_permitted else UpgradeState.GATED
    if not is_unknown:
        return UpgradeState.UP_TO_DATE
    return UpgradeState.GATED if node.labels.get(UPGRADE_STATE_LABEL) == UpgradeState.REQUIRED else None


def only_withdrawn(node: Node, state: UpgradeState | None) -> Goals:
    """Return what is wanted of the label where nothing may be written but that a permission is withdrawn."""
    standing = node.labels.get(UPGRADE_STATE_LABEL)
    if standing == UpgradeState.REQUIRED and state is not UpgradeState.REQUIRED:
        return _GOALS[UpgradeState.GATED]
    return as_it_is(standing)


def as_it_is(standing: str | None) -> Goals:
    """Return that the label stays as it is: ``standing``, None where there is none.

    A value of ours is wanted by name, and no label by not naming it: unlike LEAVE, both pass the quick check
    of thousands of nodes (``ownership.brief``).
    """
    return NO_GOALS if standing is None else _GOALS.get(standing, _LEFT)


def waits_until(
    node: Node, state: UpgradeState | None, *, labelled_at: datetime | None, now: datetime
) -> datetime | None:
    """Return until when the label has to wait before it says ``state``; None where it need not.

    Only a change between Required and Gated waits, since only that follows from gates. A time in the future
    is no reason to wait: the clock was set back.
    """
    standing = node.labels.get(UPGRADE_STATE_LABEL)
    if (
        labelled_at is None
        or state is None
        or standing == state
        or UpgradeState.UP_TO_DATE in (standing, state)
    ):
        return None
    if standing not in _GOALS:
        return None
    until = later(labelled_at, LABEL_SECONDS)
    return until if labelled_at <= now < until else None


def goals_of(node: Node, state: UpgradeState | None) -> Goals:
    """Return what is wanted of the label of ``node``, which is to say ``state``."""
    return as_it_is(node.labels.get(UPGRADE_STATE_LABEL)) if state is None else _GOALS[state]
