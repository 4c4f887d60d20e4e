"""What the operator decides about a node, and whether it decides the same twice about one scene."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final

from winpool.kubelet.schedule import BASE_INTERVAL
from winpool.model.memory_report import level_name
from winpool.model.pressure import Level


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision ``at`` so many seconds since the start of the scene.

    ``interval`` is the longest time between two samples, in seconds, that it can have had to wait for.
    """

    what: str
    at: float
    interval: float = BASE_INTERVAL


@dataclass
class Decisions:
    """The decisions about one node, found by repeated looks."""

    found: list[Decision] = field(default_factory=list)
    _reached: frozenset[Level] = frozenset()
    _signalled: bool = False

    def note(
        self, at: float, level: Level | None, *, signalled: bool, interval: float = BASE_INTERVAL
    ) -> None:
        """Note the level and the signal that the node has now.

        Each level that was passed counts, so that looks which miss one of them find the same decisions.
        """
        reached = frozenset(each for each in Level if level is not None and each <= level)
        for each in sorted(reached - self._reached):
            self.add(f"{level_name(each)} or worse", at, interval=interval)
        for each in sorted(self._reached - reached, reverse=True):
            self.add(f"less than {level_name(each)}", at, interval=interval)
        if signalled is not self._signalled:
            self.add("signalled" if signalled else "signal removed", at, interval=interval)
        self._reached, self._signalled = reached, signalled

    def add(self, what: str, at: float, *, interval: float = BASE_INTERVAL) -> None:
        """Note a decision."""
        self.found.append(Decision(what, at, interval))


_EVICTED: Final = "evicted "


def evicted(pod: str) -> str:
    """Return how the accepted eviction of a pod is noted."""
    return _EVICTED + pod


@dataclass(frozen=True, slots=True)
class Compared:
    """One decision in both modes, with the seconds at which each made it; None where it did not.

    ``apart`` is how many seconds later it came in the real world, after an eviction counted from that in each
    mode: by so much later or sooner the memory of the pod came back. ``allowed`` is how many it may be.
    """

    what: str
    fast: float | None
    real: float | None
    apart: float | None
    allowed: float
    agrees: bool


def compared(
    fast: Sequence[Decision], real: Sequence[Decision], *, seconds: float, delay: float
) -> list[Compared]:
    """Compare the decisions about a scene of so many ``seconds``, in the order of their times.

    Two agree where they are at most an interval and the ``delay`` of the real world apart. One that only one
    mode has made disagrees, unless the other could have made it after the end of the scene.
    """
    pairs = defaultdict[str, tuple[list[Decision], list[Decision]]](lambda: ([], []))
    for mode, decisions in enumerate((fast, real)):
        for each in decisions:
            pairs[each.what][mode].append(each)
    found: list[tuple[float, Compared]] = []
    for what, (ones, others) in pairs.items():
        for one, other in zip_longest(ones, others):
            known = one or other
            assert known is not None, "one of the two is why there is a pair"
            apart, allowed = None, known.interval + delay
            agrees = known.at + allowed > seconds
            if one is not None and other is not None:
                apart = _apart(_evictions(fast, one), _evictions(real, other), one, other)
                agrees = abs(apart) <= allowed
            times = (None if one is None else one.at, None if other is None else other.at)
            found.append((known.at, Compared(what, *times, apart, allowed, agrees)))
    return [each for _, each in sorted(found, key=lambda each: each[0])]


def _evictions(decisions: Sequence[Decision], before: Decision) -> list[float]:
    """Return the times of the evictions ``before`` a decision."""
    return [each.at for each in decisions if each.what.startswith(_EVICTED) and each.at < before.at]


def _apart(
    fast_evictions: Sequence[float], real_evictions: Sequence[float], fast: Decision, real: Decision
) -> float:
    if not fast_evictions or len(fast_evictions) != len(real_evictions):
        return real.at - fast.at
    return real.at - max(real_evictions) - (fast.at - max(fast_evictions))
