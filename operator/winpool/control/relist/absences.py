"""Which pools there are not, for certain: what two complete lists of pools lack, a grace apart (P4).

Lists count from the first time that somebody asks about a UID or name: a pool that was never heard of before
may be younger than any list we have. The first list is due at once, the second after the grace, so that
whoever waits for the answer has it then, and not after two of the regular lists. Nothing is due for what
nobody asks about any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from winpool.control.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from datetime import datetime

KEPT: Final = 10_000
"""UIDs and names that are asked about and not there: more than nodes with leftovers. A kubelet can make up
new ones all day; who forgets one counts its lists anew, and nothing is taken for gone too early."""

UNASKED_LISTS: Final = 4
"""After so many lists that nobody asked for its sake, a UID or name is forgotten."""

BURST: Final = 6
PACE_SECONDS: Final = 30.0
"""Lists that are made as soon as they are due: so many, and then one in this time. Pools are seldom deleted
by force, and a kubelet that makes up UIDs must not have us list all day."""

SLACK: Final = timedelta(seconds=2)
"""By which the moment that people are told is later than planned: lists are a second apart at the least."""

TIMER_SECONDS: Final = 0.001
"""By which a timer of the event loop may be early."""


def _nobody() -> None:
    pass


@dataclass(slots=True)
class _Absence:
    """A UID or name that no known pool has, since it was first asked about at ``asked_at``.

    ``missed_at`` is when the first list began that lacked it, ``told`` the moment that people are told of.
    ``unasked`` are the lists since somebody last asked.
    """

    asked_at: float
    told: datetime
    missed_at: float | None = None
    is_confirmed: bool = False
    unasked: int = 0


class Absences:
    """UIDs and names that somebody asks about and no known pool has.

    ``on_doubt`` is called when a list has become due, or is due sooner than it was. It must not block.
    """

    def __init__(
        self, *, grace_seconds: float, clock: Clock | None = None, on_doubt: Callable[[], None] = _nobody
    ) -> None:
        clock = clock or Clock()
        self._grace_seconds = grace_seconds
        self._now, self._monotonic = clock.now, clock.monotonic
        self._on_doubt = on_doubt
        # The last asked about stays last: those go first that nobody has asked about for longest.
        self._absences: dict[str, _Absence] = {}
        # When BURST lists may be made at once again.
        self._whole_at = float("-inf")

    def ask(self, identity: str) -> bool:
        """Whether it is certain that no pool has that UID or name. To ask is what makes lists count."""
        known = self._absences.pop(identity, None)
        absence = self._absences[identity] = known or self._begin()
        if len(self._absences) > KEPT:
            del self._absences[next(iter(self._absences))]
        is_news = known is None or (known.unasked > 0 and not known.is_confirmed)
        absence.unasked = 0
        if is_news:
            self._on_doubt()
        return absence.is_confirmed

    def forget(self, identity: str) -> None:
        """Take note that there is a pool with that UID or name."""
        self._absences.pop(identity, None)

    def is_missed(self, identity: str) -> bool:
        """Whether a complete list lacked that UID or name after somebody had asked about it."""
        absence = self._absences.get(identity)
        return absence is not None and absence.missed_at is not None

    def decided_at(self, identity: str) -> datetime | None:
        """Return when the list comes that decides about that UID or name, in full seconds; None for none.

        It stays the same from the first time that somebody asks, unless lists fail.
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

    def note_list(self, listed: Collection[str], *, began: float) -> None:
        """Take note of a complete list with the UIDs and names ``listed``, asked for at ``began``."""
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
        """When the next list may be made for the sake of what is asked here."""
        return self._whole_at - (BURST - 1) * PACE_SECONDS

    def _begin(self) -> _Absence:
        now = self._monotonic()
        return _Absence(asked_at=now, told=self._told(max(now, self._permitted_at)))

    def _note_missed(self, absence: _Absence, began: float) -> None:
        if began < absence.asked_at:
            return  # it may have been made before the pool was
        if absence.missed_at is None:
            absence.missed_at = began
            planned = self._told(began, slack=timedelta())
            if planned > absence.told:
                absence.told = planned
        elif began >= absence.missed_at + self._grace_seconds - TIMER_SECONDS:
            absence.is_confirmed = True

    def _told(self, first: float, *, slack: timedelta = SLACK) -> datetime:
        """Return when the second list is due if the first begins at ``first``, as people are told it."""
        seconds = first - self._monotonic() + self._grace_seconds
        moment = self._now() + timedelta(seconds=seconds) + slack
        whole = moment.replace(microsecond=0)
        return whole if whole == moment else whole + timedelta(seconds=1)
