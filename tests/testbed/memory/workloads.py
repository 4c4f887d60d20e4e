"""What the processes of a pod do with memory: pure functions of the time since the start, and a seed.

.. code-block:: json

    {"workload": "leak", "commit": "2Gi", "growthPerMinute": "200Mi"}

``testbed.memory.parsing`` reads that. The fields are described in ``tests/testbed/README.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from math import floor, inf
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.alias_generators import to_camel

from testbed.memory.demand import Demand, noise
from testbed.memory.sizes import Duration, Percent, PerSecond, Seconds, Size, UseSeconds

JITTER_SECONDS: Final = 15
"""How long a deviation by ``jitterPercent`` lasts: about the interval of a scraper, which so sees others."""


class Workload(BaseModel):
    """What all of them have."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, validate_by_alias=True, validate_by_name=True
    )

    commit: Size
    """What it commits at the start."""
    touched_percent: Percent = 80
    """How much of ``commit`` it writes to. What a script adds to that, it writes to in full."""
    active_percent: Percent = 50
    """How much of what it has written to it uses again and again. The rest is cold: it is trimmed first."""
    use_seconds: UseSeconds = 10
    """In which it uses all of the active part once."""
    file_reads_per_second: PerSecond = 0
    """Read operations on files that are not in RAM: page reads that are no paging."""
    jitter_percent: Percent = 0
    """By how much ``commit`` deviates, up or down, at random."""

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        """Return what it wants so many seconds after its start. The same seed gives the same answer."""
        raise NotImplementedError

    def _demand(
        self,
        elapsed: float,
        *,
        seed: int,
        added: float = 0.0,
        until: float = inf,
        outside: float = 0.0,
        storming: bool = False,
        unrepeated: float = 0.0,
    ) -> Demand:
        number = floor(elapsed / JITTER_SECONDS)
        deviation = self.jitter_percent / 100 * (2 * noise(seed, number) - 1)
        base = self.commit * (1 + deviation)
        touched = base if storming else base * self.touched_percent / 100
        commit = base + added
        return Demand(
            commit_bytes=int(commit),
            touched=(touched + added) / commit if commit else 0.0,
            active=1.0 if storming else self.active_percent / 100,
            use_seconds=_STORM_USE_SECONDS if storming else self.use_seconds,
            until=min(until, (number + 1) * JITTER_SECONDS) if self.jitter_percent else until,
            file_reads=self.file_reads_per_second,
            outside_bytes=int(outside),
            unrepeated_bytes=int(unrepeated),
        )


class Steady(Workload):
    """The same all the time, but for ``jitterPercent``."""

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        return self._demand(elapsed, seed=seed)


class Leak(Workload):
    """Grows by ``growthPerMinute``, from ``afterSeconds`` on, up to ``maximum`` where that is given."""

    growth_per_minute: Size
    after_seconds: Seconds = 0
    maximum: Size | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.maximum is not None and self.maximum < self.commit:
            raise ValueError("maximum: it is less than commit")
        return self

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        if elapsed < self.after_seconds:
            return self._demand(elapsed, seed=seed, until=self.after_seconds)
        leaked = self.growth_per_minute * (elapsed - self.after_seconds) / 60
        most = inf if self.maximum is None else self.maximum - self.commit
        added = min(leaked, most)
        until = 0 if leaked < most else inf
        return self._demand(elapsed, seed=seed, added=added, until=until, unrepeated=added)


