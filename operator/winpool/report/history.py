"""What ``status.history`` says: which targets the nodes were brought to, since when, and how that ended.

It follows from the history as it stands and from what is due now. So it needs no memory of this process, and
alone it never causes a write: an entry changes only where the nodes that are due change, the target, or an
override.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.api.history import MAX_HISTORY, HistoryEntry, HistoryResult
from winpool.api.upgrade import Gate

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from winpool.objects.pool import Pool
    from winpool.upgrade.records import UpgradeOverview


REOPENED: Final = timedelta(hours=1)
"""One node whose kubelet reports another version now and then must not push ten upgrades out of the history,
nor begin the clock of the alert about upgrades that are due for too long again."""


def history(pool: Pool, overview: UpgradeOverview | None, *, now: datetime) -> tuple[HistoryEntry, ...]:
    """Return the history, the newest entry first.

    An entry begins when nodes are due, and ends when none is, or when the target is another one. While it is
    not known of a node whether it is due, an entry goes on (P4). Its ``nodes`` is the most that were due at
    once: which these were is not kept. An entry that ended less than an hour ago goes on where nodes are due
    for the same target again.

    Without an ``overview`` nothing is known, and it stays as it is; but where the spec asks for no upgrades
    any more, no one goes on with the target.
    """
    before = pool.status.history
    first = before[0] if before else None
    standing = first if first and first.result is HistoryResult.IN_PROGRESS else None
    ended = before[1:] if standing else before
    if overview is None:
        if standing is None or pool.deleting or pool.spec is None or pool.spec.upgrade is not None:
            return before
        return (_ended(standing, HistoryResult.SUPERSEDED, now), *ended)
    found = _found(overview, now)  # with the target as the status keeps it: a long one is cut
    begun = (found,) if overview.due else ()
    if standing is None:
        if begun and first and _goes_on(first, found.target, now):
            return (_continued(_reopened(first), found), *before[1:])
        return (*begun, *before)[:MAX_HISTORY]
    if found.target != standing.target:
        return (*begun, _ended(standing, HistoryResult.SUPERSEDED, now), *ended)[:MAX_HISTORY]
    if begun:
        return (_continued(standing, found), *ended)
    return before if overview.unknown else (_ended(standing, HistoryResult.SUCCEEDED, now), *ended)


def _goes_on(ended: HistoryEntry, target: str, now: datetime) -> bool:
    """Whether nodes that are due for ``target`` go on with an entry that has just ended."""
    end = ended.end_time
    return (
        ended.target == target
        and ended.result is HistoryResult.SUCCEEDED
        and end is not None
        and end <= now < end + REOPENED
    )


def _reopened(ended: HistoryEntry) -> HistoryEntry:
    return ended.model_copy(update={"end_time": None, "result": HistoryResult.IN_PROGRESS})


def _found(overview: UpgradeOverview, now: datetime) -> HistoryEntry:
    return HistoryEntry(
        target=overview.target,
        start_time=now,
        nodes=len(overview.due),
        result=HistoryResult.IN_PROGRESS,
        overrides=_in_order(each.gate for each in overview.in_force),
    )


def _continued(standing: HistoryEntry, found: HistoryEntry) -> HistoryEntry:
    return standing.model_copy(
        update={
            "nodes": max(standing.nodes, found.nodes),
            "overrides": _in_order((*standing.overrides, *found.overrides)),
        }
    )


def _ended(standing: HistoryEntry, result: HistoryResult, now: datetime) -> HistoryEntry:
    """Return ``standing`` as it ended: not before it began, whatever the clock says."""
    at = max(now.replace(microsecond=0), standing.start_time)
    return standing.model_copy(update={"end_time": at, "result": result})


_PLACES = {gate.value: place for place, gate in enumerate(Gate)}


def _in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return each name once, those of gates in their order, what an editor of the status wrote after them."""
    return tuple(sorted({str(each) for each in names}, key=lambda name: (_PLACES.get(name, len(Gate)), name)))
