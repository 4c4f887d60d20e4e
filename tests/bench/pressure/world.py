"""The node of a scene at work: its machine, and the pods that are there until they end or are evicted.

Actors read it as the operator and the kubelet do. What really happens is in ``harm``, which no actor sees.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from copy import copy, deepcopy
from dataclasses import dataclass

from bench.pressure.scene import Guest, Scene
from testbed.memory.machine import Machine
from testbed.memory.reading import MemoryReading


@dataclass(frozen=True, slots=True)
class Evicted:
    """An eviction that was carried out. ``violates``: a PodDisruptionBudget would not have permitted it."""

    guest: Guest
    at: float
    violates: bool


@dataclass(frozen=True, slots=True)
class Harm:
    """Seconds of harm since the start."""

    thrashing: int = 0
    denied: int = 0

    @property
    def seconds(self) -> int:
        """Both together."""
        return self.thrashing + self.denied


class World:
    """One node. Times are seconds since its start."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.evicted: list[Evicted] = []
        self.harmed_at: float | None = None
        """When harm was first seen, as often as anyone looks."""
        self.now = 0.0
        self._ends: dict[str, float] = {}
        self._machine = Machine(scene.hardware, started_at=0.0, seed=scene.seed)
        for guest in scene.guests:
            self._machine.start(guest.identity, guest.workload, at=guest.begins)
            if guest.ends is not None:
                self._end(guest, guest.ends)
        if scene.windows is not None:
            self._machine.lose_memory(scene.windows, at=0.0)

    def copy(self) -> World:
        """Return a world with the same past, and a future of its own."""
        found = copy(self)
        found.evicted, found._ends, found._machine = [*self.evicted], {**self._ends}, deepcopy(self._machine)
        return found

    @property
    def past(self) -> Hashable:
        """What makes it another world than those of others: who was evicted when, and when pods end."""
        return tuple(self.evicted), tuple(sorted(self._ends.items()))

    def step(self, now: float) -> None:
        """Live until ``now``."""
        self.now = now
        self._machine.step(now)
        if self.harmed_at is None and self.harm.seconds:
            self.harmed_at = now

    @property
    def harm(self) -> Harm:
        """The truth."""
        truth = self._machine.truth(self.now)
        return Harm(truth.seconds_thrashing, truth.seconds_denied)

    @property
    def stall(self) -> float:
        """The part of the last second that programs, the kubelet among them, have waited for pages."""
        return self._machine.truth(self.now).stall

    def reading(self) -> MemoryReading:
        """Return what the performance counters say now."""
        return self._machine.reading(self.now)

    def pods(self) -> Iterator[Guest]:
        """Yield the pods that are on the node, those that are ending included."""
        for guest in self.scene.guests:
            if not guest.outside and guest.begins <= self.now < self._ends.get(guest.name, self.now + 1):
                yield guest

    def is_ending(self, guest: Guest) -> bool:
        """Whether the pod is being deleted."""
        return any(each.guest is guest for each in self.evicted)

    def evict(self, guest: Guest, *, by_api: bool, at_once: bool = False) -> bool:
        """Evict a pod now, and return whether that is done: by the API, a budget may refuse it.

        ``at_once``: its grace is a second, as with hard evictions of the kubelet. That shortens the grace of
        a pod that is ending (``calculateEffectiveGracePeriod`` in the kubelet's pod_workers.go).
        """
        if by_api and guest.budget_blocks:
            return False
        if not self.is_ending(guest):
            self.evicted.append(Evicted(guest, self.now, violates=guest.budget_blocks))
        self._end(guest, self.now + (1.0 if at_once else guest.stop_seconds))
        return True

    def _end(self, guest: Guest, at: float) -> None:
        self._ends[guest.name] = min(at, self._ends.get(guest.name, at))
        self._machine.stop(guest.uid, at=self._ends[guest.name])