class Burst(Workload):
    """Has ``burst`` more for ``lastsSeconds``: once, or once in every stretch of ``everySeconds``.

    It rises for ``rampSeconds``, and falls at once. When in a stretch it begins is random.
    """

    burst: Size
    lasts_seconds: Duration = 60
    ramp_seconds: Seconds = 10
    after_seconds: Seconds = 0
    every_seconds: Duration | None = None

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.ramp_seconds > self.lasts_seconds:
            raise ValueError("rampSeconds: it is more than lastsSeconds")
        if self.every_seconds is not None and self.every_seconds < self.lasts_seconds:
            raise ValueError("everySeconds: it is less than lastsSeconds")
        return self

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        begin, following = self._burst_near(elapsed, seed)
        if elapsed < begin:
            return self._demand(elapsed, seed=seed, until=begin)
        since = elapsed - begin
        if since >= self.lasts_seconds:
            return self._demand(elapsed, seed=seed, until=following)
        if since < self.ramp_seconds:
            return self._demand(elapsed, seed=seed, added=self.burst * since / self.ramp_seconds, until=0)
        return self._demand(elapsed, seed=seed, added=self.burst, until=begin + self.lasts_seconds)

    def _burst_near(self, elapsed: float, seed: int) -> tuple[float, float]:
        """Return when the burst of this stretch begins, and when the next stretch does."""
        if self.every_seconds is None:
            return self.after_seconds, inf
        number = max(0, floor((elapsed - self.after_seconds) / self.every_seconds))
        start = self.after_seconds + number * self.every_seconds
        begin = start + noise(seed, number) * (self.every_seconds - self.lasts_seconds)
        return begin, start + self.every_seconds


class Sawtooth(Workload):
    """Rises from ``commit`` to ``peak`` in ``periodSeconds`` and falls at once, as a garbage collector does.

    It begins somewhere in its first period, so that pods of one kind do not collect together.
    """

    peak: Size
    period_seconds: Duration = 120

    @model_validator(mode="after")
    def _bounds_are_in_order(self) -> Self:
        if self.peak < self.commit:
            raise ValueError("peak: it is less than commit")
        return self

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        place = (elapsed / self.period_seconds + noise(seed, 0)) % 1
        return self._demand(elapsed, seed=seed, added=(self.peak - self.commit) * place, until=0)


class Hog(Workload):
    """Commits much, within ``rampSeconds``, and writes to little of it."""

    touched_percent: Percent = 5
    ramp_seconds: Seconds = 60

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        full = self._demand(elapsed, seed=seed)
        if elapsed >= self.ramp_seconds:
            return full
        part = int(full.commit_bytes * elapsed / self.ramp_seconds)
        return Demand(
            commit_bytes=part,
            touched=full.touched,
            active=full.active,
            use_seconds=full.use_seconds,
            until=0,
            file_reads=full.file_reads,
        )


_STORM_USE_SECONDS: Final = 2
"""Of a program that goes through all of its memory at random. Slower ones show how a leak ends."""


class PageStorm(Workload):
    """Uses all of its memory at random, from ``afterSeconds`` on: for ever, or for ``lastsSeconds``."""

    after_seconds: Seconds = 0
    lasts_seconds: Duration | None = None

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        end = inf if self.lasts_seconds is None else self.after_seconds + self.lasts_seconds
        if elapsed < self.after_seconds:
            return self._demand(elapsed, seed=seed, until=self.after_seconds)
        if elapsed < end:
            return self._demand(elapsed, seed=seed, until=end, storming=True)
        return self._demand(elapsed, seed=seed)


class LeaksInto(StrEnum):
    """Where Windows loses memory."""

    NONPAGED_POOL = "NonPagedPool"
    PAGED_POOL = "PagedPool"
    PROCESSES = "Processes"


class OsLeak(Workload):
    """Makes Windows lose ``growthPerMinute`` outside of every pod, until the machine restarts."""

    commit: Annotated[Size, Field(validate_default=True)] = "64Mi"  # type: ignore[assignment]
    growth_per_minute: Size
    after_seconds: Seconds = 0
    into: LeaksInto = LeaksInto.NONPAGED_POOL

    def demand(self, elapsed: float, *, seed: int) -> Demand:
        if elapsed < self.after_seconds:
            return self._demand(elapsed, seed=seed, until=self.after_seconds)
        leaked = self.growth_per_minute * (elapsed - self.after_seconds) / 60
        return self._demand(elapsed, seed=seed, outside=leaked, until=0)


WORKLOADS: Final[Mapping[str, type[Workload]]] = {
    "steady": Steady,
    "leak": Leak,
    "burst": Burst,
    "sawtooth": Sawtooth,
    "hog": Hog,
    "pageStorm": PageStorm,
    "osLeak": OsLeak,
}
"""By the name that a script gives."""
