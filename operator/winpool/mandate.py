"""What may be done for a pool now, and which of the due acts that permits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from winpool.api.v1alpha1 import Mode
from winpool.objects.acts import NO_ACTS, Acts
from winpool.ownership.dues import NOTHING_DUE, dues_of
from winpool.ownership.goals import LEAVE_ALL
from winpool.ownership.record import Record
from winpool.rooms import Mandate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from winpool.objects.acts import Eviction
    from winpool.objects.attempts import Attempts
    from winpool.objects.pool import Pool
    from winpool.ownership.members import Members
    from winpool.rooms import RoomResult
    from winpool.snapshot import Snapshot


def mandate_of(pool: Pool, *, is_accepted: bool) -> Mandate:
    """Return what may be done for ``pool``; ``is_accepted`` says whether its spec can be acted on.

    A deletion releases the nodes in every mode. A mode in which nothing is written has precedence over all
    else.
    """
    if pool.deleting:
        return Mandate.RELEASE
    if pool.spec is not None and pool.spec.mode is not Mode.ACTIVE:
        return Mandate.NOTHING
    return Mandate.ACT if is_accepted else Mandate.FINISH


def permitted(acts: Acts, attempts: Attempts) -> Acts:
    """Return those of ``acts`` whose patches were not tried too recently."""
    return Acts(
        patches=tuple([each for each in acts.patches if not attempts.holds_back(each)]),
        evictions=acts.evictions,
        conditions=acts.conditions,
    )


def unheld(acts: Acts, held: Collection[str]) -> Acts:
    """Return ``acts`` without those on nodes that people hold, by their names."""
    if not held:
        return acts
    return Acts(
        patches=tuple([each for each in acts.patches if each.node.name not in held]),
        evictions=tuple([each for each in acts.evictions if each.node not in held]),
        conditions=tuple([each for each in acts.conditions if each.node.name not in held]),
    )


def finishing(snapshot: Snapshot, members: Members, results: Sequence[RoomResult]) -> Acts:
    """Return what rooms continue although the spec cannot be acted on; all else stays as it is."""
    goals = [result.goals for result in results if result.finishes]
    if not goals:
        return NO_ACTS
    rest = {member.node.uid: LEAVE_ALL for member in members.ours}
    dues = dues_of(snapshot, members, [*goals, rest], is_finishing=True)
    uid = snapshot.pool.uid
    ours = [
        dues.get(member.node.uid, NOTHING_DUE)
        for member in members.ours
        if isinstance(member.record, Record) and member.record.pool_uid == uid  # no new claims
    ]
    return Acts(
        patches=tuple([each.state.patch for each in ours if each.state.patch]),
        conditions=tuple([each.conditions for each in ours if each.conditions]),
    )


def evictions_of(results: Iterable[RoomResult]) -> tuple[Eviction, ...]:
    """Return the evictions that rooms ask for, each pod once."""
    return tuple({each.uid: each for result in results for each in result.evictions}.values())
