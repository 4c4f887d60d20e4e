"""Which pools certainly do not exist: those that two complete lists of pools lack, a grace period apart (P4).

Lists count from the first question about a UID or name: a pool that was never seen before may be younger than
any list so far. The first list is due at once, the second after the grace period, so that the answer comes
then, and not after two of the regular lists. Nothing is due for a UID or name without further questions.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.control.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

    from winpool.objects.others import PoolName

KEPT: Final = 10_000
"""UIDs and names that are asked about and do not exist: more than nodes with leftovers. A kubelet can invent
new ones all day. If one is forgotten, its lists are counted again from the start, so nothing counts as gone
too early."""

UNASKED_LISTS: Final = 4
"""After so many lists without a question about it, a UID or name is forgotten."""

BURST: Final = 6
PACE_SECONDS: Final = 30.0
"""BURST lists are made as soon as they are due, and then one in this time. Pools are seldom deleted by force,
and a kubelet that invents UIDs must not make the operator list all day."""

SLACK: Final = timedelta(seconds=2)
"""The reported moment is later than planned by this much: lists are at least a second apart."""

TIMER_SECONDS: Final = 0.001
"""A timer of the event loop may be early by this much."""


def _nobody() -> None:
    pass


@dataclass(slots=True)
class _Absence:
    """A UID or name that no known pool has; ``asked_at`` is the time of the first question about it.

    ``missed_at`` is when the first list began that lacked it, ``told`` the reported moment of the decision.
    ``unasked`` are the lists since the last question.
    """

    asked_at: float
    told: datetime
    missed_at: float | None = None
    is_confirmed: bool = False
    unasked: int = 0


class Absences:
    """UIDs and names that are asked about and that no known pool has.

    ``on_doubt`` is called when a list has become due, or is due sooner than it was. It must not block.
    """

    def __init__(
        self, *, grace_seconds: float, clock: Clock | None = None, on_doubt: Callable[[], None] = _nobody
    ) -> None:
        clock = clock or Clock()
        self._grace_seconds = grace_seconds
        self._now, self._monotonic = clock.now, clock.monotonic
        self._on_doubt = on_doubt
        # The last asked about is last: the ones without a question for longest are removed first.
        self._absences: dict[str | PoolName, _Absence] = {}
        # When BURST lists may be made at once again.
        self._whole_at = float("-inf")

    def ask(self, identity: str | PoolName) -> bool:
        """Whether it is certain that no pool has that UID or name. Lists count only after this question."""
        known = self._absences.pop(identity, None)
        absence = self._absences[identity] = known or self._begin()
        if len(self._absences) > KEPT:
            del self._absences[next(iter(self._absences))]
        is_news = known is None or (known.unasked > 0 and not known.is_confirmed)
        absence.unasked = 0
        if is_news:
            self._on_doubt()
        return absence.is_confirmed

    def forget(self, identity: str | PoolName) -> None:
        """Note that there is a pool with that UID or name."""
        self._absences.pop(identity, None)

    def is_missed(self, identity: str | PoolName) -> bool:
        """Whether a complete list lacked that UID or name after the first question about it."""
        absence = self._absences.get(identity)
        return absence is not None and absence.missed_at is not None

    def decided_at(self, identity: str | PoolName) -> datetime | None:
        """Return when the list comes that decides about that UID or name, in full seconds; None for none.

        It stays the same from the first question on, unless lists fail.
        """
        absence = self._absences.get(identity)
        return None if absence is None or absence.is_confirmed else absence.told

    def next_list_at(self) -> float | None:
        """Return the monotonic time at which a list of all pools is due; None where none is."""
        wanted = (
            each.asked_at if each.missed_at is None else each.missed_at + self._grace_seconds
            for each in self._absences.values()
            if not each.unasked and not each.is_confirmed
        )
        soonest = min(wanted, default=None)
        return None if soonest is None else max(soonest, self._permitted_at)

    def note_list(self, listed: Collection[str | PoolName], *, began: float) -> None:
        """Note a complete list with the UIDs and names ``listed``, requested at ``began``."""
        due = self.next_list_at()
        if due is not None and began >= due - TIMER_SECONDS:
            self._whole_at = max(self._whole_at, began) + PACE_SECONDS
        for identity, absence in tuple(self._absences.items()):
            if identity in listed or absence.unasked >= UNASKED_LISTS:
                del self._absences[identity]
            else:
                absence.unasked += 1
                self._note_missed(absence, began)

    @property
    def _permitted_at(self) -> float:
        """When the next list may be made for these questions."""
        return self._whole_at - (BURST - 1) * PACE_SECONDS

    def _begin(self) -> _Absence:
        now = self._monotonic()
        return _Absence(asked_at=now, told=self._told(max(now, self._permitted_at)))

    def _note_missed(self, absence: _Absence, began: float) -> None:
        if began < absence.asked_at:
            return  # the list may be older than the pool
        if absence.missed_at is None:
            absence.missed_at = began
            planned = self._told(began, slack=timedelta())
            if planned > absence.told:
                absence.told = planned
        elif began >= absence.missed_at + self._grace_seconds - TIMER_SECONDS:
            absence.is_confirmed = True

    def _told(self, first: float, *, slack: timedelta = SLACK) -> datetime:
        """Return when the second list is due if the first begins at ``first``, as it is reported."""
        seconds = first - self._monotonic() + self._grace_seconds
        moment = self._now() + timedelta(seconds=seconds) + slack
        whole = moment.replace(microsecond=0)
        return whole if whole == moment else whole + timedelta(seconds=1)
