"""Why a source gives no sample of a node, as it is reported: once, and in words that do not change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from winpool.kubelet.outcome import Outcome


@dataclass(slots=True)
class Silence:
    """How long a source has been silent about a node.

    ``since`` is when its last fresh sample was measured, or when watching began, on the operator's clock.
    ``seconds`` is for how long that is no problem: as long as that sample is fresh.
    """

    since: float
    seconds: float
    outcome: Outcome | None = None
    _other: Outcome | None = None

    def ended(self, *, since: float, seconds: float) -> None:
        """Note a fresh sample."""
        self.since, self.seconds, self.outcome, self._other = since, seconds, None, None

    def failed(self, outcome: Outcome) -> None:
        """Note how a poll has failed.

        Another outcome counts once it came twice in a row: of two that alternate, the first stays, so that no
        report changes with every poll.
        """
        if self.outcome is None or outcome is self._other:
            self.outcome, self._other = outcome, None
        else:
            self._other = None if outcome is self.outcome else outcome

    @property
    def problem_from(self) -> float | None:
        """After which time it is a problem; None where nothing has failed since the last sample."""
        return None if self.outcome is None else self.since + self.seconds

    def problem(self, *, now: float) -> Outcome | None:
        """Return what the problem is ``now``; None where there is none."""
        return self.outcome if self.problem_from is not None and now > self.problem_from else None
