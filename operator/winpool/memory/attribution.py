"""Whether the memory of a node belongs to pods: kernel, services and shims leak as well.

Evicting pods returns no memory that is not theirs. Such a node has to be recycled: drained, and rebooted or
replaced. Where no pod's commit is known, the non-paged pool of the kernel is what is certainly outside pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from winpool.memory.axes import ceiling
from winpool.memory.settings import (
    GROWTH_FLOOR,
    GROWTH_SECONDS,
    GROWTH_SPACING_SECONDS,
    OUTSIDE_GROWTH_SHARE,
    OUTSIDE_SHARE,
)
from winpool.objects.pressure import Guard

if TYPE_CHECKING:
    from winpool.memory.samples import MemorySample
    from winpool.memory.settings import PageFile


@dataclass(frozen=True, slots=True)
class Split:
    """How much was committed at one time, and how much of it outside pods, in bytes."""

    at: float
    total: float
    outside: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The splits of the last ten minutes, all of one source.

    ``is_of_pods``: they come from the commit of pods. Otherwise ``outside`` is the non-paged pool alone.
    ``whole`` is the ceiling at the last one, None where it is unknown.
    """

    source: str = ""
    is_of_pods: bool = False
    whole: float | None = None
    splits: tuple[Split, ...] = ()


def attributing(samples: tuple[MemorySample, ...]) -> MemorySample | None:
    """Return which sample says most of where memory is; None where none says it."""
    for name in ("pods_commit", "pool_nonpaged"):
        for sample in samples:
            if sample.commit_total is not None and getattr(sample, name) is not None:
                return sample
    return None


def grown(growth: Growth, sample: MemorySample, page_file: PageFile) -> Growth:
    """Return ``growth`` with what ``sample`` says, or unchanged where it does not say it.

    With another source, or another kind of evidence, it begins again.
    """
    is_of_pods = sample.pods_commit is not None
    if sample.commit_total is None:
        return growth
    if sample.pods_commit is not None:
        outside = max(0.0, sample.commit_total - sample.pods_commit)
    elif sample.pool_nonpaged is not None:
        outside = sample.pool_nonpaged
    else:
        return growth
    split = Split(sample.measured_at, sample.commit_total, outside)
    is_same = growth.source == sample.source and growth.is_of_pods == is_of_pods
    splits = growth.splits if is_same else ()
    if len(splits) > 1 and splits[-1].at - splits[-2].at < GROWTH_SPACING_SECONDS:
        splits = splits[:-1]
    recent = tuple(each for each in splits if split.at - each.at <= GROWTH_SECONDS)
    return Growth(sample.source, is_of_pods, ceiling(sample, page_file), (*recent, split))


def guard_of(growth: Growth, *, now: float) -> Guard | None:
    """Return why the memory is not that of pods; None where it is, or where that is unknown.

    What was seen counts for ten minutes, also if the source is silent since.
    """
    if not growth.splits or now - growth.splits[-1].at > GROWTH_SECONDS:
        return None
    first, last = growth.splits[0], growth.splits[-1]
    if growth.whole is not None and last.outside > OUTSIDE_SHARE * growth.whole:
        return Guard.OUTSIDE_SHARE
    increase = last.total - first.total
    is_growing = increase > GROWTH_FLOOR * last.total
    if is_growing and last.outside - first.outside > OUTSIDE_GROWTH_SHARE * increase:
        return Guard.OUTSIDE_GROWTH
    return None
