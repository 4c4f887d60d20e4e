"""When a pool has its next pass although nothing has changed: the one place that decides it.

A rule that names a moment can be wrong about it (a moment that has passed already, and does not move). So no
moment is used as it is: passes that come from time alone are at least LEAST_SECONDS apart, and one follows
another at once only where that one has made progress.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LEAST_SECONDS: Final = 1.0
"""Between two passes where nothing has changed but the time. Nothing that time alone decides is more
urgent."""


@dataclass(frozen=True, slots=True)
class NextLook:
    """What a pass leaves to be done.

    ``is_unfinished``: something is left that could be written now. ``paced``: in how many seconds something
    may be written, where the cause of the wait makes sure that such waits end (the second between two
    statuses, a backoff). ``time``: in how many seconds time alone may lead to another decision. None: never.
    """

    is_unfinished: bool = False
    paced: float | None = None
    time: float | None = None

    def seconds(self, *, has_progressed: bool) -> float | None:
        """Return in how many seconds the next pass comes; None for not before something changes.

        ``has_progressed`` says that the pass has tried to write nodes, each of which has pauses of its own,
        or that the pool has changed: what is left may then be done at once.
        """
        return soonest(
            (0.0 if has_progressed else LEAST_SECONDS) if self.is_unfinished else None,
            self.paced,
            None if self.time is None else max(LEAST_SECONDS, self.time),
        )


NOTHING_LEFT: Final = NextLook()
UNFINISHED: Final = NextLook(is_unfinished=True)


def soonest(*waits: float | None) -> float | None:
    """Return the shortest of these waits in seconds; None is one that does not end by itself."""
    return min((wait for wait in waits if wait is not None), default=None)
