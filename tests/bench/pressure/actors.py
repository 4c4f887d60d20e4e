"""Those that act on a node by a rule of their own: the kubelet, hard and soft, and a naive line of RAM.

They are what the operator is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from bench.pressure.scene import OUTSIDE, Guest
from bench.pressure.world import World
from testbed.memory.kubelet_eviction import PERIOD_SECONDS, EvictionState, KubeletPod, look, ranked
from testbed.memory.pages import GIB, MIB
from testbed.memory.reading import MemoryReading, PodReading


@dataclass(frozen=True, slots=True)
class Wish:
    """An eviction that an actor wants now. ``is_stale``: what it has measured is too old to decide by."""

    guest: Guest
    by_api: bool
    at_once: bool = False
    is_stale: bool = False


class Actor(Protocol):
    """Looks at a world when it is due, and wants evictions there."""

    due: float
    """When it looks next."""

    def look(self, world: World) -> Sequence[Wish]:
        """Look at the world as it is now."""

    def answered(self, wish: Wish, *, done: bool, world: World) -> None:
        """Learn what came of a wish."""


LOOK_SECONDS: Final = 10.0
"""How soon it is known that harm has begun where no one acts."""


@dataclass
class NoOne:
    """Looks on."""

    due: float = 0.0

    def look(self, world: World) -> Sequence[Wish]:
        """Want nothing."""
        self.due = world.now + LOOK_SECONDS
        return ()

    def answered(self, wish: Wish, *, done: bool, world: World) -> None:
        """It wants nothing."""


class KubeletHard:
    """The kubelet from 1.31 on: below 500Mi of commit it ends the pod that is most above its request."""

    def __init__(self, *, threshold_bytes: int = 500 * MIB) -> None:
        self.due = 0.0
        self.state = EvictionState()
        self._threshold = threshold_bytes

    def look(self, world: World) -> Sequence[Wish]:
        """Make a pass, every 10 s as it does."""
        reading = world.reading()
        found = look(
            self.state, reading, pods=map(_kubelet_pod, world.pods()), threshold_bytes=self._threshold
        )
        self.state = found.state
        self.due = world.now + 1.0 if found.state.awaited_uid else max(world.now + 1.0, found.state.next_pass)
        if found.evicted is None:
            return ()
        return [Wish(_guest_of(world, found.evicted.uid), by_api=False, at_once=True)]

    def answered(self, wish: Wish, *, done: bool, world: World) -> None:
        """The kubelet asks no one."""


SOFT_BYTES: Final = int(1.5 * GIB)
SOFT_GRACE_SECONDS: Final = 90.0


@dataclass
class KubeletSoft:
    """The same with a soft threshold of 1.5Gi for 90 s, the example of the kubelet's documentation."""

    due: float = 0.0
    _below_since: float | None = None
    _awaited: str | None = None

    def look(self, world: World) -> Sequence[Wish]:
        """Make a pass."""
        self.due = world.now + PERIOD_SECONDS
        reading = world.reading()
        if self._awaited is not None and any(each.uid == self._awaited for each in reading.pods):
            return ()
        self._awaited = None
        if reading.commit_limit_bytes - reading.commit_total_bytes >= SOFT_BYTES:
            self._below_since = None
            return ()
        if self._below_since is None:
            self._below_since = world.now
        if world.now - self._below_since < SOFT_GRACE_SECONDS:
            return ()
        pods = [_kubelet_pod(each) for each in world.pods() if not world.is_ending(each)]
        if not pods:
            return ()
        self._awaited = ranked(pods, reading)[0].uid
        return [Wish(_guest_of(world, self._awaited), by_api=False)]

    def answered(self, wish: Wish, *, done: bool, world: World) -> None:
        """The kubelet asks no one."""


RAM_LINE: Final = 0.10
RAM_PERIOD_SECONDS: Final = 15.0
RAM_PAUSE_SECONDS: Final = 60.0


@dataclass
class RamLine:
    """A script of one's own: below 10 % of RAM, evict the pod with the largest working set, once a minute."""

    due: float = 0.0
    _refused: set[str] = field(default_factory=set)

    def look(self, world: World) -> Sequence[Wish]:
        """Look at the kubelet's ``availableBytes``."""
        self.due = world.now + RAM_PERIOD_SECONDS
        reading = world.reading()
        left = reading.physical_total_bytes - reading.private_working_set_bytes
        if left >= RAM_LINE * reading.physical_total_bytes:
            self._refused.clear()
            return ()
        guests = {
            each.uid: each
            for each in world.pods()
            if each.owner != "DaemonSet" and each.name not in self._refused and not world.is_ending(each)
        }
        found = [each for each in reading.pods if each.uid in guests]
        if not found:
            return ()
        self.due = world.now + RAM_PAUSE_SECONDS
        return [Wish(guests[max(found, key=_working_set).uid], by_api=True)]

    def answered(self, wish: Wish, *, done: bool, world: World) -> None:
        """Try another one where a budget refuses."""
        if not done:
            self._refused.add(wish.guest.name)
            self.due = world.now + RAM_PERIOD_SECONDS


def pods_in(reading: MemoryReading) -> list[PodReading]:
    """Return the pods of a reading, without what is in no pod."""
    return [each for each in reading.pods if each.namespace != OUTSIDE]


def _working_set(pod: PodReading) -> int:
    return pod.private_working_set_bytes


def _kubelet_pod(guest: Guest) -> KubeletPod:
    return KubeletPod(uid=guest.uid, request_bytes=guest.request_bytes)


def _guest_of(world: World, uid: str) -> Guest:
    return next(each for each in world.pods() if each.uid == uid)
