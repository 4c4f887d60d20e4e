"""What the evictions on a node have achieved: whether memory came back, and how often it did not.

One that is under way, or whose memory has not had the time to come back, keeps the next one from being
decided by numbers that are about to change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from winpool.memory.settings import EFFECTIVE_SHARE, SETTLE_SAMPLES, SETTLE_SECONDS


@dataclass(frozen=True, slots=True)
class Eviction:
    """An eviction that has not settled.

    ``share`` is what the pod was measured to have, and ``commit_before`` what the node had committed, in
    bytes; None where unknown. ``gone_at`` is when its UID was gone, None while it is there; ``samples`` is
    how many fresh ones were measured after that. One that is never gone, Stuck, keeps the next from
    beginning.
    """

    uid: str
    share: float | None
    commit_before: float | None
    gone_at: float | None = None
    samples: int = 0

    def is_settled(self, now: float) -> bool:
        """Whether what it has returned can be seen ``now``."""
        if self.gone_at is None:
            return False
        return now - self.gone_at >= SETTLE_SECONDS and self.samples >= SETTLE_SAMPLES

    def is_ineffective(self, commit_now: float | None) -> bool:
        """Whether it is known that less than half of what the pod had came back."""
        if self.share is None or self.commit_before is None or commit_now is None:
            return False
        return self.commit_before - commit_now < EFFECTIVE_SHARE * self.share


@dataclass(frozen=True, slots=True)
class Evictions:
    """The evictions of a node since it was last calm: those that have not settled, and how many have."""

    running: tuple[Eviction, ...] = ()
    settled: int = 0
    ineffective: int = 0


NO_EVICTIONS: Final = Evictions()


def begun(evictions: Evictions, eviction: Eviction) -> Evictions:
    """Return ``evictions`` with one that begins; one that is known already is not counted twice."""
    if any(each.uid == eviction.uid for each in evictions.running):
        return evictions
    return replace(evictions, running=(*evictions.running, eviction))


def gone(evictions: Evictions, *, uid: str, at: float) -> Evictions:
    """Return ``evictions`` once the pod is gone. The first report of it counts."""
    return replace(
        evictions,
        running=tuple(
            replace(each, gone_at=at) if each.uid == uid and each.gone_at is None else each
            for each in evictions.running
        ),
    )


def refused(evictions: Evictions, *, uid: str) -> Evictions:
    """Return ``evictions`` without one that has not happened."""
    return replace(evictions, running=tuple(each for each in evictions.running if each.uid != uid))


def settled(evictions: Evictions, *, at: float, commit_now: float | None) -> Evictions:
    """Return ``evictions`` after a fresh sample, with those that have settled counted.

    ``at`` is when it was measured, ``commit_now`` what it says is committed, None where that is unknown.
    """
    if not evictions.running:
        return evictions
    running = tuple(
        each
        if each.gone_at is None or at < each.gone_at
        else replace(each, samples=min(each.samples + 1, SETTLE_SAMPLES))
        for each in evictions.running
    )
    done = [each for each in running if each.is_settled(at)]
    return Evictions(
        running=tuple(each for each in running if not each.is_settled(at)),
        settled=evictions.settled + len(done),
        ineffective=evictions.ineffective + sum(each.is_ineffective(commit_now) for each in done),
    )
