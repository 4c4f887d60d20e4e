"""Histories of a node's memory, for properties: phases of calm and of pressure, with faults in them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st
from msgspec.structs import replace

from harness.memory import BOTH, CEILING, GIB, KUBELET, KUBELET_ONLY, PROMETHEUS, RAM
from winpool.api.memory_pressure import PageFile, PageFileType
from winpool.features.memory.detector import known_at, step
from winpool.features.memory.settings import DetectorSettings
from winpool.model.pressure import NO_SAMPLES, MemorySample, NodePressure

GARBAGE: Final = (math.nan, math.inf, -math.inf, 2**63, 2**64 - 1, -1, 10**400, None)

MEASURED: Final = ("commit_total", "commit_limit", "physical_total", "physical_available", "proxy_available")
"""What levels are judged by."""


@dataclass(frozen=True)
class Step:
    """A sample before its times are known: how long after the last one it arrives, and its own clock."""

    gap: int
    own_gap: int
    source: str
    values: dict[str, Any]
    interval: float = 10


@dataclass(frozen=True)
class Phase:
    """Some samples of the same kind: ``used`` GiB of commit, ``free`` GiB of RAM, ``reads`` a second.

    One comes each ``interval``, from one source after the other; where it ``is_frozen``, with an old time.
    Kubelets take so many seconds to ``answer``.
    """

    count: int
    used: float
    free: float
    reads: int
    sources: tuple[str, ...] = (KUBELET,)
    knows_pods: bool = True
    interval: int = 10
    is_frozen: bool = False
    answer: float = 1

    def steps(self) -> list[Step]:
        """Return them, a little uneven."""
        own_gap = 0 if self.is_frozen else self.interval * len(self.sources)
        return [
            Step(
                self.interval,
                own_gap,
                self.sources[number % len(self.sources)],
                self._values(number),
                self.interval,
            )
            for number in range(self.count)
        ]

    def _values(self, number: int) -> dict[str, Any]:
        source = self.sources[number % len(self.sources)]
        used = (self.used + number % 3 / 32) * GIB
        return {
            "commit_total": used,
            "commit_limit": CEILING,
            "physical_total": RAM,
            "physical_available": self.free * GIB if source == PROMETHEUS else None,
            "proxy_available": (self.free + 1) * GIB,
            "hard_reads_per_second": self.reads,
            "write_out_per_second": self.reads / 2,
            "pods_commit": used - 2 * GIB if self.knows_pods else None,
            "answer_seconds": self.answer if source == KUBELET else None,
        }


@dataclass(frozen=True)
class Fault:
    """What happens to the sample at ``place``, from 0 to 1 of a history."""

    place: float
    change: dict[str, Any]

    def spoil(self, steps: list[Step]) -> None:
        """Replace the sample."""
        at = int(self.place * (len(steps) - 1))
        ours = {name: value for name, value in self.change.items() if name in {"gap", "own_gap"}}
        theirs = {name: value for name, value in self.change.items() if name not in ours}
        steps[at] = dataclasses.replace(steps[at], **ours, values=steps[at].values | theirs)


@dataclass(frozen=True)
class History:
    """Phases one after the other, with faults: it is shown as these, and not as hundreds of samples."""

    phases: tuple[Phase, ...]
    faults: tuple[Fault, ...] = ()

    @property
    def steps(self) -> list[Step]:
        """All of its samples, without their times."""
        steps = [each for phase in self.phases for each in phase.steps()]
        for fault in self.faults:
            fault.spoil(steps)
        return steps

    @property
    def samples(self) -> list[MemorySample]:
        """All of its samples."""
        return samples_of(self.steps)


phases = st.builds(
    Phase,
    count=st.sampled_from([3, 1, 2, 8, 11, 40]),
    used=st.sampled_from([23.5, 12.0, 22.3, 23.5, 21.3]),
    free=st.sampled_from([0.5, 8.0, 1.3, 0.5, 2.3]),
    reads=st.sampled_from([3000, 400, 3000, 0]),
    sources=st.sampled_from([(KUBELET,), (KUBELET,), (PROMETHEUS,), (KUBELET, PROMETHEUS)]),
    knows_pods=st.sampled_from([True, True, False]),
    interval=st.sampled_from([10, 10, 10, 30]),
    is_frozen=st.booleans(),
    answer=st.sampled_from([1, 1, 9]),
)
faults = st.builds(
    Fault,
    st.floats(0, 1),
    st.one_of(
        st.builds(lambda gap: {"gap": gap, "own_gap": gap}, st.sampled_from([1, 26, 40, 60, 130])),
        st.builds(lambda gap: {"own_gap": gap}, st.sampled_from([0, -5, 1])),
        st.builds(lambda name, value: {name: value}, st.sampled_from(MEASURED), st.sampled_from(GARBAGE)),
        st.builds(lambda used: {"commit_total": used * GIB}, st.integers(0, 25)),
    ),
)
recoveries = st.builds(
    lambda phase, used, rest: (
        dataclasses.replace(phase, is_frozen=False),
        dataclasses.replace(phase, is_frozen=False, count=40, used=used, free=8.0, reads=0),
        *rest,
    ),
    phases,
    st.sampled_from([12.0, 12.0, 18.9, 21.3]),
    st.lists(phases, max_size=1),
)
"""Some phase, and a calm one of the same sources that is long enough to leave its level."""
storms = st.builds(
    lambda before, storm, rest: (
        dataclasses.replace(before, is_frozen=False, free=8.0, sources=(KUBELET,), answer=1),
        dataclasses.replace(
            storm, is_frozen=False, count=11, used=22.3, free=0.5, sources=(KUBELET,), answer=9
        ),
        *rest,
    ),
    phases,
    phases,
    st.lists(phases, max_size=1),
)
"""A phase with enough RAM, and one in which the kubelet waits for pages."""
histories = st.builds(
    History,
    st.one_of(st.lists(phases, min_size=1, max_size=4).map(tuple), recoveries, storms),
    st.lists(faults, max_size=3).map(tuple),
)

measuring = st.sampled_from([KUBELET_ONLY, BOTH, replace(BOTH, soft_grace_seconds=20)])
"""Settings with which the ceiling is the measured limit."""
settings = st.one_of(
    measuring,
    st.sampled_from(
        [
            replace(BOTH, page_file=PageFile(type=PageFileType.FIXED, max_size=8 * GIB)),
            replace(
                BOTH,
                page_file=PageFile(type=PageFileType.SYSTEM_MANAGED, max_size=8 * GIB),
                soft_grace_seconds=20,
            ),
            replace(BOTH, clear_after_seconds=0),
        ]
    ),
)


def samples_of(steps: Sequence[Step]) -> list[MemorySample]:
    """Return the samples with times: each source has a clock of its own."""
    now, own = 1000.0, {KUBELET: 5e6, PROMETHEUS: 7e8}
    found = []
    for each in steps:
        now += each.gap
        own[each.source] += each.own_gap
        found.append(MemorySample(each.source, now, own[each.source], each.interval, **each.values))
    return found


def after(samples: Sequence[MemorySample], settings: DetectorSettings) -> NodePressure:
    """Return what is known after all of the samples."""
    state = NO_SAMPLES
    for sample in samples:
        state = step(state, sample, settings)
    return state


def seen(samples: Sequence[MemorySample], settings: DetectorSettings, *, later: float = 0) -> NodePressure:
    """Return what a pass reads after the samples, so many seconds ``later``."""
    return known_at(after(samples, settings), now=samples[-1].arrived_at + later, settings=settings)
